"""Where a download goes: a file on a flash, a configuration, or nowhere."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from flashferry.lab.standin import clock
from flashferry.lab.standin.configuration import interface_name
from flashferry.lab.standin.connections import in_own_thread
from flashferry.lab.standin.copy_files import (
    RUNNING,
    STARTUP,
    ask_name,
    may_overwrite,
    merge_into_running,
    verifies_copies,
)
from flashferry.lab.standin.copy_request import PULLS, begin_questions, source_url, transfer_request
from flashferry.lab.standin.faults import HeldWriter
from flashferry.lab.standin.flash import FlashWriter, NoSpaceError, NullWriter, Pace
from flashferry.lab.standin.ftp_client import AbortedError, CopyError, PullHooks, Sink
from flashferry.lab.standin.routing import GLOBAL_TABLE, interface_towards
from flashferry.lab.standin.server_url import PullResult, result_line
from flashferry.lab.standin.show_files import free_bytes, split_file
from flashferry.lab.standin.terminal import DisconnectedError
from flashferry.lab.standin.verify import claimed_image, verify_copied

if TYPE_CHECKING:
    import threading

    from flashferry.lab.standin.flash import Flash
    from flashferry.lab.standin.ftp_client import Pull, Sink, TransferRequest
    from flashferry.lab.standin.server_url import ServerUrl
    from flashferry.lab.standin.tftp import TftpPull
    from flashferry.lab.standin.vty import Vty

_LARGEST_CONFIGURATION_BYTES = 2**24


class Target(Protocol):
    """What a copy needs of the place it goes to."""

    keeps_nothing: bool

    async def may_begin(self) -> bool:
        """Ask what the device asks once the source is open; False ends the copy."""

    def open(self, announced_bytes: int | None, stop: threading.Event) -> Sink:
        """Begin to write; called in the copy's thread. May raise NoSpaceError."""

    def drop(self) -> None:
        """Take away what is there of a copy that did not come whole."""

    def settle(self) -> str:
        """Take over a copy that came whole; return what is printed in front of its result."""

    async def verify(self) -> None:
        """Check the copy where that is wanted, behind its result."""


class NullTarget:
    """``null:``."""

    keeps_nothing = True

    async def may_begin(self) -> bool:
        """Ask nothing."""
        return True

    def open(self, _announced_bytes: int | None, _stop: threading.Event) -> Sink:
        """Take everything and keep nothing."""
        return NullWriter()

    def drop(self) -> None:
        """Do nothing."""

    def settle(self) -> str:
        """Print nothing."""
        return ""

    async def verify(self) -> None:
        """Do nothing."""


class FlashTarget(NullTarget):
    """A file on a flash that a copy goes to; `verifies` as `copy /verify` and `file verify auto` do."""

    keeps_nothing = False

    def __init__(self, vty: Vty, flash: Flash, name: str, *, verifies: bool) -> None:
        self._vty = vty
        self._flash = flash
        self._name = name
        self._verifies = verifies
        self._has_started = False

    async def may_begin(self) -> bool:
        """Ask about erasing the flash, and about a file that is no image."""
        asks = self._vty.device.platform.copy.erase_question or self._vty.device.faults.image_not_executable
        return await begin_questions(self._vty, self._flash) if asks else True

    def open(self, announced_bytes: int | None, stop: threading.Event) -> Sink:
        """Open the file, if what the server announced fits."""
        faults, flash = self._vty.device.faults, self._flash
        left_bytes = free_bytes(self._vty, flash)
        old = flash.find(self._name)
        old_bytes = old.size_bytes if old else 0
        if announced_bytes is not None and announced_bytes > left_bytes + old_bytes:
            raise NoSpaceError
        if faults.disk_full_after_bytes is not None:
            left_bytes = min(left_bytes, faults.disk_full_after_bytes - old_bytes)
        self._has_started = True
        rate = faults.slow_flash_bytes_per_s or flash.figures.write_bytes_per_s
        writer = FlashWriter(flash, self._name, Pace(rate, stop), free_bytes=left_bytes)
        return HeldWriter(self._vty.device, _Spoiled(writer) if faults.flip_byte else writer, stop)

    def drop(self) -> None:
        """Delete the partial file where the platform does; one that was there before the copy began stays."""
        device = self._vty.device
        if self._has_started and not (device.platform.copy.keeps_partial_file or device.faults.keeps_partial_file):
            self._flash.delete(self._name)

    def settle(self) -> str:
        """Print the checksum of class-B flash; it is that of a public log of a C3640 and not computed."""
        return "Verifying checksum...  OK (0x266E)\n" if self._vty.device.platform.copy.erase_question else ""

    async def verify(self) -> None:
        """Verify the file where that is wanted."""
        if self._verifies:
            await verify_copied(self._vty, self._flash, self._name)


