"""paramiko's SSH client, which asks for the host key types that we know and checks every key with our known hosts."""

from __future__ import annotations

import base64
import hmac
import socket
from contextlib import suppress
from typing import Any, cast

import paramiko
import paramiko.packet
import paramiko.util

from flashferry.devices.host_keys import HostKey, HostKeys, name_of

_RSA = "ssh-rsa"
_RSA_SIGNATURES = ("rsa-sha2-512", "rsa-sha2-256", _RSA)
"""An RSA key signs by any of these (RFC 8332); SHA-1 comes last, for devices that know nothing else."""

CHECK_EVERY_S = 5.0
"""A session is kept alive every 30 s at the earliest, and asks for new keys after a gigabyte: this is often enough."""


READ_BYTES = 448
"""Read at once, where paramiko asks for less: most packets of a dialogue are shorter. Python keeps so small a piece in
its own pools; one of 4 kB makes each reading thread keep 40 kB of the C library's (measured with 150 sessions)."""


# paramiko computes and compares the check sum of each packet in Python: with hundreds of sessions a twelfth of all
# processor time. The standard library's functions are the same in C, and compare in constant time as well.
paramiko.packet.compute_hmac = hmac.digest  # type: ignore[assignment] # takes more kinds
paramiko.util.constant_time_bytes_eq = hmac.compare_digest  # type: ignore[assignment] # takes more kinds


class Judge(paramiko.MissingHostKeyPolicy):
    """Checks each key with our known hosts; paramiko itself knows none."""

    def __init__(self, keys: HostKeys) -> None:
        self._keys = keys

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:  # noqa: ARG002
        """Return where the key may be trusted, else raise HostKeyRefused; paramiko's hook."""
        self._keys.judge(hostname, HostKey(kind=key.get_name(), base64=base64.b64encode(key.asbytes()).decode()))


class ReadAhead:
    """A socket that reads what is there and hands it out in the pieces asked for; all else is the socket's own.

    paramiko reads each packet in three pieces, and each time lets another thread have the interpreter. With hundreds of
    sessions that is most of what a packet costs. One thread reads from it, as paramiko does.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._ahead = b""

    def recv(self, size: int) -> bytes:
        """Return at most so many bytes; wait only where none are there."""
        ahead = self._ahead or self._sock.recv(max(size, READ_BYTES))
        self._ahead = ahead[size:]
        return ahead[:size]

    def take(self, size: int) -> bytes | None:
        """Return so many bytes where they were read already, else None."""
        ahead = self._ahead
        if len(ahead) < size:
            return None
        self._ahead = ahead[size:]
        return ahead[:size]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class Packetizer(paramiko.packet.Packetizer):
    """Packets out of what was read ahead."""

    def __init__(self, sock: socket.socket) -> None:
        self._source = ReadAhead(sock)
        self._is_past_banner = self._is_past_handshake = False
        super().__init__(cast("socket.socket", self._source))

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Return so many bytes, at once where they were read ahead; else as paramiko does."""
        if self._is_past_banner and (there := self._source.take(n)) is not None:
            return there
        found = super().read_all(n, check_rekey)
        # What paramiko itself read beyond the banner comes first.
        self._is_past_banner = not vars(self)["_Packetizer__remainder"]
        return found

    def complete_handshake(self) -> None:
        """Stop the handshake's timer, once: paramiko calls this after every packet."""
        if not self._is_past_handshake:
            super().complete_handshake()
            self._is_past_handshake = True


class Transport(paramiko.Transport):
    """A connection whose reading thread sleeps, and ends at once when it is closed.

    paramiko's checks ten times a second whether it is closed, needs new keys or has to be kept alive: most of what a
    session costs that waits for a copy.
    """

    def sleep_long(self) -> None:
        """Have the reading thread check every few seconds only; what comes still wakes it at once."""
        self.sock.settimeout(CHECK_EVERY_S)

    def stop_thread(self) -> None:
        """Wake the reading thread, so that it sees that it is over; what was written before still goes out."""
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        super().stop_thread()


class Client(paramiko.SSHClient):
    """An SSH client that asks the device for a key of the type that it is known by, and judges it.

    A device may gain a key of another type with an upgrade; asked for the old type, it shows no changed key.
    """

    def __init__(self, keys: HostKeys) -> None:
        super().__init__()
        self._keys = keys
        self.set_missing_host_key_policy(Judge(keys))

    def connect(self, hostname: str, port: int = paramiko.config.SSH_PORT, **options: Any) -> None:  # type: ignore[override] # paramiko's two dozen options, passed on
        """Connect as paramiko does.

        Raises:
            HostKeyRefused: The device's key is not the known one, or our file of them cannot be read.
        """
        known = self._keys.known(name_of(hostname, port))
        kinds = tuple(dict.fromkeys(one.key.kind for one in known if not one.is_revoked))

        def transport(sock: socket.socket, **given: Any) -> paramiko.Transport:
            made = Transport(sock, packetizer_class=Packetizer, **given)
            options = made.get_security_options()
            options.key_types = key_types(kinds, tuple(options.key_types))
            return made

        try:
            super().connect(hostname, port, transport_factory=transport, **options)  # type: ignore[arg-type] # a class to the stubs, any callable to paramiko
        except BaseException:
            self.close()
            raise
        opened = self.get_transport()
        if isinstance(opened, Transport):
            opened.sleep_long()


def key_types(known: tuple[str, ...], offered: tuple[str, ...]) -> tuple[str, ...]:
    """Return paramiko's host key types with those of the known keys in front."""
    preferred = [one for kind in known for one in (_RSA_SIGNATURES if kind == _RSA else (kind,)) if one in offered]
    return tuple(dict.fromkeys((*preferred, *offered)))
