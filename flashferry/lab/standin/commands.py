"""The exec commands and where each is allowed."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from flashferry.lab.standin import (
    config_session,
    configure,
    copy_files,
    install,
    reach,
    reloading,
    show,
    show_files,
    show_interfaces,
    show_routing,
    verify,
)
from flashferry.lab.standin.config_session import may_configure, show_lock
from flashferry.lab.standin.copy_download import Copy, copy_from_server
from flashferry.lab.standin.copy_files import RUNNING, STARTUP, copy_local
from flashferry.lab.standin.copy_ssh import SSH_SCHEMES, SshCopy
from flashferry.lab.standin.copy_upload import copy_to_server
from flashferry.lab.standin.grammar import Node
from flashferry.lab.standin.hardware import fields, running_release, without_away
from flashferry.lab.standin.routing import vrf_names
from flashferry.lab.standin.server_url import DEFAULT_PORTS
from flashferry.lab.standin.vty import Command, Vty

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from flashferry.lab.standin.platform import Platform

Arguments = tuple[str, ...]


async def _nothing(_: Vty, __: Arguments) -> None:
    """A terminal setting that has no effect here: answered by the prompt alone."""


async def _length(vty: Vty, arguments: Arguments) -> None:
    vty.rows = int(arguments[0])


async def _width(vty: Vty, arguments: Arguments) -> None:
    vty.columns = int(arguments[0])


async def _no_length(vty: Vty, _: Arguments) -> None:
    vty.rows = 24


async def _enable(vty: Vty, arguments: Arguments) -> None:
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


async def _disable(vty: Vty, arguments: Arguments) -> None:
    vty.privilege = int(arguments[0]) if arguments else 1


async def _exit(vty: Vty, _: Arguments) -> None:
    vty.is_over = True


async def _monitor(vty: Vty, _: Arguments) -> None:
    vty.monitor(on=True)


async def _no_monitor(vty: Vty, _: Arguments) -> None:
    vty.monitor(on=False)


async def _write(vty: Vty, _: Arguments) -> None:
    await copy_files.write_memory(vty)


async def _copy(
    vty: Vty, arguments: Arguments, *, source: str | None = None, target: str | None = None,
    verify: bool | None = None,
) -> None:  # fmt: skip
    """`copy`: what is not a keyword of the command is the next argument; a VRF comes last."""
    names = iter(arguments)
    source, target = source or next(names), target or next(names)
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
        found[f"copy FS: {word}"] = found[f"copy FS: {word} vrf WORD"] = functools.partial(_copy, target=full)
    found["copy running-config startup-config"] = functools.partial(_copy, source=RUNNING, target=STARTUP)
    found["copy startup-config running-config"] = functools.partial(_copy, source=STARTUP, target=RUNNING)
    return found


_USER_SHOW: dict[str, Callable[[Vty, Arguments], str]] = {
    "show version": show.version,
    "show clock": show.clock_now,
    "show hosts": show.hosts,
    "show ip interface brief": show_interfaces.brief,
    "show ip interface": show_interfaces.ip_interface,
    "show ip interface INTERFACE": show_interfaces.ip_interface,
    "show ip interface KIND NUMBER": show_interfaces.ip_interface,
    "show interfaces": show_interfaces.interfaces,
    "show interfaces INTERFACE": show_interfaces.interfaces,
    "show interfaces KIND NUMBER": show_interfaces.interfaces,
    "show interfaces description": show_interfaces.description,
    "show inventory": show.inventory,
    "show ip ssh": show.ip_ssh,
    "show logging": show.logging,
    "show memory": show.memory,
    "show memory statistics": show.memory,
    "show processes cpu": show.processes_cpu,
    "show processes cpu sorted": show.processes_cpu_sorted,
    "show processes memory": show.processes_memory,
    "show processes memory sorted": show.processes_memory,
    "show line": show.line,
    "show ntp status": show.ntp_status,
    "show ntp associations": show.ntp_associations,
    "show cdp neighbors": show.cdp_neighbors,
    "show cdp neighbors detail": show.cdp_neighbors,
    "show lldp neighbors": show.lldp_neighbors,
    "show arp": show_routing.arp,
    "show ip arp": show_routing.arp,
    "show ip cef": show_routing.cef,
    "show ip route": show_routing.route,
    "show ip route summary": show_routing.route_summary,
    "show ip route vrf WORD": show_routing.route_vrf,
    "show vrf": show_routing.vrf,
    "show tcp": show_routing.blocks,
    "show tcp brief": show_routing.brief,
    "show tcp brief numeric": show_routing.brief,
    "show tcp brief all": show_routing.brief,
    "show tcp statistics": show_routing.statistics,
    "show tcp tcb WORD": show_routing.tcb,
    "show terminal": show.terminal,
    "show users": show.users,
    "show event manager policy registered": config_session.show_policies,
    "show privilege": show.privilege,
}
_PRIVILEGED_SHOW: dict[str, Callable[[Vty, Arguments], str]] = {
    "show running-config": show.running_config,
    "show running-config all": show.running_config_all,
    "show running-config interface WORD": show.running_config_interface,
    "show startup-config": show.startup_config,
    "show file systems": show_files.file_systems,
    "show boot": show.boot,
    "show bootvar": show.bootvar,
    "show archive": configure.show_archive,
    "show configuration lock": show_lock,
    "show archive config differences": configure.show_differences,
    "show archive config differences FS:": configure.show_differences,
    "show archive config differences FS: FS:": configure.show_differences,
    "show archive config incremental-diffs FS:": configure.show_incremental,
    "show archive config incremental-diffs FS: ignorecase": configure.show_incremental,
    "show archive config rollback timer": configure.show_rollback_timer,
    "show FS:": show_files.flash_listing,
    "dir": show_files.directory,
    "dir FS:": show_files.directory,
    "more FS:": install.more,
}
_SWITCH_SHOW: dict[str, Callable[[Vty, Arguments], str]] = {
    "show interfaces status": show_interfaces.status,
    "show vlan": show_interfaces.vlan,
    "show vlan brief": show_interfaces.vlan_brief,
    "show mac address-table": show_interfaces.mac_address_table,
    "show spanning-tree": show_interfaces.spanning_tree,
}
_POLICER_SHOW: dict[str, Callable[[Vty, Arguments], str]] = {
    "show platform hardware fed active qos queue stats internal cpu policer": show.cpu_policer,
    "show platform hardware fed switch active qos queue stats internal cpu policer": show.cpu_policer,
}
_USER_RUN: dict[str, Callable[[Vty, Arguments], Awaitable[None]]] = {
    "enable": _enable,
    "enable <1-15>": _enable,
    "disable": _disable,
    "disable <0-14>": _disable,
    "exit": _exit,
    "logout": _exit,
    "quit": _exit,
    "ping WORD": reach.ping,
    "ping WORD LINE": reach.ping,
    "traceroute WORD": reach.traceroute,
    "traceroute WORD LINE": reach.traceroute,
    "terminal length <0-512>": _length,
    "terminal no length": _no_length,
    "terminal width <0-512>": _width,
    "terminal no monitor": _no_monitor,
    "terminal monitor": _monitor,
}
_PRIVILEGED_RUN: dict[str, Callable[[Vty, Arguments], Awaitable[None]]] = {
    "archive config": configure.archive_config,
    "configure confirm": configure.confirm,
    "configure revert idle <1-120>": configure.revert_idle,
    "configure replace FS:": configure.replace,
    "configure replace FS: LINE": configure.replace,
    "configure revert now": configure.revert_now,
    "configure revert timer <1-120>": configure.revert_timer,
    "write": _write,
    "write memory": _write,
    "delete FS:": show_files.delete,
    "delete /force FS:": show_files.delete_forced,
    "mkdir FS:": show_files.make_directory,
    "rmdir FS:": show_files.remove_directory,
    "rename FS: FS:": show_files.rename,
    "verify FS:": verify.verify_plain,
    "verify /md5 FS:": verify.verify_md5,
    "verify /md5 FS: WORD": verify.verify_md5,
    "verify /sha512 FS:": verify.verify_sha512,
    "verify /sha512 FS: WORD": verify.verify_sha512,
    "reload": reloading.reload,
    **_copies(),
}
_CONFIGURE: dict[str, Callable[[Vty, Arguments], Awaitable[None]]] = {
    "configure": configure.ask_source,
    "configure terminal": configure.terminal,
    "configure terminal lock": configure.terminal_lock,
    "configure terminal revert timer <1-120>": configure.terminal_revert,
    "configure terminal revert idle <1-120>": configure.terminal_revert_idle,
}


_INSTALL_SHOW: dict[str, Callable[[Vty, Arguments], str]] = {
    "show install summary": install.summary,
    "show install active": install.active,
    "show install committed": install.committed,
    "show install inactive": install.inactive,
    "show install uncommitted": install.uncommitted,
    "show install rollback": install.rollback_points,
}
_INSTALL_RUN: dict[str, Callable[[Vty, Arguments], Awaitable[None]]] = {
    "install add file FS:": install.add,
    "install add file FS: prompt-level none": install.add,
    "install add file FS: activate commit": install.one_shot,
    "install add file FS: activate commit prompt-level none": install.one_shot_quietly,
    "install activate": install.activate,
    "install activate prompt-level none": install.activate_quietly,
    "install activate auto-abort-timer <30-1200>": install.activate_timed,
    "install activate auto-abort-timer <30-1200> prompt-level none": install.activate_quietly,
    "install commit": install.commit,
    "install abort": install.abort,
    "install abort prompt-level none": install.abort_quietly,
    "install rollback to committed": install.abort,
    "install rollback to committed prompt-level none": install.abort_quietly,
    "install auto-abort-timer stop": install.stop_timer,
    "install remove inactive": install.remove_inactive,
}
_CONTROLLER: dict[str, Callable[[Vty, Arguments], Awaitable[None]]] = {
    "config-transaction": configure.transaction,
    "pnpa service discovery stop": _nothing,
}


@functools.cache
def build_trees(platform: Platform) -> tuple[Node[Command], Node[Command]]:
    """Return the commands of user mode and of privileged mode of a platform."""
    user: Node[Command] = Node()
    privileged: Node[Command] = Node()
    modes = _CONTROLLER if platform.is_controller_managed else _CONFIGURE
    outputs: dict[str, Callable[[Vty, Arguments], str]] = _SWITCH_SHOW if platform.cabled else {}
    if "cpu_policer" in platform.texts:
        outputs = outputs | _POLICER_SHOW
    if "issu" in platform.texts:
        outputs = outputs | {"show issu state detail": show.issu}
    if platform.install is not None:
        outputs = outputs | _INSTALL_SHOW
    installing = _INSTALL_RUN if platform.install is not None else {}
    outputs = outputs | {name: functools.partial(_fixed, text=text) for name, text in platform.outputs.items()}
    for trees, shows, runs in (
        ((user, privileged), _USER_SHOW, _USER_RUN),
        ((privileged,), _PRIVILEGED_SHOW | outputs, _PRIVILEGED_RUN | modes | installing),
    ):
        for tree in trees:
            for specification, function in shows.items():
                tree.add(specification, Command(show=function))
            for specification, dialogue in runs.items():
                tree.add(specification, Command(run=dialogue))
    return user, privileged


def _fixed(vty: Vty, _: Arguments, *, text: str) -> str:
    """Print what the platform's data file says, filled in."""
    return without_away(vty.device, running_release(vty.device, text.format(**fields(vty.device))))
