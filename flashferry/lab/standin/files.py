"""`dir`, `show file systems`, `more`, `delete`, `mkdir`, `rmdir`, `rename`; signed images, and `verify` of them.

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

from flashferry.lab.standin import clock
from flashferry.lab.standin.connections import stoppable
from flashferry.lab.standin.flash import FileEntry, Pace
from flashferry.lab.standin.texts_data import printed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.flash import FileEntry, Flash, FlashFigures
    from flashferry.lab.standin.platform import Platform
    from flashferry.lab.standin.vty import Vty

Arguments = tuple[str, ...]
_COLUMNS = 80

RUNNING = "system:running-config"
STARTUP = "nvram:startup-config"


def split_file(text: str) -> tuple[str, str]:
    """Split ``flash:/x`` into the prefix and the name without its leading slash."""
    prefix, _, name = text.partition(":")
    return prefix.lower(), name.lstrip("/")


def find_file(vty: Vty, text: str) -> FileEntry | None:
    """Return a file by its whole name, or None."""
    prefix, name = split_file(text)
    flash = vty.device.file_system(prefix)
    return flash.find(name) if flash is not None else None


def shown_name(flash: Flash | None, text: str) -> str:
    """Return a file as the device names it: its own prefix, and a slash only where one was typed (captures)."""
    return text if flash is None else f"{flash.prefix}{text.partition(':')[2]}"


def directory(vty: Vty, arguments: Arguments) -> str:
    """`dir [FS:[file]]`: a file system, a directory or one file; the device answers with its own name for it."""
    text = arguments[0] if arguments else vty.working_directory or vty.device.flash.prefix
    text = "nvram:" if text == ":" else text  # a device without flash
    prefix, name = split_file(text)
    if prefix in {"system", "nvram"}:
        return _configuration_files(vty, prefix, name)
    flash = vty.device.file_system(prefix)
    if flash is None:
        return f"%Error opening {text} (No such device)\n"
    name = name.rstrip("/")
    header = f"Directory of {flash.prefix}/{name}\n\n"
    command = vty.device.platform
    if flash.is_directory(name):
        rows = "".join(_row(vty, entry, command) for entry in flash.listing(name)) or "No files in directory\n"
        return f"{header}{rows}\n{_totals(vty, flash)}"
    entry = flash.find(name)
    if entry is None:
        return f"%Error opening {flash.prefix}/{name} (No such file or directory)\n"
    return f"{header}{_row(vty, entry, command)}\n{_totals(vty, flash)}"


def directory_named(vty: Vty, arguments: Arguments) -> str:
    """`dir NAME`, `dir /`: on the default file system."""
    return directory(vty, (f"{vty.working_directory or vty.device.flash.prefix}{arguments[0].lstrip('/')}",))


def working_directory(vty: Vty, _: Arguments) -> str:
    """`pwd`."""
    return f"{(vty.working_directory or vty.device.flash.prefix).rstrip('/')}\n"


def change_directory(vty: Vty, arguments: Arguments) -> str:
    """`cd [FS:[directory]]`: alone back to the default file system."""
    if not arguments:
        vty.working_directory = ""
        return ""
    own = vty.working_directory or vty.device.flash.prefix
    text = arguments[0] if ":" in arguments[0] else f"{own.rstrip('/')}/{arguments[0].strip('/')}".replace(":/", ":")
    prefix, name = split_file(text)
    flash = vty.device.file_system(prefix)
    if prefix not in {"system", "nvram"} and (flash is None or not flash.is_directory(name.rstrip("/"))):
        return f"%Error opening {text} (No such file or directory)\n"
    vty.working_directory = f"{prefix}:{name.rstrip('/')}" + "/" * bool(name)
    return ""


def file_information(vty: Vty, arguments: Arguments) -> str:
    """`show file information FS:file`, `show file descriptors`."""
    if not arguments:
        return "File Descriptors:\n\nFD  Position  Open  PID  Path\n"
    kind = "image (elf)" if arguments[0].endswith(".bin") else "ascii text"
    if content(vty, arguments[0]) is None:
        return f"%Error opening {arguments[0]} (No such file or directory)\n"
    return f"{arguments[0]}:\n  type is {kind}\n"


def flash_listing(vty: Vty, arguments: Arguments) -> str:
    """`show flash:` and the like: what is on a file system, counted through.

    IOS-XE names each file by its whole path, IOS by its name alone; both say at the end how much room is left.
    """
    text = arguments[0] if arguments else vty.device.flash.prefix
    flash = vty.device.file_system(split_file(text)[0])
    if flash is None:
        return f"%Error opening {text} (No such device)\n"
    is_xe = vty.device.platform.family == "IOS-XE"
    head = "-#- --length-- ---------date/time--------- path" if is_xe else "-#- --length-- -----date/time------ path"
    listing = [("", entry) for entry in flash.listing()] if not is_xe else [*_whole_tree(flash)]
    rows = [head]
    for number, (folder, entry) in enumerate(listing, start=1):
        name = f"/{flash.prefix.rstrip(':')}/{folder}{entry.name}" if is_xe else entry.name
        stamp = f"{entry.modified:%b %d %Y %H:%M:%S} +00:00"
        rows.append(f"{number:>3d} {entry.size_bytes:10d} {stamp} {name}")
    free = free_bytes(vty, flash)
    rows += ["", f"{free} bytes available ({flash.figures.size_bytes - free} bytes used)", ""]
    return "".join(f"{row}\n" for row in rows)


def _whole_tree(flash: Flash, folder: str = "") -> Iterator[tuple[str, FileEntry]]:
    for entry in flash.listing(folder.rstrip("/")):
        yield folder, entry
        if entry.is_directory:
            yield from _whole_tree(flash, f"{folder}{entry.name}/")


def free_bytes(vty: Vty, flash: Flash | None = None) -> int:
    """Room on a file system as the device sees it, the flash by default."""
    return 0 if vty.device.faults.flash_full else (flash or vty.device.flash).free_bytes


def _totals(vty: Vty, flash: Flash) -> str:
    return f"{flash.figures.size_bytes} bytes total ({free_bytes(vty, flash)} bytes free)\n"


def _row(vty: Vty, entry: FileEntry, command: Platform) -> str:
    """Return a row; a name too long for it stands on the line after it, as a 3750-X shows it at 80 columns."""
    flags = command.directory_flags if entry.is_directory else "-rw-"
    size = f"{entry.size_bytes:{command.dir_size_chars}d}"
    row = f"{entry.inode:5d}  {flags}  {size}  {clock.file_stamp(entry.modified)}  "
    columns = _COLUMNS if vty.device.faults.dir_breaks_at_80 else vty.columns
    is_broken = 0 < columns < len(row) + len(entry.name)
    return f"{row}\n{entry.name}\n" if is_broken else f"{row}{entry.name}\n"


def _configuration_files(vty: Vty, prefix: str, name: str) -> str:
    """`dir system:` and `dir nvram:`: the configurations as files, without a date (capture)."""
    own, text = ("running-config", vty.device.running_text())
    if prefix == "nvram":
        own, text = ("startup-config", vty.device.startup_text)
    if name not in {"", own}:
        return f"%Error opening {prefix}:/{name} (No such file or directory)\n"
    row = f"1       -rw-  {len(text):15d}                    <no date>  {own}\n"
    return f"Directory of {prefix}:/{name}\n\n{row}\nNo space information available\n"


def file_systems(vty: Vty, _: Arguments) -> str:
    """`show file systems`."""
    shown = [_file_system_row(vty, row) if row.startswith("@") else row for row in vty.device.platform.file_system_rows]
    rows = [row for row in shown if not row.startswith("@")]
    header = "File Systems:\n\n       Size(b)       Free(b)      Type  Flags  Prefixes\n"
    return header + "".join(f"{row}\n" for row in rows) + "\n"


def _file_system_row(vty: Vty, row: str) -> str:
    flash = vty.device.file_system(row[1:])
    if flash is None:
        return row
    mark = "*" if flash is vty.device.flash else " "
    size = f"{flash.figures.size_bytes:13d} {free_bytes(vty, flash):13d}"
    return f"{mark}{size}      disk     rw   {_prefixes(flash.figures)}"


def _prefixes(figures: FlashFigures) -> str:
    return " ".join(f"{name}:" for name in (figures.name, *figures.aliases))


def content(vty: Vty, text: str) -> bytes | None:
    """Return what a file holds; a configuration is a file too. None when there is none of that name."""
    prefix, name = split_file(text)
    if (prefix, name) == ("system", "running-config"):
        return vty.device.running_text().encode("latin-1", "replace")
    if (prefix, name) == ("nvram", "startup-config"):
        return vty.device.startup_text.encode("latin-1", "replace")
    entry = find_file(vty, text)
    return entry.path.read_bytes()[: 2**24] if entry is not None else None


def more(vty: Vty, arguments: Arguments) -> str:
    """`more FS:file`."""
    held = content(vty, arguments[0])
    if held is None:
        flash = vty.device.file_system(split_file(arguments[0])[0])
        return f"%Error opening {shown_name(flash, arguments[0])} (No such file or directory)\n"
    text = held.decode("latin-1")
    return text if text.endswith("\n") else text + "\n"


async def delete(vty: Vty, arguments: Arguments) -> None:
    """`delete FS:file`: two questions; `/force` and `file prompt quiet` ask none."""
    prefix, name = split_file(arguments[0])
    if "/force" not in vty.words and vty.device.running.value("file prompt") != "quiet":
        name = await vty.terminal.ask(f"Delete filename [{name}]? ", name)
        prefix = vty.device.faults.delete_asks_about or prefix
        if not await vty.terminal.confirm(f"Delete {prefix}:/{name}? "):
            return
    flash = vty.device.file_system(prefix)
    if flash is not None and flash.find(name) is not None:
        flash.delete(name)
    else:
        shown = shown_name(flash, f"{prefix}:/{name}")
        vty.terminal.write(f"%Error deleting {shown} (No such file or directory)\n")


async def make_directory(vty: Vty, arguments: Arguments) -> None:
    """`mkdir FS:name`: a question, then what was made."""
    prefix, name = split_file(arguments[0])
    name = (await vty.terminal.ask(f"Create directory filename [{name}]? ", name)).strip("/")
    flash = vty.device.file_system(prefix)
    if flash is None or not name or flash.is_directory(name) or flash.find(name) is not None:
        vty.terminal.write(
            f"%Error Creating dir {shown_name(flash, f'{prefix}:{name}')} (Can't create a file that exists)\n"
        )
        return
    flash.make_directory(name)
    vty.terminal.write(f"Created dir {flash.prefix}/{name}\n")


async def remove_directory(vty: Vty, arguments: Arguments) -> None:
    """`rmdir FS:name`: a question and a confirmation."""
    prefix, name = split_file(arguments[0])
    name = (await vty.terminal.ask(f"Remove directory filename [{name}]? ", name)).strip("/")
    flash = vty.device.file_system(prefix)
    if not await vty.terminal.confirm(f"Delete {prefix}:/{name}? "):
        return
    if flash is None or not flash.remove_directory(name):
        reason = (
            "Directory not empty" if flash is not None and flash.is_directory(name) else "No such file or directory"
        )
        vty.terminal.write(f"%Error Removing dir {shown_name(flash, f'{prefix}:/{name}')} ({reason})\n")
        return
    vty.terminal.write(f"Removed dir {flash.prefix}/{name}\n")


async def rename(vty: Vty, arguments: Arguments) -> None:
    """`rename FS:old FS:new`: asks for the new name."""
    (prefix, old), (_, new) = split_file(arguments[0]), split_file(arguments[1])
    new = (await vty.terminal.ask(f"Destination filename [{new}]? ", new)).lstrip("/")
    flash = vty.device.file_system(prefix)
    if flash is None or flash.find(old) is None:
        shown = shown_name(flash, arguments[0])
        vty.terminal.write(f"%Error renaming {shown} (No such file or directory)\n")
    elif flash.find(new) is not None:
        vty.terminal.write(f"%Error renaming {shown_name(flash, arguments[0])} (File exists)\n")
    else:
        flash.rename(old, new)


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
    """Return what IOS-XE prints after the dots of a good image; digests are SHA-1, MD5 and SHA-512."""
    sha1, _, sha512 = digests
    blanks = " " * 22
    rows = [sha512[at : at + 32] for at in range(0, 128, 32)]
    sha2 = f"\n{blanks}".join((*rows, ""))
    return printed("signed image of IOS-XE", sha1=sha1.upper(), sha2=sha2, shown=shown)


_DOT_BYTES = 65536
_PLAIN_DOT_BYTES = 4096
_CHUNK_BYTES = 16 * _DOT_BYTES


async def verify_digest(vty: Vty, arguments: Arguments) -> None:
    """`verify /md5|/sha512 FS:file [digest]`."""
    algorithm = vty.words[1].removeprefix("/")
    flash, entry, shown = _find(vty, arguments[0])
    if entry is not None and flash is not None:
        digests = await _hash(vty, flash, entry, (algorithm,), _DOT_BYTES)
        if digests is not None:
            vty.terminal.write(f"Done!\n{_verdict(algorithm, shown, digests[0], arguments[1:])}\n\n")
    elif arguments[0].lower() in {"system:/running-config", "system:running-config"}:  # like a file (capture)
        running = vty.device.running_text().encode("latin-1", "replace")
        digest = hashlib.new(algorithm, running, usedforsecurity=False).hexdigest()
        vty.terminal.write(f".Done!\n{_verdict(algorithm, arguments[0], digest, arguments[1:])}\n\n")
    else:
        vty.terminal.write(f"%Error computing {algorithm.upper()} hash {shown} (No such file or directory)\n")


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
    """Return what stands after a copy whose file has no good signature."""
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
    is_xe = vty.device.platform.family == "IOS-XE"
    text = signed_xe(shown, digests) if is_xe else printed("signed image of IOS", shown=shown, md5=digests[1].upper())
    vty.terminal.write(text)
    return True


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

    found = await stoppable(vty.terminal, stop.set, work)
    return None if stop.is_set() else found
