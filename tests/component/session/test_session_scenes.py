"""What a session does where a device is not at its prompt, or not where it seems to be."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from flashferry.core.values import replace
from flashferry.devices import dialogue, netmiko_driver
from flashferry.devices.errors import (
    DeviceRefused,
    DeviceUnreachable,
    DialogueDisturbed,
    LoginRefused,
    OutputNotUnderstood,
)
from flashferry.devices.platforms.ios import IOS_XE
from flashferry.devices.session import DeviceSession
from flashferry.transports import USUAL
from flashferry.transports.copy_dialogue import CopyDialogue
from flashferry.transports.transport import Offer, ServerView
from tasks.authorization import check_authorization
from tasks.copy import CopyWatch, copy_limits
from tasks.partial_file import DeleteDialogue
from tests.patience import PATIENCE_S, until

COPY = "copy ftp://user:secret@192.0.2.1/x.bin flash:x.bin"
SYSLOG = "*Sep 13 09:24:43.803: %LINK-3-UPDOWN: Interface Gi3, changed state to up"


def a_dialogue() -> CopyDialogue:
    offer = Offer(transport=USUAL, server="192.0.2.1", port=21, image="x.bin", username="user", password="secret")
    return CopyDialogue(prompt_pattern=r"(?m)^r1#\s*$", offer=offer, target="flash:x.bin", platform=IOS_XE)


def watched(talk: CopyDialogue) -> tuple[CopyDialogue, Callable[[], None]]:
    """Return what a copy is held by: the dialogue, and the look at it once a second."""
    limits = copy_limits(size_bytes=3, expected_bytes_per_s=1e6)
    seen = ServerView(client_seen=True, logged_in=True, acked_bytes=0, failure=None)
    watch = CopyWatch("r1", talk, 3, limits, lambda: seen, lambda: False)
    return talk, watch.check


def copied(router) -> CopyDialogue:
    """Hold the dialogue of a copy and log out."""
    session, talk = DeviceSession(router.login), a_dialogue()
    session.converse(COPY, talk, lambda: None)
    session.close()
    return talk


def test_an_expired_password_gets_nothing_typed(device):
    """A question in place of a prompt is told as it stands; neither a command nor `exit` answers it."""

    def scene(play):
        play.show("\r\nYour password has expired.\r\nNew password: ")
        play.let_pass(1.1 * netmiko_driver.QUESTION_S)
        play.line("New password", echo=False)

    router = device(scene)
    with pytest.raises(LoginRefused, match="found the question 'New password:'; nothing was typed"):
        DeviceSession(router.login)
    assert router.typed == []


def test_no_prompt_gets_nothing_typed(device):
    """Without anything like a prompt the login fails by itself and quotes the last line, cut short."""

    def scene(play):
        play.show("\r\nSelect a line\r\n" + "x" * 100 + " console server\r\n")
        play.let_pass(netmiko_driver.LOGIN_LIMIT_S)
        play.line("a menu")

    router = device(scene)
    with pytest.raises(DeviceUnreachable, match=r"last line seen: 'x{60,80} console server'"):
        DeviceSession(router.login)
    assert router.typed == []


def test_a_banner_line_that_looks_like_a_prompt(device):
    """It is not taken for one: neither stars with a hash, nor a word with one that more text follows."""

    def scene(play):
        play.show("\r\n**********#\r\n")
        play.wait_until_read()
        play.show("site#\r\nwelcome\r\nr1#")
        while play.line() != "show clock":
            play.show("r1#")
        play.show("noon\r\nr1#")
        play.wait_for_the_end()

    session = DeviceSession(device(scene).login)
    assert session.ask("show clock") == "noon"
    session.close()


def test_a_prompt_that_a_syslog_line_follows_at_login(device):
    """IOS does not print its prompt again then; the login goes on all the same."""

    def scene(play):
        play.show(f"\r\nr1#\r\n{SYSLOG}\r\n")
        for _ in range(3):
            play.line()
            play.show(f"r1#\r\n{SYSLOG}\r\n")
        play.wait_for_the_end()

    session = DeviceSession(device(scene).login)
    assert session.privileged
    session.close()


def test_a_prompt_drawn_anew_does_not_end_a_command_on_its_way(device):
    """`logging synchronous`: nothing is typed into the question that the command then asks."""

    def scene(play):
        play.log_in()
        play.line(before_echo=f"\r\n{SYSLOG}\r\nr1#")
        play.show("Destination filename [x.bin]? ")
        play.line("Destination filename")
        play.show("done\r\nr1#")
        play.wait_for_the_end()

    router = device(scene)
    talk = copied(router)
    assert talk.text.endswith("done\nr1#")
    assert SYSLOG not in talk.text
    assert router.typed[-2] == ("Destination filename", "")


@pytest.mark.parametrize(
    "noise",
    [
        f"\r\n{SYSLOG}\r\n",
        "\r\n***\r\n***\r\n*** Message from tty0 to all terminals:\r\n***\r\nreload at five\r\n***\r\n\r\n",
        "\r\nanything else, such as a console server's word\r\n",
    ],
)
@pytest.mark.parametrize("drawn_again", ["at once", "once read", "once answered"])
def test_a_question_drawn_twice_gets_one_answer(device, noise, drawn_again):
    """The spare Enter would fall into the question behind it, which empties the flash."""
    question = "Destination filename [x.bin]? "

    def scene(play):
        play.log_in()
        play.line()
        play.show(question)
        if drawn_again == "once read":
            play.wait_until_read()
        elif drawn_again == "once answered":
            play.wait_for_a_key()
        play.show(noise + question)
        play.line("Destination filename")
        play.show("Erase flash: before copying? [confirm]")
        play.key("Erase flash")
        play.show("\r\n3 bytes copied in 0.1 secs (30 bytes/sec)\r\nr1#")
        play.wait_for_the_end()

    router = device(scene)
    talk = copied(router)
    assert [pair for pair in router.typed if pair[0] != "prompt"] == [
        ("Destination filename", ""), ("Erase flash", "n"), ("the end", "exit")
    ]  # fmt: skip
    assert [one.name for one in talk.answered] == ["destination", "erase"]


def test_a_question_that_text_covers_gets_no_answer(device):
    """Not drawn again, it is broken off, and the error may be tried again."""

    def scene(play):
        play.log_in()
        play.line()
        play.show(f"Destination filename [x.bin]? \r\n{SYSLOG}\r\n")
        play.key("question")
        play.show("\r\nr1#")
        play.wait_for_the_end()

    router = device(scene)
    session = DeviceSession(router.login)
    with pytest.raises(DialogueDisturbed, match="not the last thing shown"):
        session.converse(COPY, *watched(a_dialogue()))
    assert ("question", "\x1e") in router.typed
    assert session.alive
    session.close()


def test_a_question_that_nothing_of_ours_caused_gets_no_command(device):
    """What would be typed next, would answer it."""

    def scene(play):
        play.log_in()
        assert logged_in.wait(PATIENCE_S)
        play.show("\r\nReload scheduled. Proceed? [confirm]")
        shown.set()
        play.wait_for_the_end()

    logged_in, shown = threading.Event(), threading.Event()
    router = device(scene)
    session = DeviceSession(router.login)
    logged_in.set()
    assert shown.wait(PATIENCE_S)
    until(router.reader.channel.recv_ready, "the question to reach us")
    with pytest.raises(OutputNotUnderstood, match=r"Proceed\? \[confirm\]"):
        session.ask("show clock")
    assert [text for into, text in router.typed if into == "the end"] == []


@pytest.mark.parametrize(
    "give",
    [
        lambda session: session.ask("show tech-support"),
        lambda session: session.converse(COPY, a_dialogue(), lambda: None),
    ],
    ids=["ask", "converse"],
)
@pytest.mark.soak
def test_output_without_end_is_bounded(device, monkeypatch, give):
    """A device that never ceases to write is given up before it fills the memory."""
    monkeypatch.setattr(netmiko_driver, "MOST_ANSWER_CHARS", 500_000)
    monkeypatch.setattr(dialogue, "MOST_CHARS", 500_000)

    def scene(play):
        play.log_in()
        play.line()
        while True:
            play.show("0123456789abcdef" * 2000 + "\r\n")

    session = DeviceSession(device(scene).login)
    with pytest.raises(OutputNotUnderstood) as caught:
        give(session)
    assert "MB" in str(caught.value)
    assert not session.alive


@pytest.mark.parametrize(
    "give",
    [
        lambda session: session.ask("show clock"),
        lambda session: session.converse("show clock", a_dialogue(), lambda: None),
    ],
    ids=["ask", "converse"],
)
def test_nothing_is_typed_behind_a_question_that_nobody_answered(device, give):
    """Somebody's text looks like the prompt while the device still asks: `exit` would be the answer."""

    def scene(play):
        play.log_in()
        play.line()
        play.show("\r\nFile is in use. Delete it? [confirm]lunch?\r\nr1#")
        play.wait_for_the_end()

    router = device(scene)
    session = DeviceSession(router.login)
    with pytest.raises(OutputNotUnderstood, match="Delete it"):
        give(session)
    session.close()
    assert [text for _, text in router.typed][-1] == "show clock"


