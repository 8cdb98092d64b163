"""Copies of files and configurations on the device itself and to a server, and what all copies ask and request.

An upload's dialogue is that of the Cisco configuration guide: host and name are asked for, each with what the command
says as its default; then ``Writing NAME`` with marks and the line that ends every copy. The name of a configuration is
by default that of the host with ``-confg`` at its end (public log: ``frs2-confg``). How many bytes a mark stands for in
an upload is not documented; here it is as many as in a download.

A protocol that the stand-in does not speak ends with an error, after trying.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from flashferry.lab.standin.configuration import parse_lines
from flashferry.lab.standin.configure import run_lines
from flashferry.lab.standin.connections import stoppable
from flashferry.lab.standin.device_tcp import tcp_settings
from flashferry.lab.standin.files import (
    RUNNING,
    STARTUP,
    aborted_copy,
    content,
    free_bytes,
    shown_name,
    split_file,
    verify_copied,
)
from flashferry.lab.standin.flash import FlashWriter, NoSpaceError, Pace
from flashferry.lab.standin.ftp_client import AbortedError, CopyError, Pull, PullHooks, Push, TransferRequest
from flashferry.lab.standin.hardware import MemberLeftError, leave, place_of
from flashferry.lab.standin.http_client import HttpPull, HttpPush
from flashferry.lab.standin.routing import is_address, path_to
from flashferry.lab.standin.server_url import PullResult, parse_url, result_line
from flashferry.lab.standin.texts_data import printed
from flashferry.lab.standin.tftp import TftpPull, TftpPush
from flashferry.lab.standin.trustpoints import trusted

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.flash import Flash
    from flashferry.lab.standin.server_url import PullResult, ServerUrl
    from flashferry.lab.standin.vty import Vty


async def erase_startup(vty: Vty, _: tuple[str, ...]) -> None:
    """`write erase`, `erase startup-config`."""
    asked = "Erasing the nvram filesystem will remove all configuration files! Continue? "
    if await vty.terminal.confirm(asked):
        vty.device.startup_text = ""
        vty.terminal.write("[OK]\nErase of nvram: complete\n")
        vty.device.syslog("%SYS-7-NV_BLOCK_INIT: Initialized the geometry of nvram")


_MARK_BYTES = 65536


async def write_memory(vty: Vty, _: tuple[str, ...] = ()) -> None:
    """`write memory`."""
    if vty.device.faults.nvram_differs:
        vty.terminal.write(printed("nvram differs"))
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


class SilentPull(Pull):
    """A download that connects, and then ends with an error."""

    def _fetch(self, _hooks: PullHooks) -> PullResult:
        self._connect((self.request.address, self.request.url.port))
        raise CopyError("opening", "I/O error")


class SilentPush(Push):
    """The same for an upload."""

    def run(self, _source: BinaryIO, *, opened: Callable[[], None], progress: Callable[[int], None]) -> PullResult:
        """Connect, and fail."""
        del opened, progress
        with self.device_words():
            self._connect((self.request.address, self.request.url.port))
            raise CopyError("writing", "I/O error")


PULLS: dict[str, type[Pull | TftpPull]] = {
    "ftp": Pull, "http": HttpPull, "https": HttpPull, "rcp": SilentPull, "tftp": TftpPull,
}  # fmt: skip
"""Downloads, but for those over SSH: see `flashferry.lab.standin.copy_download`."""

PUSHES: dict[str, type[Push | TftpPush]] = {
    "ftp": Push, "http": HttpPush, "https": HttpPush, "rcp": SilentPush, "scp": SilentPush, "sftp": SilentPush,
    "tftp": TftpPush,
}  # fmt: skip
"""Uploads."""

SOURCE_INTERFACE_LINES = {
    "ftp": "ftp", "http": "http client", "https": "http client", "rcp": "rcmd", "scp": "ssh", "sftp": "ssh",
    "tftp": "tftp",
}  # fmt: skip
"""Words of the configuration line that names the interface of a client's connections (Cisco command references)."""


async def begin_questions(vty: Vty, flash: Flash) -> bool:
    """Ask; False ends the copy. `file prompt quiet` asks nothing (Cisco command reference)."""
    if vty.device.running.value("file prompt") == "quiet":
        return True
    if vty.device.platform.copy.erase_question:
        await _erase(vty, flash)
    if vty.device.faults.image_not_executable:
        vty.terminal.write("\n%Warning: File not a valid executable for this system\n")
        return not await vty.terminal.confirm("Abort Copy? ")
    return True


