"""A session on a vty line, and the output filters after a pipe (IOS "Show Command Output Filtering")."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flashferry.lab.standin.config_rules import tree_of
from flashferry.lab.standin.config_session import ConfigSession, release
from flashferry.lab.standin.configuration import banner_text, canonical_interface
from flashferry.lab.standin.faults import hold
from flashferry.lab.standin.flash import NoSpaceError
from flashferry.lab.standin.grammar import (
    AUTHORIZATION_FAILED,
    Ambiguous,
    Incomplete,
    Invalid,
    Matched,
    Node,
    allows,
    exec_timeout_s,
    is_denied,
    login_level,
    match,
    refusal,
    walk,
)
from flashferry.lab.standin.terminal import DisconnectedError, Ended, History, Terminal, line_columns, page
from flashferry.lab.standin.texts_data import help_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashferry.lab.standin.configuration import Configuration
    from flashferry.lab.standin.device import Device

_NAMES = ("begin", "count", "exclude", "include", "section")
_INTO_FILES = ("redirect", "append", "tee")


class BadFilterError(ValueError):
    """The filter is not one of ours or its expression is not valid; ``offset`` counts from the pipe."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


def split_pipe(line: str) -> tuple[str, str | None]:
    """Return command and filter; the first pipe with a blank before it parts them."""
    command, pipe, rest = line.partition(" |")
    return command, rest if pipe else None


def filter_text(text: str, specification: str) -> str:
    """Apply a filter such as ``include ^ip tcp`` to an output. Raises BadFilterError: it is none."""
    name, _, expression = specification.strip().partition(" ")
    candidates = [full for full in _NAMES if name and full.startswith(name.lower())]
    if not candidates or not expression:
        raise BadFilterError(1 + len(specification) - len(specification.lstrip()))
    try:
        pattern = re.compile(expression)
    except re.error as error:
        raise BadFilterError(1 + specification.index(expression)) from error
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    fitting = [line for line in lines if pattern.search(line)]
    match candidates[0]:
        case "begin":
            kept = lines[lines.index(fitting[0]) :] if fitting else []
        case "count":
            kept = [f"Number of lines which match regexp = {len(fitting)}"]
        case "exclude":
            kept = [line for line in lines if not pattern.search(line)]
        case "section":
            kept = _section(lines, pattern)
        case _:
            kept = fitting
    return "".join(f"{line}\n" for line in kept)


def _section(lines: list[str], pattern: re.Pattern[str]) -> list[str]:
    """Keep each matching line with the lines indented below it."""
    kept: list[str] = []
    depth: int | None = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if depth is not None and indent > depth and line.strip():
            kept.append(line)
            continue
        depth = indent if pattern.search(line) else None
        if depth is not None:
            kept.append(line)
    return kept


_SYSLOG_DELAY_S = 0.02
_NOTED_COMMANDS = ("reload", "install", "write")
"""First words of commands that restart, install or save: the lab counts how often a device was given them."""

_LOAD_HEADER = "Load for five secs: 4%/0%; one minute: 6%; five minutes: 5%\nTime source is NTP, {clock}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What an exec command does: `show` returns text that a filter may cut, `run` holds a dialogue."""

    show: Callable[[Vty, tuple[str, ...]], str] | None = None
    run: Callable[[Vty, tuple[str, ...]], Awaitable[None]] | None = None


