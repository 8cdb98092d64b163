"""A session's way through a device: greeting, EXEC, configuration mode, goodbye."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING

from tests.adversary.router import copying
from tests.adversary.router.configuration import is_section
from tests.adversary.router.knobs import CARET
from tests.adversary.router.shows import directory, show
from tests.adversary.router.terminal import HungUp, Terminal

if TYPE_CHECKING:
    from tests.adversary.router.device import Device
    from tests.adversary.router.world import World

ENABLE_TRIES = 3
_PAGE_LINES = 24
_GLOBAL = re.compile(
    r"(no )?(ip (tcp|ftp|route|ssh)|alias|hostname|interface|line|archive|banner|snmp-server|end|exit)\b"
)
_MODES = {"interface": "if", "line": "line", "archive": "archive", "vrf": "vrf", "router": "router"}


class Shell:
    """One session.

    Args:
        world: Where it happens.
        device: Who answers; a device that takes its place answers the next login.
        terminal: The line.
        user: Who logged in.
        is_privileged: Whether the login leads to `#`.
    """

    def __init__(self, world: World, device: Device, terminal: Terminal, *, user: str, is_privileged: bool) -> None:
        self.world = world
        self.device = device
        self.terminal = terminal
        self._user = user
        self._is_privileged = is_privileged
        self._section = ""
        self._configuring = 0
        self._is_over = False
        self._late: list[asyncio.Task[None]] = []

    @property
    def prompt(self) -> str:
        """Return what stands in front of a command."""
        if not self._configuring:
            return f"{self.device.hostname}{'#' if self._is_privileged else '>'}"
        mode = _MODES.get(self._section.split()[0], "sub") if self._section else ""
        return f"{self.device.hostname[:20]}(config{f'-{mode}' if mode else ''})#"

    async def run(self) -> None:
        """Talk until one of both is gone."""
        try:
            await self._greet()
            while not self._is_over:
                await self._turn()
        except HungUp:
            pass
        finally:
            self._forget_mode()
            for task in self._late:
                task.cancel()

    async def _greet(self) -> None:
        self.world.moment("login")
        banner = self.device.running.find("banner motd")
        if self.device.knobs.endless == "login":
            await self._go_on_for_ever("login")
        if banner is not None:
            await self.terminal.say("\n" + "".join(f"{line}\n" for line in banner.below if line.strip() != "^C"))
        await self.surprise("login")
        self.terminal.show("\n")

    async def _turn(self) -> None:
        line = await self.terminal.read_line(self.prompt)
        self.terminal.broken_off.clear()
        if line is None:
            self._leave_configuration()
            return
        if not line.strip():
            return
        self.world.command(line.strip())
        if self._configuring:
            await self._configure(line.strip())
        else:
            await self._execute(" ".join(line.split()))

    # EXEC.

    async def _execute(self, command: str) -> None:
        if command.startswith((*self.device.knobs.unknown, *self.device.platform.unknown)):
            if command.startswith(self.device.knobs.unknown):
                self.device.strike("unknown command")
            self.terminal.show(CARET)
            return
        if command.startswith("show"):
            await self.surprise("show")
        answer = await self._answer(command)
        await self.output(command, answer)
        self._say_late(command)

    async def _answer(self, command: str) -> str:
        word = command.split(maxsplit=1)[0]
        if word == "enable":
            return "" if self._is_privileged else await self._enable()
        if word in {"exit", "logout", "quit"}:
            return await self._exit()
        if not self._is_privileged and word not in {"show", "terminal"}:
            return CARET
        if word == "copy" and len(command.split()) >= 3:
            return await copying.copy(self, command)
        if word == "delete":
            return await copying.delete(self, command)
        if word == "verify":
            return await copying.verify(self, command)
        if command in {"configure terminal", "config terminal", "conf t"}:
            return await self._enter_configuration()
        return self._plain(command)

    def _plain(self, command: str) -> str:
        words = command.split()
        if words[0] == "terminal":
            return ""
        if words[0] == "dir":
            return directory(self.device, words[1] if len(words) > 1 else f"{self.device.platform.flash}:")
        if words[0] == "more":
            return next((one.text for one in self.device.archives if one.name == words[-1]), CARET)
        if words[:2] == ["show", "privilege"]:
            return f"Current privilege level is {15 if self._is_privileged else 1}\n"
        if command.startswith("write") or command == "reload":
            return self._written(command)
        if words[0] == "disable":
            self._is_privileged = False
            return ""
        return found if (found := show(self.device, command, self._user)) is not None else CARET

    def _written(self, command: str) -> str:
        self.device.written.append(command)
        if command.startswith("write"):
            self.device.startup = self.device.running.copied()
            return "Building configuration...\n[OK]\n"
        return ""

    async def _enable(self) -> str:
        await self.surprise("enable")
        for _ in range(ENABLE_TRIES):
            if self.device.knobs.enable_echoes:
                self.device.strike("secret echoed")
            asked = await self.terminal.ask("enable", "Password: ", echo=self.device.knobs.enable_echoes)
            if asked.answer is None:
                return ""
            if asked.answer == self.world.access.enable_secret:
                self._is_privileged = True
                return ""
        return "% Bad secrets\n\n"

    async def _exit(self) -> str:
        await self.surprise("exit")
        if self.device.knobs.never_hangs_up:
            self.device.strike("never hangs up")
            await self.terminal.gone()
        self._is_over = True
        return ""

    # Configuration mode.

    async def _enter_configuration(self) -> str:
        device = self.device
        self.world.moment(f"config:{device.sessions_configured + 1}")
        if device.locked_by:
            device.strike("configuration locked")
            return (
                f"Configuration mode locked exclusively by user '{device.locked_by}' process '543' from terminal '3'. "
                "Please try later.\n"
            )
        await self.surprise("configure")
        device.sessions_configured += 1
        self._configuring, self._section = device.sessions_configured, ""
        return "Enter configuration commands, one per line.  End with CNTL/Z.\n"

    async def _configure(self, line: str) -> None:
        if line.startswith("do "):
            await self._execute(line.removeprefix("do ").strip())
            return
        if line == "end":
            await self.surprise("end")
            self._leave_configuration()
            return
        if line == "exit":
            if self._section:
                self._section = ""
            else:
                self._leave_configuration()
            return
        await self.surprise("line")
        self.terminal.show(self._taken(line))
        self.world.moment(f"config:{self._configuring}:line")

    def _taken(self, line: str) -> str:
        if self._section and not _GLOBAL.match(line):
            return self.device.take_below(self._section, line)
        self._section = ""
        said = self.device.take_line(line, session=self._configuring)
        if not said and is_section(line):
            self._section = line
        return said

    def _leave_configuration(self) -> None:
        number = self._configuring
        if number:
            self._forget_mode()
            self.device.touch(self._user)
            self.world.moment(f"config:{number}:end")

    def _forget_mode(self) -> None:
        self._configuring, self._section = 0, ""

    # What the device is in the mood for.

    async def output(self, command: str, text: str) -> None:
        """Show a command's output."""
        knobs = self.device.knobs
        if knobs.endless and command.startswith(knobs.endless):
            await self._go_on_for_ever(command)
            return
        if knobs.stamped and command.startswith("show"):
            self.device.strike("load and time in front")
            text = (
                "Load for five secs: 4%/0%; one minute: 5%; five minutes: 5%\n"
                f"Time source is NTP, 14:07:31.216 UTC Sat Nov 21 2026\n{text}"
            )
        if knobs.lookalike and command.startswith(knobs.lookalike):
            self.device.strike("prompt inside output")
            head, newline, tail = text.partition("\n")
            text = f"{head}{newline}{self.device.hostname}#\n{tail}"
        if knobs.pages and command.startswith(("show", "dir")) and text.count("\n") > _PAGE_LINES:
            await self._by_pages(command, text)
            return
        await self.terminal.say(text, command=command)

    async def _by_pages(self, command: str, text: str) -> None:
        self.device.strike("pages anyway")
        lines = text.splitlines(keepends=True)
        for start in range(0, len(lines), _PAGE_LINES):
            if start:
                more = await self.terminal.ask("more", " --More-- ", by_key=True)
                if more.answer not in {"", " "}:
                    return
            await self.terminal.say("".join(lines[start : start + _PAGE_LINES]), command=command)

    async def _go_on_for_ever(self, command: str) -> None:
        self.device.strike("endless output")
        number = 0
        while not self.terminal.broken_off.is_set():
            number += 1
            self.terminal.show(f"  {command.split(maxsplit=1)[0]} {number:08}: 00000000 00000000 00000000 00000000\n")
            await asyncio.sleep(0.04)
        if self.terminal.is_gone:
            raise HungUp

    def _say_late(self, command: str) -> None:
        """Have something come behind the prompt that follows this command."""
        late = self.device.knobs.behind_prompt
        if late is None or not command.startswith(late[0]):
            return
        self.device.strike("output behind the prompt")

        async def say() -> None:
            await asyncio.sleep(late[2])
            with contextlib.suppress(HungUp):
                self.terminal.show(late[1].replace("{prompt}", self.prompt))

        self._late.append(asyncio.ensure_future(say()))

    async def surprise(self, where: str) -> None:
        """Ask a question that nobody expects here, if one is left to ask."""
        for surprise in self.device.knobs.surprises:
            if surprise.where != where or not self.world.may_surprise(surprise):
                continue
            self.device.strike(f"question at {where}")
            asked = await self.terminal.ask("surprise", surprise.text, is_known=False, by_key=surprise.by_key)
            if asked.answer is None:
                continue
            asked.effect = self._harm(surprise.harm)

    def _harm(self, harm: str) -> str:
        if harm == "erase":
            for flash in self.device.flashes:
                flash.erase()
            return "everything on flash is erased"
        if harm == "save":
            self._written("write memory (by a question)")
            return "the running configuration is saved"
        return ""
