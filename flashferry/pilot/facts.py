"""Assumptions about routers as a table, and whether a router's own output confirms them. Pure.

Each fact has its source and its test. A fact that a pilot does not touch is `not seen`, never confirmed. Sources:
R: device output in a public capture; D: Cisco's documentation; T: third-party reports; C: calculated from captures;
U: unconfirmed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

from msgspec import Struct

from flashferry.pilot.exchanges import Exchange, Session
from flashferry.tcp.syn import SynOptions
from templates.version import parse_version


class Verdict(StrEnum):
    """What a pilot showed about a fact."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    NOT_SEEN = "not seen"


class Evidence(Struct, frozen=True, kw_only=True):
    """What facts are checked against.

    Attributes:
        sessions: All sessions of the pilot.
        syn_as_is: Options of the device's SYN with its own settings; None: not seen.
        syn_tuned: The same while tuned; None: not seen.
        was_restored: Whether `recover` proved the device restored; None: not tried.
    """

    sessions: tuple[Session, ...] = ()
    syn_as_is: SynOptions | None = None
    syn_tuned: SynOptions | None = None
    was_restored: bool | None = None

    def exchanges(self, command: str) -> Iterator[Exchange]:
        """Yield the answered exchanges whose command matches a regular expression from its start."""
        for session in self.sessions:
            for one in session.exchanges:
                if one.command and (one.answer or one.prompt) and re.match(command, one.command):
                    yield one


class Seen(Struct, frozen=True, kw_only=True):
    """A text that confirms or refutes a fact.

    Attributes:
        text: A few lines.
        fits: Whether it confirms the fact.
    """

    text: str
    fits: bool


class Fact(Struct, frozen=True, kw_only=True):
    """An assumption of flashferry and its test doubles.

    Attributes:
        id: Name in the table.
        statement: The assumption.
        source: Its source, with its letter.
        judged: How it is checked, as text.
        seen: Returns texts that confirm or refute it; none if the pilot did not touch it.
    """

    id: str
    statement: str
    source: str
    judged: str
    seen: Callable[[Evidence], Iterable[Seen]]


class Finding(Struct, frozen=True, kw_only=True):
    """A fact with its result.

    Attributes:
        fact: The fact.
        verdict: The result; refuted if any text refutes it.
        times: Number of texts with this verdict.
        text: The first of them, or empty.
    """

    fact: Fact
    verdict: Verdict
    times: int
    text: str


def judge(evidence: Evidence, facts: Iterable[Fact] | None = None) -> tuple[Finding, ...]:
    """Check all facts against the evidence, in table order."""
    return tuple(_finding(fact, tuple(fact.seen(evidence))) for fact in (FACTS if facts is None else facts))


def _finding(fact: Fact, seen: tuple[Seen, ...]) -> Finding:
    against = [one for one in seen if not one.fits]
    verdict = Verdict.REFUTED if against else Verdict.CONFIRMED if seen else Verdict.NOT_SEEN
    deciding = against or list(seen)
    return Finding(fact=fact, verdict=verdict, times=len(deciding), text=deciding[0].text if deciding else "")


_MOST_LINES = 4
_LINE_CHARS = 160
_REFUSED = re.compile(r"^\s*(?:\^\s*$|% ?\S|Command authorization failed)", re.MULTILINE)

Judge = Callable[[Evidence], Iterator[Seen]]


def _short(text: str) -> str:
    """Return the first non-blank lines of a text."""
    lines = [line.rstrip()[:_LINE_CHARS] for line in text.split("\n") if line.strip()]
    more = len(lines) > _MOST_LINES
    return "\n".join([*lines[:_MOST_LINES], *(["..."] if more else [])])


