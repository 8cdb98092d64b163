"""Facts are judged from what a device printed: confirmed, refuted, or not seen; one text against a fact refutes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flashferry.pilot.exchanges import Exchange, Session, read_session
from flashferry.pilot.facts import FACTS, Evidence, Verdict, judge
from flashferry.tcp.syn import SynOptions

CAPTURES = Path(__file__).parents[2] / "captures"


def capture(path: str) -> str:
    return (CAPTURES / path).read_text(encoding="utf-8")


def talk(*exchanges: tuple[str, str] | tuple[str, str, str], name: str = "01-check") -> Session:
    """Return a session of commands with their answers, each typed at `r1#` unless a third text is another prompt."""
    found = tuple(
        Exchange(
            session=name, command=one[0], echo=one[0], answer=one[1], prompt="r1#", before=one[2] if one[2:] else "r1#"
        )
        for one in exchanges
    )
    return Session(name=name, entries=(), exchanges=found)


def verdict(name: str, *sessions: Session, **more: object) -> Verdict:
    """Return what is shown of one fact."""
    (found,) = judge(Evidence(sessions=sessions, **more), [one for one in FACTS if one.id == name])
    return found.verdict


CONFIG = "r1(config)#"
RUNNING = "Building configuration...\n\nCurrent configuration : 40 bytes\n!\nhostname r1\n{}end\n"
SCALED = SynOptions(
    ip_version=4, mss_bytes=1460, window_bytes=64240, window_scale=1, sack_permitted=True, timestamps=False
)
PLAIN = SynOptions(
    ip_version=4, mss_bytes=1460, window_bytes=4128, window_scale=None, sack_permitted=False, timestamps=False
)

BOTH_WAYS = {
    "privilege": (("show privilege", "Current privilege level is 15\n"), ("show privilege", "Privilege: 15\n")),
    "configure": (
        ("configure terminal", "Enter configuration commands, one per line.  End with CNTL/Z.\n"),
        ("configure terminal", "Enter configuration commands, one per line. End with CNTL/Z.\n"),
    ),
    "terminal": (("terminal width 511", ""), ("terminal width 511", "% Invalid input detected at '^' marker.\n")),
    "unknown-command": (
        ("show switch", "          ^\n% Invalid input detected at '^' marker.\n\n"),
        ("show switch", "% Unknown command\n"),
    ),
    "platform": (("show version", capture("show_version/2811.txt")), ("show version", "JUNOS 21.4\n")),
    "image-line": (("show version", capture("show_version/csr1000v.txt")), ("show version", "Image: bootflash:x\n")),
    "register": (("show version", capture("show_version/c8000v.txt")), ("show version", "Config register 0x2102\n")),
    "dir-header": (("dir flash0:", capture("dir/iosv.txt")), ("dir flash0:", "Listing of flash0:\n\n")),
    "dir-footer": (
        ("dir flash0:", capture("dir/iosv.txt")),
        ("dir flash0:", "Directory of flash0:/\n\n1940303872 bytes available (1 used)\n"),
    ),
    "dir-alias": (("dir flash:", capture("dir/asr1k.txt")), ("dir flash:", "Directory of harddisk:/\n\n")),
    "dir-absent": (
        ("dir flash:x", "%Error opening bootflash:/x (No such file or directory)\n"),
        ("dir flash:x", "No such file: flash:x\n"),
    ),
    "file-systems": (
        ("show file systems", capture("show_file_systems/iosxe.txt")),
        ("show file systems", "flash: 1 2\n"),
    ),
    "running-config": (("show running-config", RUNNING.format("")), ("show running-config", "hostname r1\n")),
    "startup-config": (
        ("show startup-config", "Using 40 out of 33554432 bytes\n!\nhostname r1\nend\n"),
        ("show startup-config", "hostname r1\nend\n"),
    ),
    "unsaved": (
        ("show archive config differences", "\n!Contextual Config Diffs:\n!No changes were found\n\n"),
        ("show archive config differences", "no differences\n"),
    ),
    "copy-question": (
        ("copy ftp://***@10.0.0.1/x flash:x", capture("copy_ftp/ok_ios_15_7.txt")),
        ("copy ftp://***@10.0.0.1/x flash:x", capture("copy_ftp/ok_class_b_flash_erase_prompt.txt")),
    ),
    "copy-null": (
        ("copy ftp://***@10.0.0.1/x null:", "Accessing ftp://*:*@10.0.0.1/x...\nLoading x !\n"),
        ("copy ftp://***@10.0.0.1/x null:", "Destination filename [null:]? \nAccessing ftp://*:*@10.0.0.1/x...\n"),
    ),
    "copy-accessing": (
        ("copy ftp://***@10.0.0.1/x flash:x", capture("copy_ftp/ok_iosxe_isr4k.txt")),
        ("copy ftp://***@10.0.0.1/x flash:x", "Copying x\nDone\n"),
    ),
    "copy-result": (
        ("copy ftp://***@10.0.0.1/x flash:x", capture("copy_ftp/ok_iosxe_isr4k.txt")),
        ("copy ftp://***@10.0.0.1/x flash:x", "Accessing\n2646988 bytes copied\n"),
    ),
    "copy-rate": (
        ("copy ftp://***@10.0.0.1/x flash:x", "2646988 bytes copied in 1.295 secs (2044006 bytes/sec)\n"),
        ("copy ftp://***@10.0.0.1/x flash:x", "2646988 bytes copied in 1.295 secs (204400 bytes/sec)\n"),
    ),
    "verify": (
        ("verify /md5 bootflash:x", capture("verify/md5_ok.txt")),
        ("verify /md5 bootflash:x", "MD5 of x: d41d8cd98f00b204e9800998ecf8427e\n"),
    ),
    "window-range": (
        ("ip tcp window-size 1250000", "", CONFIG),
        ("ip tcp window-size 1250000", "           ^\n% Invalid input detected at '^' marker.\n", CONFIG),
    ),
    "window-silent": (
        ("no ip tcp window-size 1250000", "", CONFIG),
        ("ip tcp selective-ack", "%% Warning: only for long paths\n", CONFIG),
    ),
    "window-hidden": (
        ("show running-config", RUNNING.format("")),
        ("show running-config", RUNNING.format("ip tcp window-size 4128\n")),
    ),
    "file-prompt": (
        ("show running-config", RUNNING.format("")),
        ("show running-config", RUNNING.format("file prompt quiet\n")),
    ),
    "exec-timeout": (
        ("show running-config", RUNNING.format("line vty 0 4\n exec-timeout 30 0\n")),
        ("show running-config", RUNNING.format("line vty 0 4\n exec-timeout 10 0\n")),
    ),
}
"""By fact: an exchange that confirms it, and one that refutes it."""


@pytest.mark.parametrize("name", BOTH_WAYS)
def test_a_fact_is_confirmed_and_refuted_by_texts(name):
    """One answer confirms it, another refutes it, both together refute it, and without either it is not seen."""
    confirms, refutes = BOTH_WAYS[name]
    assert verdict(name, talk(confirms)) is Verdict.CONFIRMED
    assert verdict(name, talk(refutes)) is Verdict.REFUTED
    assert verdict(name, talk(confirms), talk(refutes), talk(confirms)) is Verdict.REFUTED
    assert verdict(name, talk(("show clock", "14:23:07 UTC\n"))) is Verdict.NOT_SEEN


def test_a_finding_quotes_what_decided_it():
    """Of a refuted fact the text against it is shown and counted, not those for it."""
    against = ("show privilege", "Privilege: 15\n")
    evidence = Evidence(sessions=(talk(BOTH_WAYS["privilege"][0], against, against),))
    (found,) = judge(evidence, [one for one in FACTS if one.id == "privilege"])
    assert (found.verdict, found.text, found.times) == (Verdict.REFUTED, "Privilege: 15", 2)


def test_an_answer_that_was_cut_is_no_evidence():
    """A session that ended in the middle of an answer neither confirms nor refutes what its end must be."""
    cut = Exchange(
        session="06-kill", command="dir flash:", echo="dir flash:", answer="Directory of flash:/\n", before="r1#"
    )
    assert verdict("dir-footer", Session(name="06-kill", entries=(), exchanges=(cut,))) is Verdict.NOT_SEEN


@pytest.mark.parametrize(
    ("name", "prompts", "expected"),
    [
        ("prompt", ("r1#", "r1(config)#"), Verdict.CONFIRMED),
        ("prompt", ("r1# ",), Verdict.REFUTED),
        ("prompt-config", ("router-of-branch-number-7#", "router-of-branch-num(config)#"), Verdict.CONFIRMED),
        ("prompt-config", ("r1-STP-1234#", "r1(config)#"), Verdict.REFUTED),
        ("prompt-config", ("r1#",), Verdict.NOT_SEEN),
    ],
)
def test_prompts(name, prompts, expected):
    """A blank after the prompt refutes its form; a name cut at 20 characters is as expected, another is not."""
    lines = [
        f"2026-11-29T09:29:00.000Z {text}" for prompt in prompts for text in (f"< {prompt}", "> x\\n", "< x\\r\\n")
    ]
    lines.append(f"2026-11-29T09:29:00.000Z < {prompts[-1]}")
    assert verdict(name, read_session("01-check", lines)) is expected


def test_the_echo():
    """An echo that a narrow terminal cut is not what was typed."""
    cut = Exchange(session="01", command="show version", echo="$w version", answer="x\n", prompt="r1#", before="r1#")
    assert verdict("echo", talk(("show clock", "x\n"))) is Verdict.CONFIRMED
    assert verdict("echo", Session(name="01", entries=(), exchanges=(cut,))) is Verdict.REFUTED


def test_our_lines_in_the_configuration():
    """A line that was set must be shown as typed until it is taken back; then the lines of before must be there."""
    line, mark = "ip tcp window-size 1250000", "alias exec flashferry-1 root@host"
    start, ended = ("show running-config", RUNNING.format("")), ("end", "", CONFIG)
    setting = ((mark, "", CONFIG), (line, "", CONFIG), ended)
    back = ((f"no {line}", "", CONFIG), ("no alias exec flashferry-1", "", CONFIG), ended)
    tuned = ("show running-config", RUNNING.format(f"{line}\n{mark}\n"))
    good = talk(start, *setting, tuned, *back, start)
    for name in ("window-shown", "mark-shown", "undone"):
        assert verdict(name, good) is Verdict.CONFIRMED, name
    other = ("show running-config", RUNNING.format("ip tcp window-size 1,250,000\nalias exec flashferry-1 other\n"))
    assert verdict("window-shown", talk(start, *setting, other, *back, start)) is Verdict.REFUTED
    assert verdict("mark-shown", talk(start, *setting, other, *back, start)) is Verdict.REFUTED
    left = ("show running-config", RUNNING.format("ip tcp window-size 4128\n"))
    assert verdict("undone", talk(start, *setting, tuned, *back, left)) is Verdict.REFUTED


def test_what_the_server_saw():
    """SYNs confirm or refute what lines do to a copy; without the line they are no evidence."""
    lines = talk(("ip tcp window-size 1250000", "", CONFIG), ("ip tcp selective-ack", "", CONFIG))
    for name in ("window-scales", "sack-offered"):
        assert verdict(name, lines, syn_tuned=SCALED) is Verdict.CONFIRMED
        assert verdict(name, lines, syn_tuned=PLAIN) is Verdict.REFUTED
        assert verdict(name, talk(), syn_tuned=SCALED) is Verdict.NOT_SEEN
    start = talk(("show running-config", RUNNING.format("")))
    assert verdict("window-default", start, syn_as_is=PLAIN) is Verdict.CONFIRMED
    assert verdict("window-default", start, syn_as_is=SCALED) is Verdict.REFUTED
    assert verdict("window-practice", start, syn_as_is=PLAIN) is Verdict.CONFIRMED
    assert verdict("window-practice", start, syn_as_is=SCALED) is Verdict.REFUTED


def test_dots_of_a_digest():
    """One dot for 65,536 bytes of the file that was copied last."""
    copied = ("copy ftp://***@10.0.0.1/x flash:x", "1000000 bytes copied in 1.000 secs (1000000 bytes/sec)\n")
    assert verdict("verify-dots", talk(copied, ("verify /md5 flash:x", f"{'.' * 16}Done!\n"))) is Verdict.CONFIRMED
    assert verdict("verify-dots", talk(copied, ("verify /md5 flash:x", f"{'.' * 244}Done!\n"))) is Verdict.REFUTED


def test_the_kill():
    """The first configuration that 'recover' reads shows whether our lines stayed; its record whether they are gone."""
    line = ("show running-config", RUNNING.format("alias exec flashferry-1 root@host\n"))
    start = ("show running-config", RUNNING.format(""))
    assert verdict("killed", talk(line, start, name="07-recover")) is Verdict.CONFIRMED
    assert verdict("killed", talk(start, name="07-recover")) is Verdict.REFUTED
    assert verdict("killed", talk(line, name="04-tune")) is Verdict.NOT_SEEN
    assert [verdict("recovered", was_restored=one) for one in (True, False, None)] == list(Verdict)


def test_the_ssh_name():
    """What the SSH server calls itself stands in the remark of the login."""
    lines = "2026-11-29T09:29:00.000Z - session open: SSH-2.0-{}, ssh-rsa, aes128-ctr"
    assert verdict("ssh-name", read_session("01", [lines.format("Cisco-1.25")])) is Verdict.CONFIRMED
    assert verdict("ssh-name", read_session("01", [lines.format("OpenSSH_9.9")])) is Verdict.REFUTED


def test_the_table_is_whole():
    """Each fact has a name, a statement, a source and how it is judged; each is shown both ways in this file."""
    assert len({one.id for one in FACTS}) == len(FACTS)
    assert all(re.fullmatch(r"[a-z]+(?:-[a-z]+)*", one.id) and one.statement.endswith((".", "'")) for one in FACTS)
    assert all(one.source and one.judged for one in FACTS)
    of_their_own = {
        "prompt",
        "prompt-config",
        "echo",
        "ssh-name",
        "window-shown",
        "mark-shown",
        "undone",
        "window-scales",
    }
    of_their_own |= {"sack-offered", "window-default", "window-practice", "verify-dots", "killed", "recovered"}
    assert {one.id for one in FACTS} == of_their_own | set(BOTH_WAYS)