def test_a_prompt_drawn_anew_behind_the_whole_echo(device):
    """The line breaks in between the last key and Enter: the dialogue is not over with the prompt in front of it."""
    command = "delete flash:x.bin"

    def scene(play):
        play.log_in()
        play.channel.recv(len(command))
        play.show(f"{command}\r\n{SYSLOG}\r\nr1#")
        play.wait_until_read()
        play.show(command)
        play.line()
        play.show("Delete filename [x.bin]? ")
        play.line("Delete filename")
        play.show("r1#")
        play.wait_for_the_end()

    router = device(scene)
    session = DeviceSession(router.login)
    talk = DeleteDialogue(path="flash:x.bin", prompt_pattern=session.prompt_pattern, questions=IOS_XE.deleting)
    session.converse(command, talk, lambda: None)
    assert router.typed[-1] == ("Delete filename", "")
    assert "Delete filename" in talk.text
    session.close()


def test_a_command_without_an_echo_ends_the_session(device, monkeypatch):
    """Whatever the device does with it, no prompt proves that it is done; the secret is in no error."""
    monkeypatch.setattr(dialogue.await_echo, "__kwdefaults__", {"limit_s": 0.3})

    def scene(play):
        play.log_in()
        play.line(echo=False)
        play.show("r1#")
        play.wait_for_the_end()

    session = DeviceSession(device(scene).login)
    with pytest.raises(OutputNotUnderstood, match="'copy': expected the echo") as caught:
        session.converse("copy ftp://user:secret@192.0.2.1/x.bin null:", a_dialogue(), lambda: None)
    assert "secret" not in str(caught.value)
    assert not session.alive