def _answers(command: str, pattern: str, *, unless: str = "", from_end: bool = False) -> Judge:
    """Make a check that a pattern is found in every answer to a command.

    Args:
        command: Regular expression for the command.
        pattern: Regular expression that must be found.
        unless: Answers that match this are ignored: another fact covers them.
        from_end: Whether to quote a refuting answer from its end.
    """

    def seen(evidence: Evidence) -> Iterator[Seen]:
        for one in evidence.exchanges(command):
            if (unless and re.search(unless, one.answer, re.MULTILINE)) or not one.prompt:
                continue
            found = re.search(pattern, one.answer, re.MULTILINE)
            rest = "\n".join(one.answer.rstrip().split("\n")[-2:]) if from_end else one.answer
            yield Seen(text=_short(found[0] if found else rest) or "(nothing)", fits=found is not None)

    return seen


def _silent(command: str) -> Judge:
    """Make a check that a command prints nothing."""

    def seen(evidence: Evidence) -> Iterator[Seen]:
        for one in evidence.exchanges(command):
            if one.prompt:
                text = f"{one.before}{one.command}"
                yield Seen(text=f"{text}\n{_short(one.answer)}".rstrip(), fits=not one.answer.strip())

    return seen


def _found_only(command: str, situation: str, pattern: str) -> Judge:
    """Make a check that answers which match `situation` also match `pattern`."""

    def seen(evidence: Evidence) -> Iterator[Seen]:
        for one in evidence.exchanges(command):
            if re.search(situation, one.answer, re.MULTILINE):
                found = re.search(pattern, one.answer, re.MULTILINE)
                yield Seen(text=_short(found[0] if found else one.answer), fits=found is not None)

    return seen


def _all_prompts(evidence: Evidence) -> tuple[str, ...]:
    """Return all prompts, including each session's first."""
    return tuple(one.prompt for session in evidence.sessions for one in session.exchanges if one.prompt)


def _prompts(evidence: Evidence) -> Iterator[Seen]:
    for prompt in _all_prompts(evidence):
        if "(config" not in prompt:
            yield Seen(text=prompt, fits=re.fullmatch(r"\S+[#>]", prompt) is not None)


def _config_prompts(evidence: Evidence) -> Iterator[Seen]:
    names = {prompt.rstrip("#> ") for prompt in _all_prompts(evidence) if "(config" not in prompt}
    for prompt in _all_prompts(evidence):
        if found := re.fullmatch(r"(.+)\(config[\w-]*\)#\s*", prompt):
            yield Seen(text=prompt, fits=any(found[1] in (name, name[:20]) for name in names))


def _echoes(evidence: Evidence) -> Iterator[Seen]:
    for one in evidence.exchanges(""):
        if one.prompt and one.before:
            first = one.answer.partition("\n")[0]
            yield Seen(text=f"{one.before}{one.echo or first}", fits=one.echo == one.command)


def _platform(evidence: Evidence) -> Iterator[Seen]:
    for one in evidence.exchanges("show version$"):
        found = parse_version(one.answer)
        text = f"{', '.join(found.hardware) or 'no model'}, {found.release or 'no release'}"
        yield Seen(text=text, fits=bool(found.hardware and found.release))


def _alias(evidence: Evidence) -> Iterator[Seen]:
    same = {"flash", "bootflash", "flash0"}
    for one in evidence.exchanges(r"dir \w[\w-]*:"):
        asked = one.command.removeprefix("dir ").partition(":")[0]
        if found := re.search(r"^Directory of ([\w-]+):", one.answer, re.MULTILINE):
            text = f"{one.command}\n{found[0]}"
            yield Seen(text=text, fits=found[1] == asked or {found[1], asked} <= same)


_WINDOW = re.compile(r"^ip tcp window-size (\d+)$", re.MULTILINE)


def _set_windows(evidence: Evidence) -> set[str]:
    return {one.command for one in evidence.exchanges("ip tcp window-size ")}


def _window_shown(evidence: Evidence) -> Iterator[Seen]:
    """Check that configurations show our window line between setting and removing it in one session."""
    yield from _shown_while_set(evidence, re.compile("ip tcp window-size .*"))


def _mark_shown(evidence: Evidence) -> Iterator[Seen]:
    yield from _shown_while_set(evidence, re.compile("alias exec flashferry-.*"))


