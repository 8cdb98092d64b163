"""Parser of an IOS configuration: global commands, the lines below each, and embedded text. Pure.

Facts
-----
* A line in the first column is a global command; indented lines belong to the one above.
* A banner, a menu's title or a line's message has free text, also in the first column. It starts after a delimiter,
  which IOS always prints as `^C`, and ends at the next one, perhaps on the same line.
* `macro name X` is followed by the macro's commands in the first column, up to a line `@`.
* `macro auto execute EVENT {` is followed by a script in the first column, up to its closing `}`.
* The hexadecimal lines of a certificate, and of a bare `key-string`, end with `quit`. The startup configuration may
  name a file instead (`certificate self-signed 01 nvram:IOS-Self-Sig#1.cer`) and then has no such lines.
* Every complete configuration has `version`, `hostname` and, as its last line, `end`.
* `!` in the first column starts a comment; IOS writes such lines as separators and timestamps.
* A parser that took every line in the first column for a command would write a banner's text back as configuration.
* A release may have kinds of text that are unknown here. If they start and end like these (`{`, a delimiter), the lines
  between are doubtful; an end without a start means that text was parsed as configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from msgspec import Struct

_TAKES_TEXT = re.compile(
    r"(?:\bbanner(?: \S+)?|\btitle|\bprompt|\btext|\bpage|message(?: \S+)?|-banner(?: \S+)?) (?P<delimiter>\^C|\x03)"
    r"|(?<!\S)(?P<at_end>\^C|\x03)$"
)
"""Start of a text: `^C` after these words, or as the last word of a line. Elsewhere it may be part of a regular
expression (`| include ^Cisco`)."""

_TYPED_BANNER = re.compile(
    r"banner (?:motd|login|exec|incoming|slip-ppp|prompt-timeout|config-save|lcd) "
    r"(?P<delimiter>[^\sA-Za-z0-9^\x03])(?P<rest>.*)"
)
"""A banner with a delimiter as it was typed, in a file that was not printed by a device."""
_MACRO = re.compile(r"macro name \S+\s*")
_SCRIPT = re.compile(r"macro auto \S.*\{")
_DELIMITER = re.compile(r"(?:.*\s)?(?P<delimiter>[^\w\s!{}]|\^[A-Z])")
"""A line whose last or only word is a single punctuation character."""
_GLUED = re.compile(r"(?<!\S)(?:\^C|\x03)(?=\S)")
_QUOTES = re.compile(r"[|\"']|\bregex")
"""In a line with one of these `^C` starts a regular expression."""
_HAS_QUIT = re.compile(r"certificate|\bkey|crypto", re.IGNORECASE)
_LONGEST_END = len("quit")
_END_WORDS = frozenset({"}", "@", "quit", "^C", "\x03"})
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
    """Commands of a configuration cannot be distinguished from the text in it."""


class Section(Struct, frozen=True, kw_only=True):
    """A global line and the lines that belong to it.

    Attributes:
        line: The global line, without trailing spaces.
        body: Lines of its sub-modes and of its text, in order, without trailing spaces.
        is_doubtful: Whether it may be part of a text of unknown kind, and no command.
    """

    line: str
    body: tuple[str, ...] = ()
    is_doubtful: bool = False

    @property
    def is_comment(self) -> bool:
        """Return whether the global line is a comment."""
        return self.line.startswith("!")


def missing_of_whole(configuration: str) -> tuple[str, ...]:
    """Return which of `version`, `hostname` and a last line `end` are missing; empty for a complete configuration.

    Where a view, privilege level or AAA server restricts it, the output has about eleven lines, `end` included
    (ansible-collections/cisco.ios 709, oxidized 677 and 2604).
    """
    return tuple(word for word, shown in _WHOLE.items() if shown.search(configuration) is None)


def sections(configuration: str) -> tuple[Section, ...]:
    """Parse a configuration into sections, in order and with comments; empty lines outside of text are left out.

    `configuration` is the output of `show running-config` or `show startup-config`, or complete sections of it.

    Raises:
        ConfigNotUnderstood: A text in it has no end, or an end without a known start, so that it is unclear which
            lines are commands.
    """
    found: list[tuple[str, list[str], bool]] = []
    body: list[str] | None = None
    for line, part in _parts_of(configuration):
        if body is not None and (part is _Part.TEXT or line.startswith((" ", "\t"))):
            body.append(line)
            continue
        found.append((line, [], part is _Part.DOUBTFUL))
        # A separator does not end a section: indented lines after it belong to the command above.
        body = body if line.startswith("!") else found[-1][1]
    return tuple(Section(line=line, body=tuple(below), is_doubtful=doubtful) for line, below, doubtful in found)


Configuration = str | Sequence[Section]
"""Output of `show running-config` or `show startup-config`, or its parsed sections."""


def sections_of(configuration: Configuration) -> Sequence[Section]:
    """Return the sections of a configuration, given as text or as sections; see `sections`."""
    return sections(configuration) if isinstance(configuration, str) else configuration


def global_lines(configuration: str) -> tuple[str, ...]:
    """Return the global commands, without their bodies and doubtful lines. Raises `ConfigNotUnderstood`."""
    found = sections(configuration)
    return tuple(one.line for one in found if one.line and not one.is_comment and not one.is_doubtful)


def lines_of(found: Iterable[Section]) -> tuple[str, ...]:
    """Return the global commands of sections; a numbered standard access list becomes `access-list` lines.

    `ip access-list standard 9` with the line `10 permit 10.0.0.1` becomes `access-list 9 permit 10.0.0.1`.
    """
    return tuple(
        line for one in found if (head := one.line) and not head.startswith("!")
        for line in (_as_lines(one) if one.body else (head,))
    )  # fmt: skip


def _as_lines(section: Section) -> tuple[str, ...]:
    head = _NUMBERED_LIST.fullmatch(section.line)
    if head is None:
        return (section.line,)
    entries = (_SEQUENCE.sub("", " ".join(line.split())) for line in section.body)
    return tuple(f"access-list {head[1]} {entry}" for entry in entries)


class _Part(Enum):
    COMMAND = "command"
    TEXT = "text"
    DOUBTFUL = "doubtful"


def _parts_of(configuration: str) -> Iterator[tuple[str, _Part]]:
    """Yield each line with its kind; empty lines outside of text are left out."""
    lines = [raw.rstrip() for raw in configuration.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    short = {one for one in lines if len(one) <= _LONGEST_END} - {"", "!"}
    ends = frozenset(one for one in short if one == "}" or _is_delimiter(one))
    ends_of_text = ("{", *ends)
    at, head, head_at = 0, "", 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not line:
            continue
        if not line.startswith((" ", "\t", "!")):
            head, head_at = line, at - 1
        if line in short or line.endswith("quit"):
            _check_no_end(lines, head_at, at)
        yield line, _Part.COMMAND
        if not (line.endswith(ends_of_text) or _may_open_text(line)):
            continue
        part, after = _Part.TEXT, _after_text(lines, at, head)
        if after == at:
            part, after = _Part.DOUBTFUL, _after_doubt(lines, at, ends)
        for within in lines[at:after]:
            if within or part is _Part.TEXT:
                yield within, part
        at = after


def _may_open_text(line: str) -> bool:
    """Return whether a line contains a word that can start a text, which `_end_of_text` then decides."""
    # Fast path: nearly every line has none of these words, so no expression is tried.
    return (
        "^C" in line
        or "\x03" in line
        or "banner " in line
        or "macro name " in line
        or "certificate" in line
        or "key-string" in line
    )


def _check_no_end(lines: list[str], head_at: int, at: int) -> None:
    """Raise `ConfigNotUnderstood` if a line ends a text whose start is unknown: text was parsed as configuration.

    The line is the last one before `at`, its global command that at `head_at`.
    """
    line = lines[at - 1]
    word = line.strip()
    if head_at == at - 1:
        is_end = word in _END_WORDS or _is_delimiter(line)
    else:
        is_end = word == "quit" and not any(_HAS_QUIT.search(one) for one in lines[head_at:at])
    if is_end:
        raise ConfigNotUnderstood(f"expected a command, found {word!r}, the end of a text whose beginning is not known")


def _is_delimiter(line: str) -> bool:
    return (found := _DELIMITER.fullmatch(line)) is not None and found["delimiter"] == line


def _after_text(lines: list[str], at: int, head: str) -> int:
    """Return the index after the text that the line before `at` starts; `at` if it starts none."""
    opening = lines[at - 1]
    if opening.endswith("{") and _SCRIPT.fullmatch(opening):
        after = _after_braces(lines, at)
    elif (end := _end_of_text(opening, head)) is not None:
        after = next((number + 1 for number in range(at, len(lines)) if end.search(lines[number])), None)
    else:
        return at
    if after is None:
        raise ConfigNotUnderstood(f"expected the end of the text that begins with {opening[:40]!r}, found none")
    return after


def _after_braces(lines: list[str], at: int) -> int | None:
    """Return the index after the brace that closes the one before `at`; None if it is not closed."""
    depth = 1
    for number in range(at, len(lines)):
        depth += lines[number].count("{") - lines[number].count("}")
        if depth <= 0:
            return number + 1
    return None


def _after_doubt(lines: list[str], at: int, ends: frozenset[str]) -> int:
    """Return the index after a possible text of unknown kind; `at` if no line ends one.

    `ends` are the lines of the configuration that can end one.

    Raises:
        ConfigNotUnderstood: The text contains a `!`, which IOS writes between commands, so its end would be a guess.
    """
    opening = lines[at - 1]
    after: int | None = None
    if opening.endswith("{"):
        after = _after_braces(lines, at) if "}" in ends else None
        if after is None and not opening.startswith((" ", "\t")):
            # No brace closes it: it ends before the next `!`, which separates commands.
            after = next((number for number in range(at, len(lines)) if lines[number].startswith("!")), len(lines))
    elif ends and (found := _DELIMITER.fullmatch(opening)) is not None and found["delimiter"] in ends:
        after = next((number + 1 for number in range(at, len(lines)) if lines[number] == found["delimiter"]), None)
    elif opening.count("^C") + opening.count("\x03") == 1 and _GLUED.search(opening) and not _QUOTES.search(opening):
        after = _after_glued(lines, at)
    if after is None:
        return at
    if any(line.startswith("!") for line in lines[at:after]):
        raise ConfigNotUnderstood(f"what {opening[:40]!r} begins may be text, and commands may stand in it")
    return after


def _after_glued(lines: list[str], at: int) -> int | None:
    """Return the index after the next `^C`, if that ends a text and does not start one; else None."""
    for number in range(at, len(lines)):
        if "^C" in lines[number] or "\x03" in lines[number]:
            is_end = lines[number] in _END_WORDS or _TAKES_TEXT.search(lines[number]) is None
            return number + 1 if is_end and not _QUOTES.search(lines[number]) else None
    return None


def _end_of_text(line: str, head: str) -> re.Pattern[str] | None:
    """Return the pattern that ends the text started by a line below `head`; None if it starts none."""
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
