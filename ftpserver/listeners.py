"""Where data connections come about: passive listeners within their range, active connections to the client only.

Facts
-----

- The library's passive listener binds a random port when its range is used up, which a firewall then drops without
  a word. Ours refuses instead (425).
- It answers a foreign data connection on the control connection, out of order. Ours drops the stranger silently and
  goes on waiting for its own client, so a stranger can neither steal the data nor spoil the transfer (RFC 2577).
- TCP_SAVE_SYN and TCP_MAXSEG have to be set before the handshake, and the DSCP too if SYN and SYN-ACK are to carry it.
"""

import errno
import os
import socket
from typing import TYPE_CHECKING, Any

from flashferry.fileserver import sockets
from flashferry.fileserver.tickets import names_source, plain_address
from ftpserver.base import Acceptor, Connector, PassiveDTP
from ftpserver.passive_ports import ports_in_random_order

if TYPE_CHECKING:
    from flashferry.fileserver.settings import SenderProfile
    from ftpserver.base import FtpClient


class PassiveListener(PassiveDTP):
    """Waits for the one data connection a client was asked to make."""

    def __init__(self, cmd_channel: "FtpClient", extmode: bool = False) -> None:
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
        """Take the client's connection; drop anybody else's."""
        channel = self.cmd_channel
        if not channel.connected:
            sock.close()
            self.close()
            return
        if addr[0] != channel.remote_ip:
            sock.close()
            # Once a port: a stranger who knocks without end is not to fill the log.
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
    """Calls the port that a client named, once its RETR was granted, and parts with the connection when it is there.

    Not the library's: that one keeps the descriptor of a connection it has handed over, and takes it out of the loop
    later, when the number is another session's. It also calls at PORT, before it answers.

    Args:
        cmd_channel: The client.
        port: Where it listens, at its own address.
    """

    def __init__(self, cmd_channel: "FtpClient", port: int) -> None:
        super().__init__(ioloop=cmd_channel.ioloop)
        self.socket: Any
        self.cmd_channel = cmd_channel
        self._port = port
        self._target = f"{cmd_channel.client_address} port {port}"
        self._timeout_s = cmd_channel.settings.limits.data_connect_s

    def begin(self) -> None:
        """Call; the outcome is reported to the client's session, perhaps before this returns."""
        control: socket.socket = self.cmd_channel.socket
        try:
            calling = socket.socket(control.family)
            self.set_socket(calling)
            # Flow and scope of IPv6 go with the address: a link-local one is worth nothing without.
            local, peer = control.getsockname(), control.getpeername()
            calling.setblocking(False)
            _set_before_handshake(calling, self.cmd_channel.settings.profile)
            calling.bind((local[0], 0, *local[2:]))
            self.call_later(self._timeout_s, self._give_up)
            self.connect((peer[0], self._port, *peer[2:]))
        except OSError as error:
            self._fail(f"cannot be reached: {error.strerror}")

    def readable(self) -> bool:
        """Return to the loop that nothing is to be read here."""
        return False

    def handle_connect(self) -> None:
        """Hand the connection over."""
        self.del_channel()
        connection: socket.socket = self.socket
        # Closing this from now on takes no descriptor out of the loop.
        self.socket = self._fileno = None
        self._end()
        if self.cmd_channel.connected:
            self.cmd_channel.take_data_connection(connection)
        else:
            connection.close()

    def handle_close(self) -> None:
        """Note that the client's port refused us, or cannot be reached."""
        if self._closed:
            return
        code: int = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        self._fail("refused it" if code in (0, errno.ECONNREFUSED) else f"cannot be reached: {os.strerror(code)}")

    # The library hands over a failed connection as an exception where the loop has no event of its own for it.
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


def _set_before_handshake(connection: socket.socket, profile: "SenderProfile") -> None:
    if profile.dscp:
        sockets.set_dscp(connection, profile.dscp)
    if profile.mss_bytes is not None:
        sockets.set_mss(connection, profile.mss_bytes)