def test_syslog_without_end_does_not_keep_an_answer(device, monkeypatch):
    """The prompt stood long enough; lines behind it do not make it younger."""
    monkeypatch.setattr(netmiko_driver, "TOTAL_LIMITS", 2)

    def scene(play):
        play.log_in()
        play.line()
        play.show("noon\r\nr1#")
        while not play.channel.closed:
            play.show(f"\r\n{SYSLOG}\r\n")
            play.wait_until_read()

    router = device(scene)
    session = DeviceSession(router.login)
    assert session.ask("show clock", limit_s=PATIENCE_S / 2) == "noon"
    session.abandon()


def test_an_answer_without_end_is_given_up(device, monkeypatch):
    """A device that never falls silent ends at ten times the longest silence."""
    monkeypatch.setattr(netmiko_driver, "TOTAL_LIMITS", 2)

    def scene(play):
        play.log_in()
        play.line()
        while True:
            play.show("noise\r\n")
            play.wait_until_read()

    session = DeviceSession(device(scene).login)
    with pytest.raises(OutputNotUnderstood):
        session.ask("show clock", limit_s=0.5)


def test_a_half_closed_channel_is_a_lost_session(device):
    """EOF without CLOSE: nothing more will come, and waiting for it takes no processor time."""

    def scene(play):
        play.log_in()
        play.line()
        play.channel.shutdown_write()
        play.wait_for_the_end()

    session = DeviceSession(device(scene).login)
    with pytest.raises(DeviceUnreachable):
        session.ask("show clock", limit_s=PATIENCE_S)
    assert not session.alive


def test_output_by_pages_is_told_as_that(device):
    """The line at which the device waits stands in the error, with what to do about it."""

    def scene(play):
        play.log_in()
        play.line()
        play.show("line\r\n" * 23 + " --More-- ")
        play.let_pass(PATIENCE_S)
        play.wait_for_the_end()

    session = DeviceSession(device(scene).login)
    with pytest.raises(OutputNotUnderstood, match=r"the device waits at '--More--'.*terminal length 0"):
        session.ask("show running-config", limit_s=PATIENCE_S)


def test_a_character_that_a_packet_cuts_is_not_lost(device):
    """The same configuration reads the same however its bytes arrive; a password beyond ASCII logs in."""
    pieces: list[list[bytes]] = [[b"Z\xc3\xbcrich"], [b"Z\xc3", b"\xbcrich"]]

    def scene(play):
        play.log_in()
        for cut in pieces:
            play.line()
            for piece in cut:
                play.show_bytes(piece)
                play.wait_until_read()
            play.show("\r\nr1#")
        play.wait_for_the_end()

    router = device(scene)
    session = DeviceSession(router.login)
    assert router.server.password == "pässword"
    assert session.ask("show snmp location") == session.ask("show snmp location")
    session.abandon()


