"""`configure ...`, `archive config` and what shows the archive: dialogues around the archive of configurations.

Texts: facts 7. A rollback that is armed without an archive path is refused with the sentence that NAPALM looks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashferry.lab.standin.config_session import TAKEN, may_configure, take
from flashferry.lab.standin.configuration import contextual, incremental, parse_lines
from flashferry.lab.standin.copy_files import RUNNING, STARTUP, replace_report, replace_running
from flashferry.lab.standin.show_files import content, shown_name, split_file
from flashferry.lab.standin.texts_data import printed

if TYPE_CHECKING:
    from flashferry.lab.standin.vty import Vty

Arguments = tuple[str, ...]
_ENTER = "Enter configuration commands, one per line.  End with CNTL/Z.\n"
_NO_ARCHIVE = "%Please turn config archive on before using Rollback Confirmed Change\n"
_NOTHING_PENDING = "%No Rollback Confirmed Change pending\n"
_WARNING = printed("rollback warning")
_SURE = printed("configure replace")


async def terminal(vty: Vty, _: Arguments) -> None:
    """`configure terminal`."""
    if may_configure(vty):
        take(vty, by_hand=False)
        vty.terminal.write(_ENTER)
        vty.enter_configuration()


async def terminal_lock(vty: Vty, _: Arguments) -> None:
    """`configure terminal lock`: no other session enters configuration mode meanwhile."""
    if may_configure(vty):
        take(vty, by_hand=True)
        vty.terminal.write(TAKEN + _ENTER)
        vty.enter_configuration()


async def transaction(vty: Vty, _: Arguments) -> None:
    """`config-transaction` of a device in controller mode: changes a copy, and `commit` makes it the configuration."""
    vty.terminal.write("\nadmin connected from 127.0.0.1 using console on " + vty.device.hostname + "\n")
    vty.enter_configuration(vty.device.running.copy())


async def ask_source(vty: Vty, arguments: Arguments) -> None:
    """`configure` alone."""
    answer = await vty.terminal.ask("Configuring from terminal, memory, or network [terminal]? ", "terminal")
    if "terminal".startswith(answer.lower()):
        await terminal(vty, arguments)


async def terminal_revert(vty: Vty, arguments: Arguments) -> None:
    """`configure terminal revert timer N`: configuration mode, taken back unless confirmed."""
    if may_configure(vty) and _arm(vty, int(arguments[0])):
        await terminal(vty, ())


async def terminal_revert_idle(vty: Vty, arguments: Arguments) -> None:
    """`configure terminal revert idle N`: taken back when the user types nothing for so long."""
    if may_configure(vty) and _arm(vty, int(arguments[0]), is_idle=True):
        await terminal(vty, ())


def _arm(vty: Vty, minutes: int, *, is_idle: bool = False) -> bool:
    archive = vty.device.archive
    if archive.path is None:
        vty.terminal.write(_NO_ARCHIVE)
        return False
    if archive.pending is not None:
        vty.terminal.write("%Rollback Confirmed Change is already in progress\n")
        return False
    saved = archive.store()
    vty.terminal.write(f"Rollback Confirmed Change: Backing up current running config to {saved}\n\n")
    archive.arm(vty.user, minutes, is_idle=is_idle, warn=lambda: vty.terminal.write(_WARNING))
    return True


async def confirm(vty: Vty, _: Arguments) -> None:
    """`configure confirm`: only the user who armed it may."""
    pending = vty.device.archive.pending
    if pending is not None and pending.user != vty.user:
        vty.terminal.write(f"%Rollback Confirmed Change was started by {pending.user}\n")
    elif not vty.device.archive.confirm():
        vty.terminal.write(_NOTHING_PENDING)


async def revert_now(vty: Vty, _: Arguments) -> None:
    """`configure revert now`."""
    done = vty.device.archive.revert()
    vty.terminal.write(_NOTHING_PENDING if done is None else replace_report(done, listed=False))


async def revert_timer(vty: Vty, arguments: Arguments) -> None:
    """`configure revert timer N`: another time for the pending rollback."""
    pending = vty.device.archive.pending
    if pending is None:
        vty.terminal.write(_NOTHING_PENDING)
    else:
        vty.device.archive.rearm(int(arguments[0]), is_idle=False)


async def revert_idle(vty: Vty, arguments: Arguments) -> None:
    """`configure revert idle N`: from now on the pending rollback waits for N idle minutes."""
    if vty.device.archive.pending is None:
        vty.terminal.write(_NOTHING_PENDING)
    else:
        vty.device.archive.rearm(int(arguments[0]), is_idle=True)


async def replace(vty: Vty, arguments: Arguments) -> None:
    """`configure replace FILE [list] [force] [revert trigger error] [timer N]`."""
    options = arguments[1].lower().split() if len(arguments) > 1 else []
    held = content(vty, arguments[0])
    if held is None:
        flash = vty.device.file_system(split_file(arguments[0])[0])
        vty.terminal.write(f"Error: Could not open file {shown_name(flash, arguments[0])} for reading\n")
        return
    if not may_configure(vty):
        return
    if "force" not in options and (await vty.terminal.ask(_SURE, "no")).lower() not in {"y", "yes"}:
        return
    text = held.decode("latin-1")
    if not any(line.text.startswith("hostname ") for line in parse_lines(text)):
        vty.terminal.write("%The input file is not a valid config file.\n")
        return
    if "timer" in options and not _arm(vty, int(options[options.index("timer") + 1])):
        return
    _replace(vty, text, listed="list" in options, reverts="trigger" in options)


def _replace(vty: Vty, text: str, *, listed: bool, reverts: bool) -> None:
    device = vty.device
    before = device.running_text()
    done = replace_running(device, text)
    device.touch(vty.user)
    device.syslog(f"%PARSER-6-EXPOSEDLOCKRELEASED: Exclusive configuration lock released from terminal '{vty.number}'")
    vty.terminal.write(replace_report(done, listed=listed))
    if done.refused and reverts:
        replace_running(device, before)
        vty.terminal.write("\nThe original configuration has been successfully restored.\n")


async def archive_config(vty: Vty, _: Arguments) -> None:
    """`archive config`: save the running configuration now."""
    if vty.device.archive.store() is None:
        vty.terminal.write("% Archive feature not enabled\n")


def show_archive(vty: Vty, _: Arguments) -> str:
    """`show archive`."""
    return vty.device.archive.listing()


def show_rollback_timer(vty: Vty, _: Arguments) -> str:
    """`show archive config rollback timer`."""
    if vty.device.archive.path is None:
        return _NO_ARCHIVE
    return vty.device.archive.timer_report()


def show_differences(vty: Vty, arguments: Arguments) -> str:
    """`show archive config differences [FILE [FILE]]`: without files running against startup."""
    names = {0: (STARTUP, RUNNING), 1: (arguments[0] if arguments else "", RUNNING)}.get(len(arguments), arguments)
    texts = [content(vty, name) for name in names]
    for name, held in zip(names, texts, strict=True):
        if held is None:
            return f"%Error: Could not open file {name} for reading\n"
    old, new = (parse_lines((held or b"").decode("latin-1")) for held in texts)
    rows = contextual(old, new) or ["!No changes were found"]
    return "\n" + "".join(f"{row}\n" for row in ("!Contextual Config Diffs:", *rows)) + "\n"


def show_incremental(vty: Vty, arguments: Arguments) -> str:
    """`show archive config incremental-diffs FILE [ignorecase]`: what the file would add."""
    held = content(vty, arguments[0])
    if held is None:
        return f"%Error: Could not open file {arguments[0]} for reading\n"
    rows = incremental(vty.device.running.lines(), parse_lines(held.decode("latin-1")))
    last = () if rows else ("!No changes were found",)
    return "".join(f"{row}\n" for row in ("!List of Commands:", *rows, "end", *last))
