"""A configuration as IOS reads it: global lines with what belongs to each, and text that is none of it. Pure.

Facts
-----
* A line in the first column is a global command; lines that begin with a blank belong to the one above.
* A banner, a menu's title or a line's message holds text as it was typed, in the first column too. It begins behind a
  delimiter, which IOS prints as `^C` whatever was typed, and ends at the next one, perhaps on the same line.
* `macro name X` is followed by the macro's commands in the first column, up to a line `@`.
* A certificate's hexadecimal lines, and those of a bare `key-string`, end with `quit`. The startup configuration may
  name a file instead (`certificate self-signed 01 nvram:IOS-Self-Sig#1.cer`) and has no such lines then.
* A whole configuration has `version`, `hostname` and, as its last line, `end`, whatever else it has.
* `!` in the first column begins a comment, of which IOS itself writes the separators and the stamps.
* A reader that takes every line in the first column for a command would write a banner's text back as configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_TAKES_TEXT = re.compile(
    r"(?:\bbanner(?: \S+)?|\btitle|\bprompt|\btext|\bpage|message(?: \S+)?|-banner(?: \S+)?) (?P<delimiter>\^C|\x03)"
    r"|(?<!\S)(?P<at_end>\^C|\x03)$"
)
"""Behind these words, or as the last word of any line; elsewhere `^C` may begin an expression (`| include ^Cisco`)."""

_TYPED_BANNER = re.compile(
    r"banner (?:motd|login|exec|incoming|slip-ppp|prompt-timeout|config-save|lcd) "
    r"(?P<delimiter>[^\sA-Za-z0-9^\x03])(?P<rest>.*)"
)
"""A banner with its delimiter as somebody typed it, as in a file that was never on a device."""

_MACRO = re.compile(r"macro name \S+\s*")
_CHAIN = re.compile(r"crypto (?:pki|ca) certificate chain ")
_CERTIFICATE = re.compile(r"\s+certificate(?: [a-z-]+)*(?: [0-9A-Fa-f]{2,})?\s*")
_NUMBERED_LIST = re.compile(r"ip access-list standard (\d{1,2})")
_SEQUENCE = re.compile(r"^\d+ (?=permit |deny |remark )")
_KEY_STRING = re.compile(r"\s+key-string\s*")


_WHOLE = {
    "version": re.compile(r"^version \S", re.MULTILINE),
    "hostname": re.compile(r"^hostname \S", re.MULTILINE),
    "end": re.compile(r"^end\s*\Z", re.MULTILINE),
}


class ConfigNotUnderstood(ValueError):
    """A configuration whose lines cannot be told from the text in it; the caller knows of which device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A global line and what belongs to it.

    Attributes:
        line: The global line, without blanks behind it.
        body: The lines of its sub-modes and of its text, in their order, without blanks behind them.
    """

    line: str
    body: tuple[str, ...] = ()

    @property
    def is_comment(self) -> bool:
        """Return whether it is no command."""
        return self.line.startswith("!")


def missing_of_whole(configuration: str) -> tuple[str, ...]:
    """Return which of `version`, `hostname` and a last line `end` are missing; none in any whole configuration.

    A user whose view, privilege level or AAA server shows a part gets some eleven lines, `end` among them
    (ansible-collections/cisco.ios 709, oxidized 677 and 2604).
    """
    return tuple(word for word, shown in _WHOLE.items() if shown.search(configuration) is None)


def sections(configuration: str) -> tuple[Section, ...]:
    """Return a configuration's sections in their order, comments among them; empty lines outside of text are left out.

    Args:
        configuration: Output of `show running-config` or `show startup-config`, or a part of it that cuts no section.

    Raises:
        ConfigNotUnderstood: A text in it does not end: where the configuration goes on cannot be told.
    """
    found: list[tuple[str, list[str]]] = []
    body: list[str] | None = None
    for line, is_text in _told_apart(configuration):
        if body is not None and (is_text or line.startswith((" ", "\t"))):
            body.append(line)
            continue
        found.append((line, []))
        # A separator ends nothing: what is indented behind it belongs to the command above.
        body = body if line.startswith("!") else found[-1][1]
    return tuple(Section(line=line, body=tuple(below)) for line, below in found)


def global_lines(configuration: str) -> tuple[str, ...]:
    """Return the global commands of a configuration, whatever belongs to them left out.

    Raises:
        ConfigNotUnderstood: See `sections`.
    """
    return tuple(one.line for one in sections(configuration) if one.line and not one.is_comment)


def lines_of(found: Iterable[Section]) -> tuple[str, ...]:
    """Return the global commands of sections; a standard list that is shown as a section as the lines that set it.

    `ip access-list standard 9` with `10 permit 10.0.0.1` below it is `access-list 9 permit 10.0.0.1`.
    """
    return tuple(line for one in found if one.line and not one.is_comment for line in _as_lines(one))


def _as_lines(section: Section) -> tuple[str, ...]:
    head = _NUMBERED_LIST.fullmatch(section.line)
    if head is None or not section.body:
        return (section.line,)
    entries = (_SEQUENCE.sub("", " ".join(line.split())) for line in section.body)
    return tuple(f"access-list {head[1]} {entry}" for entry in entries)


def _told_apart(configuration: str) -> Iterator[tuple[str, bool]]:
    """Yield each line with whether it is text; a line that is empty and no text is left out."""
    end: re.Pattern[str] | None = None
    begun, head = "", ""
    for raw in configuration.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = raw.rstrip()
        if end is not None:
            yield line, True
            if end.search(line):
                end = None
            continue
        if not line:
            continue
        yield line, False
        head = head if line.startswith((" ", "\t", "!")) else line
        if (end := _end_of_text(line, head)) is not None:
            begun = line
    if end is not None:
        raise ConfigNotUnderstood(f"expected the end of the text that begins with {begun[:40]!r}, found none")


def _end_of_text(line: str, head: str) -> re.Pattern[str] | None:
    """Return what ends the text that a line begins; None where it begins none, or ends it itself.

    Args:
        line: The line.
        head: The global line that it belongs to.
    """
    if (shown := _TAKES_TEXT.search(line)) is not None:
        end = re.compile(re.escape(shown["delimiter"] or shown["at_end"]))
        return None if end.search(line, shown.end()) else end
    if (typed := _TYPED_BANNER.fullmatch(line)) is not None:
        end = re.compile(re.escape(typed["delimiter"]))
        return None if end.search(typed["rest"]) else end
    if _MACRO.fullmatch(line):
        return re.compile(r"^@$")
    has_blob = _CHAIN.match(head) is not None and _CERTIFICATE.fullmatch(line) is not None
    return re.compile(r"^\s*quit$") if has_blob or _KEY_STRING.fullmatch(line) else None
