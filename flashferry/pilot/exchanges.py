"""Sessions parsed from transcripts: each command with the device's answer. Pure.

Entries are those of `flashferry.devices.masked_stream.entry`, with secrets masked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

_ENTRY = re.compile(r"(?P<stamp>\S+Z) (?P<mark>[<>-]) ?(?P<text>.*)")

_END = re.compile(r"(?:\\r|\\n)+\Z")

_PROMPT = re.compile(r".{1,120}[#>]\s*")


class Exchange(Struct, frozen=True, kw_only=True):
    """A command, the device's answer, and the next prompt.

    Attributes:
        session: Name of the session.
        command: The command without its line end; empty for output before the first command.
        echo: The command as echoed by the device, or empty.
        answer: Output up to the prompt with line feeds as line ends, including typed answers to questions.
        prompt: The next prompt with trailing spaces; empty if none came.
        before: The prompt at which the command was typed.
    """

    session: str
    command: str
    echo: str = ""
    answer: str = ""
    prompt: str = ""
    before: str = ""

    @property
    def is_configuring(self) -> bool:
        """Return whether the command is a configuration line, and not an EXEC command."""
        return "(config" in self.before and not self.command.startswith("do ")


class Entry(Struct, frozen=True, kw_only=True):
    """A line of a session.

    Attributes:
        stamp: Time of its first part, as in the transcript.
        mark: `>` sent, `<` received, `-` a note of flashferry.
        text: The line without its end.
        end: Its end as in the transcript; empty for a prompt or question.
        exchange: Index of its exchange in the session.
    """

    stamp: str
    mark: str
    text: str
    end: str
    exchange: int


class Session(Struct, frozen=True, kw_only=True):
    """A session.

    Attributes:
        name: Its name, such as `check-1`.
        entries: Its lines.
        exchanges: Its commands with their answers.
    """

    name: str
    entries: tuple[Entry, ...]
    exchanges: tuple[Exchange, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notes of flashferry in order: how the session was opened, its steps."""
        return tuple(one.text for one in self.entries if one.mark == "-")


def read_session(name: str, lines: Iterable[str]) -> Session:
    """Parse a transcript; lines that are not entries are ignored."""
    entries: list[Entry] = []
    done: list[Exchange] = []
    now, came, is_whole = Exchange(session=name, command=""), "", True
    for line in lines:
        if (found := _ENTRY.fullmatch(line.rstrip("\n"))) is None:
            continue
        stamp, mark, whole = found.groups()
        ended = _END.search(whole)
        text, end = (whole, "") if ended is None else (whole[: ended.start()], ended[0])
        if mark == "<":
            came += text if ended is None else f"{text}\n"
        elif mark == ">" and not is_whole:
            # The end of a command may be logged after the answer, if it could have started a secret.
            now, is_whole = replace(now, command=now.command + text), ended is not None
            sent = next(at for at in reversed(range(len(entries))) if entries[at].mark == ">")
            entries[sent] = replace(entries[sent], text=entries[sent].text + text, end=end)
            continue
        elif mark == ">" and _PROMPT.fullmatch(came.rpartition("\n")[2]):
            done.append(_ended(now, came))
            now, came = Exchange(session=name, command=text, before=done[-1].prompt), ""
            is_whole = ended is not None
        # A typed answer to a question ends with the line end that the device echoes.
        last = entries[-1] if entries else None
        if last is not None and mark == "<" == last.mark and not last.end:
            entries[-1] = replace(last, text=last.text + text, end=end)
        else:
            entries.append(Entry(stamp=stamp, mark=mark, text=text, end=end, exchange=len(done)))
    return Session(name=name, entries=tuple(entries), exchanges=(*done, _ended(now, came)))


def _ended(one: Exchange, came: str) -> Exchange:
    """Return an exchange with its output split into echo, answer and prompt."""
    last = came.rpartition("\n")[2]
    prompt = last if _PROMPT.fullmatch(last) else ""
    answer = came[: len(came) - len(prompt)]
    echo, end, rest = answer.partition("\n")
    if one.command and end and echo.strip() and _is_echo(echo, one.command):
        return replace(one, echo=echo, answer=rest, prompt=prompt)
    return replace(one, answer=answer, prompt=prompt)


def _is_echo(line: str, command: str) -> bool:
    """Return whether a line is the echo of a command, perhaps cut on its left by a narrow terminal."""
    return line == command or (line.startswith("$") and command.endswith(line[1:]))