def _shown_while_set(evidence: Evidence, line: re.Pattern[str]) -> Iterator[Seen]:
    for session in evidence.sessions:
        in_force = ""
        for one in session.exchanges:
            if line.fullmatch(one.command) and one.is_configuring and not one.answer.strip():
                in_force = one.command
            elif one.command.startswith("no ") and one.is_configuring:
                in_force = ""
            elif in_force and one.command == "show running-config" and one.answer:
                lines = [text.strip() for text in one.answer.split("\n")]
                yield Seen(text=in_force, fits=in_force in lines)


def _window_at_default(evidence: Evidence) -> Iterator[Seen]:
    """Check that a line never set by us is absent from configurations, since defaults are not printed."""
    ours = _set_windows(evidence)
    for one in evidence.exchanges("show (?:running|startup)-config$"):
        if (found := _WINDOW.search(one.answer)) is None and "\nend" in one.answer:
            yield Seen(text="(no line 'ip tcp window-size')", fits=True)
        elif found is not None and found[1] == "4128" and found[0] not in ours:
            yield Seen(text=found[0], fits=False)


def _window_taken(evidence: Evidence) -> Iterator[Seen]:
    for one in evidence.exchanges(r"ip tcp window-size \d+$"):
        size = int(one.command.rpartition(" ")[2])
        if 68 <= size <= 1_073_741_823 and one.prompt:
            text = f"{one.command}\n{_short(one.answer)}".rstrip()
            yield Seen(text=text, fits=_REFUSED.search(one.answer) is None)


def _undone(evidence: Evidence) -> Iterator[Seen]:
    """Check that after our lines are removed the configuration equals the one before."""
    for session in evidence.sessions:
        before: list[str] | None = None
        changed = False
        for one in session.exchanges:
            if one.is_configuring and one.command.startswith("ip tcp "):
                changed = True
            elif one.command == "show running-config" and one.answer:
                lines = [
                    line for line in one.answer.split("\n") if line.strip() and not line.startswith(("!", "Current "))
                ]
                if not changed:
                    before = lines
                elif before is not None and not any("flashferry-" in line for line in lines):
                    new = [line for line in lines if line not in before] + [
                        line for line in before if line not in lines
                    ]
                    yield Seen(text="\n".join(new[:_MOST_LINES]) or "(the lines of before)", fits=not new)


def _syn_scaled(evidence: Evidence) -> Iterator[Seen]:
    if evidence.syn_tuned is not None and any(_set_windows(evidence)):
        yield Seen(text=evidence.syn_tuned.describe(), fits=evidence.syn_tuned.window_scale is not None)


def _syn_sack(evidence: Evidence) -> Iterator[Seen]:
    if evidence.syn_tuned is not None and any(evidence.exchanges("ip tcp selective-ack$")):
        yield Seen(text=evidence.syn_tuned.describe(), fits=evidence.syn_tuned.sack_permitted)


def _syn_default(evidence: Evidence) -> Iterator[Seen]:
    if evidence.syn_as_is is not None and any(_window_at_default(evidence)):
        yield Seen(text=evidence.syn_as_is.describe(), fits=evidence.syn_as_is.window_bytes == 4128)


def _syn_practice(evidence: Evidence) -> Iterator[Seen]:
    if evidence.syn_as_is is not None and any(_window_at_default(evidence)):
        fits = evidence.syn_as_is.window_scale is None and 4128 <= evidence.syn_as_is.window_bytes <= 16_384
        yield Seen(text=evidence.syn_as_is.describe(), fits=fits)


def _default_line(command: str, pattern: str, words: str) -> Judge:
    """Make a check that a setting's default is not printed; a line set by the operator is ignored."""

    def seen(evidence: Evidence) -> Iterator[Seen]:
        for one in evidence.exchanges(command):
            if "\nend" in one.answer and (found := re.search(pattern, one.answer, re.MULTILINE)) is not None:
                yield Seen(text=found[0], fits=False)
            elif "\nend" in one.answer:
                yield Seen(text=words, fits=True)

    return seen


