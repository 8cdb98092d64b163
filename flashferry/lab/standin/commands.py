"""The exec commands and where each is allowed: `commands.toml`, `outputs.toml`, and the dialogues of some of them.

`reload`: a stack prints a line before it asks (recorded of Catalyst 9200 and 9300). With a second processor that is hot
the question is the one that unicon has for high availability; of an ASR 1000 it was never recorded.

`tclsh`: as much of it as netmiko's inline transfer, scrapli_cfg and loops over `ping` type. A command may go over
several lines, prompted for by ``+>``, until its braces, brackets and quotes are closed. `puts [open "flash:x" w+]
{text}` writes a file when it is closed, which netmiko takes to be at `tclquit`. Other words are exec commands.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import re
import tomllib
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashferry.lab.standin import clock
from flashferry.lab.standin.config_session import ConfigSession, may_configure
from flashferry.lab.standin.copy_download import SSH_SCHEMES, Copy, SshCopy, copy_from_server
from flashferry.lab.standin.copy_files import copy_local, copy_to_server
from flashferry.lab.standin.files import RUNNING, STARTUP, content, split_file
from flashferry.lab.standin.flash import NoSpaceError
from flashferry.lab.standin.grammar import Node, login_level, variants
from flashferry.lab.standin.hardware import as_restarted, fields, running_release, without_away
from flashferry.lab.standin.recording import is_engine
from flashferry.lab.standin.routing import vrf_names
from flashferry.lab.standin.server_url import DEFAULT_PORTS
from flashferry.lab.standin.terminal import Ended
from flashferry.lab.standin.vty import Command, Vty

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.platform import Platform
    from flashferry.lab.standin.vty import Vty

Arguments = tuple[str, ...]


async def nothing(_: Vty, __: Arguments) -> None:
    """A terminal setting that has no effect here: answered by the prompt alone."""


async def set_terminal(vty: Vty, arguments: Arguments) -> None:
    """`terminal [no] length|width|monitor`, `terminal history size N`."""
    is_on, number = vty.words[1] != "no", int(arguments[0]) if arguments else None
    match vty.words[2 - is_on]:
        case "length":
            vty.rows = 24 if number is None else number
        case "width":
            vty.columns = 80 if number is None else number
        case "history":
            vty.history.keep(number or 0)
        case _:
            vty.monitor(on=is_on)


async def enable(vty: Vty, arguments: Arguments) -> None:
    """`enable [level]`: three tries for the secret; without a configured one there is no way on a vty."""
    level = int(arguments[0]) if arguments else 15
    if vty.privilege >= level:
        vty.privilege = level
        return
    if vty.device.running.find("enable secret") is None:
        vty.terminal.write("% No password set\n")
        return
    right = 0
    for _try in range(3):
        vty.terminal.write("Password: ")
        secret, _ended = await vty.terminal.line(echo=False)
        right += vty.device.enable_fits(secret)
        if right > vty.device.faults.password_twice:
            vty.privilege = level
            return
    vty.terminal.write("% Bad secrets\n\n")


async def disable(vty: Vty, arguments: Arguments) -> None:
    """`disable [level]`."""
    vty.privilege = int(arguments[0]) if arguments else 1


async def leave(vty: Vty, _: Arguments) -> None:
    """`exit`, `logout`, `quit`."""
    vty.is_over = True


async def clear(vty: Vty, _: Arguments) -> None:
    """`clear ...`: a confirmation where IOS asks for one; of all that only the log is cleared here."""
    if vty.words[1] == "logging":
        if await vty.terminal.confirm("Clear logging buffer "):
            vty.device.log.clear()
    elif vty.words[1] == "counters":
        await vty.terminal.confirm('Clear "show interface" counters on all interfaces ')
    elif vty.words[1] in {"line", "tcp", "users"}:
        await vty.terminal.confirm("")
        vty.terminal.write(" [OK]\n")


async def debug(vty: Vty, _: Arguments) -> None:
    """`debug ...`: it is on, and nothing of it is ever logged."""
    vty.terminal.write(f"{' '.join(vty.words[1:]).upper()} debugging is on\n")


async def no_debug(vty: Vty, arguments: Arguments) -> None:
    """`undebug ...`."""
    is_all = arguments[0].lower().startswith("al")
    text = "All possible debugging has been turned off" if is_all else f"{arguments[0].upper()} debugging is off"
    vty.terminal.write(f"{text}\n")


async def no_client(vty: Vty, arguments: Arguments) -> None:
    """`telnet HOST`, `ssh HOST`: there is no client for a user; its call is refused."""
    host = next((word for word in arguments[0].split() if word[0].isdigit()), "")
    vty.terminal.write(f"Trying {host} ... \n" if host else "")
    vty.terminal.write("% Connection refused by remote host\n\n" if host else "% Bad IP address or host name\n")


async def login(vty: Vty, _: Arguments) -> None:
    """`login`: another user of this session."""
    user = await vty.terminal.ask("Username: ", "")
    vty.terminal.write("Password: ")
    word, _ended = await vty.terminal.line(echo=False)
    if vty.device.password_fits(user, word):
        vty.user, vty.privilege = user, login_level(vty.device.running, user, vty.number)
    else:
        vty.terminal.write("% Login invalid\n\n")


async def generate_key(vty: Vty, _: Arguments) -> None:
    """`crypto key generate`: the key is there already, for the session came by SSH."""
    name = f"{vty.device.hostname}.{vty.device.running.value('ip domain name') or 'local'}"
    vty.terminal.write(f"% You already have RSA keys defined named {name}.\n")
    await vty.terminal.ask("% Do you really want to replace them? [yes/no]: ", "no")


async def copy(vty: Vty, _: Arguments) -> None:
    """`copy [/verify|/noverify] SOURCE TARGET [vrf NAME]`; a name without a file system is on the default one."""
    words = list(vty.words[1:])
    verify = {"/verify": True, "/noverify": False}.get(words[0])
    source, target, *vrf = words if verify is None else words[1:]
    source, target = _NAMED.get(source, source), _NAMED.get(target, target)
    target = target if ":" in target else f"{vty.device.flash.prefix}{target}"
    if vrf and vrf[1] not in vrf_names(vty.device.running):
        vty.terminal.write(f"% VRF {vrf[1]} does not exist\n")
    elif target == RUNNING and not may_configure(vty):
        return
    elif _is_server(source):
        by = SshCopy if source.partition(":")[0].lower() in SSH_SCHEMES else Copy
        await copy_from_server(vty, source, target, by=by, vrf=vrf[1] if vrf else None, verify=verify)
    elif _is_server(target):
        await copy_to_server(vty, source, target, vrf=vrf[1] if vrf else None)
    else:
        await copy_local(vty, source, target, verify=verify)


_NAMED = {"running-config": RUNNING, "startup-config": STARTUP}


def _is_server(name: str) -> bool:
    """Return whether a name is that of a file on a server, rather than on the device."""
    return name.partition(":")[0].lower() in DEFAULT_PORTS


@functools.cache
def _tables(name: str) -> dict[str, dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


@functools.cache
def build_trees(platform: Platform) -> tuple[Node[Command], Node[Command]]:
    """Return the commands of user mode and of privileged mode of a platform."""
    user: Node[Command] = Node()
    privileged: Node[Command] = Node()
    for is_privileged, specification, command in _commands(platform):
        for variant in variants(specification):
            privileged.add(variant, command)
            if not is_privileged:
                user.add(variant, command)
    return user, privileged


def _commands(platform: Platform) -> Iterator[tuple[bool, str, Command]]:
    """Return the commands of a platform; the later ones replace those before.

    A device that is played from a recording knows what was recorded, and of the others those that the engine answers.
    """
    if platform.recording is not None:
        for is_user, specification, answer in platform.recording.commands():
            yield not is_user, specification, Command(show=functools.partial(_recorded, text=answer))
        yield from (each for each in _engine_commands(platform) if is_engine(each[1]))
    else:
        yield from _engine_commands(platform)


def _engine_commands(platform: Platform) -> Iterator[tuple[bool, str, Command]]:
    is_xe, is_switch = platform.family == "IOS-XE", bool(platform.cabled)
    has_platform = ("platform",) if "show platform" in platform.outputs else ()
    for table in ("all", "ios-xe" if is_xe else "ios", *has_platform, "switch" if is_switch else "router"):
        for specification, answer in _tables("outputs")[table].items():
            yield False, specification, Command(show=functools.partial(_answer, answer=answer))
    for table, is_there in (
        ("user", True), ("privileged", True), ("switch", is_switch), ("policer", "cpu_policer" in platform.texts),
        ("issu", "issu" in platform.texts), ("installing", platform.install is not None),
        ("configuring", not platform.is_controller_managed), ("controller", platform.is_controller_managed),
    ):  # fmt: skip
        for specification, name in _tables("commands")[table].items() if is_there else ():
            yield table != "user", specification, _command(name)
    for specification, text in platform.outputs.items():
        yield True, specification, Command(show=functools.partial(_fixed, text=text))


def _recorded(vty: Vty, _: Arguments, *, text: str) -> str:
    return as_restarted(vty.device, text)


def _command(name: str) -> Command:
    """Return what a function of a stand-in's module does, named ``module.function``; a text is printed as it stands."""
    if "\n" in name:
        return Command(run=functools.partial(_print, text=name))
    module, _, function = name.partition(".")
    found = getattr(importlib.import_module(f"flashferry.lab.standin.{module}"), function)
    return Command(run=found) if asyncio.iscoroutinefunction(found) else Command(show=found)


