"""Parser of CLI output: echo of the command, its answer, the prompt; and refusals. Pure.

Facts
-----
* The prompt is `host#`, `host>` or `host(config)#` with no blank after it; a command is echoed, then CR LF, then its
  output, then the prompt (captures of scrapli_transfer_utils, netmiko).
* `prompt TEXT` in the configuration replaces that of EXEC mode, with blanks where it has any: `%h` is the host name,
  `%p` the `#` or `>`, `%n` the vty, `%s` a blank (Cisco IOS Configuration Fundamentals Command Reference).
  Configuration mode keeps the bare host name, cut to 20 characters or fewer. So the prompt of EXEC mode is the one that
  was learnt at login, to the letter, and that of configuration mode is known by `(config...)#` alone.
* A banner without a line end is on the same line as the first prompt.
* A command wider than the terminal (80 columns if `terminal width` is refused) scrolls: the line is redrawn from its
  middle, after `$`.
* A syslog line may follow the prompt, which is not printed again. If answers were delimited by the prompt only, every
  later answer would be assigned to the next command (public log of IOL 17.15). So an answer starts after its own echo.
* Output may have a line that looks like the prompt (a banner, a remark); it is one only if nothing follows it.
* With `logging synchronous` IOS redraws prompt and input line after a syslog line, also while a command is typed: a
  prompt before the complete echo, or right after a syslog line, is not yet the end.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from templates.rows import Refusal, first

_FIRST_PROMPT = re.compile(r"(?:^|\n)[ \t]*(?=\S*[A-Za-z0-9])([^\s#>]{1,63})([#>])[ \t\r]*\Z")
"""Prompt at the very end, with a letter or a digit: a banner's `*****#` is no prompt."""

_PROMPT_LINE = re.compile(r"(?:^|\n)[ \t]*(?=[^\n]*[A-Za-z0-9])([^\n]{0,250}[#>])[ \t\r]*\Z")
"""The last line as a prompt, spaces included; at login a banner may be on the same line."""

_CONFIG_PROMPT = r"[^\s#>()]{0,63}\(config[^\s#>]*\)#"

_LEAST_SCROLLED, _SCROLLED_TAIL = 8, 16
"""Least characters after the `$` of a scrolled line, and number of its last characters compared with the command."""

_QUESTION = re.compile(r"(?:--More--|\[[^\]\n]*\]\s?[?:]?|\?|(?:[Pp]assword|[Uu]sername|[Ll]ogin|filename):)[ \b]*\Z")

SHORT_ANSWER_CHARS = 500
"""Longest answer that may be a refusal or a question; a longer one is regular output, which may quote either."""

_CONFIRMATION = re.compile(r"[^\n]*\[(?:confirm|yes/no|y/n(?:/q)?|no|yes)\]")
"""A question that never occurs in other output of our commands, so it counts anywhere in an answer."""

_LONGEST_QUOTED = 80

_ECHO_HEAD, _ECHO_TAIL = 10, 12

_LONGEST_PROMPT = 300

_LEAST_OF_PROMPT = 3
"""Least characters of a prompt, with the line end before it."""

_SYSLOG = re.compile(r"(?:\s*|.*%[A-Z][A-Z0-9_]*-(?:[A-Z0-9_]+-)?[0-7]-[A-Z0-9_]+:.*)$")
"""`*Sep 13 09:24:43.803: %SYS-5-CONFIG_I: ...`, with or without stamp and sequence number; or an empty line."""

_ABOUT_A_FILE = re.compile(r"%%|%\s?Error", re.IGNORECASE)
"""`%Error opening flash:/x (No such file or directory)` is an answer about a file, `%% Warning:` an advice."""


