"""Downloads: `copy URL FS:file`; over SSH with a dialogue of its own.

Texts of `copy scp:` and `copy sftp:`: a transcript of an ASR903 with XE 3.16 (csmpe): address, user name, source and
destination file name, the question about a file that is there, then the password, which is not echoed; `` Sending file
modes: C0777 4 testme.bin`` where FTP prints ``Loading``, the marks, and the line that ends every copy; no ``Accessing``
and no ``[OK``. By SFTP the marks follow the file's name on its line (pyATS). A URL that names host, user and file is
not asked about (genielibs). The default user is who is logged in (two public transcripts, of a router and of a 3560CX).
The words of the question about a host key beyond those that pyATS answers are the stand-in's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flashferry.lab.standin import clock
from flashferry.lab.standin.connections import in_own_thread
from flashferry.lab.standin.copy_files import (
    PULLS,
    ask_host,
    ask_name,
    begin_questions,
    may_overwrite,
    merge_into_running,
    read_url,
    source_url,
    transfer_request,
    verifies_copies,
)
from flashferry.lab.standin.faults import HeldWriter
from flashferry.lab.standin.files import RUNNING, STARTUP, claimed_image, free_bytes, split_file, verify_copied
from flashferry.lab.standin.flash import FlashWriter, NoSpaceError, NullWriter, Pace
from flashferry.lab.standin.ftp_client import AbortedError, CopyError, PullHooks, Sink
from flashferry.lab.standin.routing import GLOBAL_TABLE, interface_towards
from flashferry.lab.standin.server_url import PullResult, result_line
from flashferry.lab.standin.ssh_client.pull import KnownHosts, Login, ScpPull, SftpPull, SshPlan, SshPull
from flashferry.lab.standin.ssh_client.settings import has_bulk_mode, ssh_settings
from flashferry.lab.standin.terminal import DisconnectedError

if TYPE_CHECKING:
    import threading
    from collections.abc import Coroutine

    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.faults import Faults
    from flashferry.lab.standin.flash import Flash
    from flashferry.lab.standin.ftp_client import Pull, Sink, TransferRequest
    from flashferry.lab.standin.receiver import ReceiverFigures
    from flashferry.lab.standin.server_url import ServerUrl
    from flashferry.lab.standin.ssh_client.settings import HostKeyPolicy, SshSettings
    from flashferry.lab.standin.tftp import TftpPull
    from flashferry.lab.standin.vty import Vty

_LARGEST_CONFIGURATION_BYTES = 2**24


class Target:
    """Where a copy goes: in itself ``null:``, which takes everything and keeps nothing."""

    keeps_nothing = True

    def receiver(self, _scheme: str) -> ReceiverFigures | None:
        """Return how the process takes what comes by a protocol; None for as fast as it comes."""
        return None

    async def may_begin(self) -> bool:
        """Ask what the device asks once the source is open; False ends the copy."""
        return True

    def open(self, _announced_bytes: int | None, _stop: threading.Event) -> Sink:
        """Start to write; called in the copy's thread. Raises NoSpaceError: it will not fit."""
        return NullWriter()

    def drop(self) -> None:
        """Remove what is there of a copy that did not come whole."""

    def settle(self) -> str:
        """Take over a copy that came whole; return what is printed in front of its result."""
        return ""

    async def verify(self) -> None:
        """Check the copy where that is configured, after its result."""


