"""One SSH connection: asyncssh's, with an account of what it sent, a bound to its queue, and a short way for images.

Facts
-----

- asyncssh hands every packet to the transport whatever waits there already: a client with a large window and a slow
  link would have us hold megabytes. So nothing is handed over here while something waits.
- It sends an empty packet before each packet of data, against a weakness of CBC (RFC 4251 9.3.1), and copies the data
  some eight times. The short way has neither; CBC goes the long way.
- The client chooses how long a packet to it may be (RFC 4254 5.1), and each costs the same work: at 1 byte an image
  kept the loop for seconds. So at most 64 go in one turn, and a channel with packets under 1024 bytes is refused.
- While keys are exchanged anew no data may be sent (RFC 4253 7.1); asyncssh keeps it back then, and here nothing is
  handed over until it is done.
- asyncssh aborts its transport in the loop's next turn, and asyncio closes one at the end of what the client sends.
  Closed with something left to send, it may send that and be gone before it is aborted; aborting it then is an
  AttributeError of the loop (CPython 3.11 to 3.13, selector_events.py: _write_ready() leaves _conn_lost as it is).
- asyncssh's names with an underscore are used in this module alone; what is expected of them is held by a test.
"""

import asyncio
import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import asyncssh
from asyncssh.constants import OPEN_RESOURCE_SHORTAGE

from flashferry.sshserver.algorithms import GROUP_EXCHANGES, Algorithms
from flashferry.sshserver.scp import readable

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from flashferry.sshserver.host_keys import HostKey

_CHANNEL_DATA = 94
_HEAD_BYTES = 9
_WINDOW_BYTES = 256 * 1024
_MOST_AT_ONCE = 256 * 1024
_MOST_PACKETS_AT_ONCE = 64
_LEAST_PACKET_BYTES = 1024
_FAR_S = 365 * 86400
_LONGEST_LIST = 400
_OF_ITSELF = ("gcm", "poly1305")


def _key_of(key: "HostKey") -> asyncssh.SSHKey:
    # It was checked when it was read. Once more took 0.2 s, before the first client of each profile saw our version.
    return asyncssh.import_private_key(key.private, unsafe_skip_rsa_key_validation=True)


@lru_cache(maxsize=64)
def options_for(algorithms: Algorithms, host_keys: "tuple[HostKey, ...]") -> asyncssh.SSHServerConnectionOptions:
    """Return asyncssh's options for what is offered; all connections that are offered the same share them."""
    options = asyncssh.SSHServerConnectionOptions(
        server_host_keys=[_key_of(key) for key in host_keys],
        server_version="flashferry",
        kex_algs=list(algorithms.exchanges),
        encryption_algs=list(algorithms.ciphers),
        mac_algs=list(algorithms.macs),
        compression_algs=None,
        signature_algs=list(algorithms.host_keys),
        gss_host=None,
        host_based_auth=False,
        public_key_auth=False,
        kbdint_auth=True,
        password_auth=True,
        allow_pty=False,
        line_editor=False,
        x11_forwarding=False,
        agent_forwarding=False,
        encoding=None,
        window=_WINDOW_BYTES,
        rekey_bytes=algorithms.rekey_bytes,
        rekey_seconds=_FAR_S,
        # Ours: it lets a session go that has not logged in.
        login_timeout=0,
        utf8_decode_errors="replace",
    )
    # asyncssh would sign by any algorithm that suits a key, ssh-rsa among them.
    for name in [name for name in options.server_host_keys if name.decode("ascii") not in algorithms.host_keys]:
        del options.server_host_keys[name]
    return options