def test_an_enable_secret_beyond_ascii_goes_out_as_utf_8(device):
    """As a terminal would send it."""

    def scene(play):
        play.show("\r\nr1>")
        for _ in range(3):
            play.line()
            play.show("r1>")
        while play.line(echo=True) != "enable":
            play.show("r1>")
        play.show("Password: ")
        play.line("Password", echo=False)
        play.show("r1#")
        while True:
            play.line()
            play.show("r1#")

    router = device(scene)
    DeviceSession(replace(router.login, enable_secret="gehe\u00efm\u2713")).abandon()
    (secret,) = [text for into, text in router.typed if into == "Password"]
    assert secret.encode("latin-1").decode() == "gehe\u00efm\u2713"


@pytest.mark.parametrize(
    "asked",
    ["Password: \r\nNew password: ", "Enter your password? [confirm]", "Password:\r\nDiscard changes? [confirm]"],
)
def test_an_enable_secret_is_typed_into_nothing_but_its_own_question(device, asked):
    """It would be shown, or answer something else."""

    def scene(play):
        play.show("\r\nr1>")
        for _ in range(3):
            play.line()
            play.show("r1>")
        play.line()
        play.show(asked)
        play.let_pass(netmiko_driver.LOGIN_LIMIT_S)
        play.wait_for_the_end()

    router = device(scene)
    with pytest.raises(LoginRefused):
        DeviceSession(replace(router.login, enable_secret="s3cret"))
    assert "s3cret" not in [text for _, text in router.typed]


def test_a_password_that_is_asked_for_twice_is_typed_once(device):
    """The second question means that the secret was refused: a third try might lock somebody out."""

    def scene(play):
        play.show("\r\nr1>")
        for _ in range(3):
            play.line()
            play.show("r1>")
        play.line()
        for _ in range(3):
            play.show("Password: ")
            play.line("Password", echo=False)

    router = device(scene)
    with pytest.raises(LoginRefused, match="the enable secret was refused"):
        DeviceSession(replace(router.login, enable_secret="s3cret"))
    assert router.typed.count(("Password", "s3cret")) == 1


def test_a_refusal_is_not_hidden_by_a_device_that_hangs_up(device, monkeypatch):
    """The connection may break off in the moment in which our side closes it."""
    close = netmiko_driver.Connection.paramiko_cleanup

    def broken(connection):
        close(connection)
        raise EOFError

    def scene(play):
        play.show("\r\nr1>")
        for _ in range(3):
            play.line()
            play.show("r1>")
        play.line()
        for _ in range(2):
            play.show("Password: ")
            play.line("Password", echo=False)

    monkeypatch.setattr(netmiko_driver.Connection, "paramiko_cleanup", broken)
    with pytest.raises(LoginRefused, match="the enable secret was refused"):
        DeviceSession(replace(device(scene).login, enable_secret="s3cret"))


def test_facts_ask_for_nothing_that_is_not_shown(device):
    """The table of all interfaces and of all names may be thousands of lines."""

    def scene(play):
        play.log_in()
        while True:
            play.line()
            play.show("Processor board ID 9X\r\nr1 uptime is 1 minute\r\nr1#")

    router = device(scene)
    session = DeviceSession(router.login)
    assert (session.facts().serial_number, session.facts().hostname) == ("9X", "r1")
    session.abandon()
    asked = [text for _, text in router.typed if text.startswith("show")]
    assert asked == ["show version"]


def test_a_refused_answer_is_no_output(device):
    """A refusal in words that we don't know would read as a device without the lines asked for."""

    def scene(play):
        play.log_in()
        play.line()
        play.show("% Somebody else decides\r\nr1#")
        play.line()
        play.show("%Error opening flash:/x (No such file or directory)\r\nr1#")
        play.wait_for_the_end()

    session = DeviceSession(device(scene).login)
    with pytest.raises(DeviceRefused, match="'show running-config': % Somebody else decides"):
        session.ask("show running-config")
    assert session.ask("dir flash:x").startswith("%Error")
    session.abandon()


