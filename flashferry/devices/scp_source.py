"""Sending a file to a device's own SCP server, over a second SSH connection beside the session.

Facts
-----
* The device runs `scp -t PATH` (`ip scp server enable`, privilege 15 at login): it answers each step with a byte, 0 for
  success, 1 or 2 and a line of text for an error. After the file we send a byte, and the answer to that confirms that
  the device has the whole file (OpenSSH scp.c; measured with asyncssh).
* The path is `FS:/NAME`, as in netmiko's file transfers.
* An existing file is overwritten without a question, so the caller must check that there is none.
* A disabled server prints `Administratively disabled.`; a user below privilege 15 gets `Privilege denied.`.
* With Nagle's algorithm a small piece waits for the acknowledgement of the one before, which costs a quarter of the
  rate with a channel window of 8 KiB: 51 instead of 70 kB/s at 100 ms. So the connection sets TCP_NODELAY.
* The channel's window is the device's: 8 KiB or 128 KiB by release, `ip ssh window-size` and `ip ssh bulk-mode`.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from flashferry.devices.errors import DeviceUnreachable, HostKeyRefused, LoginRefused
from flashferry.devices.login import unreached
from flashferry.tcp.sample import ChannelReading

if TYPE_CHECKING:
    from collections.abc import Callable

    import paramiko

_GOOD = 0
_MODE = "0644"
_PIECE_BYTES = 32_000
"""Size of a piece: slightly less than the largest packet, so that most pieces are one packet."""

_LONGEST_TEXT = 500


_TWICE = (
    "Look whether the user may log in twice: 'ip ssh maxstartups', the number of vty lines, the AAA server's limits"
)


class ScpRefused(Exception):
    """The device's SCP server reported an error; the message is the device's."""


@dataclass(slots=True, kw_only=True)
class ScpSource:
    """A connection to a device for one file. While one thread runs `send`, others may read all properties."""

    client: paramiko.SSHClient
    socket: socket.socket
    _channel: paramiko.Channel | None = None
    _waiting_bytes: int = 0
    _window_bytes: int = 0
    _closing: threading.Lock = field(default_factory=threading.Lock)

    @property
    def peer_address(self) -> str:
        """Return the device's address."""
        return str(self.socket.getpeername()[0])

    @property
    def cipher(self) -> str:
        """Return the cipher in the direction of the file."""
        return str(getattr(self._transport, "local_cipher", ""))

    @property
    def mac(self) -> str:
        """Return the MAC in the direction of the file; empty where the cipher authenticates by itself."""
        return (
            "" if "gcm" in self.cipher or "poly1305" in self.cipher else str(getattr(self._transport, "local_mac", ""))
        )

    @property
    def server(self) -> str:
        """Return the version string of the device's SSH server."""
        return str(self._transport.remote_version)

    def channel(self) -> ChannelReading | None:
        """Return the state of the channel; None before it is open."""
        channel = self._channel
        if channel is None:
            return None
        left_bytes = int(channel.out_window_size)
        self._window_bytes = max(self._window_bytes, left_bytes)
        # While the window has room what is left of the piece waits for the socket, not for the device.
        waiting = self._waiting_bytes if left_bytes == 0 else 0
        return ChannelReading(waiting_bytes=waiting, window_bytes=self._window_bytes or None)

    def start(self, path: str, *, limit_s: float) -> None:
        """Start the device's SCP server for a path such as `flash:/image.bin`, without space or quote.

        The device may take `limit_s` seconds for each answer; it opens no file yet.

        Raises:
            ScpRefused: The server is off, the user may not, or the path is none.
            EOFError, OSError, paramiko.SSHException: The connection ended, or nothing came in time.
        """
        channel = self._channel = self._transport.open_session()
        channel.settimeout(limit_s)
        channel.exec_command(f"scp -t {path}")
        self._await_word(channel)
        self.channel()

    def announce(self, name: str, size_bytes: int) -> None:
        """Send name and size: with this the device opens the file, and empties one that is there.

        Raises:
            ScpRefused: It cannot, for want of space for example, or the server is off.
            EOFError, OSError, paramiko.SSHException: The connection ended, or nothing came in time.
        """
        channel = self._opened
        channel.sendall(f"C{_MODE} {size_bytes} {name}\n".encode("ascii"))
        self._await_word(channel)

    def send(self, descriptor: int, size_bytes: int, wrote: Callable[[int], None], *, end_s: float) -> None:
        """Send the announced file, and wait for the device's confirmation.

        Args:
            descriptor: The open file; its position does not matter.
            size_bytes: Announced size.
            wrote: Called with the number of further bytes that the connection has taken.
            end_s: Time limit of the confirmation, in seconds: the device may still write flash after the last byte.

        Raises:
            ScpRefused: The device could not take it, for want of space for example.
            ValueError: The file is shorter than was announced.
            EOFError, OSError, paramiko.SSHException: The connection ended.
        """
        channel = self._opened
        channel.settimeout(None)
        offset = 0
        while offset < size_bytes:
            piece = os.pread(descriptor, min(_PIECE_BYTES, size_bytes - offset), offset)
            if not piece:
                raise ValueError("image shrank on disk while it was sent")
            offset += len(piece)
            while piece:
                self._waiting_bytes = len(piece)
                count = channel.send(piece)
                if not count:
                    self._raise_last_word(channel)
                piece = piece[count:]
                wrote(count)
        self._waiting_bytes = 0
        channel.settimeout(end_s)
        channel.sendall(b"\0")
        self._await_word(channel)

    def close(self) -> None:
        """End the connection at once; a sending thread finds it closed. Idempotent."""
        with self._closing:
            self.client.close()

    @property
    def _opened(self) -> paramiko.Channel:
        assert self._channel is not None, "start comes first"
        return self._channel

    @property
    def _transport(self) -> paramiko.Transport:
        found = self.client.get_transport()
        if found is None:
            raise EOFError("the connection is closed")
        return found

    def _await_word(self, channel: paramiko.Channel) -> None:
        word = channel.recv(1)
        if not word:
            self._raise_last_word(channel)
        if word[0] != _GOOD:
            raise ScpRefused(_text_after(channel, word))

    def _raise_last_word(self, channel: paramiko.Channel) -> None:
        """Raise an error with the device's last message before it closed the channel, if any."""
        said = b""
        if channel.recv_ready():
            said = channel.recv(_LONGEST_TEXT)
        elif channel.recv_stderr_ready():
            said = channel.recv_stderr(_LONGEST_TEXT)
        text = said.lstrip(b"\0\1\2").decode("latin-1").strip()
        if text:
            raise ScpRefused(text)
        raise EOFError("the device closed the channel")