class Connection(asyncssh.SSHServerConnection):
    """One client's connection.

    Args:
        loop: asyncio's loop.
        options: What is offered to it.
        owner: Whose methods asyncssh calls.
        on_space: Called when something may be sent again that could not be.

    Attributes:
        sent_bytes: All bytes handed to the transport so far.
        was_made: Whether it has its transport, or had it.
        is_refused: Whether it is to end as soon as it has its transport.
        no_match: What both sides have no algorithm in common for, with both lists; empty while they have.
        wants_group_exchange: Whether that is the exchange of keys, and the client knows group exchange for it.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        options: asyncssh.SSHServerConnectionOptions,
        owner: asyncssh.SSHServer,
        on_space: "Callable[[], None]",
    ) -> None:
        super().__init__(loop, options)
        self._protocol_factory = lambda: owner
        self._on_space = on_space
        self._is_full = False
        self.sent_bytes = 0
        self.no_match = ""
        self.was_made = self.is_refused = False
        self.wants_group_exchange = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; the transport is to say at once when something waits in it."""
        assert isinstance(transport, asyncio.WriteTransport)
        self.was_made = True
        if self.is_refused:
            transport.abort()
            return
        transport.set_write_buffer_limits(high=0)
        super().connection_made(transport)

    def refuse(self) -> None:
        """End it before it has started, once it has its transport: only that may close the socket.

        A number of the kernel's that is closed behind the loop's back may be another client's in the same turn.
        """
        self.is_refused = True

    def eof_received(self) -> bool:  # type: ignore[override]
        """End by aborting alone, see the facts: the transport is not to close besides."""
        super().eof_received()
        return True

    def pause_writing(self) -> None:
        """Note that something waits in the transport."""
        self._is_full = True

    def resume_writing(self) -> None:
        """Note that nothing does any more."""
        self._is_full = False
        self._on_space()

    async def reload_config(self) -> None:
        """Do nothing: there is no configuration file that a user's name could change."""

    # A client that finds no match closes before asyncssh has reported its own finding, so that is kept here.

    def _choose_alg(self, alg_type: str, local_algs: "Sequence[bytes]", remote_algs: "Sequence[bytes]") -> bytes:
        try:
            return super()._choose_alg(alg_type, local_algs, remote_algs)
        except asyncssh.KeyExchangeFailed:
            self._note_no_match(alg_type, local_algs, remote_algs)
            names = (name.decode("ascii", "replace") for name in remote_algs)
            self.wants_group_exchange = not GROUP_EXCHANGES.isdisjoint(names)
            raise

    def choose_server_host_key(self, peer_host_key_algs: "Sequence[bytes]") -> bool:
        """Choose a key that the client takes; return whether there is one."""
        found = super().choose_server_host_key(peer_host_key_algs)
        if not found:
            self._note_no_match("host key", tuple(self._server_host_keys), peer_host_key_algs)
        return found

    def _note_no_match(self, kind: str, ours: "Sequence[bytes]", theirs: "Sequence[bytes]") -> None:
        lists = [readable(b",".join(names), _LONGEST_LIST) for names in (theirs, ours)]
        self.no_match = f"no {kind} algorithm in common: client {lists[0]}, server {lists[1]}"

    def _send(self, data: bytes) -> None:
        self.sent_bytes += len(data)
        super()._send(data)

    def _send_deferred_packets(self) -> None:
        super()._send_deferred_packets()
        self._on_space()

    @property
    def is_open(self) -> bool:
        """Whether anything can be sent still."""
        return self._transport is not None

    @property
    def has_space(self) -> bool:
        """Whether data may be handed over now: nothing waits in the transport, and no keys are being exchanged."""
        return self._transport is not None and not self._is_full and self._kex_complete

    @property
    def cipher(self) -> str:
        """What is used towards the client, by its name in SSH."""
        return str(self.get_extra_info("send_cipher", ""))

    @property
    def mac(self) -> str:
        """The MAC towards the client; empty where the cipher is one by itself."""
        return "" if any(word in self.cipher for word in _OF_ITSELF) else str(self.get_extra_info("send_mac", ""))

    @property
    def client_version(self) -> str:
        """What the client calls itself."""
        return str(self.get_extra_info("client_version", "")).removeprefix("SSH-2.0-")

    def piece_bytes(self, channel: "Channel") -> int:
        """Return how much to hand over next: whole packets within the client's window, or one that waits for it."""
        packet, window = channel._send_pktsize, channel._send_window  # noqa: SLF001 - see the facts
        packets = min(_MOST_AT_ONCE // packet, _MOST_PACKETS_AT_ONCE)
        return min(window // packet, packets) * packet or min(packet, _MOST_AT_ONCE)

    def send_data(self, channel: "Channel", data: bytes) -> None:
        """Send data on a channel; what the client's window has no room for waits in the channel."""
        left = memoryview(data)
        fits = min(len(left), channel.window_bytes)
        if fits and self._is_direct(channel, fits):
            self._send_packets(channel, left[:fits])
            left = left[fits:]
        if left:
            channel.write(bytes(left))

    def _is_direct(self, channel: "Channel", size: int) -> bool:
        needs_keys = self._rekey_bytes_sent + size >= self._rekey_bytes
        return (
            self._kex_complete
            and not needs_keys
            and self._send_encryption is not None
            and self._compressor is None
            and not self.cipher.endswith("-cbc")
            and channel.can_send(size)
        )

    def _send_packets(self, channel: "Channel", data: memoryview) -> None:
        """Send data as packets of their own making, all in one piece."""
        encrypt = self._send_encryption.encrypt_packet  # type: ignore[union-attr]
        number, block, in_header = self._send_seq, self._send_blocksize, self._send_enchdrlen
        size = channel._send_pktsize  # noqa: SLF001
        head = bytes((_CHANNEL_DATA,)) + channel.number.to_bytes(4, "big")
        padding = os.urandom(32)
        out: list[bytes] = []
        for begin in range(0, len(data), size):
            piece = data[begin : begin + size]
            pad = -(in_header + _HEAD_BYTES + len(piece)) % block
            # At least four (RFC 4253 6).
            pad += block if pad < 4 else 0
            body = b"".join((bytes((pad,)), head, len(piece).to_bytes(4, "big"), piece, padding[:pad]))
            out.extend(encrypt(number, len(body).to_bytes(4, "big"), body))
            self._rekey_bytes_sent += len(body)
            number = (number + 1) & 0xFFFFFFFF
        self._send_seq = number
        channel._send_window -= len(data)  # noqa: SLF001
        self._send(b"".join(out))


class Channel(asyncssh.SSHServerChannel[bytes]):
    """One session's channel; nothing is taken from the client but data and the request for what is served."""

    def process_open(self, send_chan: int, send_window: int, send_pktsize: int, session: Any) -> None:
        """Open it; refuse a maximum packet size that would cost a cipher's run for a few bytes (RFC 4254 5.1)."""
        if send_pktsize < _LEAST_PACKET_BYTES:
            self._loop.call_soon(self._cleanup)
            raise asyncssh.ChannelOpenError(
                OPEN_RESOURCE_SHORTAGE,
                f"maximum packet size: expected at least {_LEAST_PACKET_BYTES} bytes, found {send_pktsize}",
            )
        super().process_open(send_chan, send_window, send_pktsize, session)

    def can_send(self, size: int) -> bool:
        """Return whether so much data may go at once: within the window, and nothing waits before it."""
        return self.takes_data and size <= self._send_window

    @property
    def number(self) -> int:
        """The client's number of it."""
        assert self._send_chan is not None
        return int(self._send_chan)

    @property
    def is_open(self) -> bool:
        """Whether data may be sent on it still; the client may have ended it a moment ago."""
        return self._send_state == "open"

    @property
    def takes_data(self) -> bool:
        """Whether it is open, and nothing waits in it."""
        return self.is_open and not self._send_buf

    @property
    def waiting_bytes(self) -> int:
        """What waits for the client's window."""
        return self.get_write_buffer_size()

    @property
    def window_bytes(self) -> int:
        """What the client's window has room for now."""
        return int(self._send_window)

    def _process_env_request(self, packet: Any) -> bool:
        """Refuse it: there is no program whose environment it could be."""
        packet.get_string()
        packet.get_string()
        packet.check_end()
        return False

    def _process_x11_req_request(self, _packet: Any) -> bool:
        return False

    def _process_auth_agent_req_at_openssh_dot_com_request(self, _packet: Any) -> bool:  # type: ignore[override]
        return False


def channel_of(connection: Connection) -> Channel:
    """Return a channel for a session that a client asked for."""
    return Channel(
        connection,
        connection._loop,  # noqa: SLF001
        allow_pty=False,
        line_editor=False,
        line_echo=False,
        line_history=0,
        max_line_length=0,
        encoding=None,
        errors="strict",
        window=_WINDOW_BYTES,
        max_pktsize=32768,
    )


async def attach(connection: Connection, accepted: "socket.socket") -> None:
    """Serve an accepted socket by a connection.

    Raises:
        OSError: The socket is gone.
    """
    await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted)
