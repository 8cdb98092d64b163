"""FTP data connections: parsing of PORT and EPRT, passive listeners and active connections."""

from __future__ import annotations

import errno
import ipaddress
import math
import os
import secrets
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from flashferry.fileserver import sockets
from flashferry.fileserver.ticket_accounts import names_source, plain_address
from ftpserver.data import Acceptor, Connector, PassiveDTP

if TYPE_CHECKING:
    from flashferry.fileserver.settings import SenderProfile
    from ftpserver.data import FtpClient

IPV4, IPV6 = 1, 2

_LOWEST_PORT = 1024


class DataPlace(Struct, frozen=True, kw_only=True):
    """Address and port of an active data connection."""

    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int

    def refusal(self, client: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
        """Return why no connection to there is opened for a client; empty if one is (RFC 2577 3: no bounce attack).

        Some clients give the unspecified address (`::`) because they listen on all of theirs; their own is used then.
        """
        if self.address != client and not self.address.is_unspecified:
            return "Expected your own address."
        return "" if self.port >= _LOWEST_PORT else f"Expected a port from {_LOWEST_PORT}."


class ProtocolUnsupported(ValueError):
    """EPRT names another network protocol than that of the control connection."""


def parse_port(text: str) -> DataPlace:
    """Parse the argument of PORT.

    Raises:
        ValueError: It is not of that form.
    """
    numbers = [_number(word) for word in text.split(",")]
    if len(numbers) != 6 or max(numbers) > 255:
        raise ValueError("expected six numbers of 0 to 255")
    return DataPlace(address=ipaddress.IPv4Address(bytes(numbers[:4])), port=numbers[4] * 256 + numbers[5])


def parse_eprt(text: str, version: int) -> DataPlace:
    """Parse the argument of EPRT.

    Args:
        text: The argument.
        version: IP version of the control connection, 4 or 6.

    Raises:
        ProtocolUnsupported: It names the other version.
        ValueError: It is not of that form.
    """
    delimiter = text[:1]
    if not delimiter or not 33 <= ord(delimiter) <= 126:
        raise ValueError("expected a delimiter")
    before, protocol, address, port, after = text.split(delimiter)
    if before or after:
        raise ValueError("expected four delimiters")
    if _number(protocol) != protocol_of(version):
        raise ProtocolUnsupported(f"expected protocol {protocol_of(version)}")
    place = DataPlace(address=ipaddress.ip_address(address), port=_number(port))
    if place.address.version != version or place.port > 65535:
        raise ValueError("expected an address of that protocol and a port")
    return place


def protocol_of(version: int) -> int:
    """Return the number of an IP version in EPRT and EPSV."""
    return IPV4 if version == 4 else IPV6


def ports_in_random_order(first: int, last: int) -> Iterator[int]:
    """Yield each port of a range once in random order; shuffling sixty thousand ports would take 18 ms."""
    count = last - first + 1
    at, step = secrets.randbelow(count), 1 + secrets.randbelow(count)
    # A step that has no common factor with the number of ports visits all of them.
    while math.gcd(step, count) != 1:
        step = 1 + secrets.randbelow(count)
    for _ in range(count):
        yield first + at
        at = (at + step) % count


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        raise ValueError("expected a number")
    return int(text)


class PassiveListener(PassiveDTP):
    """Listens for the one data connection that a client opens after PASV or EPSV."""

    def __init__(self, cmd_channel: FtpClient, extmode: bool = False) -> None:
        Acceptor.__init__(self, ioloop=cmd_channel.ioloop)
        self.cmd_channel = cmd_channel
        self._is_disturbed = False
        self.timeout = cmd_channel.settings.limits.data_connect_s
        local_address = cmd_channel.socket.getsockname()[0]
        if not self._listen_somewhere(local_address):
            self.close()
            cmd_channel.respond("425 No free passive port; try again.")
            cmd_channel.note_trouble("no free port in the passive range; widen passive_ports")
            return
        port = self.socket.getsockname()[1]
        if extmode:
            cmd_channel.respond(f"229 Entering extended passive mode (|||{port}|).")
        else:
            named = self._named_address(local_address).replace(".", ",")
            cmd_channel.respond(f"227 Entering passive mode ({named},{port // 256},{port % 256}).")
        self.call_later(self.timeout, self.handle_timeout)

    def handle_accepted(self, sock: socket.socket, addr: Any) -> None:
        """Accept the connection if it is from the client's address; close any other one."""
        channel = self.cmd_channel
        if not channel.connected:
            sock.close()
            self.close()
            return
        if addr[0] != channel.remote_ip:
            sock.close()
            # Logged once per port, so that a stranger's repeated connections do not fill the log.
            if not self._is_disturbed:
                self._is_disturbed = True
                channel.note_trouble(f"data connection from the foreign address {plain_address(addr[0])} dropped")
            return
        self.close()
        channel.take_data_connection(sock)

    def handle_timeout(self) -> None:
        """Give up waiting."""
        port = self.socket.getsockname()[1]
        self.close()
        self.cmd_channel.data_connection_failed(
            f"no data connection: the client did not reach port {port} within {self.timeout:g} s",
            "425 No data connection came.",
        )

    def _listen_somewhere(self, local_address: str) -> bool:
        ports = self.cmd_channel.options.passive_ports
        for port in ports_in_random_order(*ports) if ports else (0,):
            self.create_socket(self.cmd_channel.socket.family)
            try:
                self._listen(local_address, port)
            except OSError as error:
                self.del_channel()
                self.socket.close()
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise
            else:
                return True
        return False

    def _listen(self, local_address: str, port: int) -> None:
        self.set_reuse_addr()
        self.bind((local_address, port))
        sockets.save_syn(self.socket)
        _set_before_handshake(self.socket, self.cmd_channel.settings.profile)
        self.listen(1)

    def _named_address(self, local_address: str) -> str:
        options = self.cmd_channel.options
        for network, address in options.masquerade_networks:
            if names_source((network,), self.cmd_channel.remote_ip):
                return address
        return options.masquerade_address or str(plain_address(local_address))


class ActiveConnector(Connector):
    """Connects to the port that a client named, after its RETR was accepted, and hands the connection over.

    Replaces the library's class, which keeps the descriptor of a connection that it has handed over, and removes it
    from the loop later, when the number may be another session's. That class also connects at PORT, before the reply.
    """

    def __init__(self, cmd_channel: FtpClient, port: int) -> None:
        super().__init__(ioloop=cmd_channel.ioloop)
        self.socket: Any
        self.cmd_channel = cmd_channel
        self._port = port
        self._target = f"{cmd_channel.client_address} port {port}"
        self._timeout_s = cmd_channel.settings.limits.data_connect_s

    def begin(self) -> None:
        """Start connecting; the outcome is reported to the client's session, perhaps before this returns."""
        control: socket.socket = self.cmd_channel.socket
        try:
            calling = socket.socket(control.family)
            self.set_socket(calling)
            # Keep flow label and scope of IPv6: a link-local address is useless without its scope.
            local, peer = control.getsockname(), control.getpeername()
            calling.setblocking(False)
            _set_before_handshake(calling, self.cmd_channel.settings.profile)
            calling.bind((local[0], 0, *local[2:]))
            self.call_later(self._timeout_s, self._give_up)
            self.connect((peer[0], self._port, *peer[2:]))
        except OSError as error:
            self._fail(f"cannot be reached: {error.strerror}")

    def readable(self) -> bool:
        """Return False: nothing is read from this connection."""
        return False

    def handle_connect(self) -> None:
        """Hand the connection over."""
        self.del_channel()
        connection: socket.socket = self.socket
        # From now on closing this object removes no descriptor from the loop.
        self.socket = self._fileno = None
        self._end()
        if self.cmd_channel.connected:
            self.cmd_channel.take_data_connection(connection)
        else:
            connection.close()

    def handle_close(self) -> None:
        """Report that the client's port refused the connection, or is unreachable."""
        if self._closed:
            return
        code: int = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        self._fail("refused it" if code in (0, errno.ECONNREFUSED) else f"cannot be reached: {os.strerror(code)}")

    # If the loop has no event for a failed connection, the library reports it as an exception.
    handle_error = handle_close

    def _give_up(self) -> None:
        self._fail(f"did not answer within {self._timeout_s:g} s")

    def _fail(self, why: str) -> None:
        if not self._closed:
            self._end()
            self.cmd_channel.data_connection_failed(
                f"no data connection: {self._target} {why}", "425 Can't open data connection."
            )

    def _end(self) -> None:
        self.close()
        self.cmd_channel.forget_connector(self)


def _set_before_handshake(connection: socket.socket, profile: SenderProfile) -> None:
    if profile.dscp:
        sockets.set_dscp(connection, profile.dscp)
    if profile.mss_bytes is not None:
        sockets.set_mss(connection, profile.mss_bytes)
