"""paramiko's SSH client, extended: prefers the known host key types, checks keys by our known hosts, saves wakeups."""

from __future__ import annotations

import base64
import hmac
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import paramiko
import paramiko.packet
import paramiko.util
from paramiko.buffered_pipe import PipeTimeout
from paramiko.common import MSG_CHANNEL_DATA

from flashferry.devices.host_keys import HostKey, HostKeys, name_of

if TYPE_CHECKING:
    from paramiko.message import Message

_RSA = "ssh-rsa"
_RSA_SIGNATURES = ("rsa-sha2-512", "rsa-sha2-256", _RSA)
"""Signature algorithms of RSA keys (RFC 8332); SHA-1 is last, for devices that support nothing else."""

CHECK_EVERY_S = 5.0
"""Interval of the reading thread's checks; keepalives are sent every 30 s at most, and a rekey after a gigabyte."""


READ_BYTES = 448
"""Read at once, where paramiko asks for less: most packets of a dialogue are shorter. Python keeps so small a piece in
its own pools; one of 4 kB makes each reading thread keep 40 kB of the C library's (measured with 150 sessions)."""


# paramiko computes and compares the check sum of each packet in Python: with hundreds of sessions a twelfth of all
# processor time. The standard library's functions are the same in C, and compare in constant time as well.
paramiko.packet.compute_hmac = hmac.digest  # type: ignore[assignment] # takes more kinds
paramiko.util.constant_time_bytes_eq = hmac.compare_digest  # type: ignore[assignment] # takes more kinds


class KnownHostsPolicy(paramiko.MissingHostKeyPolicy):
    """Checks each host key by our known hosts; paramiko itself has none loaded."""

    def __init__(self, keys: HostKeys) -> None:
        self._keys = keys

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:  # noqa: ARG002
        """Accept a trusted key by returning, else raise HostKeyRefused; called by paramiko."""
        self._keys.check(hostname, HostKey(kind=key.get_name(), base64=base64.b64encode(key.asbytes()).decode()))


class ReadAhead:
    """Socket with a read buffer; all other methods are the socket's own.

    paramiko reads each packet in three pieces, and each read switches threads. With hundreds of sessions that is most
    of the cost of a packet. Only one thread may read from it, as in paramiko.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._ahead = b""

    def recv(self, size: int) -> bytes:
        """Return at most `size` bytes; wait only if none are available."""
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
    """paramiko's packetizer, on a socket with a read buffer."""

    def __init__(self, sock: socket.socket) -> None:
        self._source = ReadAhead(sock)
        self._is_past_banner = self._is_past_handshake = False
        self.take_data: Callable[[bytes], bool] = lambda _payload: False
        """Takes a packet of a channel's data, without its type; returns whether it did."""
        super().__init__(cast("socket.socket", self._source))

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Return so many bytes, at once where they were read ahead; else as paramiko does."""
        if self._is_past_banner and (there := self._source.take(n)) is not None:
            return there
        found = super().read_all(n, check_rekey)
        # What paramiko itself read beyond the banner comes first.
        self._is_past_banner = not vars(self)["_Packetizer__remainder"]
        return found

    def read_message(self) -> tuple[int, Message]:
        """Return the next packet that `take_data` has not taken."""
        while True:
            kind, message = super().read_message()
            if kind != MSG_CHANNEL_DATA or not self.take_data(message.asbytes()):
                return kind, message

    def complete_handshake(self) -> None:
        """Stop the handshake's timer, once: paramiko calls this after every packet."""
        if not self._is_past_handshake:
            super().complete_handshake()
            self._is_past_handshake = True