async def _erase(vty: Vty, flash: Flash) -> None:
    terminal = vty.terminal
    if not await terminal.confirm(f"\nErase {flash.prefix} before copying? "):
        return
    if not await terminal.confirm("Erasing the flash filesystem will remove all files! Continue? "):
        return
    entries = flash.entries()
    terminal.write(f"Erasing device... {'e' * max(4, len(entries))} ...erased\nErase of {flash.prefix} complete\n")
    for entry in entries:
        flash.delete(entry.name)


BAD_ADDRESS = "%Error parsing filename (Bad address)\n"
"""What is printed of a URL that is none."""


async def ask_host(vty: Vty, url: ServerUrl, *, asks: bool) -> str:
    """Return the host of a URL, asked for where it has none or where `asks`; empty ends the copy, with a message."""
    host = url.host
    if asks or not host:
        host = await vty.terminal.ask(f"Address or name of remote host [{host}]? ", host)
    if not host:
        vty.terminal.write(f"?Host name or address not specified\n{BAD_ADDRESS}")
    return host


def read_url(vty: Vty, text: str) -> ServerUrl | None:
    """Read a URL; one that is none ends the copy, with a message."""
    url = parse_url(text)
    if url is None:
        vty.terminal.write(BAD_ADDRESS)
    return url


async def source_url(vty: Vty, text: str) -> ServerUrl | None:
    """Return the URL of a download, after asking for what it does not name."""
    url, asks = read_url(vty, text), vty.device.faults.asks_what_url_has
    if url is None or not (host := await ask_host(vty, url, asks=asks or url.port_is_open)):
        return None
    path = url.path
    if not path or asks:
        path = await vty.terminal.ask(f"Source filename [{path}]? ", path)
    if not path:
        vty.terminal.write("%Error parsing filename (No such file or directory)\n")
        return None
    return replace(url, host=host, path=path, port_is_open=False)


async def destination_url(vty: Vty, text: str, name: str) -> ServerUrl | None:
    """Return the URL of an upload; host and name are asked for even where it names them (Cisco configuration guide)."""
    url, asks = read_url(vty, text), vty.device.running.value("file prompt") != "quiet"
    if url is None or not (host := await ask_host(vty, url, asks=asks)):
        return None
    path = url.path if url.file_name else f"{url.path}{name}"
    if asks:
        path = await vty.terminal.ask(f"Destination filename [{path}]? ", path)
    return replace(url, host=host, path=path, port_is_open=False)


def transfer_request(device: Device, url: ServerUrl, vrf: str | None) -> TransferRequest:
    """Gather what the configuration says: credentials, the way there, mode, TCP.

    Raises CopyError: there is no way to the host, or no address for its name.
    """
    running, faults = device.running, device.faults
    texts = device.platform.texts_of(url.scheme)
    resolved = "" if is_address(url.host) else running.value(f"ip host {url.host}") or ""
    if texts and not resolved and not is_address(url.host):
        raise CopyError.worded(texts["bad_host"])
    line = f"ip {SOURCE_INTERFACE_LINES[url.scheme]} source-interface"
    own_line = running.value("ip scp source-interface") if url.scheme == "scp" else None
    route = path_to(running, resolved or url.host, vrf=vrf, source_interface=own_line or running.value(line))
    if route is None:
        raise CopyError.worded(texts["unreachable"]) if texts else CopyError("opening", "Timed out")
    user, word = _login(device, url)
    own = device.settings.extended_passive
    tcp = tcp_settings(running, device.platform.tcp, ineffective=faults.ineffective_config_pattern)
    return TransferRequest(
        url=url,
        user=user,
        password=word,
        source_address=route.source_address,
        tcp=replace(
            tcp,
            is_blocked=url.scheme in {*device.settings.blocked_transports, *faults.blocked_transports},
            is_marked=device.link_control is not None,
        ),
        reply_timeout_s=faults.reply_timeout_s or device.platform.copy.reply_timeout_s,
        passive=_is_passive(device),
        extended_passive=device.platform.copy.extended_passive if own is None else own,
        silent_start_s=faults.silent_start_s,
        dead_control=faults.dead_control,
        resolved=resolved,
        texts=texts,
        clock_offset_s=faults.clock_offset_s,
        trusted=trusted(running) if url.scheme == "https" else (),
        block_bytes=int(running.value("ip tftp blocksize") or 512),
        decrypts_bytes_per_s=faults.https_bytes_per_s or device.platform.copy.https_bytes_per_s,
    )