class Answer(Struct, frozen=True, kw_only=True):
    """A device's answer to a command.

    Attributes:
        text: The output without echo and prompt.
        prompt: The prompt after it, for example `r1#` or `r1(config)#`.
        after: Output after the prompt; if not empty, the prompt may be a line that only looks like one.
    """

    text: str
    prompt: str
    after: str

    @property
    def is_whole(self) -> bool:
        """Return whether nothing follows the prompt."""
        return not self.after

    @property
    def only_syslog_follows(self) -> bool:
        """Return whether only syslog lines follow the prompt, so that it is one."""
        return all(_SYSLOG.match(line) for line in self.after.splitlines())

    @property
    def may_be_redrawn(self) -> bool:
        """Return whether a syslog line is right before the prompt, so that it may be a redrawn input line."""
        lines = self.text.splitlines()
        return bool(lines and lines[-1].strip() and _SYSLOG.match(lines[-1]))

    def stands(self, since_s: float, *, redrawn_s: float, settled_s: float) -> bool:
        """Return whether the answer is complete.

        Args:
            since_s: Seconds since the prompt came, regardless of syslog lines after it.
            redrawn_s: Time after which a prompt right after a syslog line counts.
            settled_s: Time after which a prompt followed by syslog lines counts.
        """
        if self.is_whole:
            return not self.may_be_redrawn or since_s >= redrawn_s
        return self.only_syslog_follows and since_s >= settled_s

    @property
    def is_configuring(self) -> bool:
        """Return whether the prompt is that of a configuration mode."""
        return is_config_prompt(self.prompt)


class AnswerReader:
    """Collects the output after a command, and finds its answer."""

    def __init__(self, command: str, prompt: re.Pattern[str]) -> None:
        self._command = command.strip()
        self._prompt = prompt
        self._text = ""
        self._start: int | None = None
        self._found: tuple[int, int] | None = None

    @property
    def prompt_end(self) -> int | None:
        """Return the index after the last prompt, by which a new prompt is recognised; None without one."""
        return self._found[1] if self._found else None

    @property
    def text(self) -> str:
        """Return all that was seen."""
        return self._text

    @property
    def size(self) -> int:
        """Return how many characters were seen."""
        return len(self._text)

    @property
    def least_left(self) -> int:
        """Return how many more characters the answer needs at least: its echo, a line end, a prompt. At least 1."""
        seen = len(self._text) - (len(self._command) if self._start is None else self._start)
        return max(_LEAST_OF_PROMPT - seen, 1)

    def take(self, received: str) -> Answer | None:
        """Add a piece of output; return the answer so far once a prompt was seen, else None."""
        # A new prompt can only be at the end, so a configuration of a megabyte is searched once, and not per piece.
        searched = max(len(self._text) - _LONGEST_PROMPT, 0)
        self._text += received
        if self._start is None:
            echo = self._text.find(self._command)
            end = echo + len(self._command) if echo >= 0 else _end_of_scrolled(self._text, self._command)
            if end is None:
                return None
            self._start = searched = end
        for match in self._prompt.finditer(self._text, max(searched, self._start)):
            self._found = match.span()
        return self._answer(self._start, *self._found) if self._found else None

    def _answer(self, start: int, prompt: int, end: int) -> Answer:
        shown = self._text[prompt:end].strip()
        body = self._text[start:prompt].replace("\r\n", "\n")
        above, again, below = body.partition(f"\n{shown}{self._command}\n")
        if again and all(_SYSLOG.match(line) for line in above.splitlines()):
            body = below
        return Answer(
            text=body.removeprefix("\n").removesuffix("\n"),
            prompt=shown,
            after=self._text[end:].strip(),
        )


class EchoGate:
    """Removes all output up to the end of a command's echo.

    The echo is recognised by its start and its end: a terminal may wrap it, scroll it (`$`) or hide the credentials in
    its middle, and a syslog line may interrupt it.
    """

    def __init__(self, command: str) -> None:
        flat = "".join(command.split())
        # An image's name is in the URL and in the target: the tail must be long enough to occur only at the end.
        tail = next(flat[-size:] for size in range(min(_ECHO_TAIL, len(flat)), len(flat) + 1) if _once(flat, size))
        head = flat[: min(_ECHO_HEAD, len(flat) - len(tail))]
        words = [r"[\s\x08$]*".join(map(re.escape, part)) for part in (head, tail) if part]
        self._echo = re.compile(".*?".join(words), re.DOTALL)
        self._chars = len(command)
        self._text = ""
        self._end: int | None = None

    @property
    def is_open(self) -> bool:
        """Return whether the complete echo was seen."""
        return self._end is not None

    @property
    def least_left(self) -> int:
        """Return how many characters of the echo are missing, where it is shown whole and alone; at least 1."""
        return max(self._chars - len(self._text), 1)

    @property
    def after(self) -> str:
        """Return the output after the echo; empty before the echo is complete."""
        return "" if self._end is None else self._text[self._end :]

    def has_echo(self, received: str) -> bool:
        """Add a piece of output; return whether the echo is complete."""
        self._text += received
        if (echo := self._echo.search(self._text)) is not None:
            self._end = echo.end()
        return self.is_open