def test_a_trial_command_that_asks_is_broken_off(device):
    """A device with `file prompt noisy` asks for a name: it gets no answer, and the session lives on."""

    def scene(play):
        play.log_in()
        while (line := play.line()) != "":
            if line == "show version":
                play.show("Cisco IOS Software, 2800 Software, Version 15.1(3)T4\r\nr1#")
            elif line == "show privilege":
                play.show("Current privilege level is 7\r\nr1#")
            elif line.startswith("copy"):
                play.show("Destination filename [null]? ")
                play.typed.append(("question", play.channel.recv(1).decode()))
                play.show("\r\nr1#")
                while play.channel.recv(1) != b"\x1e":
                    pass
            else:
                play.show("% Not authorized\r\nr1#")

    router = device(scene)
    session = DeviceSession(router.login)
    found = check_authorization(session, "aaa authorization commands 15 default group tacacs+", "flash:")
    assert found.refused == ("'verify' (% Not authorized)",)
    assert ("question", "\x03") in router.typed
    assert session.alive
    session.abandon()


@pytest.mark.parametrize(
    ("disabled", "algorithm"), [((), "rsa-sha2-512"), (("rsa-sha2-512", "rsa-sha2-256"), "ssh-rsa")]
)
def test_a_known_rsa_key_signs_by_the_best_that_the_device_has(device, disabled, algorithm):
    """The second login is not pinned to SHA-1 by the key's name; a device that has nothing else works too."""

    def scene(play):
        play.log_in()
        play.wait_for_the_end()

    router = device(scene, disabled_algorithms={"keys": disabled})
    for _ in range(2):
        DeviceSession(router.login).abandon()
    assert router.algorithms == [algorithm, algorithm]
    assert router.known_hosts.read_text().count("ssh-rsa") == 1


REFUSED = "              ^\r\n% Invalid input detected at '^' marker.\r\n\r\n"


def test_the_terminal_is_set_again_after_enable(device):
    """A Catalyst 9200 knows no `terminal` command at level 1: all settings are given again at the higher level."""

    def scene(play):
        play.show("\r\nacc-9200>")
        while play.line() != "enable":
            play.show(f"{REFUSED}acc-9200>")
        play.show("Password: ")
        play.line("Password", echo=False)
        play.show("acc-9200#")
        while True:
            play.line("enabled")
            play.show("acc-9200#")

    router = device(scene)
    session = DeviceSession(replace(router.login, enable_secret="s3cret"))
    assert session.width_refusal is None
    session.abandon()
    assert [line for into, line in router.typed if into == "enabled"] == list(netmiko_driver.TERMINAL)


def test_a_width_that_is_not_taken_is_known(device):
    """AAA refuses `terminal width` alone: the session knows it, in the device's words."""

    def scene(play):
        play.show("\r\nr1#")
        while True:
            line = play.line()
            play.show("Command authorization failed.\r\n\r\nr1#" if "width" in line else "r1#")

    session = DeviceSession(device(scene).login)
    assert session.width_refusal == "Command authorization failed."
    session.abandon()


STUB = """Building configuration...

Current configuration : 157 bytes
!
! Last configuration change at 14:03:37 EST Wed Dec 7 2022 by netops
! NVRAM config last updated at 19:53:49 EST Mon Dec 5 2022 by netops
!
!
!
!
!
end"""
WHOLE = STUB.replace("!\n!\n!\n", "version 15.2\nhostname r1\n!\n", 1)


@pytest.mark.parametrize("missing", ["version", "hostname", "end", "version and hostname"])
@pytest.mark.parametrize("read", ["running_config", "startup_config"])
def test_a_part_of_a_configuration_is_none(device, missing, read):
    """What a user with a restricted view gets has eleven lines and ends with `end`: it is refused, not compared."""
    words = missing.split(" and ")
    part = "\r\n".join(line for line in WHOLE.splitlines() if line.split(" ")[0] not in words)

    def scene(play):
        play.log_in()
        play.line()
        play.show(f"{part}\r\nr1#")
        play.wait_for_the_end()

    session = DeviceSession(device(scene).login)
    with pytest.raises(OutputNotUnderstood) as caught:
        getattr(session, read)()
    session.abandon()
    assert f"without {' and '.join(repr(word) for word in words)}" in caught.value.message
    assert "shows a part" in str(caught.value.hint) or "show a part" in str(caught.value.hint)


def test_a_whole_configuration_is_taken(device):
    """The same with its `version` and `hostname`, however short."""

    def scene(play):
        play.log_in()
        play.line()
        play.show(WHOLE.replace("\n", "\r\n") + "\r\nr1#")
        play.wait_for_the_end()

    session = DeviceSession(device(scene).login)
    assert session.running_config() == WHOLE
    session.abandon()