class ReceiveBuffer:
    """What a channel has received, in place of paramiko's buffer: its reader can wait until enough is there.

    IOS echoes each character in a packet of its own (ronf/asyncssh 561), and to wake a thread is most of its cost.
    Only one thread may read.
    """

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._has_ended = False
        self._awaited = 0
        self._guard, self._enough = threading.Lock(), threading.Lock()
        self._enough.acquire()

    def await_bytes(self, size: int, limit_s: float) -> None:
        """Sleep until so many bytes are there or no more can come, at most `limit_s`."""
        with self._guard:
            if self._has_ended or len(self._bytes) >= size:
                return
            self._awaited = size
        if not self._enough.acquire(timeout=max(limit_s, 0.0)):
            with self._guard:
                if not self._awaited:  # it came at the last moment
                    self._enough.acquire()
                self._awaited = 0

    def _wake(self) -> None:
        """Wake the reader if there is what it waits for; the caller holds the guard."""
        if self._awaited and (self._has_ended or len(self._bytes) >= self._awaited):
            self._awaited = 0
            self._enough.release()

    def feed(self, data: bytes | str) -> None:
        """Add received data."""
        with self._guard:
            self._bytes += data.encode() if isinstance(data, str) else data
            self._wake()

    def close(self) -> None:
        """Note that no more comes."""
        with self._guard:
            self._has_ended = True
            self._wake()

    def read(self, nbytes: int, timeout: float | None = None) -> bytes:
        """Return at most so many bytes; wait for the first, at most `timeout` seconds. Empty: no more comes.

        Raises:
            PipeTimeout: Nothing came in time.
        """
        self.await_bytes(1, threading.TIMEOUT_MAX if timeout is None else timeout)
        with self._guard:
            if not self._bytes and not self._has_ended:
                raise PipeTimeout
            found = bytes(self._bytes[:nbytes])
            del self._bytes[:nbytes]
        return found

    def read_ready(self) -> bool:
        """Return whether there is something to read."""
        return bool(self._bytes)

    def empty(self) -> bytes:
        """Return all that is there, and forget it."""
        with self._guard:
            found = bytes(self._bytes)
            self._bytes.clear()
        return found

    def set_event(self, event: threading.Event) -> None:
        """Refuse paramiko's descriptor for `select`."""
        raise NotImplementedError("use await_bytes()")

    def __len__(self) -> int:
        """Return how many bytes are there."""
        return len(self._bytes)


class Transport(paramiko.Transport):
    """A connection whose reading thread sleeps, and ends at once when it is closed.

    paramiko's checks ten times a second whether it is closed, needs new keys or has to be kept alive: most of what a
    session costs that waits for a copy.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._buffers: dict[bytes, ReceiveBuffer] = {}
        if isinstance(self.packetizer, Packetizer):
            self.packetizer.take_data = self._take_data

    def _take_data(self, payload: bytes) -> bool:
        """Add a packet to its channel's buffer, with half the steps that paramiko takes; leave all else to paramiko.

        Between the first and last packet of a key exchange no data may come, which paramiko checks.
        """
        buffer = self._buffers.get(payload[:4])
        if buffer is None or self.in_kex or self.packetizer.need_rekey():
            return False
        buffer.feed(payload[8 : 8 + int.from_bytes(payload[4:8], "big")])
        return True

    def open_channel(self, *arguments: Any, **options: Any) -> paramiko.Channel:
        """Open a channel, as paramiko does, with a `ReceiveBuffer`."""
        channel = super().open_channel(*arguments, **options)
        before, buffer = channel.in_buffer, ReceiveBuffer()
        vars(channel)["in_buffer"] = buffer
        # What came meanwhile.
        buffer.feed(before.empty())
        if channel.closed or channel.eof_received:
            buffer.close()
        self._buffers[channel.get_id().to_bytes(4, "big")] = buffer
        return channel

    def sleep_long(self) -> None:
        """Let the reading thread check every `CHECK_EVERY_S` only; input still wakes it at once."""
        self.sock.settimeout(CHECK_EVERY_S)

    def stop_thread(self) -> None:
        """Wake the reading thread so that it ends; data written before is still sent."""
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        super().stop_thread()


class Client(paramiko.SSHClient):
    """An SSH client that requests a host key of the known type, and checks it.

    After an upgrade a device may have a key of a further type; by requesting the known type, no key seems changed.
    """

    def __init__(self, keys: HostKeys) -> None:
        super().__init__()
        self._keys = keys
        self.set_missing_host_key_policy(KnownHostsPolicy(keys))

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
    """Return paramiko's host key types, those of the known keys first."""
    preferred = [one for kind in known for one in (_RSA_SIGNATURES if kind == _RSA else (kind,)) if one in offered]
    return tuple(dict.fromkeys((*preferred, *offered)))
