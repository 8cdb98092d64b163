"""`tclsh`: as much of it as netmiko's inline transfer, scrapli_cfg and loops over `ping` type.

A command may go over several lines, which are prompted for by ``+>``, until its braces, brackets and quotes are closed.
`puts [open "flash:x" w+] {text}` writes a file when it is closed, which netmiko takes to be at `tclquit`. What is no
word of Tcl is an exec command.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flashferry.lab.standin.config_session import ConfigSession, may_configure
from flashferry.lab.standin.flash import NoSpaceError
from flashferry.lab.standin.show_files import content, split_file
from flashferry.lab.standin.terminal import Ended

if TYPE_CHECKING:
    from flashferry.lab.standin.vty import Vty

Arguments = tuple[str, ...]
_OPEN = re.compile(r'puts (?:-nonewline )?\[\s*open "?([^"\s]+)"? (\w\+?)\s*\] (?:\{(.*)\}|"(.*)")', re.DOTALL)
_MOST_CHARS = 1_000_000


class _Shell:
    """One user's Tcl shell."""

    def __init__(self, vty: Vty) -> None:
        self._vty = vty
        self._values: dict[str, str] = {}

    async def run(self, command: str) -> None:
        """Evaluate one command, which is whole."""
        command = re.sub(r"\$\{?(\w+)\}?", lambda found: self._values.get(found[1], found[0]), command)
        write, loop = _OPEN.fullmatch(command), re.fullmatch(r"foreach (\w+) \{(.*?)\} \{(.*)\}", command, re.DOTALL)
        if write:
            self._write(write[1], write[2], next(text for text in write.groups()[2:] if text is not None))
        elif loop:
            for value in loop[2].split():
                self._values[loop[1]] = value
                for line in filter(str.strip, loop[3].splitlines()):
                    await self.run(line.strip())
        elif found := re.fullmatch(r"set (\w+) (?:\{(.*)\}|\"(.*)\"|(\S+))", command, re.DOTALL):
            self._values[found[1]] = next(text for text in found.groups()[1:] if text is not None)
            self._vty.terminal.write(f"{self._values[found[1]]}\n")
        elif found := re.fullmatch(r"puts (?:-nonewline )?(?:\{(.*)\}|\"(.*)\"|(\S+))", command, re.DOTALL):
            self._vty.terminal.write(next(text for text in found.groups() if text is not None) + "\n")
        elif found := re.fullmatch(r"(?:puts )?\[?exec (?:\{(.*?)\}|\"(.*?)\"|(.*?))\]?", command, re.DOTALL):
            await self._vty.execute(next(text for text in found.groups() if text is not None))
        elif command.startswith("ios_config "):
            self._configure(re.findall(r'"([^"]*)"|\{([^}]*)\}', command))
        else:
            await self._vty.execute(command)

    def _write(self, file: str, mode: str, text: str) -> None:
        prefix, name = split_file(file)
        flash = self._vty.device.file_system(prefix)
        if flash is None or not name:
            self._vty.terminal.write(f'couldn\'t open "{file}": no such file or directory\n')
            return
        before = (content(self._vty, file) or b"") if mode.startswith("a") else b""
        try:
            flash.write(name, before + text.encode("latin-1", "replace") + b"\n")
        except NoSpaceError:
            self._vty.terminal.write(f'error writing "{file}": no space left on device\n')

    def _configure(self, lines: list[tuple[str, str]]) -> None:
        if not may_configure(self._vty):
            return
        session = ConfigSession(self._vty.device)
        for line in (first or second for first, second in lines):
            if not isinstance(session.take(line), str):
                self._vty.terminal.write(f"{line}\n ^\n% Invalid input detected at '^' marker.\n\n")
        self._vty.device.touch(self._vty.user)


def is_whole(text: str) -> bool:
    """Return whether nothing is open in a command: braces, brackets, and quotes outside of braces."""
    braces = brackets = 0
    in_quotes = False
    for key in text:
        braces += (key == "{") - (key == "}")
        brackets += (key == "[") - (key == "]")
        if key == '"' and not braces:
            in_quotes = not in_quotes
    return braces <= 0 and brackets <= 0 and not in_quotes


async def tclsh(vty: Vty, _: Arguments) -> None:
    """`tclsh`: commands until `tclquit` or `exit`."""
    shell, held = _Shell(vty), ""
    while True:
        vty.terminal.write("+>" if held else f"{vty.device.hostname}(tcl)#")
        line, ended = await vty.terminal.line()
        if ended in {Ended.CANCEL, Ended.CTRL_Z, Ended.LOGOUT}:
            return
        held = f"{held}\n{line}" if held else line
        if not is_whole(held) and len(held) < _MOST_CHARS:
            continue
        command, held = held, ""
        if command.strip() in {"tclquit", "exit", "quit"}:
            return
        if command.strip():
            await shell.run(command.strip("\n"))


async def tclsh_file(vty: Vty, arguments: Arguments) -> None:
    """`tclsh FS:file`: the commands of a file."""
    held = content(vty, arguments[0])
    if held is None:
        vty.terminal.write(f"%Error opening {arguments[0]} (No such file or directory)\n")
        return
    shell, command = _Shell(vty), ""
    for line in held.decode("latin-1").splitlines():
        command = f"{command}\n{line}" if command else line
        if is_whole(command):
            if command.strip():
                await shell.run(command)
            command = ""
