"""The device's SSH port: open while a vty line is free, closed while it restarts.

A connection's window scale goes out with the SYN-ACK, which the kernel sends before anybody here hears of the
connection. It takes the scale from the listening socket, so that one's window follows the configuration.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from flashferry.lab.standin import receive_window
from flashferry.lab.standin.holding import hold
from flashferry.lab.standin.tcp_settings import tcp_settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    import asyncssh

    from flashferry.lab.standin.device import Device

_RETRY_S = 0.05


class Listener:
    """Opens and closes the port of a device.

    With all vty lines in use IOS refuses the connection itself (RST to the SYN), so the port is closed, not
    answered and dropped.

    Args:
        device: Whose port.
        key: The host key.
        open_port: Starts to listen, with a host key, on a socket that is bound.
    """

    def __init__(
        self, device: Device, key: asyncssh.SSHKey,
        open_port: Callable[[asyncssh.SSHKey, socket.socket], Awaitable[asyncssh.SSHAcceptor]],
    ) -> None:  # fmt: skip
        self._device = device
        self._open_port = open_port
        self._key = key
        self._acceptor: asyncssh.SSHAcceptor | None = None
        self._port: socket.socket | None = None
        self._is_up = True
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen. Raises OSError: the address is not there or is taken."""
        self._port = self._bound()
        self._acceptor = await self._open_port(self._key, self._port)

    def follow_window(self) -> None:
        """Have new connections open with the window scale of the configuration as it is now."""
        if self._acceptor is not None and self._port is not None:
            receive_window.before_connect(self._port, self._window_bytes)

    def joined(self, connection: asyncssh.SSHServerConnection) -> None:
        """Note a connection that has a vty line; the last free one closes the port."""
        self._connections.add(connection)
        self._follow()

    def left(self, connection: asyncssh.SSHServerConnection) -> None:
        """Note that a connection is gone; its vty line is free again."""
        self._connections.discard(connection)
        self._follow()

    def restart(self, seconds: float) -> None:
        """Drop every session, stay away for a while, and come back."""
        self._is_up = False
        self._device.shut_down()
        self.drop_connections()
        self._connections.clear()
        self._follow()
        self._spawn(self._come_back(seconds))

    def drop_connections(self) -> None:
        """Drop every session; new ones are taken as before."""
        for connection in list(self._connections):
            connection.abort()

    def use_key(self, key: asyncssh.SSHKey) -> None:
        """Take another host key for new connections."""
        self._key = key
        self.close()
        self._follow()

    def close(self) -> None:
        """Stop to listen."""
        if self._acceptor is not None:
            self._acceptor.close()
            self._acceptor = self._port = None

    @property
    def _is_requested(self) -> bool:
        return self._is_up and len(self._device.vtys) < self._device.platform.vty_lines

    async def _come_back(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if self._device.faults.hold_boot:
            await hold(self._device, "restart", lambda: self._device.faults.hold_boot)
        if not self._device.boot():
            return
        self._is_up = True
        self._follow()

    def _follow(self) -> None:
        """Open or close the port as it should be."""
        if not self._is_requested:
            self.close()
        elif self._acceptor is None:
            self._spawn(self._reopen())

    async def _reopen(self) -> None:
        while self._is_requested and self._acceptor is None:
            try:
                port = self._bound()
                acceptor = await self._open_port(self._key, port)
            except OSError:  # the old port is not quite closed yet
                await asyncio.sleep(_RETRY_S)
                continue
            self._keep(acceptor, port)

    def _keep(self, acceptor: asyncssh.SSHAcceptor, port: socket.socket) -> None:
        """Keep a port that has opened, unless it is not wanted any more."""
        if self._is_requested and self._acceptor is None:
            self._acceptor, self._port = acceptor, port
            self.follow_window()
        else:
            acceptor.close()

    def _bound(self) -> socket.socket:
        """Return a socket for the port."""
        port = socket.socket()
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        receive_window.before_connect(port, self._window_bytes)
        try:
            port.bind((self._device.settings.address, self._device.settings.port))
        except OSError:
            port.close()
            raise
        return port

    @property
    def _window_bytes(self) -> int:
        return tcp_settings(self._device.running, self._device.platform.tcp).window_bytes

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