def open_source(session: Any, *, host: str, prepare: Callable[[socket.socket], None]) -> ScpSource:
    """Open a second connection with the parameters of a netmiko session, host key included.

    `prepare` sets options of the socket before it connects, because some cannot be changed later.

    Raises:
        LoginRefused: The device does not let the user in a second time.
        HostKeyRefused: It shows a host key that is not the known one.
        DeviceUnreachable: No connection came about, or it would go through a proxy.
    """
    import paramiko  # here, for most commands log in to no device

    options = session._connect_params_dict()  # noqa: SLF001 -- as netmiko's own file transfer does
    if options.get("sock") is not None:
        raise DeviceUnreachable(
            "push: expected a connection of our own, found an SSH proxy in between: neither pace nor verdict would be "
            "the device's",
            host=host,
            hint="Let the device fetch, by SCP or HTTP",
        )
    client = session._build_ssh_client()  # noqa: SLF001 -- the same
    try:
        client.connect(**{**options, "sock": connected(options, prepare)})
    except HostKeyRefused:
        raise
    except paramiko.AuthenticationException:
        raise LoginRefused("the second SSH session was refused", host=host, hint=_TWICE) from None
    except (OSError, EOFError, paramiko.SSHException) as error:
        why = unreached(error)
        words = f": {why.words}" if why.words else ""
        raise DeviceUnreachable(f"no second SSH session came about{words}", host=host, hint=_TWICE) from None
    transport = client.get_transport()
    if transport is None:
        raise DeviceUnreachable("the second SSH session was lost at once", host=host, hint=_TWICE)
    return ScpSource(client=client, socket=cast("socket.socket", transport.sock))


def connected(options: dict[str, Any], prepare: Callable[[socket.socket], None]) -> socket.socket:
    """Return a connection to the first address of a device that accepts one, as paramiko would.

    `options` are paramiko's `hostname`, `port` and `timeout` in seconds.

    Raises:
        OSError: Its name is not known, or no address answered.
    """
    found = socket.getaddrinfo(options["hostname"], options["port"], type=socket.SOCK_STREAM)
    for number, (family, kind, protocol, _, address) in enumerate(found, start=1):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(options.get("timeout"))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            prepare(connection)
            connection.connect(address)
        except OSError:
            connection.close()
            if number == len(found):
                raise
        else:
            return connection
    raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))


def _text_after(channel: paramiko.Channel, first: bytes) -> str:
    """Return the error message after an error byte; some servers send the message without that byte."""
    said = first.lstrip(b"\1\2")
    while b"\n" not in said and len(said) < _LONGEST_TEXT:
        more = channel.recv(_LONGEST_TEXT - len(said))
        if not more:
            break
        said += more
    return said.decode("latin-1").strip() or "no reason given"


def path_on(target: str) -> str:
    """Return a target such as `flash:image.bin` as SCP clients name it, `flash:/image.bin`."""
    file_system, colon, name = target.partition(":")
    return f"{file_system}{colon}/{name.lstrip('/')}"
