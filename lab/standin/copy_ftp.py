"""`copy ftp://...`: the dialogue, around a real download.

Texts follow the captures and facts 4.2 to 4.4: the questions, ``Accessing``, ``Loading``, one ``!`` per 256,000
bytes, ``[OK - N/4096 bytes]``, and the line whose rate is bytes over the seconds as printed, rounded to nearest.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.standin import clock
from lab.standin.copy_files import ask_name, may_overwrite
from lab.standin.copy_questions import begin_questions
from lab.standin.flash import FlashWriter, NoSpaceError, NullWriter, Pace
from lab.standin.ftp_protocol import FtpUrl, parse_url
from lab.standin.ftp_pull import Pull
from lab.standin.ftp_request import AbortedError, CopyError, PullHooks, PullRequest, Sink
from lab.standin.interfaces import source_address
from lab.standin.results import PullResult, result_line
from lab.standin.show_files import free_bytes, split_file
from lab.standin.tcp_settings import tcp_settings
from lab.standin.terminal import DisconnectedError

if TYPE_CHECKING:
    from lab.standin.device import Device
    from lab.standin.flash import Flash
    from lab.standin.vty import Vty

_FOREIGN_ERROR = "%Error opening tftp://255.255.255.255/network-confg (Timed out)"
_SYSLOG = "%LINEPROTO-5-UPDOWN: Line protocol on Interface Tunnel0, changed state to up"


async def copy_ftp(vty: Vty, source: str, target: str) -> None:
    """`copy ftp:... FS:...`."""
    url = await _complete_url(vty, source)
    if url is None:
        return
    prefix, name = split_file(target)
    if prefix == "null":
        await _Copy(vty, url, None, None).run()
        return
    flash = vty.device.file_system(prefix)
    if flash is None:
        vty.terminal.write(f"%Error opening {target} (No such device)\n")
        return
    chosen = await ask_name(vty, _within(flash, name, url.file_name))
    if await may_overwrite(vty, flash, chosen):
        await _Copy(vty, url, flash, chosen).run()


def _within(flash: Flash, name: str, file_name: str) -> str:
    """Return the name at the destination; a directory there gets the name at the source."""
    return f"{name.rstrip('/')}/{file_name}".lstrip("/") if flash.is_directory(name.rstrip("/")) else name


async def _complete_url(vty: Vty, text: str) -> FtpUrl | None:
    """Return the URL, after asking for what it does not name."""
    url = parse_url(text)
    if url is None:
        vty.terminal.write("%Error parsing filename (Bad address)\n")
        return None
    host = url.host
    if not host or url.port_is_open:
        host = await vty.terminal.ask(f"Address or name of remote host [{host}]? ", host)
    if not host:
        vty.terminal.write("?Host name or address not specified\n%Error parsing filename (Bad address)\n")
        return None
    path = url.path or await vty.terminal.ask("Source filename []? ", "")
    if not path:
        vty.terminal.write("%Error parsing filename (No such file or directory)\n")
        return None
    return FtpUrl(host=host, port=url.port, path=path, user=url.user, password=url.password)


@dataclass(slots=True)
class _Progress:
    """What the marks have shown so far."""

    marks: int = 0
    noise_is_due: bool = False


class _Copy:
    """One copy: marks while it runs, and its end."""

    def __init__(self, vty: Vty, url: FtpUrl, flash: Flash | None, name: str | None) -> None:
        self._vty = vty
        self._device = vty.device
        self._url = url
        self._flash = flash
        self._name = name
        self._stop = threading.Event()
        self._pull = Pull(_request(vty.device, url), vty.device.connections, self._stop)
        self._progress = _Progress(noise_is_due=vty.device.faults.syslog_in_copy)
        self._loop = asyncio.get_running_loop()
        self._was_declined = False
        self._has_begun = False

    async def run(self) -> None:
        """Copy, and print what the device prints."""
        terminal = self._vty.terminal
        terminal.write(f"Accessing {self._url.shown}...")
        hooks = PullHooks(may_begin=self._may_begin, open_sink=self._open_sink, progress=self._on_bytes)
        terminal.on_escape = self._pull.abort
        closed = asyncio.ensure_future(self._end_with_vty())
        try:
            result = await _in_thread(self._pull, hooks)
        except CopyError as error:
            self._drop_partial()
            terminal.write(f"\n%Error {error.verb} {self._url.shown} ({error.reason})\n")
        except AbortedError:
            self._drop_partial()
            if self._was_declined:
                return
            # What IOS prints after Ctrl-Shift-6 in a copy is unconfirmed (facts 4.5).
            terminal.write(f"\n%Error reading {self._url.shown} (Aborted)\n")
        else:
            self._finish(result)
        finally:
            terminal.on_escape = None
            closed.cancel()

    async def _end_with_vty(self) -> None:
        await self._vty.terminal.closed.wait()
        self._pull.abort()

    def _finish(self, result: PullResult) -> None:
        size = result.size_bytes
        self._show_marks(-(-size // self._device.platform.copy.bytes_per_mark))
        wrapped = (size + 2**31) % 2**32 - 2**31  # a 32-bit counter that wraps (capture of 3.2 GB)
        is_checked = self._device.platform.copy.erase_question and self._name is not None
        # The sum is that of a public log of a C3640; it is not computed.
        checked = "Verifying checksum...  OK (0x266E)\n" if is_checked else ""
        self._vty.terminal.write(f"\n[OK - {wrapped}/4096 bytes]\n\n{checked}{result_line(result)}\n")

    def _drop_partial(self) -> None:
        """Take away what is there of a file that did not come whole; one that was there before it began stays."""
        if self._flash and self._name and self._has_begun and not self._device.platform.copy.keeps_partial_file:
            self._flash.delete(self._name)

    def _may_begin(self) -> bool:
        """Ask what the device asks once the source is open; called in the pull's thread."""
        asks = self._device.platform.copy.erase_question or self._device.faults.image_not_executable
        if self._flash is None or not asks:
            return True
        answer = asyncio.run_coroutine_threadsafe(begin_questions(self._vty, self._flash), self._loop)
        try:
            self._was_declined = not answer.result()
        except DisconnectedError:
            self._was_declined = True
        return not self._was_declined

    def _open_sink(self, announced_bytes: int | None) -> Sink:
        """Begin to write; called in the pull's thread when the transfer opens."""
        self._loop.call_soon_threadsafe(self._on_open)
        flash, faults = self._flash, self._device.faults
        if self._name is None or flash is None:
            return NullWriter()
        room_bytes = free_bytes(self._vty, flash)
        old = flash.find(self._name)
        if announced_bytes is not None and announced_bytes > room_bytes + (old.size_bytes if old else 0):
            raise NoSpaceError
        if faults.disk_full_after_bytes is not None:
            room_bytes = min(room_bytes, faults.disk_full_after_bytes - (old.size_bytes if old else 0))
        self._has_begun = True
        rate = faults.slow_flash_bytes_per_s or flash.figures.write_bytes_per_s
        writer = FlashWriter(flash, self._name, Pace(rate, self._stop), room_bytes=room_bytes)
        return _Spoiled(writer) if faults.flip_byte else writer

    def _on_open(self) -> None:
        if self._device.platform.copy.loading_line:
            self._vty.terminal.write(f"\nLoading {self._url.file_name} ")

    def _on_bytes(self, size: int) -> None:
        """Note progress; called in the pull's thread for every piece, so it only speaks up for a new mark."""
        marks = size // self._device.platform.copy.bytes_per_mark
        limit = self._device.faults.drop_ssh_after_bytes
        if limit is not None and size >= limit:
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
            stamp = clock.syslog_stamp(clock.now())
            self._vty.terminal.write(f"\n{stamp}: {_SYSLOG}\n{_FOREIGN_ERROR}")


