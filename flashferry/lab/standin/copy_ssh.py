"""`copy scp://...` and `copy sftp://...`: the dialogue, around a real download over SSH.

Texts: a transcript of an ASR903 with XE 3.16 (csmpe): address, user name, source and destination file name, the
question about a file that is there, then the password, which is not echoed; `` Sending file modes: C0777 4
testme.bin`` where FTP says ``Loading``, the marks, and the line that ends every copy; no ``Accessing`` and no ``[OK``.
By SFTP the marks follow the file's name on its line (pyATS). A URL that names host, user and file is not asked about
(genielibs). The default of the question for the user is who is logged in (two public transcripts, of a router and of a
3560CX). The words of the question about a host key beyond those that pyATS answers are the stand-in's own.
"""

from __future__ import annotations

import asyncio
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from flashferry.lab.standin.copy_download import Copy
from flashferry.lab.standin.copy_request import BAD_ADDRESS
from flashferry.lab.standin.server_url import PullResult, parse_url, result_line
from flashferry.lab.standin.ssh_client.incoming import SshFaults
from flashferry.lab.standin.ssh_client.login import KnownHosts, Login
from flashferry.lab.standin.ssh_client.pull import ScpPull, SftpPull, SshPlan, SshPull
from flashferry.lab.standin.ssh_client.settings import has_bulk_mode, ssh_settings
from flashferry.lab.standin.terminal import DisconnectedError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.faults import Faults
    from flashferry.lab.standin.ftp_client import TransferRequest
    from flashferry.lab.standin.server_url import ServerUrl
    from flashferry.lab.standin.ssh_client.settings import HostKeyPolicy, SshSettings
    from flashferry.lab.standin.vty import Vty

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


def _faults(device: Device) -> SshFaults:
    found = SshFaults(**{each.name: getattr(device.faults, f"ssh_{each.name}") for each in fields(SshFaults)})
    return found if has_bulk_mode(device.running) else replace(found, bulk_mode_breaks_after_bytes=None)


def _spoilt(device: Device, password: str) -> str:
    return f"{password}x" if device.faults.ssh_wrong_password else password


class SshCopy(Copy):
    """One copy over SSH; what the login asks is asked on its session."""

    _is_within_line = False

    @staticmethod
    async def source(vty: Vty, text: str) -> ServerUrl | None:
        """Ask all three questions where the URL lacks something; a quiet prompt asks for what is missing."""
        url = parse_url(text)
        if url is None:
            vty.terminal.write(BAD_ADDRESS)
            return None
        user = url.user or vty.device.client_credentials(f"ip {url.scheme}")[0]
        is_whole = bool(url.host and user and url.path) and not url.port_is_open
        asks_all = not is_whole and vty.device.running.value("file prompt") != "quiet"
        host, path = url.host, url.path
        if asks_all or not host:
            host = await vty.terminal.ask(f"Address or name of remote host [{host}]? ", host)
        if not host:
            vty.terminal.write(f"?Host name or address not specified\n{BAD_ADDRESS}")
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