def _marks_of(evidence: Evidence) -> Iterator[Seen]:
    """Check that `verify` prints one dot per 65,536 bytes of the last copied file."""
    sizes = [int(found[1]) for one in evidence.exchanges("copy .*(?<!null:)$") if (found := _COPIED.search(one.answer))]
    for one in evidence.exchanges("verify /"):
        if sizes and (found := re.match(r"(\.+)Done!", one.answer.lstrip())):
            least, most = sizes[-1] // 65_536, -(-sizes[-1] // 65_536)
            text = f"{len(found[1])} dots for {sizes[-1]:,} bytes"
            yield Seen(text=text, fits=least <= len(found[1]) <= most + 1)


_COPIED = re.compile(r"^(\d+) bytes copied in [\d.]+ secs? \((\d+) bytes/sec\)", re.MULTILINE)


def _rate(evidence: Evidence) -> Iterator[Seen]:
    for one in evidence.exchanges("copy "):
        if found := re.search(r"^(\d+) bytes copied in ([\d.]+) secs? \((\d+) bytes/sec\)", one.answer, re.MULTILINE):
            size, seconds, rate = int(found[1]), float(found[2]), int(found[3])
            if seconds >= 0.001:
                yield Seen(text=found[0], fits=abs(size / seconds - rate) <= max(1.0, rate * 0.01))


def _ssh_name(evidence: Evidence) -> Iterator[Seen]:
    for session in evidence.sessions:
        for note in session.notes:
            if note.startswith("session open: "):
                name = note.removeprefix("session open: ").partition(",")[0]
                yield Seen(text=name, fits=name.startswith("SSH-2.0-Cisco-"))


def _left(evidence: Evidence) -> Iterator[Seen]:
    """Check the first configuration that `recover` reads after the kill."""
    for session in evidence.sessions:
        if session.name.rpartition("-")[2] == "recover":
            for one in session.exchanges:
                if one.command == "show running-config" and one.answer:
                    mark = re.search("^alias exec flashferry-.*", one.answer, re.MULTILINE)
                    yield Seen(text=mark[0] if mark else "(no line of ours)", fits=mark is not None)
                    return


def _restored(evidence: Evidence) -> Iterator[Seen]:
    if evidence.was_restored is not None:
        words = "restored and proven" if evidence.was_restored else "not proven to be what it was"
        yield Seen(text=words, fits=evidence.was_restored)


_FOOTER = r"^\d+ bytes total \(\d+ bytes free\)"
_TO_FLASH = r"copy (?:ftp|https?|scp|sftp)://\S+ (?!null:)\S+$"
_RUNNING = "show running-config$"
_OTHER_QUESTION = r"(?:.*\n)*?.*(?:\[confirm\]|\]\? |\[yes/no\])"
_IS_ABSENT = r"^%Error opening|No such file"
_IS_REFUSED = r"^%|^\s*\^"

