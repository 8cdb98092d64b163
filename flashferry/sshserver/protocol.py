"""SSH as a protocol of the file server, which imports it by the name in `flashferry.sshserver.algorithms.PROTOCOL`."""

import asyncio
import contextlib
import logging
import os
import socket
import warnings
from collections.abc import Mapping
from pathlib import Path

from flashferry.fileserver import sockets
from flashferry.fileserver.protocol import BACKLOG, ServingContext
from flashferry.fileserver.ticket_accounts import plain_address
from flashferry.sshserver.algorithms import TRANSPORTS, algorithms_for
from flashferry.sshserver.client import SshClient
from flashferry.sshserver.connection import attach, options_for
from flashferry.sshserver.host_keys import load_host_keys

_PAUSE_S = 0.5
_MOST_REMEMBERED = 4096
_ACCEPTED_AT_ONCE = 32


class SshListener:
    """SSH on one listening socket, see `flashferry.fileserver.protocol`.

    Args:
        listening: Bound socket; clients that connect before `open` wait in its queue.
        context: Shared objects of the file server.
        options: `host_keys`, the folder of the host keys.

    Raises:
        ValueError: The options are of another form, or a host key cannot be used.
    """

    NEEDS_ASYNCIO = True

    def __init__(self, listening: socket.socket, context: ServingContext, options: Mapping[str, object]) -> None:
        folder = options.get("host_keys")
        if not isinstance(folder, bytes):
            raise ValueError(f"host_keys: expected a folder, found {folder!r}")  # noqa: TRY004 - see ProtocolFactory
        _quieten()
        self._host_keys = load_host_keys(Path(os.fsdecode(folder)))
        self._context = context
        self._loop: asyncio.AbstractEventLoop = context.loop.asyncio
        self._clients: dict[SshClient, asyncio.Task[None] | None] = {}
        # Addresses, the oldest entry first.
        self._group_exchange: dict[str, None] = {}
        self._listening: socket.socket | None = listening
        if context.settings.profile.mss_bytes is not None:
            # Set before the TCP handshake, because the MSS is sent in the SYN-ACK.
            sockets.set_mss(listening, context.settings.profile.mss_bytes)

    def open(self) -> None:
        """Start accepting sessions."""
        if self._listening is not None:
            self._listening.setblocking(False)
            self._listening.listen(BACKLOG)
            self._loop.add_reader(self._listening.fileno(), self._accept)

    @property
    def transfers_to_come(self) -> int:
        """Number of granted transfers that wait until the client is ready."""
        return sum(client.waits_to_send for client in self._clients)

    def drain(self) -> None:
        """Stop accepting sessions, and close idle ones."""
        self._stop_listening()
        for client in tuple(self._clients):
            if not client.is_transferring:
                client.send_off("Server is going down.")

    def close(self, reason: str) -> None:
        """Close the listening socket and every session at once."""
        self._stop_listening()
        for client in tuple(self._clients):
            client.close(reason)

    def forget(self, client: SshClient) -> None:
        """Remove a client that has disconnected."""
        self._clients.pop(client, None)

    def offer_group_exchange(self, address: str) -> None:
        """Offer group exchange to an address from now on, because a client there has no other common key exchange."""
        self._group_exchange[address] = None
        if len(self._group_exchange) > _MOST_REMEMBERED:
            del self._group_exchange[next(iter(self._group_exchange))]

    def _stop_listening(self) -> None:
        if self._listening is not None:
            self._loop.remove_reader(self._listening.fileno())
            self._listening.close()
            self._listening = None

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            if self._listening is None:
                return
            try:
                accepted, place = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                # No descriptors or memory left: stop accepting for a while; clients wait in the queue.
                self._loop.remove_reader(self._listening.fileno())
                self._loop.call_later(_PAUSE_S, self._listen_again)
                return
            accepted.setblocking(False)
            self._serve(accepted, str(plain_address(place[0])))

    def _listen_again(self) -> None:
        if self._listening is not None:
            self._loop.add_reader(self._listening.fileno(), self._accept)

    def _serve(self, accepted: socket.socket, address: str) -> None:
        tickets = self._context.tickets
        try:
            algorithms = algorithms_for(tickets.ssh_offers(address), group_exchange=address in self._group_exchange)
            options = options_for(algorithms, self._host_keys)
        except ValueError as error:
            tickets.note_trouble(address, f"SSH: {error}", TRANSPORTS)
            accepted.close()
            return
        client = SshClient(accepted, address, self, self._context, options)
        self._clients[client] = None
        if client.enter():
            self._clients[client] = self._loop.create_task(self._attach(client, accepted))
        else:
            client.leave()
            with contextlib.suppress(OSError):
                # Lines before the version are allowed (RFC 4253 4.2).
                accepted.send(b"Service not available, try later.\r\n")
            accepted.close()

    async def _attach(self, client: SshClient, accepted: socket.socket) -> None:
        try:
            await attach(client.connection, accepted)
        except (OSError, ValueError):
            client.leave()
            accepted.close()
        else:
            if client.connection.is_refused:
                client.leave()


def _quieten() -> None:
    """Disable asyncssh's log, which has user names, and cryptography's warnings about legacy algorithms.

    Legacy algorithms are offered on purpose.
    """
    logging.getLogger("asyncssh").setLevel(logging.CRITICAL + 1)
    warnings.filterwarnings("ignore", message=".*(FFDH|Diffie-Hellman|TripleDES|has been moved).*")
