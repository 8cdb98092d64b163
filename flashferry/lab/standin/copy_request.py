"""The device's clients: which one carries a copy, by the protocol of its URL.

What the stand-in does not speak ends with an error, after trying.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from flashferry.lab.standin.device_tcp import tcp_settings
from flashferry.lab.standin.ftp_client import CopyError, Pull, PullHooks, Push, TransferRequest
from flashferry.lab.standin.http_client import HttpPull, HttpPush
from flashferry.lab.standin.routing import is_address, path_to
from flashferry.lab.standin.server_url import parse_url
from flashferry.lab.standin.tftp import TftpPull, TftpPush
from flashferry.lab.standin.trustpoints import trusted

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.flash import Flash
    from flashferry.lab.standin.server_url import PullResult, ServerUrl
    from flashferry.lab.standin.vty import Vty


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
    "ftp": Pull,
    "http": HttpPull,
    "https": HttpPull,
    "rcp": SilentPull,
    "tftp": TftpPull,
}
"""Downloads, but for those over SSH: see `flashferry.lab.standin.copy_ssh`."""

PUSHES: dict[str, type[Push | TftpPush]] = {
    "ftp": Push,
    "http": HttpPush,
    "https": HttpPush,
    "rcp": SilentPush,
    "scp": SilentPush,
    "sftp": SilentPush,
    "tftp": TftpPush,
}
"""Uploads."""

SOURCE_INTERFACE_LINES = {
    "ftp": "ip ftp source-interface",
    "http": "ip http client source-interface",
    "https": "ip http client source-interface",
    "rcp": "ip rcmd source-interface",
    "scp": "ip ssh source-interface",
    "sftp": "ip ssh source-interface",
    "tftp": "ip tftp source-interface",
}
"""The configuration line that names the interface a client's connections leave by (Cisco command references)."""


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


async def source_url(vty: Vty, text: str) -> ServerUrl | None:
    """Return the URL of a download, after asking for what it does not name."""
    url = parse_url(text)
    if url is None:
        vty.terminal.write(BAD_ADDRESS)
        return None
    host = url.host
    asks = vty.device.faults.asks_what_url_has
    if not host or url.port_is_open or asks:
        host = await vty.terminal.ask(f"Address or name of remote host [{host}]? ", host)
    if not host:
        vty.terminal.write(f"?Host name or address not specified\n{BAD_ADDRESS}")
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
    url = parse_url(text)
    if url is None:
        vty.terminal.write(BAD_ADDRESS)
        return None
    host, path = url.host, url.path if url.file_name else f"{url.path}{name}"
    if vty.device.running.value("file prompt") != "quiet" or not host:
        host = await vty.terminal.ask(f"Address or name of remote host [{host}]? ", host)
    if not host:
        vty.terminal.write(f"?Host name or address not specified\n{BAD_ADDRESS}")
        return None
    if vty.device.running.value("file prompt") != "quiet":
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
    line = SOURCE_INTERFACE_LINES[url.scheme]
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
    if url.scheme in {"http", "https"}:
        user, word = device.client_credentials("ip http client")
        return url.user or user or "", url.password or word or ""
    if url.scheme in {"scp", "sftp"}:
        user, word = device.client_credentials(f"ip {url.scheme}")
        return url.user or user or "", url.password or word or ""
    user, word = device.client_credentials("ip ftp")
    domain = device.running.value("ip domain name") or "local"
    return url.user or user or "anonymous", url.password or word or f"user@{device.hostname}.{domain}"


def _is_passive(device: Device) -> bool:
    """Whether the data connection is passive: by its line, else as the platform does."""
    if device.running.find("no ip ftp passive") is not None:
        return False
    return device.platform.copy.passive or device.running.find("ip ftp passive") is not None
