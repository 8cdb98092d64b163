"""`dir`, `show file systems`, `more`, `delete` and `verify`."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from typing import TYPE_CHECKING

from lab.standin import clock
from lab.standin.flash import FileEntry, Flash, Pace

if TYPE_CHECKING:
    from lab.standin.vty import Vty

Arguments = tuple[str, ...]

_DOT_BYTES = 65536
"""One dot of `verify /md5` per 64 KiB: calculated from captures (facts 5)."""


def split_file(text: str) -> tuple[str, str]:
    """Split ``flash:/x`` into the prefix and the name without its leading slash."""
    prefix, _, name = text.partition(":")
    return prefix.lower(), name.lstrip("/")


def directory(vty: Vty, arguments: Arguments) -> str:
    """`dir [FS:[file]]`: the whole file system, or one file; the device answers with its own name for it."""
    flash = vty.device.flash
    text = arguments[0] if arguments else flash.prefix
    prefix, name = split_file(text)
    if not flash.owns(prefix):
        return f"%Error opening {text} (No such device)\n"
    if not name:
        rows = "".join(_row(entry) for entry in flash.entries()) or "No files in directory\n"
        return f"Directory of {flash.prefix}/\n\n{rows}\n{_totals(vty)}"
    entry = flash.find(name)
    if entry is None:
        return f"%Error opening {flash.prefix}/{name} (No such file or directory)\n"
    return f"Directory of {flash.prefix}/{name}\n\n{_row(entry)}\n{_totals(vty)}"


def free_bytes(vty: Vty) -> int:
    """Room on the flash as the device sees it."""
    return 0 if vty.device.faults.flash_full else vty.device.flash.free_bytes


def _totals(vty: Vty) -> str:
    return f"{vty.device.flash.figures.size_bytes} bytes total ({free_bytes(vty)} bytes free)\n"


def _row(entry: FileEntry) -> str:
    return f"{entry.inode:5d}  -rw-  {entry.size_bytes:15d}  {clock.file_stamp(entry.modified)}  {entry.name}\n"


def file_systems(vty: Vty, _: Arguments) -> str:
    """`show file systems`."""
    figures = vty.device.platform.flash
    names = " ".join(f"{name}:" for name in (figures.name, *figures.aliases))
    flash = f"*{figures.size_bytes:13d} {free_bytes(vty):13d}      disk     rw   {names}"
    rows = [flash if row == "@flash" else row for row in vty.device.platform.file_system_rows]
    header = "File Systems:\n\n       Size(b)       Free(b)      Type  Flags  Prefixes\n"
    return header + "".join(f"{row}\n" for row in rows) + "\n"


def more(vty: Vty, arguments: Arguments) -> str:
    """`more FS:file`."""
    prefix, name = split_file(arguments[0])
    if (prefix, name) == ("system", "running-config"):
        return vty.device.running_text()
    if (prefix, name) == ("nvram", "startup-config"):
        return vty.device.startup_text
    entry = vty.device.flash.find(name) if vty.device.flash.owns(prefix) else None
    if entry is None:
        return f"%Error opening {_shown(vty.device.flash, arguments[0])} (No such file or directory)\n"
    text = entry.path.read_bytes()[: 2**20].decode("latin-1")
    return text if text.endswith("\n") else text + "\n"


async def delete(vty: Vty, arguments: Arguments) -> None:
    """`delete FS:file`: two questions."""
    flash = vty.device.flash
    prefix, name = split_file(arguments[0])
    name = await vty.terminal.ask(f"Delete filename [{name}]? ", name)
    shown = f"{prefix}:/{name}"
    if not await vty.terminal.confirm(f"Delete {shown}? "):
        return
    _delete(vty, flash, prefix, name)


async def delete_forced(vty: Vty, arguments: Arguments) -> None:
    """`delete /force FS:file`: no question."""
    _delete(vty, vty.device.flash, *split_file(arguments[0]))


def _delete(vty: Vty, flash: Flash, prefix: str, name: str) -> None:
    if flash.owns(prefix) and flash.find(name) is not None:
        flash.delete(name)
    else:
        vty.terminal.write(f"%Error deleting {_shown(flash, f'{prefix}:/{name}')} (No such file or directory)\n")


async def verify_md5(vty: Vty, arguments: Arguments) -> None:
    """`verify /md5 FS:file`."""
    await _verify(vty, arguments, "md5", "MD5")


async def verify_sha512(vty: Vty, arguments: Arguments) -> None:
    """`verify /sha512 FS:file`."""
    await _verify(vty, arguments, "sha512", "SHA512")


async def _verify(vty: Vty, arguments: Arguments, algorithm: str, spoken: str) -> None:
    """Hash a file at the device's speed, with a dot per 64 KiB."""
    flash = vty.device.flash
    prefix, name = split_file(arguments[0])
    entry = flash.find(name) if flash.owns(prefix) else None
    shown = _shown(flash, arguments[0])
    if entry is None:
        vty.terminal.write(f"%Error computing {spoken} hash {shown} (No such file or directory)\n")
        return
    digest = await _hash(vty, entry, algorithm)
    if digest is None:
        return
    vty.terminal.write(f"Done!\n{_verdict(algorithm, shown, digest, arguments[1:])}\n\n")


def _verdict(algorithm: str, shown: str, digest: str, given: Arguments) -> str:
    """Return the result; with a digest given, whether it fits (Cisco command reference)."""
    if not given:
        return f"verify /{algorithm} ({shown}) = {digest}\n"
    if given[0].lower() == digest:
        return f"Verified ({shown}) = {digest}\n"
    lines = (f"%Error verifying {shown}", f"Computed signature  = {digest}", f"Submitted signature = {given[0]}")
    return "".join(f"{line}\n" for line in lines)


async def _hash(vty: Vty, entry: FileEntry, algorithm: str) -> str | None:
    """Hash in a thread; None when the user is gone or pressed the escape key."""
    loop = asyncio.get_running_loop()
    stop = threading.Event()
    pace = Pace(vty.device.flash.figures.hash_bytes_per_s, stop)

    def dots(count: int) -> None:
        loop.call_soon_threadsafe(vty.terminal.write, "." * count)

    def work() -> str:
        digest = hashlib.new(algorithm, usedforsecurity=False)
        with entry.path.open("rb") as file:
            while not stop.is_set() and (chunk := file.read(16 * _DOT_BYTES)):
                digest.update(chunk)
                pace.spend(len(chunk))
                dots(-(-len(chunk) // _DOT_BYTES))
        return digest.hexdigest()

    vty.terminal.on_escape = stop.set
    closed = asyncio.ensure_future(vty.terminal.closed.wait())
    closed.add_done_callback(lambda _: stop.set())
    try:
        digest = await asyncio.to_thread(work)
        was_stopped = stop.is_set()
    finally:
        vty.terminal.on_escape = None
        closed.cancel()
    return None if was_stopped else digest


def _shown(flash: Flash, text: str) -> str:
    """Return a file as the device names it: its own prefix, and a slash only where one was typed (captures)."""
    prefix, _, rest = text.partition(":")
    return f"{flash.prefix}{rest}" if flash.owns(prefix) else text
