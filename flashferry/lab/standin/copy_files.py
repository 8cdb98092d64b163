"""`copy` without a network: configurations and files among each other, and `write`.

Facts 7 and the captures: ``Destination filename [x]? `` unless `file prompt quiet`; the running configuration is
merged, not replaced; a local copy prints one ``C`` per 65,536 bytes and no ``[OK`` line; after a change of software
`write` asks ``Overwrite the previous NVRAM configuration?[confirm]``.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
import time
from typing import TYPE_CHECKING

from flashferry.lab.standin.archive import run_lines
from flashferry.lab.standin.config_text import parse_lines
from flashferry.lab.standin.flash import FlashWriter, NoSpaceError, Pace
from flashferry.lab.standin.members import MemberLeftError, leave, place_of
from flashferry.lab.standin.results import PullResult, result_line
from flashferry.lab.standin.show_files import content, free_bytes, shown_name, split_file
from flashferry.lab.standin.verify import aborted_copy, verify_copied

if TYPE_CHECKING:
    from flashferry.lab.standin.flash import Flash
    from flashferry.lab.standin.vty import Vty

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


def verifies_copies(vty: Vty, verify: bool | None) -> bool:
    """Return whether a copy to a flash is verified: by `/verify` or `/noverify`, else by `file verify auto`."""
    return vty.device.running.find("file verify auto") is not None if verify is None else verify


def merge_into_running(vty: Vty, text: str, name: str) -> str:
    """Type a file into the running configuration; return what is printed meanwhile."""
    shown, _ = run_lines(vty.device, parse_lines(text))
    vty.device.touch(vty.user)
    vty.device.syslog(f"%SYS-5-CONFIG_I: Configured from {name} by {vty.user} on vty{vty.number} ({vty.peer})")
    return shown


async def copy_local(vty: Vty, source: str, target: str, *, verify: bool | None = None) -> None:
    """Copy a file or a configuration to another; names are full, such as `RUNNING`."""
    held = b"" if source.lower().startswith("null:") else content(vty, source)
    if held is None:
        await _refuse_missing(vty, source, target, verifies=verifies_copies(vty, verify))
    elif target == RUNNING:
        await _to_running(vty, held)
    elif target == STARTUP:
        await _to_startup(vty, source, held)
    else:
        await _to_file(vty, source, target, held, verifies=verifies_copies(vty, verify))


async def _refuse_missing(vty: Vty, source: str, target: str, *, verifies: bool) -> None:
    """A source that is not there is found out after the question; `/verify` still looks for a signature (capture)."""
    prefix, name = split_file(target)
    if prefix not in {"system", "nvram", "null"}:
        name = await ask_name(vty, name or split_file(source)[1])
    vty.terminal.write(f"%Error opening {shown_name(_flash_of(vty, source), source)} (No such file or directory)\n")
    if verifies:
        shown = shown_name(_flash_of(vty, target), f"{prefix}:/{name}")
        vty.terminal.write(aborted_copy(shown, was_there=False))


def _flash_of(vty: Vty, text: str) -> Flash | None:
    return vty.device.file_system(split_file(text)[0])


async def _to_running(vty: Vty, held: bytes) -> None:
    name = await ask_name(vty, "running-config")
    started_s = time.monotonic()
    shown = merge_into_running(vty, held.decode("latin-1"), name)
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


async def _to_file(vty: Vty, source: str, target: str, held: bytes, *, verifies: bool) -> None:
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
    try:
        size = await _store(vty, source, held, flash, name)
    except MemberLeftError:
        leave(vty.device, place_of(flash))
        vty.device.note_guess("copy: text of a member that left")
        vty.terminal.write(f"\n%Error copying {target} (I/O error)\n")
        return
    if size is None:
        flash.delete(name)
        vty.terminal.write(f"%Error copying {target} (Not enough space on device)\n")
    elif verifies and source not in {RUNNING, STARTUP}:
        await verify_copied(vty, flash, name)


async def _store(vty: Vty, source: str, held: bytes, flash: Flash, name: str) -> int | None:
    """Write a file and print the result; return its size, or None when it does not fit."""
    rate = vty.device.faults.slow_flash_bytes_per_s or flash.figures.write_bytes_per_s
    left_bytes, loop = free_bytes(vty, flash), asyncio.get_running_loop()
    old_flash = vty.device.file_system(split_file(source)[0])
    entry = old_flash.find(split_file(source)[1]) if old_flash is not None else None

    def work() -> int:
        size = 0
        writer = FlashWriter(flash, name, Pace(rate, threading.Event()), free_bytes=left_bytes)
        with contextlib.closing(writer), entry.path.open("rb") if entry else io.BytesIO(held) as file:
            while chunk := file.read(_MARK_BYTES):
                writer.write(chunk)
                size += len(chunk)
                limit_bytes = vty.device.faults.member_leaves_after_bytes
                if limit_bytes is not None and size >= limit_bytes and place_of(flash):
                    raise MemberLeftError
                if entry:
                    loop.call_soon_threadsafe(vty.terminal.write, "C")
        return size

    if entry is not None and entry.size_bytes:
        vty.terminal.write("Copy in progress...")
    started_s = time.monotonic()
    try:
        size = await asyncio.to_thread(work)
    except NoSpaceError:
        return None
    seconds = max(0.001, time.monotonic() - started_s)
    end = "\n" if entry is not None and size else ""
    vty.terminal.write(end + result_line(PullResult(size_bytes=size, seconds=seconds)) + "\n")
    return size


def _result(held: bytes, started_s: float) -> str:
    seconds = max(0.001, time.monotonic() - started_s)
    return result_line(PullResult(size_bytes=len(held), seconds=seconds)) + "\n"
