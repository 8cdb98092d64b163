"""`verify`: hashes at the device's speed, with the dots that captures show.

Facts 5: one dot per 65,536 bytes of `/md5`, one per 4,096 bytes of a plain `verify`; the name that is printed has the
device's own prefix and a slash only where one was typed.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from typing import TYPE_CHECKING

from lab.standin.flash import FileEntry, Pace
from lab.standin.show_files import shown_name, split_file

if TYPE_CHECKING:
    from lab.standin.vty import Vty

Arguments = tuple[str, ...]

_DOT_BYTES = 65536
_PLAIN_DOT_BYTES = 4096
_CHUNK_BYTES = 16 * _DOT_BYTES


async def verify_md5(vty: Vty, arguments: Arguments) -> None:
    """`verify /md5 FS:file [digest]`."""
    await _verify(vty, arguments, "md5", "MD5")


async def verify_sha512(vty: Vty, arguments: Arguments) -> None:
    """`verify /sha512 FS:file [digest]`."""
    await _verify(vty, arguments, "sha512", "SHA512")


async def verify_plain(vty: Vty, arguments: Arguments) -> None:
    """`verify FS:file`: the signature inside an image; a file that is no image has none."""
    entry, shown = _find(vty, arguments[0])
    if entry is None:
        vty.terminal.write(f"%Error verifying {shown} (No such file or directory)\n")
        return
    vty.terminal.write(f"Verifying file integrity of {shown}")
    digest = await _hash(vty, entry, "sha1", _PLAIN_DOT_BYTES)
    if digest is not None:
        # The refusal of a file without a signature: its wording on a device is unconfirmed.
        vty.terminal.write(f"\n%ERROR: Not able to process Signature in {shown}.\n\n")


async def _verify(vty: Vty, arguments: Arguments, algorithm: str, spoken: str) -> None:
    entry, shown = _find(vty, arguments[0])
    if entry is None:
        if arguments[0].lower() in {"system:/running-config", "system:running-config"}:
            _verify_running(vty, arguments, algorithm)
            return
        vty.terminal.write(f"%Error computing {spoken} hash {shown} (No such file or directory)\n")
        return
    digest = await _hash(vty, entry, algorithm, _DOT_BYTES)
    if digest is not None:
        vty.terminal.write(f"Done!\n{_verdict(algorithm, shown, digest, arguments[1:])}\n\n")


def _verify_running(vty: Vty, arguments: Arguments, algorithm: str) -> None:
    """The running configuration can be hashed like a file (capture)."""
    content = vty.device.running_text().encode("latin-1", "replace")
    digest = hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()
    vty.terminal.write(f".Done!\n{_verdict(algorithm, arguments[0], digest, arguments[1:])}\n\n")


def _find(vty: Vty, text: str) -> tuple[FileEntry | None, str]:
    prefix, name = split_file(text)
    flash = vty.device.file_system(prefix)
    return (flash.find(name) if flash is not None else None), shown_name(flash, text)


def _verdict(algorithm: str, shown: str, digest: str, given: Arguments) -> str:
    """Return the result; with a digest given, whether it fits (Cisco command reference)."""
    if not given:
        return f"verify /{algorithm} ({shown}) = {digest}\n"
    if given[0].lower() == digest:
        return f"Verified ({shown}) = {digest}\n"
    lines = (f"%Error verifying {shown}", f"Computed signature  = {digest}", f"Submitted signature = {given[0]}")
    return "".join(f"{line}\n" for line in lines)


async def _hash(vty: Vty, entry: FileEntry, algorithm: str, dot_bytes: int) -> str | None:
    """Hash in a thread; None when the user is gone or pressed the escape key."""
    loop = asyncio.get_running_loop()
    stop = threading.Event()
    pace = Pace(vty.device.flash.figures.hash_bytes_per_s, stop)

    def work() -> str:
        digest = hashlib.new(algorithm, usedforsecurity=False)
        with entry.path.open("rb") as file:
            while not stop.is_set() and (chunk := file.read(_CHUNK_BYTES)):
                digest.update(chunk)
                pace.spend(len(chunk))
                loop.call_soon_threadsafe(vty.terminal.write, "." * -(-len(chunk) // dot_bytes))
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
