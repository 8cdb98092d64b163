"""`copy` without a network: configurations and files among each other, and `write`.

Facts 7 and the captures: ``Destination filename [x]? `` unless `file prompt quiet`; the running configuration is
merged, not replaced; a local copy prints one ``C`` per 65,536 bytes and no ``[OK`` line; after a change of software
`write` asks ``Overwrite the previous NVRAM configuration?[confirm]``.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

from lab.standin.archive import run_lines
from lab.standin.config_text import parse_lines
from lab.standin.flash import FlashWriter, NoSpaceError, Pace
from lab.standin.results import PullResult, result_line
from lab.standin.show_files import content, free_bytes, shown_name, split_file

if TYPE_CHECKING:
    from lab.standin.flash import Flash
    from lab.standin.vty import Vty

RUNNING = "system:running-config"
STARTUP = "nvram:startup-config"
_MARK_BYTES = 65536


async def write_memory(vty: Vty) -> None:
    """`write memory`."""
    if vty.device.faults.nvram_differs:
        vty.terminal.write(
            "Warning: Attempting to overwrite an NVRAM configuration previously written\n"
            "by a different version of the system image.\n"
        )
        if not await vty.terminal.confirm("Overwrite the previous NVRAM configuration?"):
            return
    vty.terminal.write("Building configuration...\n")
    vty.device.save(vty.user)
    vty.terminal.write("[OK]\n")


async def ask_name(vty: Vty, name: str) -> str:
    """Ask for the name at the destination; `file prompt quiet` does not ask."""
    if vty.device.running.value("file prompt") == "quiet":
        return name
    return (await vty.terminal.ask(f"Destination filename [{name}]? ", name)).lstrip("/")


async def may_overwrite(vty: Vty, flash: Flash, name: str) -> bool:
    """Ask before a file is overwritten, unless `file prompt quiet`."""
    if flash.find(name) is None or vty.device.running.value("file prompt") == "quiet":
        return True
    vty.terminal.write("%Warning:There is a file already existing with this name \n")
    return await vty.terminal.confirm("Do you want to over write? ")


async def copy_local(vty: Vty, source: str, target: str) -> None:
    """Copy a file or a configuration to another; names are full, such as `RUNNING`."""
    held = b"" if source.lower().startswith("null:") else content(vty, source)
    if held is None:
        flash = vty.device.file_system(split_file(source)[0])
        vty.terminal.write(f"%Error opening {shown_name(flash, source)} (No such file or directory)\n")
    elif target == RUNNING:
        await _to_running(vty, held)
    elif target == STARTUP:
        await _to_startup(vty, source, held)
    else:
        await _to_file(vty, source, target, held)


async def _to_running(vty: Vty, held: bytes) -> None:
    name = await ask_name(vty, "running-config")
    started_s = time.monotonic()
    shown, _ = run_lines(vty.device, parse_lines(held.decode("latin-1")))
    vty.device.touch(vty.user)
    vty.device.syslog(f"%SYS-5-CONFIG_I: Configured from {name} by {vty.user} on vty{vty.number} ({vty.peer})")
    vty.terminal.write(f"{shown}{_result(held, started_s)}")


async def _to_startup(vty: Vty, source: str, held: bytes) -> None:
    name = await ask_name(vty, "startup-config")
    if name != "startup-config":
        vty.terminal.write(f"%Error copying nvram:{name} (Invalid argument)\n")
    elif source == RUNNING:
        await write_memory(vty)
    else:
        started_s = time.monotonic()
        vty.device.startup_text = held.decode("latin-1")
        vty.terminal.write(f"[OK]\n{_result(held, started_s)}")


async def _to_file(vty: Vty, source: str, target: str, held: bytes) -> None:
    prefix, name = split_file(target)
    if prefix == "null":
        vty.terminal.write(_result(held, time.monotonic()))
        return
    flash = vty.device.file_system(prefix)
    if flash is None:
        vty.terminal.write(f"%Error opening {target} (No such device)\n")
        return
    name = await ask_name(vty, name or split_file(source)[1])
    if not await may_overwrite(vty, flash, name):
        return
    is_file = source not in {RUNNING, STARTUP} and bool(held)
    if is_file:
        vty.terminal.write("Copy in progress..." + "C" * -(-len(held) // _MARK_BYTES) + "\n")
    started_s = time.monotonic()
    try:
        await asyncio.to_thread(_write, vty, flash, name, held)
    except NoSpaceError:
        flash.delete(name)
        vty.terminal.write(f"%Error copying {target} (Not enough space on device)\n")
        return
    vty.terminal.write(_result(held, started_s))


def _write(vty: Vty, flash: Flash, name: str, held: bytes) -> None:
    rate = vty.device.faults.slow_flash_bytes_per_s or flash.figures.write_bytes_per_s
    pace = Pace(rate, threading.Event())
    writer = FlashWriter(flash, name, pace, room_bytes=free_bytes(vty, flash))
    try:
        writer.write(held)
    finally:
        writer.close()


def _result(held: bytes, started_s: float) -> str:
    seconds = max(0.001, time.monotonic() - started_s)
    return result_line(PullResult(size_bytes=len(held), seconds=seconds)) + "\n"