def _login(device: Device, url: ServerUrl) -> tuple[str, str]:
    """Return user and password: those of the URL, else those of the client's lines; FTP has a default beyond."""
    client = {"http": "http client", "https": "http client", "scp": "scp", "sftp": "sftp"}.get(url.scheme, "ftp")
    user, word = device.client_credentials(f"ip {client}")
    if client == "ftp":
        domain = device.running.value("ip domain name") or "local"
        user, word = user or "anonymous", word or f"user@{device.hostname}.{domain}"
    return url.user or user or "", url.password or word or ""


def _is_passive(device: Device) -> bool:
    """Whether the data connection is passive: by its line, else as the platform does."""
    if device.running.find("no ip ftp passive") is not None:
        return False
    return device.platform.copy.passive or device.running.find("ip ftp passive") is not None


async def copy_to_server(vty: Vty, source: str, target: str, *, vrf: str | None = None) -> None:
    """`copy FS:file ftp:...`, `copy running-config ftp:...`."""
    is_configuration = source in {RUNNING, STARTUP}
    prefix, name = split_file(source)
    if not name:
        name = await vty.terminal.ask("Source filename []? ", "")
    held = _open(vty, source if is_configuration else f"{prefix}:{name}", prefix, name)
    if held is None:
        shown = shown_name(vty.device.file_system(prefix), f"{prefix}:/{name}")
        vty.terminal.write(f"%Error opening {shown} (No such file or directory)\n")
        return
    with held:
        default = f"{vty.device.hostname.lower()}-confg" if is_configuration else name.rpartition("/")[2]
        url = await destination_url(vty, target, default)
        if url is not None:
            await _Upload(vty, url, held).run(vrf)


def _open(vty: Vty, source: str, prefix: str, name: str) -> BinaryIO | None:
    flash = vty.device.file_system(prefix)
    if flash is not None:
        entry = flash.find(name)
        return entry.path.open("rb") if entry is not None else None
    small = content(vty, source)
    return None if small is None else io.BytesIO(small)


class _Upload:
    """One upload: marks while it runs, and its end; `_on_open` and `_on_bytes` are called in the transfer's thread."""

    def __init__(self, vty: Vty, url: ServerUrl, source: BinaryIO) -> None:
        self._vty = vty
        self._url = url
        self._source = source
        self._marks = 0
        self._is_open = False
        self._loop = asyncio.get_running_loop()

    async def run(self, vrf: str | None) -> None:
        """Send, and print what the device prints."""
        terminal, device = self._vty.terminal, self._vty.device
        try:
            request = transfer_request(device, self._url, vrf)
            push = PUSHES[self._url.scheme](request, device.connections, threading.Event())
            result = await stoppable(
                terminal, push.abort,
                lambda: push.run(self._source, opened=self._on_open, progress=self._on_bytes),
            )  # fmt: skip
        except CopyError as error:
            device.note_guess(error.guess)
            start = "\n" if self._is_open else ""
            terminal.write(f"{start}%Error {error.verb} {self._url.shown} ({error.reason})\n")
        except AbortedError:
            # As for a download, what IOS prints after Ctrl-Shift-6 is unconfirmed (facts 4.5).
            terminal.write(f"\n%Error writing {self._url.shown} (Aborted)\n")
        else:
            self._show_marks(-(-result.size_bytes // device.platform.copy.bytes_per_mark))
            terminal.write(f"\n{result_line(result)}\n")

    def _on_open(self) -> None:
        self._is_open = True
        self._loop.call_soon_threadsafe(self._vty.terminal.write, f"Writing {self._url.file_name} ")

    def _on_bytes(self, size: int) -> None:
        marks = size // self._vty.device.platform.copy.bytes_per_mark
        if marks > self._marks:
            self._loop.call_soon_threadsafe(self._show_marks, marks)

    def _show_marks(self, marks: int) -> None:
        new, self._marks = marks - self._marks, max(marks, self._marks)
        self._vty.terminal.write("!" * new)
