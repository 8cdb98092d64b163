"""One session: modes, prompts, and the way from a line to its command."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.standin.config_apply import apply
from lab.standin.config_rules import GLOBAL_TREE, SECTION_TREES, ConfigAction
from lab.standin.editor import Ended
from lab.standin.filters import BadFilterError, filter_text, split_pipe
from lab.standin.grammar import Ambiguous, Incomplete, Invalid, Matched, Node, match, walk
from lab.standin.interfaces import canonical_interface
from lab.standin.terminal import DisconnectedError, Terminal

if TYPE_CHECKING:
    from lab.standin.device import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What an exec command does: `show` returns text that a filter may cut, `run` holds a dialogue."""

    show: Callable[[Vty, tuple[str, ...]], str] | None = None
    run: Callable[[Vty, tuple[str, ...]], Awaitable[None]] | None = None


class Vty:
    """A session on a vty line.

    Args:
        device: The device it is on.
        terminal: The user's end.
        number: The vty line.
        user: Who logged in.
        peer: The address they come from.
        trees: The exec commands of user and privileged mode.
    """

    def __init__(
        self, device: Device, terminal: Terminal, *, number: int, user: str, peer: str,
        trees: tuple[Node[Command], Node[Command]],
    ) -> None:  # fmt: skip
        self.device = device
        self.terminal = terminal
        self.number = number
        self.user = user
        self.peer = peer
        self.privilege = device.privilege_of(user)
        self.is_over = False
        self._trees = trees
        self._mode = ""
        self._section = ""

    @property
    def prompt(self) -> str:
        """The prompt of the present mode."""
        name = self.device.hostname
        if self._mode:
            return f"{name[: self.device.platform.config_prompt_chars]}({self._mode})#"
        return name + ("#" if self.privilege > 1 else ">")

    async def run(self) -> None:
        """Serve the session until the user leaves or is gone."""
        self.terminal.write("\n")
        try:
            start = ""
            while not self.is_over:
                self.terminal.write(self.prompt + start)
                line, ended = await self.terminal.line(start=start, takes_help=True)
                start = await self._take(line, ended)
        except DisconnectedError:
            pass
        finally:
            self._leave_configuration()
            self.monitor(on=False)

    def enter_configuration(self) -> None:
        """Begin configuration mode."""
        self._mode, self._section = "config", ""

    def monitor(self, *, on: bool) -> None:
        """Switch syslog lines on this session (`terminal monitor`)."""
        if self._on_syslog in self.device.monitors:
            self.device.monitors.remove(self._on_syslog)
        if on:
            self.device.monitors.append(self._on_syslog)

    def _on_syslog(self, line: str) -> None:
        self.terminal.write(f"\n{line}\n")

    async def _take(self, line: str, ended: Ended) -> str:
        """Act on a line; return what the next one begins with."""
        if ended is Ended.HELP:
            self._help(line)
            return line
        if ended is Ended.LOGOUT:
            self.is_over = True
        elif ended is Ended.CTRL_Z or ended is Ended.CANCEL:
            self._leave_configuration()
        elif self._mode:
            await self._configure(line)
        elif line.strip() and not line.lstrip().startswith("!"):
            await self._execute(line)
        return ""

    async def _execute(self, line: str, *, offset: int = 0) -> None:
        command, pipe = split_pipe(line)
        found = match(self._trees[self.privilege > 1], command)
        if not isinstance(found, Matched):
            self._reject(found, command, offset)
        elif found.action.show is not None:
            self._show(found.action.show(self, found.arguments), pipe, offset + len(command) + 2)
        elif found.action.run is not None:
            await found.action.run(self, found.arguments)

    def _show(self, text: str, pipe: str | None, offset: int) -> None:
        if pipe is not None:
            try:
                # The blank line that parts the header of some outputs goes through the filter like any other.
                text = filter_text(text, pipe)
            except BadFilterError as error:
                self._reject(Invalid(offset=error.offset), "", offset)
                return
        self.terminal.write(text)

    async def _configure(self, line: str) -> None:
        words = line.split()
        if not words or words[0].startswith("!"):
            return
        pattern = self.device.faults.refuse_config_pattern
        if words[0].lower() == "do" and len(words) > 1:
            start = line.lower().index("do") + 3
            await self._execute(line[start:], offset=start)
        elif words[0].lower() == "end":
            self._leave_configuration()
        elif words[0].lower() in {"exit", "exi", "ex"}:
            self._leave_section()
        elif pattern is not None and re.search(pattern, line):
            self.terminal.write("Command authorization failed.\n\n")
        else:
            self._configure_line(line)

    def _configure_line(self, line: str) -> None:
        tree = SECTION_TREES.get(self._mode)
        found: Matched[ConfigAction] | Invalid | Incomplete | Ambiguous
        found = match(tree, line) if tree is not None else Invalid(offset=0)
        if isinstance(found, Matched):
            apply(self.device.running, found, mode=self._mode, section=self._section)
            return
        # A line that fits no command of the section leaves it, if it is a global command.
        in_global = match(GLOBAL_TREE, line)
        if not isinstance(in_global, Matched):
            self._reject(in_global if tree is None or not isinstance(in_global, Invalid) else found, line, 0)
            return
        self._configure_globally(in_global, line)

    def _configure_globally(self, found: Matched[ConfigAction], line: str) -> None:
        if found.action.rule.specification == "interface WORD":
            name = canonical_interface(found.arguments[0], self.device.running)
            if name is None:
                self._reject(Invalid(offset=line.index(found.arguments[0])), line, 0)
                return
            words = (*found.words[:-1], name)
            found = Matched(action=found.action, arguments=(name,), words=words)
        section = found.action.rule.section if found.action.form == "set" else None
        key = found.action.key(found)
        if section is None or self.device.running.find(key) is None:
            apply(self.device.running, found)
        self._mode, self._section = section or "config", key if section else ""
        if found.words[0] == "ip" and found.words[1:3] == ("ssh", "window-size"):
            self.terminal.write(_SSH_WINDOW_NOTE)

    def _leave_section(self) -> None:
        if self._section:
            self._mode, self._section = "config", ""
        else:
            self._leave_configuration()

    def _leave_configuration(self) -> None:
        if not self._mode:
            return
        self._mode, self._section = "", ""
        self.device.touch(self.user)
        self.device.syslog(f"%SYS-5-CONFIG_I: Configured from console by {self.user} on vty{self.number} ({self.peer})")

    def _reject(self, found: Invalid | Incomplete | Ambiguous, command: str, offset: int) -> None:
        """Print the error as IOS does: the caret stands under the character in the echoed line."""
        if isinstance(found, Invalid):
            blanks = " " * (len(self.prompt) + offset + found.offset)
            self.terminal.write(f"{blanks}^\n% Invalid input detected at '^' marker.\n\n")
        elif isinstance(found, Incomplete):
            self.terminal.write("% Incomplete command.\n\n")
        else:
            self.terminal.write(f'% Ambiguous command:  "{command.strip()}"\n')

    def _help(self, line: str) -> None:
        """Answer a question mark: the words that may follow."""
        head, _, part = line.rpartition(" ")
        if self._mode:
            tree: Node[ConfigAction] | None = walk(SECTION_TREES.get(self._mode, GLOBAL_TREE), head)
            words = tree.helps() if tree is not None else []
        else:
            place = walk(self._trees[self.privilege > 1], head)
            words = place.helps() if place is not None else []
        fitting = [word for word in words if word.startswith(part.lower())]
        if part and fitting:
            self.terminal.write("  ".join(fitting) + "\n\n")
        elif fitting:
            self.terminal.write("".join(f"  {word}\n" for word in fitting) + "\n")
        else:
            self.terminal.write("% Unrecognized command\n")


_SSH_WINDOW_NOTE = (
    "\n%% Warning: This cli may have impact on CPU. So,use only for SCP\n"
    "Please configure ip tcp window-size<> with same value,for this CLI to work\n\n"
)