FACTS = (
    Fact(
        id="prompt",
        statement="The prompt is the host's name and '#' or '>', and no blank follows.",
        source="R: unicon, ntc-templates; netmiko and scrapli rely on it",
        judged="each prompt outside of configuration mode",
        seen=_prompts,
    ),
    Fact(
        id="prompt-config",
        statement="In configuration mode the prompt is the host's name, cut at 20 characters, with '(config)#'.",
        source="T: netmiko cisco_ios.py",
        judged="each prompt with '(config', compared with the others",
        seen=_config_prompts,
    ),
    Fact(
        id="echo",
        statement="A command is echoed as it was typed, then its output, then the prompt.",
        source="R: unicon",
        judged="each command and the first line of its answer",
        seen=_echoes,
    ),
    Fact(
        id="ssh-name",
        statement="The SSH server calls itself SSH-2.0-Cisco-1.25 or the like.",
        source="T: public scans",
        judged="its identification at login",
        seen=_ssh_name,
    ),
    Fact(
        id="terminal",
        statement="'terminal width', 'terminal length' and 'terminal no monitor' print nothing.",
        source="R: netmiko, unicon; not at privilege 0 and 1 of a Catalyst 9200 (netmiko 1454)",
        judged="the answers to them",
        seen=_silent("terminal "),
    ),
    Fact(
        id="privilege",
        statement="'show privilege' prints 'Current privilege level is N'.",
        source="R: genieparser",
        judged="its answer",
        seen=_answers("show privilege$", r"^Current privilege level is \d+$"),
    ),
    Fact(
        id="configure",
        statement="'configure terminal' prints 'Enter configuration commands, one per line.  End with CNTL/Z.'",
        source="R: unicon",
        judged="its answer",
        seen=_answers("configure terminal$", r"^Enter configuration commands, one per line\.  End with CNTL/Z\.$"),
    ),
    Fact(
        id="unknown-command",
        statement="A command that the release does not know: '^', then '% Invalid input detected at '^' marker.'",
        source="R: netmiko, unicon",
        judged="each answer that starts with a caret or a percent sign",
        seen=_found_only("show ", _IS_REFUSED, r"^\s*\^\s*\n% Invalid input detected at '\^' marker\."),
    ),
    Fact(
        id="platform",
        statement="'show version' names model and release in words that ntc-templates or our own rows read.",
        source="R: ntc-templates, genieparser, pyntc",
        judged="what the product reads there",
        seen=_platform,
    ),
    Fact(
        id="image-line",
        statement="'show version' has a line 'System image file is \"FS:FILE\"'.",
        source="R: ntc-templates; may be absent",
        judged="the line",
        seen=_answers("show version$", r'^System image file is "[\w-]+:[^"]*"'),
    ),
    Fact(
        id="register",
        statement="'show version' ends with 'Configuration register is 0xN'.",
        source="R: ntc-templates, genieparser",
        judged="the line",
        seen=_answers("show version$", r"^Configuration register is 0x[0-9A-Fa-f]+.*$", from_end=True),
    ),
    Fact(
        id="dir-header",
        statement="'dir FS:' starts with 'Directory of FS:/', also for one file.",
        source="R: ntc-templates, genieparser, scrapli_transfer_utils",
        judged="its answer, where the file is there",
        seen=_answers(r"dir ", r"^Directory of [\w-]+:/\S*$", unless=_IS_ABSENT),
    ),
    Fact(
        id="dir-alias",
        statement="'dir' names the file system that was asked for, or an alias: flash:, bootflash:, flash0: are one.",
        source="R: scrapli_transfer_utils, genieparser",
        judged="the header compared with the command",
        seen=_alias,
    ),
    Fact(
        id="dir-footer",
        statement="'dir' ends with 'N bytes total (M bytes free)'.",
        source="R: ntc-templates, genieparser",
        judged="its answer, where the file is there",
        seen=_answers(r"dir ", _FOOTER, unless=_IS_ABSENT, from_end=True),
    ),
    Fact(
        id="dir-absent",
        statement="A file that is not there: '%Error opening FS:/FILE (No such file or directory)'.",
        source="R: scrapli_transfer_utils",
        judged="each answer of 'dir' with an error",
        seen=_found_only(r"dir ", _IS_ABSENT, r"^%Error opening [\w-]+:/?\S* \(No such file or directory\)"),
    ),
    Fact(
        id="file-systems",
        statement="'show file systems' has columns Size(b) Free(b) Type Flags Prefixes and marks its default '*'.",
        source="R: genieparser",
        judged="its answer",
        seen=_answers("show file systems$", r"^ *Size\(b\) +Free\(b\) +Type +Flags +Prefixes\s*\n(?:.*\n)*?\*.*"),
    ),
    Fact(
        id="running-config",
        statement="'show running-config' starts with 'Building configuration...', then 'Current configuration : N "
        "bytes', and ends with 'end'.",
        source="R: scrapli_cfg",
        judged="its answer",
        seen=_answers(
            _RUNNING, r"^Building configuration\.\.\.\s*\n\s*\nCurrent configuration ?: \d+ bytes\n(?:.*\n)*end\s*\Z"
        ),
    ),
    Fact(
        id="startup-config",
        statement="'show startup-config' starts with 'Using N out of M bytes' and ends with 'end'.",
        source="R: scrapli_cfg, napalm",
        judged="its answer, where there is one",
        seen=_answers(
            "show startup-config$", r"^Using \d+ out of \d+ bytes.*\n(?:.*\n)*end\s*\Z", unless="not present|^%"
        ),
    ),
    Fact(
        id="unsaved",
        statement="'show archive config differences' prints '!Contextual Config Diffs:' and differences, "
        "or '!No changes were found'.",
        source="R: genieparser; a release without flash refuses it (IOL 17.15)",
        judged="its answer, where it is not refused",
        seen=_answers(
            "show archive config differences$", r"^!Contextual Config Diffs:(?:\s*\n.*)?", unless=_IS_REFUSED
        ),
    ),
    Fact(
        id="window-hidden",
        statement="At its default 'ip tcp window-size' is not in the configuration.",
        source="U: no public capture shows it",
        judged="configurations without a line of ours",
        seen=_window_at_default,
    ),
    Fact(
        id="window-default",
        statement="At its default the SYN of a copy offers a window of 4128.",
        source="D: Cisco's manuals; T: FTP clients of CSR1000v 16.11 and IOSv 15.8 offered 10 to 15 kB",
        judged="the SYN that our server saw untuned; read it together with 'window-practice'",
        seen=_syn_default,
    ),
    Fact(
        id="window-practice",
        statement="In practice it offers 4 to 16 kB without scaling.",
        source="T: zenn.dev win_beauty 4b9738dc658c9f",
        judged="the SYN that our server saw untuned",
        seen=_syn_practice,
    ),
    Fact(
        id="window-range",
        statement="'ip tcp window-size' takes 68 to 1073741823.",
        source="R: sash.jp/tcp-optimization; older books: 0 to 65535",
        judged="values of ours in that range, taken or refused",
        seen=_window_taken,
    ),
    Fact(
        id="window-silent",
        statement="'ip tcp window-size N' and 'ip tcp selective-ack' print nothing, nor do their 'no' forms.",
        source="R: scrapli_transfer_utils",
        judged="the answers to them",
        seen=_silent(r"(?:no )?ip tcp (?:window-size|selective-ack)"),
    ),
    Fact(
        id="window-shown",
        statement="A window that was set stands in the running configuration as it was typed.",
        source="R: scrapli_transfer_utils",
        judged="the configuration read while it was set",
        seen=_window_shown,
    ),
    Fact(
        id="window-scales",
        statement="With a window above 65535 the SYN of a copy offers scaling.",
        source="D: Cisco's feature guide 12.2(8)T; U for the FTP client of each train",
        judged="the SYN that our server saw while tuned",
        seen=_syn_scaled,
    ),
    Fact(
        id="sack-offered",
        statement="With 'ip tcp selective-ack' the SYN of a copy offers SACK.",
        source="D: Cisco's command reference",
        judged="the SYN that our server saw while tuned",
        seen=_syn_sack,
    ),
    Fact(
        id="mark-shown",
        statement="'alias exec NAME TEXT' prints nothing and stands in the configuration as it was typed.",
        source="D: Cisco's command reference; U for a name with digits and dashes",
        judged="our mark, in the configuration read while it was set",
        seen=_mark_shown,
    ),
    Fact(
        id="undone",
        statement="Once our lines are taken back, the configuration has the lines of before and no other.",
        source="T: teardown on an ASR1004 15.5(3)S8; R: CiscoUpgrade",
        judged="the configurations before and after, line by line",
        seen=_undone,
    ),
    Fact(
        id="copy-question",
        statement="A copy to flash asks 'Destination filename [FILE]? ' and nothing else, where the file is new.",
        source="R: scrapli_transfer_utils, netmiko; 'file prompt quiet' asks nothing",
        judged="its answer, in which no other question may stand",
        seen=_answers(
            _TO_FLASH, rf"\A\s*Destination filename \[[^\]]*\]\? ?\n+(?!{_OTHER_QUESTION})(?=Accessing |Loading )"
        ),
    ),
    Fact(
        id="copy-null",
        statement="A copy to null: asks nothing.",
        source="D: Cisco's command reference; U per release",
        judged="its answer up to 'Accessing' or 'Loading'",
        seen=_answers("copy .* null:$", r"\A\s*(?:Accessing|Loading|!).*"),
    ),
    Fact(
        id="copy-accessing",
        statement="A copy by FTP prints 'Accessing ftp://*:*@...' and 'Loading FILE' with signs, one '!' or more.",
        source="R: scrapli_transfer_utils",
        judged="its answer",
        seen=_answers(r"copy ftp:", r"^Accessing ftp://\S+\.\.\.\s*\nLoading \S+ .*", unless="^%Error"),
    ),
    Fact(
        id="copy-result",
        statement="A copy ends with '[OK - N/M bytes]' and 'N bytes copied in S secs (R bytes/sec)'.",
        source="R: scrapli_transfer_utils, genielibs",
        judged="its answer",
        seen=_answers(
            r"copy ftp:",
            r"^\[OK - \d+/\d+ bytes\]\s*\n(?:.*\n)*?\d+ bytes copied in [\d.]+ secs? \(\d+ bytes/sec\)",
            unless="^%Error",
            from_end=True,
        ),
    ),
    Fact(
        id="copy-rate",
        statement="The rate that a copy prints is its bytes by its seconds.",
        source="C: from public captures",
        judged="each result of a millisecond or more, within 1 %",
        seen=_rate,
    ),
    Fact(
        id="verify",
        statement="'verify /md5|/sha512 FILE' prints dots, 'Done!' and 'verify /md5 (FS:FILE) = DIGEST'.",
        source="R: scrapli_transfer_utils; /sha512 since XE 16.5.1",
        judged="its answer",
        seen=_answers(
            r"verify /(?:md5|sha512) ",
            r"^verify /(?:md5|sha512) \([\w-]+:/?\S+\) = [0-9a-f]{32,128}$",
            unless=_IS_REFUSED,
            from_end=True,
        ),
    ),
    Fact(
        id="verify-dots",
        statement="A digest prints one dot for 65,536 bytes.",
        source="C: scrapli_transfer_utils, 2,814,938 bytes in 43",
        judged="the dots, compared with the size of the last copy",
        seen=_marks_of,
    ),
    Fact(
        id="file-prompt",
        statement="At its default 'file prompt' is not in the configuration.",
        source="D: Cisco's command reference",
        judged="the configuration; 'file prompt quiet' by the operator refutes it for this router",
        seen=_default_line(_RUNNING, r"^(?:no )?file prompt.*$", "(no line 'file prompt')"),
    ),
    Fact(
        id="exec-timeout",
        statement="At its default of 10 minutes 'exec-timeout' is not in the configuration.",
        source="D: Cisco's command reference",
        judged="the configuration; 'exec-timeout 10 0' printed refutes it",
        seen=_default_line(_RUNNING, r"^ exec-timeout 10(?: 0)?$", "(no line 'exec-timeout 10 0')"),
    ),
    Fact(
        id="killed",
        statement="When a session is lost, lines typed into the configuration stay.",
        source="D: there is no candidate configuration in IOS",
        judged="the configuration that 'recover' finds after the kill",
        seen=_left,
    ),
    Fact(
        id="recovered",
        statement="'flashferry recover' takes them back and proves it.",
        source="the lab's fault matrix",
        judged="the record of 'recover'",
        seen=_restored,
    ),
)
"""In the order of the page."""
