"""Signed images, and what `verify` prints about them.

No stand-in can check Cisco's signatures. In their place a file counts as a signed image when it ends with a mark and
the SHA-1 of all that is before it; `sign` makes one. The lines are those of a capture of IE9300 17.9.2 (genielibs), and
for IOS those of Cisco's documentation of `verify`.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.lab.standin.connections import in_own_thread
from flashferry.lab.standin.flash import FileEntry, Pace
from flashferry.lab.standin.show_files import shown_name, split_file

if TYPE_CHECKING:
    from pathlib import Path

    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.flash import Flash
    from flashferry.lab.standin.vty import Vty

_MARK = b"\nstand-in image, SHA-1 of the above: "
_TRAILER_BYTES = len(_MARK) + 40


def sign(content: bytes) -> bytes:
    """Return content as a stand-in takes it for a genuine image."""
    return content + _MARK + hashlib.sha1(content, usedforsecurity=False).hexdigest().encode("ascii")


def embedded_signature(path: Path) -> tuple[str | None, int]:
    """Return the digest that a file ends with, None where it has none, and how many bytes it is of."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - _TRAILER_BYTES))
        trailer = file.read()
    if not trailer.startswith(_MARK):
        return None, size
    return trailer[len(_MARK) :].decode("latin-1"), size - _TRAILER_BYTES


def signed_xe(shown: str, digests: tuple[str, ...]) -> str:
    """Return what IOS-XE prints behind the dots of a good image; digests are SHA-1, MD5 and SHA-512."""
    sha1, _, sha512 = digests
    blanks = " " * 22
    rows = [sha512[at : at + 32] for at in range(0, 128, 32)]
    return (
        f"\nEmbedded Hash   SHA1 : {sha1.upper()}\nComputed Hash   SHA1 : {sha1.upper()}\n"
        "Starting image verification\nHash Computation:    100%Done!\n"
        f"Computed Hash   SHA2: {rows[0]}\n" + "".join(f"{blanks}{row}\n" for row in rows[1:]) + f"{blanks}\n"
        f"Digital signature successfully verified in file {shown}\n\nSignature Verified\n"
    )


def signed_ios(shown: str, digests: tuple[str, ...]) -> str:
    """Return what IOS prints behind the dots of a good image; digests are SHA-1, MD5 and SHA-512."""
    md5 = digests[1].upper()
    return (
        f"Done!\nEmbedded Hash   MD5 : {md5}\nComputed Hash   MD5 : {md5}\nCCO Hash        MD5 : {md5}\n\n"
        "Embedded hash verification successful.\nFile system hash verification successful.\n"
        f"Verified {shown}\n"
    )


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
    flash, entry, shown = _find(vty, arguments[0])
    if entry is None or flash is None:
        vty.terminal.write(f"%Error verifying {shown} (No such file or directory)\n")
    elif await _check_signature(vty, flash, entry, shown) is False:
        vty.terminal.write("\n")


async def verify_copied(vty: Vty, flash: Flash, name: str) -> None:
    """Verify what a copy has brought, and delete it where its signature is not good (capture of IE3x00)."""
    entry = flash.find(name)
    shown = f"{flash.prefix}/{name}"
    if entry is not None and await _check_signature(vty, flash, entry, shown) is False:
        vty.terminal.write(aborted_copy(shown, was_there=True).partition("\n")[2])
        flash.delete(name)


def aborted_copy(shown: str, *, was_there: bool) -> str:
    """Return what stands behind a copy whose file has no good signature."""
    lines = [f"%ERROR: Not able to process Signature in {shown}.", "%ERROR: Aborting copy."]
    lines += [] if was_there else [f"%Error deleting {shown} (No such file or directory)"]
    return "".join(f"{line}\n" for line in lines)


