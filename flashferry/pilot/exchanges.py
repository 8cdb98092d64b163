"""Sessions read back from transcripts: each command with the device's answer, as it was sent. Pure.

The entries of a transcript are those of `flashferry.devices.masked_stream.entry`: secrets are masked in them already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

_ENTRY = re.compile(r"(?P<stamp>\S+Z) (?P<mark>[<>-]) ?(?P<text>.*)")

_END = re.compile(r"(?:\\r|\\n)+\Z")

_PROMPT = re.compile(r".{1,120}[#>]\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A command, the device's answer, and the prompt that followed.

    Attributes:
        session: Name of the session that it is part of.
        command: What was sent, without its line end; empty for what the device printed before the first command.
        echo: The command as the device repeated it; empty where it did not.
        answer: What came up to the prompt, with line feeds as line ends; answers to questions are in it as typed.
        prompt: The prompt that followed, with the blanks after it; empty where none came.
        before: The prompt that the command was typed at.
    """

    session: str
    command: str
    echo: str = ""
    answer: str = ""
    prompt: str = ""
    before: str = ""

    @property
    def is_configuring(self) -> bool:
        """Return whether the command is a configuration line: typed in that mode, and no EXEC command."""
        return "(config" in self.before and not self.command.startswith("do ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line of a session.

    Attributes:
        stamp: When its first part was sent or came, as the transcript has it.
        mark: `>` sent, `<` came, `-` a remark of ours.
        text: The line without its end.
        end: Its end as the transcript writes it; empty for a prompt or a question.
        exchange: Which exchange it is part of, by its place in the session.
    """

    stamp: str
    mark: str
    text: str
    end: str
    exchange: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session as it went.

    Attributes:
        name: Its name, such as `check-1`.
        entries: Its lines.
        exchanges: What was said.
    """

    name: str
    entries: tuple[Entry, ...]
    exchanges: tuple[Exchange, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """Return remarks of ours in their order: how it was opened, the steps."""
        return tuple(one.text for one in self.entries if one.mark == "-")


def read_session(name: str, lines: Iterable[str]) -> Session:
    """Return the session of a transcript; lines that are no entries are left out.

    Args:
        name: What to call it.
        lines: The lines of the transcript's file.
    """
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
            # The end of a command waits where it may be the start of a secret, and comes after the answer.
            now, is_whole = replace(now, command=now.command + text), ended is not None
            sent = next(at for at in reversed(range(len(entries))) if entries[at].mark == ">")
            entries[sent] = replace(entries[sent], text=entries[sent].text + text, end=end)
            continue
        elif mark == ">" and _PROMPT.fullmatch(came.rpartition("\n")[2]):
            done.append(_ended(now, came))
            now, came = Exchange(session=name, command=text, before=done[-1].prompt), ""
            is_whole = ended is not None
        # An answer to a question stands where it was typed: the device's echo of it is its line end.
        last = entries[-1] if entries else None
        if last is not None and mark == "<" == last.mark and not last.end:
            entries[-1] = replace(last, text=last.text + text, end=end)
        else:
            entries.append(Entry(stamp=stamp, mark=mark, text=text, end=end, exchange=len(done)))
    return Session(name=name, entries=tuple(entries), exchanges=(*done, _ended(now, came)))


def _ended(one: Exchange, came: str) -> Exchange:
    """Return an exchange with what came: echo, answer and prompt apart."""
    last = came.rpartition("\n")[2]
    prompt = last if _PROMPT.fullmatch(last) else ""
    answer = came[: len(came) - len(prompt)]
    echo, end, rest = answer.partition("\n")
    if one.command and end and echo.strip() and _is_echo(echo, one.command):
        return replace(one, echo=echo, answer=rest, prompt=prompt)
    return replace(one, answer=answer, prompt=prompt)


def _is_echo(line: str, command: str) -> bool:
    """Return whether a line is the echo of a command, also one that a narrow terminal cut on its left."""
    return line == command or (line.startswith("$") and command.endswith(line[1:]))