class ConfigTarget(NullTarget):
    """The running or the startup configuration, which a file is merged into or replaces."""

    keeps_nothing = False

    def __init__(self, vty: Vty, full_name: str) -> None:
        self._vty = vty
        self._full_name = full_name
        self._held = bytearray()

    def open(self, announced_bytes: int | None, _stop: threading.Event) -> Sink:
        """Collect the file; a configuration of more than 16 MiB is no configuration."""
        if announced_bytes is not None and announced_bytes > _LARGEST_CONFIGURATION_BYTES:
            raise NoSpaceError
        self._held.clear()
        return _Collector(self._held)

    def settle(self) -> str:
        """Apply it; lines that are refused are printed as they are met."""
        text = self._held.decode("latin-1")
        if self._full_name == STARTUP:
            self._vty.device.startup_text = text
            return "[OK]\n"
        return merge_into_running(self._vty, text, "running-config")


class _Collector:
    """A sink that keeps everything in memory."""

    def __init__(self, held: bytearray) -> None:
        self._held = held

    def write(self, chunk: bytes) -> None:
        if len(self._held) + len(chunk) > _LARGEST_CONFIGURATION_BYTES:
            raise NoSpaceError
        self._held += chunk

    def close(self) -> None:
        """Do nothing."""


class _Spoiled:
    """A writer that flips a byte when it is done."""

    def __init__(self, inner: FlashWriter) -> None:
        self._inner = inner

    def write(self, chunk: bytes) -> None:
        self._inner.write(chunk)

    def flush(self) -> None:
        self._inner.flush()

    def close(self) -> None:
        self._inner.flip_byte()
        self._inner.close()


_CLAIM_CHUNK_BYTES = 1 << 20
_FOREIGN_ERROR = "%Error opening tftp://255.255.255.255/network-confg (Timed out)"
_SYSLOG = "%LINEPROTO-5-UPDOWN: Line protocol on Interface Tunnel0, changed state to up"


async def copy_from_server(
    vty: Vty, source: str, target: str, *, by: type[Copy], vrf: str | None = None, verify: bool | None = None
) -> None:  # fmt: skip
    """`copy URL FS:file`, or to a configuration (by its full name).

    `by` is the protocol's copy, `vrf` the VRF named, `verify` what `/verify` and `/noverify` say.
    """
    url = await by.source(vty, source)
    place = await _place_of(vty, target, url, verify) if url is not None else None
    if url is not None and place is not None:
        await by(vty, url, place).run(vrf)


async def _place_of(vty: Vty, target: str, url: ServerUrl, verify: bool | None) -> Target | None:
    """Return where the copy goes, after the questions about it; None ends the copy."""
    if target in {RUNNING, STARTUP}:
        return await _configuration(vty, target)
    prefix, name = split_file(target)
    if prefix == "null":
        return NullTarget()
    flash = vty.device.file_system(prefix)
    if flash is None:
        vty.terminal.write(f"%Error opening {target} (No such device)\n")
        return None
    chosen = await ask_name(vty, _within(flash, name, url.file_name))
    if not await may_overwrite(vty, flash, chosen):
        return None
    return FlashTarget(vty, flash, chosen, verifies=verifies_copies(vty, verify))