async def _check_signature(vty: Vty, flash: Flash, entry: FileEntry, shown: str) -> bool | None:
    """Check the signature of a file and print it; None when the user stopped it."""
    vty.terminal.write(f"Verifying file integrity of {shown}")
    embedded, signed_bytes = embedded_signature(entry.path)
    digests = await _hash(vty, flash, entry, ("sha1", "md5", "sha512"), _PLAIN_DOT_BYTES, size_bytes=signed_bytes)
    if digests is None:
        return None
    if embedded != digests[0]:
        # Files without a signature: the line is that of a capture of copy /verify.
        vty.terminal.write(f"\n%ERROR: Not able to process Signature in {shown}.\n")
        return False
    report = signed_xe if vty.device.platform.family == "IOS-XE" else signed_ios
    vty.terminal.write(report(shown, digests))
    return True


async def _verify(vty: Vty, arguments: Arguments, algorithm: str, spoken: str) -> None:
    flash, entry, shown = _find(vty, arguments[0])
    if entry is None or flash is None:
        if arguments[0].lower() in {"system:/running-config", "system:running-config"}:
            _verify_running(vty, arguments, algorithm)
            return
        vty.terminal.write(f"%Error computing {spoken} hash {shown} (No such file or directory)\n")
        return
    digests = await _hash(vty, flash, entry, (algorithm,), _DOT_BYTES)
    if digests is not None:
        vty.terminal.write(f"Done!\n{_verdict(algorithm, shown, digests[0], arguments[1:])}\n\n")


def _verify_running(vty: Vty, arguments: Arguments, algorithm: str) -> None:
    """The running configuration can be hashed like a file (capture)."""
    content = vty.device.running_text().encode("latin-1", "replace")
    digest = hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()
    vty.terminal.write(f".Done!\n{_verdict(algorithm, arguments[0], digest, arguments[1:])}\n\n")


def _find(vty: Vty, text: str) -> tuple[Flash | None, FileEntry | None, str]:
    prefix, name = split_file(text)
    flash = vty.device.file_system(prefix)
    entry = flash.find(name) if flash is not None else None
    claimed = claimed_image(vty.device, name)
    if entry is not None and claimed is not None:
        entry = replace(entry, path=claimed)
    return flash, entry, shown_name(flash, text)


def claimed_image(device: Device, name: str) -> Path | None:
    """Return the image that a file of a name is claimed to be, as a fault; None where the device is honest."""
    claimed = Path(device.faults.claims_image) if device.faults.claims_image else None
    return claimed if claimed is not None and claimed.name == name.rpartition("/")[2] else None


def _verdict(algorithm: str, shown: str, digest: str, given: Arguments) -> str:
    """Return the result; with a digest given, whether it fits (Cisco command reference)."""
    if not given:
        return f"verify /{algorithm} ({shown}) = {digest}\n"
    if given[0].lower() == digest:
        return f"Verified ({shown}) = {digest}\n"
    lines = (f"%Error verifying {shown}", f"Computed signature  = {digest}", f"Submitted signature = {given[0]}")
    return "".join(f"{line}\n" for line in lines)


async def _hash(
    vty: Vty, flash: Flash, entry: FileEntry, algorithms: tuple[str, ...], dot_bytes: int, *,
    size_bytes: int | None = None,
) -> tuple[str, ...] | None:  # fmt: skip
    """Hash a file in a thread, with its dots; None when the user is gone or pressed the escape key."""
    loop = asyncio.get_running_loop()
    stop = threading.Event()
    pace = Pace(flash.figures.hash_bytes_per_s, stop)
    all_bytes = entry.size_bytes if size_bytes is None else size_bytes

    def work() -> tuple[str, ...]:
        digests = [hashlib.new(algorithm, usedforsecurity=False) for algorithm in algorithms]
        with entry.path.open("rb") as file:
            while not stop.is_set() and (chunk := file.read(min(_CHUNK_BYTES, all_bytes - file.seek(0, 1)))):
                for digest in digests:
                    digest.update(chunk)
                pace.spend(len(chunk))
                loop.call_soon_threadsafe(vty.terminal.write, "." * -(-len(chunk) // dot_bytes))
        return tuple(digest.hexdigest() for digest in digests)

    vty.terminal.on_escape = stop.set
    closed = asyncio.ensure_future(vty.terminal.closed.wait())
    closed.add_done_callback(lambda _: stop.set())
    try:
        found = await in_own_thread(work)
        was_stopped = stop.is_set()
    finally:
        vty.terminal.on_escape = None
        closed.cancel()
    return None if was_stopped else found