def _once(text: str, size: int) -> bool:
    return text.find(text[-size:]) == len(text) - size


def first_prompt(text: str) -> str | None:
    """Return the prompt that a text ends with, for any host name, or None; syslog lines may follow it."""
    found = _at_end(_FIRST_PROMPT, text)
    return found[1] + found[2] if found is not None else None


def prompt_line(text: str) -> str | None:
    """Return the last line of a text if it may be a prompt, spaces included, else None.

    After a command's echo that line is the prompt. Before the first command a banner may be on the same line, and a
    line of a banner may look like a prompt.
    """
    found = _at_end(_PROMPT_LINE, text)
    return found[1] if found is not None else None


def _at_end(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    end = len(text)
    for line in reversed(text.splitlines(keepends=True)):
        # The prompt's line may only have ended if a syslog line follows it.
        part = text[:end] if end == len(text) else text[:end].rstrip("\r\n")
        if (found := pattern.search(part)) is not None:
            return found
        if not _SYSLOG.match(line.rstrip("\r\n")):
            return None
        end -= len(line)
    return None


def is_syslog(line: str) -> bool:
    """Return whether a line is a syslog message, or empty."""
    if "%" not in line:  # nearly every line of a configuration
        return not line.strip()
    return _SYSLOG.match(line.rstrip("\r\n")) is not None


def open_question(text: str) -> str | None:
    """Return the question at the end of a text, shortened for an error; None if there is none."""
    return last_line(text) if _QUESTION.search(text) else None


def confirmations(text: str) -> tuple[str, ...]:
    """Return the confirmation questions in a text, up to their brackets, whatever follows them."""
    return tuple(found[0].strip() for found in _CONFIRMATION.finditer(text))


def last_line(text: str) -> str:
    """Return the last line that is not empty, shortened and without control characters."""
    lines = [line.strip() for line in re.sub(r"[^\x20-\x7e\n]", "", text).split("\n") if line.strip()]
    return lines[-1][-_LONGEST_QUOTED:] if lines else ""


# Of thousands of devices under way: the regular expressions' own cache has 512 places for all of a process, and where
# each device takes a few of them, all are compiled anew for each command.
@lru_cache(maxsize=8192)
def exec_prompt(prompt: str) -> re.Pattern[str]:
    """Return a pattern that matches exactly the prompt of EXEC mode, alone on a line."""
    return re.compile(rf"^[ \t]*{re.escape(prompt)}[ \t\r]*$", re.MULTILINE)


@lru_cache(maxsize=8192)
def any_prompt(prompt: str) -> re.Pattern[str]:
    """Return a pattern that matches the prompt of EXEC mode or of a configuration mode, alone on a line."""
    return re.compile(rf"^[ \t]*(?:{re.escape(prompt)}|{_CONFIG_PROMPT})[ \t\r]*$", re.MULTILINE)


def is_config_prompt(prompt: str) -> bool:
    """Return whether a prompt is that of a configuration mode."""
    return re.fullmatch(_CONFIG_PROMPT, prompt) is not None


def _end_of_scrolled(text: str, command: str) -> int | None:
    """Return the index after the echo of a command whose line was scrolled, without its line end; None if none."""
    for line in re.finditer(r"[^\n]*\$[^\n]*\n", text):
        _, *parts = _drawn(line[0].rstrip("\r\n")).split("$")
        for first_part in range(len(parts)):
            shown = "$".join(parts[first_part:]).rstrip()
            if len(shown) >= _LEAST_SCROLLED and command.endswith(shown[-_SCROLLED_TAIL:]):
                return line.end() - 1
    return None


def _drawn(text: str) -> str:
    """Return a line as a terminal shows it after its backspaces and carriage returns."""
    shown: list[str] = []
    column = 0
    for char in text:
        if char in "\b\r":
            column = 0 if char == "\r" else max(column - 1, 0)
            continue
        shown[column : column + 1] = char
        column += 1
    return "".join(shown)


def refusal_in(answer: str) -> str | None:
    """Return the device's error message if a short answer is a refusal, else None.

    An answer in which every line starts with `%` is one as well, whatever its text: taken as output, it would mean that
    the device has none of what was requested, such as no `ip tcp` line.
    """
    if (refusal := first(Refusal, answer)) is not None:
        return refusal.text
    lines = [line.strip() for line in answer.splitlines() if line.strip(" ^\t") and not is_syslog(line)]
    if lines and all(line.startswith("%") and not _ABOUT_A_FILE.match(line) for line in lines):
        return lines[0][:200]
    return None


def refusals(transcript: str, lines: tuple[str, ...]) -> dict[str, str]:
    """Return the refused lines, each with the device's message between its echo and that of the next line.

    A refusal before any echo is assigned to the first line.
    """
    found: dict[str, str] = {}
    places = [transcript.find(line) for line in lines]
    for index, line in enumerate(lines):
        begin = 0 if index == 0 else places[index]
        if begin < 0:
            continue
        following = [place for place in places[index + 1 :] if place > begin]
        if (refusal := first(Refusal, transcript[begin : min(following, default=len(transcript))])) is not None:
            found[line] = refusal.text
    return found


_IOS = re.compile(r"(?im)^(?:cisco )?(?:ios(?!.?xr\b)|internetwork operating system)\b.*\bversion\b")

_BY_OUTPUT = (
    ("IOS-XR", re.compile(r"\bIOS[ -]XR\b", re.IGNORECASE)),
    ("NX-OS", re.compile(r"\bNX-?OS\b|Nexus Operating System", re.IGNORECASE)),
    ("ASA", re.compile(r"Adaptive Security Appliance|Firepower Threat Defense|Cisco PIX", re.IGNORECASE)),
    ("Junos", re.compile(r"\bJUNOS\b", re.IGNORECASE)),
    ("EOS", re.compile(r"^\s*Arista\b|\bArista Networks\b", re.IGNORECASE | re.MULTILINE)),
    ("VRP", re.compile(r"Versatile Routing Platform|\bVRP \(R\)|Error: ?Unrecognized command", re.IGNORECASE)),
    ("Linux", re.compile(r"command not found|\bshow: not found|^Linux \S+ \d", re.IGNORECASE | re.MULTILINE)),
)

_BY_PROMPT = (
    ("IOS-XR", re.compile(r"RP/\d+/\S+:\S+[#>]")),
    ("VRP", re.compile(r"<[\w.-]+>|\[[~*][\w.-]+\]")),
    ("Linux", re.compile(r"\[?\w[\w.-]*@[\w.-]+[: ]\S*\]?\s?[$#%]|[\w.-]*[$%]")),
    ("Junos", re.compile(r"\w[\w.-]*@[\w.-]+[>#%]")),
)


def other_system(output: str) -> str | None:
    """Return another operating system that `show version`, its refusal or a banner names; None for IOS or unknown."""
    if _IOS.search(output):
        return None
    return next((name for name, pattern in _BY_OUTPUT if pattern.search(output)), None)


def other_system_at(line: str) -> str | None:
    """Return another operating system by the form of its prompt, or None."""
    return next((name for name, pattern in _BY_PROMPT if pattern.fullmatch(line.strip())), None)


def not_ios(system: str) -> tuple[str, str]:
    """Return error message and hint about a device of another operating system."""
    return (
        f"this is not IOS: it seems to be {system}",
        "Take it out of the inventory, or leave it out with --host or --filter: flashferry stages Cisco IOS and IOS-XE",
    )