async def _configuration(vty: Vty, target: str) -> Target | None:
    own = target.partition(":")[2]
    name = await ask_name(vty, own)
    if name != own:
        vty.terminal.write(f"%Error copying {target.partition(':')[0]}:{name} (Invalid argument)\n")
        return None
    return ConfigTarget(vty, target)


def _within(flash: Flash, name: str, file_name: str) -> str:
    """Return the name at the destination; a directory there gets the name at the source."""
    return f"{name.rstrip('/')}/{file_name}".lstrip("/") if flash.is_directory(name.rstrip("/")) else name


@dataclass(slots=True)
class _Progress:
    """What the marks have shown so far."""

    marks: int = 0
    noise_is_due: bool = False


class Copy:
    """One copy: marks while it runs, and its end."""

    def __init__(self, vty: Vty, url: ServerUrl, target: Target) -> None:
        self._vty = vty
        self._device = vty.device
        self._url = url
        self._target = target
        self._stop = threading.Event()
        self._progress = _Progress(noise_is_due=vty.device.faults.syslog_in_copy)
        self._loop = asyncio.get_running_loop()
        self._was_declined = False

    @staticmethod
    async def source(vty: Vty, text: str) -> ServerUrl | None:
        """Return the URL of the copy, after asking for what it does not name; None ends the copy."""
        return await source_url(vty, text)

    async def run(self, vrf: str | None) -> None:
        """Copy, by the VRF that the command names, and print what the device prints."""
        self._vty.terminal.write(self._first_text())
        try:
            pull = self._pull(self._request(vrf))
        except CopyError as error:
            self._report(error)
            return
        await self._fetch(pull)

    def _request(self, vrf: str | None) -> TransferRequest:
        return transfer_request(self._device, self._url, vrf)

    def _pull(self, request: TransferRequest) -> Pull | TftpPull:
        return PULLS[self._url.scheme](request, self._device.connections, self._stop)

    async def _fetch(self, pull: Pull | TftpPull) -> None:
        terminal = self._vty.terminal
        hooks = PullHooks(may_begin=self._may_begin, open_sink=self._open_sink, progress=self._on_bytes)
        terminal.on_escape = pull.abort
        closed = asyncio.ensure_future(self._end_with_vty(pull))
        try:
            result = await in_own_thread(lambda: self._run(pull, hooks))
        except CopyError as error:
            self._target.drop()
            self._report(error)
            return
        except AbortedError:
            self._target.drop()
            if not self._was_declined:
                # What IOS prints after Ctrl-Shift-6 in a copy is unconfirmed (facts 4.5).
                self._device.note_guess("copy: aborted")
                terminal.write(f"{self._before_error()}%Error reading {self._url.shown} (Aborted)\n")
            return
        finally:
            terminal.on_escape = None
            closed.cancel()
        self._finish(result)
        await self._target.verify()

    def _run(self, pull: Pull | TftpPull, hooks: PullHooks) -> PullResult:
        """Fetch the file, or claim to have it; called in a thread of its own."""
        claimed_bytes = self._claimed_bytes
        if claimed_bytes is None:
            return pull.run(hooks)
        if self._device.faults.claims_after_bytes:
            with contextlib.suppress(AbortedError, CopyError):
                pull.run(replace(hooks, progress=lambda size: self._on_claim(pull, size)))
        sink = self._target.open(None, threading.Event())
        for start in range(0, claimed_bytes, _CLAIM_CHUNK_BYTES):
            sink.write(bytes(min(_CLAIM_CHUNK_BYTES, claimed_bytes - start)))
        sink.close()
        return PullResult(size_bytes=claimed_bytes, seconds=1.0)

    def _on_claim(self, pull: Pull | TftpPull, size: int) -> None:
        self._on_bytes(size)
        if size >= self._device.faults.claims_after_bytes:
            pull.abort()

    @property
    def _claimed_bytes(self) -> int | None:
        """Return the size of the image that this copy is claimed to be, or None."""
        claimed = claimed_image(self._device, self._url.file_name)
        return claimed.stat().st_size if claimed is not None and not self._target.keeps_nothing else None

    def _report(self, error: CopyError) -> None:
        self._device.note_guess(error.guess)
        self._vty.terminal.write(f"{self._before_error()}%Error {error.verb} {self._url.shown} ({error.reason})\n")

    def _first_text(self) -> str:
        return f"Accessing {self._url.shown}..."

    def _before_error(self) -> str:
        """Return the line end that an error line needs before it."""
        return "\n"

    async def _end_with_vty(self, pull: Pull | TftpPull) -> None:
        await self._vty.terminal.closed.wait()
        if not self._device.faults.copy_outlives_session:
            pull.abort()

    def _finish(self, result: PullResult) -> None:
        size, figures = result.size_bytes, self._device.platform.copy
        is_http = self._url.scheme in {"http", "https"}
        rounded = -(-size // figures.bytes_per_mark)
        self._show_marks(size // figures.bytes_per_mark if is_http and not figures.http_marks_round_up else rounded)
        ok_line = "" if is_http and not figures.http_ok_line else self._ok_line(size)
        if is_http and not self._target.keeps_nothing:
            self._device.note_guess("http: the lines behind a copy to a flash")
        self._vty.terminal.write(f"\n{ok_line}{self._target.settle()}{result_line(result)}\n")

    def _ok_line(self, size: int) -> str:
        wrapped = (size + 2**31) % 2**32 - 2**31  # a 32-bit counter that wraps (capture of 3.2 GB)
        return f"[OK - {wrapped}{'' if self._url.scheme == 'tftp' else '/4096'} bytes]\n\n"

    def _may_begin(self) -> bool:
        """Ask what the device asks once the source is open; called in the pull's thread."""
        answer = asyncio.run_coroutine_threadsafe(self._target.may_begin(), self._loop)
        try:
            self._was_declined = not answer.result()
        except DisconnectedError:
            self._was_declined = True
        return not self._was_declined

    def _open_sink(self, announced_bytes: int | None) -> Sink:
        """Begin to write; called in the pull's thread when the transfer opens."""
        self._loop.call_soon_threadsafe(self._on_open)
        return self._target.open(announced_bytes, self._stop)

    def _on_open(self) -> None:
        if self._device.platform.copy.loading_line:
            self._vty.terminal.write(f"\nLoading {self._loading_text()} ")

    def _loading_text(self) -> str:
        """Name the source: TFTP says whence and by which interface, HTTP the whole URL (public logs)."""
        if self._url.scheme in {"http", "https"}:
            return self._url.shown
        if self._url.scheme == "tftp":
            leaving = interface_towards(self._device.running, GLOBAL_TABLE, self._url.host)
            via = f" (via {interface_name(leaving)})" if leaving is not None else ""
            return f"{self._url.path} from {self._url.host}{via}:"
        return self._url.file_name

    def _on_bytes(self, size: int) -> None:
        """Note progress; called in the pull's thread for every piece, so it only speaks up for a new mark."""
        marks = size // self._device.platform.copy.bytes_per_mark
        limit = self._device.faults.drop_ssh_after_bytes
        if limit is not None and size >= limit and not self._vty.terminal.closed.is_set():
            self._loop.call_soon_threadsafe(self._vty.terminal.abort)
        reboot = self._device.faults.reboot_after_bytes
        if reboot is not None and size >= reboot and not self._stop.is_set():
            self._stop.set()
            self._loop.call_soon_threadsafe(self._device.restart)
        if marks > self._progress.marks:
            self._loop.call_soon_threadsafe(self._show_marks, marks)

    def _show_marks(self, marks: int) -> None:
        new, self._progress.marks = marks - self._progress.marks, max(marks, self._progress.marks)
        self._vty.terminal.write("!" * new)
        if self._progress.noise_is_due and marks >= 2:
            self._progress.noise_is_due = False
            stamp = clock.syslog_stamp(self._device.now())
            self._vty.terminal.write(f"\n{stamp}: {_SYSLOG}\n{_FOREIGN_ERROR}")
