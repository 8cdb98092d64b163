"""The exec commands and where each is allowed: `commands.toml`, `outputs.toml`, and what they have in common."""

from __future__ import annotations

import asyncio
import functools
import importlib
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashferry.lab.standin import copy_files
from flashferry.lab.standin.config_session import may_configure
from flashferry.lab.standin.copy_download import Copy, copy_from_server
from flashferry.lab.standin.copy_files import RUNNING, STARTUP, copy_local
from flashferry.lab.standin.copy_ssh import SSH_SCHEMES, SshCopy
from flashferry.lab.standin.copy_upload import copy_to_server
from flashferry.lab.standin.grammar import Node, login_level, variants
from flashferry.lab.standin.hardware import fields, running_release, without_away
from flashferry.lab.standin.recording import is_engine
from flashferry.lab.standin.routing import vrf_names
from flashferry.lab.standin.server_url import DEFAULT_PORTS
from flashferry.lab.standin.vty import Command, Vty

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from flashferry.lab.standin.platform import Platform

Arguments = tuple[str, ...]


async def nothing(_: Vty, __: Arguments) -> None:
    """A terminal setting that has no effect here: answered by the prompt alone."""


async def length(vty: Vty, arguments: Arguments) -> None:
    """`terminal length N`."""
    vty.rows = int(arguments[0])


async def no_length(vty: Vty, _: Arguments) -> None:
    """`terminal no length`."""
    vty.rows = 24


async def width(vty: Vty, arguments: Arguments) -> None:
    """`terminal width N`."""
    vty.columns = int(arguments[0])


async def no_width(vty: Vty, _: Arguments) -> None:
    """`terminal no width`."""
    vty.columns = 80


async def history_size(vty: Vty, arguments: Arguments) -> None:
    """`terminal history size N`."""
    vty.history.keep(int(arguments[0]))


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


async def monitor(vty: Vty, _: Arguments) -> None:
    """`terminal monitor`."""
    vty.monitor(on=True)


async def no_monitor(vty: Vty, _: Arguments) -> None:
    """`terminal no monitor`."""
    vty.monitor(on=False)


async def write(vty: Vty, _: Arguments) -> None:
    """`write [memory]`."""
    await copy_files.write_memory(vty)


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


async def no_connections(vty: Vty, _: Arguments) -> None:
    """`where`, `resume`, `disconnect`: no call was made."""
    vty.terminal.write("% No connections open\n")


async def login(vty: Vty, _: Arguments) -> None:
    """`login`: another user of this session."""
    user = await vty.terminal.ask("Username: ", "")
    vty.terminal.write("Password: ")
    word, _ended = await vty.terminal.line(echo=False)
    if vty.device.password_fits(user, word):
        vty.user, vty.privilege = user, login_level(vty.device.running, user, vty.number)
    else:
        vty.terminal.write("% Login invalid\n\n")


async def no_lock(vty: Vty, _: Arguments) -> None:
    """`lock`: only where the line is `lockable`."""
    vty.terminal.write("% Locking not enabled on this line.\n\n")


async def generate_key(vty: Vty, _: Arguments) -> None:
    """`crypto key generate`: the key is there already, for the session came by SSH."""
    name = f"{vty.device.hostname}.{vty.device.running.value('ip domain name') or 'local'}"
    vty.terminal.write(f"% You already have RSA keys defined named {name}.\n")
    await vty.terminal.ask("% Do you really want to replace them? [yes/no]: ", "no")


async def help_text(vty: Vty, _: Arguments) -> None:
    """`help` (Cisco IOS Configuration Fundamentals)."""
    vty.terminal.write(
        "Help may be requested at any point in a command by entering\n"
        "a question mark '?'.  If nothing matches, the help list will\n"
        "be empty and you must backup until entering a '?' shows the\n"
        "available options.\n"
        "Two styles of help are provided:\n"
        "1. Full help is available when you are ready to enter a\n"
        "   command argument (e.g. 'show ?') and describes each possible\n"
        "   argument.\n"
        "2. Partial help is provided when an abbreviated argument is entered\n"
        "   and you want to know what arguments match the input\n"
        "   (e.g. 'show pr?'.)\n\n"
    )


async def _copy(
    vty: Vty, arguments: Arguments, *, source: str | None = None, target: str | None = None,
    verify: bool | None = None,
) -> None:  # fmt: skip
    """`copy`: what is not a keyword of the command is the next argument; a VRF comes last.

    A name without a file system is one on the default file system.
    """
    names = iter(arguments)
    source, target = source or next(names), target or next(names)
    target = target if ":" in target else f"{vty.device.flash.prefix}{target}"
    vrf = next(names, None)
    if vrf is not None and vrf not in vrf_names(vty.device.running):
        vty.terminal.write(f"% VRF {vrf} does not exist\n")
    elif target == RUNNING and not may_configure(vty):
        return
    elif _is_server(source):
        by = SshCopy if source.partition(":")[0].lower() in SSH_SCHEMES else Copy
        await copy_from_server(vty, source, target, by=by, vrf=vrf, verify=verify)
    elif _is_server(target):
        await copy_to_server(vty, source, target, vrf=vrf)
    else:
        await copy_local(vty, source, target, verify=verify)


def _is_server(name: str) -> bool:
    """Return whether a name is that of a file on a server, rather than on the device."""
    return name.partition(":")[0].lower() in DEFAULT_PORTS


def _copies() -> dict[str, Callable[[Vty, Arguments], Awaitable[None]]]:
    named = {"running-config": RUNNING, "startup-config": STARTUP}
    found: dict[str, Callable[[Vty, Arguments], Awaitable[None]]] = {}
    for form, requested in (("copy", None), ("copy /verify", True), ("copy /noverify", False)):
        action = functools.partial(_copy, verify=requested)
        found[f"{form} FS: FS:"] = found[f"{form} FS: FS: vrf WORD"] = action
    for word, full in named.items():
        found[f"copy {word} FS:"] = found[f"copy {word} FS: vrf WORD"] = functools.partial(_copy, source=full)
        found[f"copy {word} WORD"] = functools.partial(_copy, source=full)
        found[f"copy FS: {word}"] = found[f"copy FS: {word} vrf WORD"] = functools.partial(_copy, target=full)
    found["copy running-config startup-config"] = functools.partial(_copy, source=RUNNING, target=STARTUP)
    found["copy startup-config running-config"] = functools.partial(_copy, source=STARTUP, target=RUNNING)
    return found


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
    for specification, dialogue in _copies().items():
        yield True, specification, Command(run=dialogue)
    for specification, text in platform.outputs.items():
        yield True, specification, Command(show=functools.partial(_fixed, text=text))


def _recorded(_: Vty, __: Arguments, *, text: str) -> str:
    """Print what was recorded."""
    return text


def _command(name: str) -> Command:
    """Return what a function of a stand-in's module does, named ``module.function``."""
    module, _, function = name.partition(".")
    found = getattr(importlib.import_module(f"flashferry.lab.standin.{module}"), function)
    return Command(run=found) if asyncio.iscoroutinefunction(found) else Command(show=found)


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
    return without_away(vty.device, running_release(vty.device, text.format(**fields(vty.device))))