class FlashTarget(Target):
    """A file on a flash that a copy goes to; `verifies` as `copy /verify` and `file verify auto` do."""

    keeps_nothing = False

    def __init__(self, vty: Vty, flash: Flash, name: str, *, verifies: bool) -> None:
        self._vty = vty
        self._flash = flash
        self._name = name
        self._verifies = verifies
        self._has_started = False
        self._receiver: ReceiverFigures | None = None

    def receiver(self, scheme: str) -> ReceiverFigures | None:
        """Return the model of the device's receiver profile, which is one of copies by FTP and has the flash in it."""
        self._receiver = self._vty.device.platform.receiver if scheme == "ftp" else None
        return self._receiver

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
        rate = faults.slow_flash_bytes_per_s or (math.inf if self._receiver else flash.figures.write_bytes_per_s)
        writer = FlashWriter(flash, self._name, Pace(rate, stop), free_bytes=left_bytes, flips_byte=faults.flip_byte)
        return HeldWriter(self._vty.device, writer, stop)

    def drop(self) -> None:
        """Delete the partial file where the platform does; one that was there before the copy began stays."""
        device = self._vty.device
        if self._has_started and not (device.platform.copy.keeps_partial_file or device.faults.keeps_partial_file):
            self._flash.delete(self._name)

    def settle(self) -> str:
        """Print the checksum of class-B flash; it is that of a public log of a C3640 and not computed."""
        return "Verifying checksum...  OK (0x266E)\n" if self._vty.device.platform.copy.erase_question else ""

    async def verify(self) -> None:
        """Verify the file where that is configured."""
        if self._verifies:
            await verify_copied(self._vty, self._flash, self._name)


class ConfigTarget(Target):
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
        return Target()
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


class Copy:
    """One copy: marks while it runs, and its end."""

    def __init__(self, vty: Vty, url: ServerUrl, target: Target) -> None:
        self._vty = vty
        self._device = vty.device
        self._url = url
        self._target = target
        self._stop = threading.Event()
        self._marks = 0
        self._noise_is_due = vty.device.faults.syslog_in_copy
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
        request = transfer_request(self._device, self._url, vrf)
        return replace(request, receiver=self._target.receiver(self._url.scheme))

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
        claimed = claimed_image(self._device, self._url.file_name)
        return claimed.stat().st_size if claimed is not None and not self._target.keeps_nothing else None

    def _report(self, error: CopyError) -> None:
        self._device.note_guess(error.guess)
        self._vty.terminal.write(f"{self._before_error()}%Error {error.verb} {self._url.shown} ({error.reason})\n")

    def _first_text(self) -> str:
        return f"Accessing {self._url.shown}..."

    def _before_error(self) -> str:
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
            via = f" (via {leaving.interface})" if leaving is not None else ""
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
        if marks > self._marks:
            self._loop.call_soon_threadsafe(self._show_marks, marks)

    def _show_marks(self, marks: int) -> None:
        new, self._marks = marks - self._marks, max(marks, self._marks)
        self._vty.terminal.write("!" * new)
        if self._noise_is_due and marks >= 2:
            self._noise_is_due = False
            stamp = clock.syslog_stamp(self._device.now())
            self._vty.terminal.write(f"\n{stamp}: {_SYSLOG}\n{_FOREIGN_ERROR}")


SSH_SCHEMES: dict[str, type[SshPull]] = {"scp": ScpPull, "sftp": SftpPull}
"""The protocols that go over SSH."""

_KEY_QUESTION = "Are you sure you want to continue connecting (yes/no)? "


def _settings(device: Device) -> SshSettings:
    own, faults = device.platform, device.faults
    settings = ssh_settings(device.running, own.ssh_client, crypto=own.crypto_bytes_per_s)
    offers = faults.ssh_client_offers
    return replace(
        settings,
        refill=faults.ssh_refill or settings.refill,
        sftp_requests=faults.ssh_sftp_requests or settings.sftp_requests,
        host_key_policy=_policy(faults, settings.host_key_policy),
        kex=tuple(offers.get("kex", settings.kex)),
        encryption=tuple(offers.get("encryption", settings.encryption)),
        mac=tuple(offers.get("mac", settings.mac)),
        host_keys=tuple(offers.get("host_keys", settings.host_keys)),
    )


def _policy(faults: Faults, own: HostKeyPolicy) -> HostKeyPolicy:
    if faults.ssh_host_key_changed:
        return "accept-new"
    return "ask" if faults.ssh_asks_host_key else own


def _known_hosts(device: Device, server: tuple[str, int]) -> KnownHosts:
    if not device.faults.ssh_host_key_changed:
        return device.known_hosts
    others = KnownHosts()
    others.remember(server, b"another key")
    return others


def _faults(device: Device) -> Faults:
    """Return the faults that concern a copy: one is of bulk mode alone."""
    own = device.faults
    return own if has_bulk_mode(device.running) else replace(own, ssh_bulk_mode_breaks_after_bytes=None)


