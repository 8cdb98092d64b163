"""The exec commands and where each is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.standin import show, show_files
from lab.standin.copy_ftp import copy_ftp
from lab.standin.grammar import Node
from lab.standin.vty import Command, Vty

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Arguments = tuple[str, ...]


async def _nothing(_: Vty, __: Arguments) -> None:
    """A terminal setting that has no effect here: answered by the prompt alone."""


async def _enable(vty: Vty, _: Arguments) -> None:
    """`enable`: three tries for the secret; without a configured one there is no way on a vty."""
    if vty.privilege > 1:
        return
    if vty.device.running.find("enable secret") is None:
        vty.terminal.write("% No password set\n")
        return
    for _try in range(3):
        vty.terminal.write("Password: ")
        secret, _ended = await vty.terminal.line(echo=False)
        if vty.device.enable_fits(secret):
            vty.privilege = 15
            return
    vty.terminal.write("% Bad secrets\n\n")


async def _disable(vty: Vty, _: Arguments) -> None:
    vty.privilege = 1


async def _exit(vty: Vty, _: Arguments) -> None:
    vty.is_over = True


async def _configure_terminal(vty: Vty, _: Arguments) -> None:
    vty.terminal.write("Enter configuration commands, one per line.  End with CNTL/Z.\n")
    vty.enter_configuration()


async def _configure(vty: Vty, arguments: Arguments) -> None:
    answer = await vty.terminal.ask("Configuring from terminal, memory, or network [terminal]? ", "terminal")
    if "terminal".startswith(answer.lower()):
        await _configure_terminal(vty, arguments)


async def _monitor(vty: Vty, _: Arguments) -> None:
    vty.monitor(on=True)


async def _no_monitor(vty: Vty, _: Arguments) -> None:
    vty.monitor(on=False)


async def _write(vty: Vty, _: Arguments) -> None:
    """`write memory`."""
    vty.terminal.write("Building configuration...\n")
    vty.device.save(vty.user)
    vty.terminal.write("[OK]\n")


async def _copy_run_start(vty: Vty, arguments: Arguments) -> None:
    name = "startup-config"
    if vty.device.running.value("file prompt") != "quiet":
        name = await vty.terminal.ask("Destination filename [startup-config]? ", name)
    if name != "startup-config":
        vty.terminal.write(f"%Error copying nvram:{name} (Invalid argument)\n")
        return
    await _write(vty, arguments)


_USER_SHOW: dict[str, Callable[[Vty, Arguments], str]] = {
    "show version": show.version,
    "show clock": show.clock_now,
    "show hosts": show.hosts,
    "show ip interface brief": show.ip_interface_brief,
    "show inventory": show.inventory,
    "show tcp brief": show.tcp_brief,
    "show tcp brief numeric": show.tcp_brief,
    "show tcp brief all": show.tcp_brief,
    "show users": show.users,
    "show privilege": show.privilege,
}
_PRIVILEGED_SHOW: dict[str, Callable[[Vty, Arguments], str]] = {
    "show running-config": show.running_config,
    "show running-config all": show.running_config_all,
    "show running-config interface WORD": show.running_config_interface,
    "show startup-config": show.startup_config,
    "show file systems": show_files.file_systems,
    "show boot": show.boot,
    "show bootvar": show.boot,
    "show archive": show.archive,
    "dir": show_files.directory,
    "dir FS:": show_files.directory,
    "more FS:": show_files.more,
}
_USER_RUN: dict[str, Callable[[Vty, Arguments], Awaitable[None]]] = {
    "enable": _enable,
    "enable <15-15>": _enable,
    "disable": _disable,
    "exit": _exit,
    "logout": _exit,
    "quit": _exit,
    "terminal length <0-512>": _nothing,
    "terminal width <0-512>": _nothing,
    "terminal no monitor": _no_monitor,
    "terminal monitor": _monitor,
}
_PRIVILEGED_RUN: dict[str, Callable[[Vty, Arguments], Awaitable[None]]] = {
    "configure": _configure,
    "configure terminal": _configure_terminal,
    "write": _write,
    "write memory": _write,
    "copy running-config startup-config": _copy_run_start,
    "copy FS: FS:": copy_ftp,
    "copy /noverify FS: FS:": copy_ftp,
    "delete FS:": show_files.delete,
    "delete /force FS:": show_files.delete_forced,
    "verify /md5 FS:": show_files.verify_md5,
    "verify /md5 FS: WORD": show_files.verify_md5,
    "verify /sha512 FS:": show_files.verify_sha512,
    "verify /sha512 FS: WORD": show_files.verify_sha512,
}


def build_trees() -> tuple[Node[Command], Node[Command]]:
    """Return the commands of user mode and of privileged mode."""
    user: Node[Command] = Node()
    privileged: Node[Command] = Node()
    for specification, function in _USER_SHOW.items():
        for tree in (user, privileged):
            tree.add(specification, Command(show=function))
    for specification, dialogue in _USER_RUN.items():
        for tree in (user, privileged):
            tree.add(specification, Command(run=dialogue))
    for specification, function in _PRIVILEGED_SHOW.items():
        privileged.add(specification, Command(show=function))
    for specification, dialogue in _PRIVILEGED_RUN.items():
        privileged.add(specification, Command(run=dialogue))
    return user, privileged