async def _print(vty: Vty, _: Arguments, *, text: str) -> None:
    vty.terminal.write(text)


def _answer(vty: Vty, arguments: Arguments, *, answer: str | list[str]) -> str:
    """Print what `outputs.toml` says, which may depend on a line of the configuration."""
    if isinstance(answer, str):
        return _fixed(vty, arguments, text=answer)
    line, present, absent = answer
    lines = [each.text for each in vty.device.running.lines()]
    lines += [child.text for each in vty.device.running.lines() for child in each.children]
    return _fixed(vty, arguments, text=present if any(each.startswith(line) for each in lines) else absent)


def _fixed(vty: Vty, _: Arguments, *, text: str) -> str:
    """Print what the platform's data file says, filled in."""
    return without_away(
        vty.device, running_release(vty.device, text.format(vty=vty, line=vty.number + 1, **fields(vty.device)))
    )


_OPEN = re.compile(r'puts (?:-nonewline )?\[\s*open "?([^"\s]+)"? (\w\+?)\s*\] (?:\{(.*)\}|"(.*)")', re.DOTALL)
_MOST_CHARS = 1_000_000


class _Shell:
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


_STACK = "Reload command is being issued on Active unit, this will reload the whole stack\n"
_WITH_STANDBY = "This will reload the active unit and force a switch of activity "