def _spoilt(device: Device, password: str) -> str:
    return f"{password}x" if device.faults.ssh_wrong_password else password


class SshCopy(Copy):
    """One copy over SSH; what the login asks is asked on its session."""

    _is_within_line = False

    @staticmethod
    async def source(vty: Vty, text: str) -> ServerUrl | None:
        """Ask all three questions where the URL lacks something; a quiet prompt asks for what is missing."""
        url = read_url(vty, text)
        if url is None:
            return None
        user = url.user or vty.device.client_credentials(f"ip {url.scheme}")[0]
        is_whole = bool(url.host and user and url.path) and not url.port_is_open
        asks_all = not is_whole and vty.device.running.value("file prompt") != "quiet"
        path = url.path
        if not (host := await ask_host(vty, url, asks=asks_all)):
            return None
        if asks_all or not user:
            user = await vty.terminal.ask(f"Source username [{user or vty.user}]? ", user or vty.user)
        if asks_all or not path:
            shown = path or vty.device.last_ssh_path
            path = await vty.terminal.ask(f"Source filename [{shown}]? ", shown)
        if not path:
            vty.terminal.write("%Error parsing filename (No such file or directory)\n")
            return None
        return replace(url, host=host, user=user, path=path, port_is_open=False)

    def _request(self, vrf: str | None) -> TransferRequest:
        self._device.last_ssh_path = self._url.path
        request = super()._request(vrf)
        if not has_bulk_mode(self._device.running):
            return request
        tcp = replace(request.tcp, syn_options=replace(request.tcp.syn_options, sack=True))
        return replace(request, tcp=tcp)

    def _pull(self, request: TransferRequest) -> SshPull:
        device, server = self._device, (request.address, self._url.port)
        login = Login(
            user=request.user or self._vty.user,
            password=_spoilt(device, request.password) if request.password else None,
            server=server,
            known_hosts=_known_hosts(device, server),
            operator=self,
        )
        plan = SshPlan(settings=_settings(device), login=login, screen=self, faults=_faults(device))
        return SSH_SCHEMES[self._url.scheme](request, device.connections, self._stop, plan)

    def password(self) -> str | None:
        """Ask for the password; called in the copy's thread."""
        typed = self._answered(self._ask_password())
        return None if typed is None else _spoilt(self._device, typed)

    def takes_key(self, fingerprint: str) -> bool:
        """Ask whether to go on with a server whose key is not known; called in the copy's thread."""
        self._loop.call_soon_threadsafe(self._device.note_guess, "ssh: the question about a host key")
        question = f"Host key fingerprint is {fingerprint}\n{_KEY_QUESTION}"
        return (self._answered(self._vty.terminal.ask(question, "no")) or "no").lower() in {"y", "yes"}

    def announce(self, line: str) -> None:
        """Show the file's line as the server sent it; called in the copy's thread."""
        self._is_within_line = True
        end = "\n" if self._url.scheme == "scp" else ""
        self._loop.call_soon_threadsafe(self._vty.terminal.write, f" Sending file modes: {line}{end}")

    def log(self, text: str) -> None:
        """Log a message of the device; called in the copy's thread."""
        self._loop.call_soon_threadsafe(self._device.syslog, text)

    def _answered(self, question: Coroutine[Any, Any, str]) -> str | None:
        answer = asyncio.run_coroutine_threadsafe(question, self._loop)
        try:
            return answer.result()
        except DisconnectedError:
            return None

    async def _ask_password(self) -> str:
        self._vty.terminal.write("Password: ")
        return (await self._vty.terminal.line(echo=False))[0]

    def _first_text(self) -> str:
        return ""

    def _before_error(self) -> str:
        return "\n" if self._is_within_line else ""

    def _on_open(self) -> None:
        """Print nothing: the file's line is there already."""

    def _finish(self, result: PullResult) -> None:
        self._show_marks(-(-result.size_bytes // self._device.platform.copy.bytes_per_mark))
        self._vty.terminal.write(f"\n{self._target.settle()}{result_line(result)}\n")