class _Spoiled:
    """A writer that flips a byte when it is done."""

    def __init__(self, inner: FlashWriter) -> None:
        self._inner = inner

    def write(self, chunk: bytes) -> None:
        self._inner.write(chunk)

    def close(self) -> None:
        self._inner.flip_byte()
        self._inner.close()


def _request(device: Device, url: FtpUrl) -> PullRequest:
    """Gather what the configuration says: credentials, source address, mode, TCP options."""
    configured_user, configured_word = device.ftp_credentials()
    interface = device.running.value("ip ftp source-interface")
    source = source_address(device.running, interface) if interface else None
    domain = device.running.value("ip domain name") or "local"
    return PullRequest(
        url=url,
        user=url.user or configured_user or "anonymous",
        password=url.password or configured_word or f"user@{device.hostname}.{domain}",
        source_address=source or device.settings.address,
        tcp=tcp_settings(device.running, device.platform.tcp, ineffective=device.faults.ineffective_config_pattern),
        reply_timeout_s=device.platform.copy.reply_timeout_s,
        passive=_is_passive(device),
        extended_passive=device.platform.copy.extended_passive,
        silent_start_s=device.faults.silent_start_s,
        dead_control=device.faults.dead_control,
    )


def _is_passive(device: Device) -> bool:
    """Whether the data connection is passive: by its line, else as the platform does."""
    if device.running.find("no ip ftp passive") is not None:
        return False
    return device.platform.copy.passive or device.running.find("ip ftp passive") is not None


async def _in_thread(pull: Pull, hooks: PullHooks) -> PullResult:
    """Run the pull in a thread of its own: a hundred copies must not queue for a pool."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[PullResult] = loop.create_future()

    def settle(result: PullResult | None, error: BaseException | None) -> None:
        if error is not None:
            done.set_exception(error)
        elif result is not None:
            done.set_result(result)

    def work() -> None:
        try:
            result = pull.run(hooks)
        except BaseException as error:  # noqa: BLE001 - handed to the waiting session, whatever it is
            loop.call_soon_threadsafe(settle, None, error)
        else:
            loop.call_soon_threadsafe(settle, result, None)

    threading.Thread(target=work, name="ftp-pull", daemon=True).start()
    return await done