async def reload(vty: Vty, _: tuple[str, ...]) -> None:
    """`reload`: asks to save what was changed, and for a confirmation (Cisco command reference)."""
    device = vty.device
    if device.is_modified and not await _is_save_answered(vty):
        return
    if await vty.terminal.confirm(_question(vty)):
        device.syslog(
            f"%SYS-5-RELOAD: Reload requested by {vty.user} on vty{vty.number} ({vty.peer}). "
            "Reload Reason: Reload Command."
        )
        vty.is_over = True
        device.restart()


async def _is_save_answered(vty: Vty) -> bool:
    """Ask whether to save, and save; False where the answer is neither yes nor no."""
    answer = (await vty.terminal.ask("System configuration has been modified. Save? [yes/no]: ", "")).lower()
    if answer not in {"yes", "y", "no", "n"}:
        vty.terminal.write("% Please answer 'yes' or 'no'.\n")
        return False
    if answer.startswith("y"):
        vty.terminal.write("Building configuration...\n")
        vty.device.save(vty.user)
        vty.terminal.write("[OK]\n")
    return True


def _question(vty: Vty) -> str:
    platform = vty.device.platform
    if platform.install is not None and platform.install.is_stack:
        return f"{_STACK}Proceed with reload? "
    if "STANDBY HOT" in platform.outputs.get("show redundancy states", ""):
        vty.device.note_guess("reload: question with a second processor")
        return _WITH_STANDBY
    return "Proceed with reload? "


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """A reload that waits."""

    at: datetime
    by: str
    reason: str
    timer: asyncio.TimerHandle