class Vty:
    """A session on a vty line, with the exec commands of user and privileged mode.

    `rows` is 0 for an unknown height.
    """

    def __init__(
        self, device: Device, terminal: Terminal, *, number: int, user: str, peer: str,
        trees: tuple[Node[Command], Node[Command]], rows: int = 24,
    ) -> None:  # fmt: skip
        self.device = device
        self.terminal = terminal
        self.number = number
        self.user = user
        self.peer = peer
        self.rows = rows
        self.columns = 80
        self.history = History()
        self.working_directory = ""
        self.words: tuple[str, ...] = ()
        self.privilege = login_level(device.running, user, number)
        self.is_over = False
        self._trees = trees
        # The login of the device's world is whom its AAA server knows; other users have its full leave.
        self._denied = device.settings.refused_commands if user == device.settings.username else ()
        self._session: ConfigSession | None = None

    @property
    def prompt(self) -> str:
        """The prompt of the present mode; a `prompt` line concerns EXEC mode alone (Cisco command reference)."""
        name = self.device.hostname
        if self._session is not None:
            return f"{name[: self.device.platform.config_prompt_chars]}({self._session.mode})#"
        shown = {"h": name, "p": "#" if self.privilege > 1 else ">", "n": str(self.number), "s": " ", "%": "%"}
        text = self.device.running.value("prompt") or "%h%p"
        return re.sub(r"%(.)", lambda found: shown.get(found[1], ""), text)

    async def run(self) -> None:
        """Serve the session until the user leaves, is idle for too long, or is gone."""
        self._greet()
        try:
            start = ""
            while not self.is_over:
                await asyncio.sleep(self.device.faults.prompt_delay_s)
                prompt = "" if self._in_banner else self.prompt
                self.terminal.write(prompt)
                self.terminal.garbles = self.device.faults.garble_echo
                self.terminal.idle_s = exec_timeout_s(self.device.running, self.number)
                line, ended = await self.terminal.line(
                    start=start, takes_help=not self._in_banner, history=tuple(self.history.lines),
                    columns=line_columns(self.columns, prompt),
                )  # fmt: skip
                start = await self._take(line, ended)
        except DisconnectedError:
            pass
        finally:
            self._leave_configuration()
            self.monitor(on=False)

    def enter_configuration(self, target: Configuration | None = None) -> None:
        """Begin configuration mode, on the running configuration or on a copy that is committed later."""
        self._session = ConfigSession(self.device, target, self._denied)

    def monitor(self, *, on: bool) -> None:
        """Switch syslog lines on this session (`terminal monitor`)."""
        if self._on_syslog in self.device.monitors:
            self.device.monitors.remove(self._on_syslog)
        if on:
            self.device.monitors.append(self._on_syslog)

    @property
    def _in_banner(self) -> bool:
        return self._session is not None and self._session.in_banner

    def _greet(self) -> None:
        """Show what stands before the first prompt; the login banner came with the SSH authentication."""
        running = self.device.running
        texts = [banner_text(getattr(running.find(f"banner {kind}"), "text", None)) for kind in ("motd", "exec")]
        banners = "".join(f"{text.strip(chr(10))}\n\n" for text in texts if text)
        self.terminal.write("\n" + (banners.rstrip("\n") if self.device.faults.glued_banner else banners))

    def _on_syslog(self, line: str) -> None:
        """Show a syslog line; it comes after the prompt that follows, and no new prompt is drawn (public logs)."""
        asyncio.get_running_loop().call_later(_SYSLOG_DELAY_S, self.terminal.write, f"\n{line}\n")

    async def _take(self, line: str, ended: Ended) -> str:
        """Act on a line; return what the next one begins with."""
        self.device.archive.note_key(self.user)
        if self._is_held(line):
            await hold(self.device, line.strip(), lambda: self._is_held(line) and not self.terminal.closed.is_set())
            if self.terminal.closed.is_set():
                raise DisconnectedError
        if ended is Ended.HELP:
            self._help(line)
            return line
        if ended in {Ended.COMPLETE, Ended.REDRAW}:
            return self._completed(line) if ended is Ended.COMPLETE else line
        if ended is Ended.LOGOUT:
            self.is_over = True
            return ""
        self.history.add(line)
        if ended is Ended.CANCEL:
            self._leave_configuration()
        elif self._session is not None:
            await self._configure(self._session, line)
            if ended is Ended.CTRL_Z:  # what was typed before it is done first (Cisco IOS Configuration Fundamentals)
                self._leave_configuration()
        elif line.strip() and not line.lstrip().startswith("!") and ended is Ended.ENTER:
            await self.execute(line)
        return ""

    def _completed(self, line: str) -> str:
        """Return a line with its last word written out, where it is short for one keyword alone."""
        head, part, fitting = self._fitting(line)
        return f"{head} {fitting[0]} ".lstrip() if len(fitting) == 1 and part else line

    def _fitting(self, line: str) -> tuple[str, str, list[str]]:
        """Return a line without its last word, that word, and what it may be short for."""
        head, _, part = line.rpartition(" ")
        place = self._place(head)
        return head, part, [word for word in (place.helps() if place else ()) if word.startswith(part.lower())]

    def _place(self, head: str) -> Node[Any] | None:
        if self._session is None:
            return walk(self._trees[self.privilege > 1], head)
        if head.lower().split()[:1] == ["do"]:
            return walk(self._trees[self.privilege > 1], head.lstrip()[2:])
        place = walk(self._session.tree, head)
        return place if place is not None else walk(tree_of("config"), head)

    def _is_held(self, line: str) -> bool:
        pattern = self.device.faults.hold_command_pattern
        return pattern is not None and re.search(pattern, line) is not None

    async def execute(self, line: str, *, offset: int = 0) -> None:
        """Do an exec command; ``offset`` is where it begins in the line that was typed."""
        pattern = self.device.faults.refuse_exec_pattern
        if pattern is not None and re.search(pattern, line):
            self.terminal.write(AUTHORIZATION_FAILED)
            return
        recording = self.device.platform.recording
        if recording is not None and (text := recording.fixed(line, is_user=self.privilege <= 1)) is not None:
            await page(self.terminal, text, self.rows)
            return
        command, pipe = split_pipe(self._unaliased(line))
        found = self._find(command)
        if not isinstance(found, Matched):
            self.terminal.write(refusal(found, command, column=len(self.prompt) + offset))
        elif is_denied(found.text, self._denied):
            self.terminal.write(AUTHORIZATION_FAILED)
        elif found.action.show is not None:
            self.words = found.words
            await self._show(found.action.show(self, found.arguments), pipe, offset + len(command) + 2)
        elif found.action.run is not None:
            self.words = found.words
            if found.text.split()[0] in _NOTED_COMMANDS:
                self.device.happened.append(f"given: {found.text}")
            await found.action.run(self, found.arguments)

    def text_of(self, command: str) -> str:
        """Return what a `show` command prints; nothing where this device does not know it."""
        found = self._find(command)
        if not isinstance(found, Matched) or found.action.show is None:
            return ""
        return found.action.show(self, found.arguments)

    def _unaliased(self, line: str) -> str:
        """Return a line whose first word is an alias of the configuration, with what it stands for."""
        word, _, rest = line.strip().partition(" ")
        text = self.device.running.value(f"alias exec {word}") if word else None
        return f"{text} {rest}".rstrip() if text else line

    def _find(self, command: str) -> Matched[Command] | Invalid | Incomplete | Ambiguous:
        """Match a command that this session may use; names of file systems and interfaces must be the device's."""
        found = match(self._trees[self.privilege > 1], command)
        if not isinstance(found, Matched):
            return found
        if 1 < self.privilege < 15 and not allows(self.device.running, self.privilege, found, self._trees[0]):
            return Invalid(offset=len(command) - len(command.lstrip()))
        foreign = [at for prefix, at in found.file_systems if not self.device.knows_prefix(prefix)]
        running = self.device.running
        foreign += [at for name, at in found.interfaces if canonical_interface(name, running) is None]
        foreign += _vrf_of_http(found, command)
        return Invalid(offset=foreign[0]) if foreign else found

    async def _show(self, text: str, pipe: str | None, offset: int) -> None:
        if self.device.faults.load_header:
            text = _LOAD_HEADER.format(clock=self.device.clock_line().lstrip("*")) + text
        if pipe is not None and await self._into_file(text, pipe):
            return
        if pipe is not None:
            try:
                # The blank line that parts the header of some outputs goes through the filter like any other.
                text = filter_text(text, pipe)
            except BadFilterError as error:
                column = len(self.prompt) + offset
                self.terminal.write(refusal(Invalid(offset=error.offset), "", column=column))
                return
        await page(self.terminal, text, self.rows)

    async def _into_file(self, text: str, pipe: str) -> bool:
        """Do `redirect`, `append` and `tee`; False where the filter is none of them, or names no place to write to."""
        name, _, rest = pipe.strip().partition(" ")
        kind = next((each for each in _INTO_FILES if len(name) > 0 and each.startswith(name.lower())), "")
        file = rest.split()[-1] if rest.split() else ""
        prefix, colon, path = file.partition(":")
        flash = self.device.file_system(prefix) if colon else None
        if not kind or flash is None or not path.strip("/"):
            return False
        path = path.lstrip("/")
        appends = kind == "append" or "/append" in rest.split()[:-1]
        entry = flash.find(path) if appends else None
        try:
            flash.write(path, (entry.path.read_bytes() if entry else b"") + text.encode("latin-1", "replace"))
        except NoSpaceError:
            self.terminal.write(f"%Error writing {file} (No space left on device)\n")
        if kind == "tee":
            await page(self.terminal, text, self.rows)
        return True

    async def _configure(self, session: ConfigSession, line: str) -> None:
        words = line.lower().split()
        if session.in_banner:
            session.take(line)
        elif not words or words[0].startswith("!"):
            return
        elif words[0] == "do" and len(words) > 1:
            start = line.lower().index("do") + 3
            await self.execute(line[start:], offset=start)
        elif words[0] == "commit" and session.target is not self.device.running:
            self._commit(session)
        elif words[0] == "end":
            self._leave_configuration()
        elif words[0] in {"exit", "exi", "ex"}:
            if not session.leave_section():
                self._leave_configuration()
        elif (recording := self.device.platform.recording) is not None and (refused := recording.refused_line(line)):
            self.terminal.write(refused)
        else:
            column = len(self.prompt)
            answer = session.take(line)
            self.terminal.write(answer if isinstance(answer, str) else refusal(answer, line, column=column))

    def _commit(self, session: ConfigSession) -> None:
        """`commit` of a device in controller mode."""
        self.device.running = session.target
        self.enter_configuration(session.target.copy())
        self.terminal.write("Commit complete.\n")

    def _leave_configuration(self) -> None:
        if self._session is None:
            return
        self._session = None
        release(self)
        self.device.touch(self.user)
        self.device.syslog(f"%SYS-5-CONFIG_I: Configured from console by {self.user} on vty{self.number} ({self.peer})")

    def _help(self, line: str) -> None:
        """Answer a question mark: the words that may follow."""
        head, part, fitting = self._fitting(line)
        if part and fitting:
            self.terminal.write("  ".join(fitting) + "\n\n")
        elif fitting:
            if not head.strip():
                self.terminal.write("Configure commands:\n" if self._session is not None else "Exec commands:\n")
            self.terminal.write(help_lines(fitting, head.split()[-1] if head.split() else "") + "\n")
        else:
            self.terminal.write("% Unrecognized command\n")


def _vrf_of_http(found: Matched[Command], command: str) -> list[int]:
    """Return where `copy http:` names a VRF: it has no such keyword, its source-interface line decides (pyntc)."""
    schemes = {prefix.lower() for prefix, _ in found.file_systems}
    if found.words[-2:-1] != ("vrf",) or not schemes & {"http", "https"}:
        return []
    return [len(command.rstrip().rsplit(None, 2)[0]) + 1]