_NONE_SCHEDULED = "No reload is scheduled.\n"


async def reload_in(vty: Vty, arguments: tuple[str, ...]) -> None:
    """`reload in [HH:]MM [REASON]`."""
    hours, _, minutes = arguments[0].rpartition(":")
    await _schedule(vty, timedelta(hours=int(hours or 0), minutes=int(minutes)), arguments[1:])


async def reload_at(vty: Vty, arguments: tuple[str, ...]) -> None:
    """`reload at HH:MM [REASON]`: today or tomorrow, whichever comes next."""
    now = vty.device.now()
    hours, minutes = map(int, arguments[0].split(":"))
    at = now.replace(hour=hours % 24, minute=minutes % 60, second=0, microsecond=0)
    await _schedule(vty, (at if at > now else at + timedelta(days=1)) - now, arguments[1:])


async def _schedule(vty: Vty, after: timedelta, reason: tuple[str, ...]) -> None:
    """Ask as `reload` does, and reload later; the texts are those of the Cisco command reference."""
    device = vty.device
    if device.is_modified and not await _is_save_answered(vty):
        return
    at, why = device.now() + after, reason[0] if reason else "Reload Command"
    vty.terminal.write(f"Reload scheduled for {_when(at)} (in {_span(after)}) by {vty.user} on vty{vty.number} "
                       f"({vty.peer})\nReload reason: {why}\n")  # fmt: skip
    if not await vty.terminal.confirm("Proceed with reload? "):
        return
    unschedule(device)
    seconds = after.total_seconds() * device.faults.seconds_per_minute / 60
    timer = asyncio.get_running_loop().call_later(seconds, device.restart, None, why)
    by = f"{vty.user} on vty{vty.number} ({vty.peer})"
    device.scheduled_reload = Scheduled(at=at, by=by, reason=why, timer=timer)
    device.syslog(f"%SYS-5-SCHEDULED_RELOAD: Reload requested for {_when(at)} at {_when(device.now())} by {vty.user} "
                  f"on vty{vty.number} ({vty.peer}). Reload Reason: {why}.")  # fmt: skip


def unschedule(device: Device) -> bool:
    """Take a reload that waits back; False where none does."""
    if device.scheduled_reload is None:
        return False
    device.scheduled_reload.timer.cancel()
    device.scheduled_reload = None
    return True


async def cancel(vty: Vty, _: tuple[str, ...]) -> None:
    """`reload cancel`."""
    if not unschedule(vty.device):
        vty.terminal.write("%No reload is scheduled.\n")
        return
    vty.terminal.write("\n\n***\n*** --- SHUTDOWN ABORTED ---\n***\n\n")
    vty.device.syslog(f"%SYS-5-SCHEDULED_RELOAD_CANCELLED: Scheduled reload cancelled at {_when(vty.device.now())}")


def show_reload(vty: Vty, _: tuple[str, ...]) -> str:
    """`show reload`."""
    waiting = vty.device.scheduled_reload
    if waiting is None:
        return _NONE_SCHEDULED
    left = _span(waiting.at - vty.device.now())
    return f"Reload scheduled for {_when(waiting.at)} (in {left}) by {waiting.by}\nReload reason: {waiting.reason}\n"


def _when(moment: datetime) -> str:
    return clock.stamp(moment)


def _span(after: timedelta) -> str:
    minutes = max(0, round(after.total_seconds() / 60))
    hours, minutes = divmod(minutes, 60)
    parts = [f"{hours} hour{'s' * (hours != 1)}"] if hours else []
    return " and ".join([*parts, f"{minutes} minute{'s' * (minutes != 1)}"])
