"""SSH connection: asyncssh's, extended by a count of sent bytes, a bound on its queue, and a fast path for images.

Facts
-----

- asyncssh passes every packet to the transport, however much waits there: with a client of large window and slow link
  we would buffer megabytes. So nothing is sent here while the transport has unsent data.
- It sends an empty packet before each data packet, against a weakness of CBC (RFC 4251 9.3.1), and copies the data some
  eight times. The fast path does neither; CBC does not use it.
- Key exchange begins right after our identification (RFC 4253 4.2), but asyncssh sends its KEXINIT after reading the
  client's. One that waits for ours first would need a round trip more, so the KEXINIT is sent on accept.
- The client chooses the maximum packet size (RFC 4254 5.1), and each packet costs the same work: at 1 byte an image
  blocked the loop for seconds. So at most 64 packets are sent per turn, and a size below 1024 bytes is refused.
- During a rekey no data may be sent (RFC 4253 7.1); asyncssh would queue it, so nothing is sent here until it is done.
- asyncssh aborts its transport in the loop's next turn, and asyncio closes a transport at the client's EOF. A transport
  closed with unsent data may send them and vanish before it is aborted; aborting it then raises AttributeError in the
  loop (CPython 3.11 to 3.13, selector_events.py: _write_ready() does not update _conn_lost).
- asyncssh's private names are used in this module only; a test checks what is expected of them.
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
    # The key was validated when it was read; doing it again took 0.2 s of the first client of each profile.
    return asyncssh.import_private_key(key.private, unsafe_skip_rsa_key_validation=True)


@lru_cache(maxsize=64)
def options_for(algorithms: Algorithms, host_keys: "tuple[HostKey, ...]") -> asyncssh.SSHServerConnectionOptions:
    """Return asyncssh's options for some algorithms; cached, so that connections with equal offers share them."""
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
        # Disabled: `SshClient` has its own login timeout.
        login_timeout=0,
        utf8_decode_errors="replace",
    )
    # asyncssh would offer every algorithm that fits a key, ssh-rsa included.
    for name in [name for name in options.server_host_keys if name.decode("ascii") not in algorithms.host_keys]:
        del options.server_host_keys[name]
    return options


class Connection(asyncssh.SSHServerConnection):
    """One client's connection.

    Args:
        loop: asyncio's loop.
        options: Algorithms to offer.
        owner: Object with the callbacks for asyncssh.
        on_space: Called when data can be sent again.

    Attributes:
        sent_bytes: All bytes passed to the transport so far.
        was_made: Whether it has, or had, its transport.
        is_refused: Whether to abort it as soon as it has its transport.
        no_match: Message about a missing common algorithm, with both lists; empty if there is none.
        wants_group_exchange: Whether the common key exchange is missing and the client offers group exchange.
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
        self._is_full = self._is_kexinit_early = False
        self.sent_bytes = 0
        self.no_match = ""
        self.was_made = self.is_refused = False
        self.wants_group_exchange = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start; the transport reports unsent data at once, by `pause_writing`."""
        assert isinstance(transport, asyncio.WriteTransport)
        self.was_made = True
        if self.is_refused:
            transport.abort()
            return
        transport.set_write_buffer_limits(high=0)
        super().connection_made(transport)

    def refuse(self) -> None:
        """Let the connection be aborted when it gets its transport, which alone may close the socket.

        A descriptor that is closed without the loop's knowledge may belong to another client in the same turn.
        """
        self.is_refused = True

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the transport open at the client's EOF: it is only ended by aborting, see the facts."""
        super().eof_received()
        return True

    def pause_writing(self) -> None:
        """Note that the transport has unsent data."""
        self._is_full = True

    def resume_writing(self) -> None:
        """Note that the transport has sent all data."""
        self._is_full = False
        self._on_space()

    async def reload_config(self) -> None:
        """Do nothing: there is no configuration file that a user's name could change."""

    def _send_version(self) -> None:
        super()._send_version()
        self._send_kexinit()
        self._kexinit_sent = self._is_kexinit_early = True

    def _send_kexinit(self) -> None:
        # asyncssh calls this when it has the client's identification; the first KEXINIT is on its way by then.
        if self._is_kexinit_early:
            self._is_kexinit_early = False
        else:
            super()._send_kexinit()

    # A client that finds no match closes before asyncssh reports its own finding, so it is recorded here.

    def _choose_alg(self, alg_type: str, local_algs: "Sequence[bytes]", remote_algs: "Sequence[bytes]") -> bytes:
        try:
            return super()._choose_alg(alg_type, local_algs, remote_algs)
        except asyncssh.KeyExchangeFailed:
            self._note_no_match(alg_type, local_algs, remote_algs)
            names = (name.decode("ascii", "replace") for name in remote_algs)
            self.wants_group_exchange = not GROUP_EXCHANGES.isdisjoint(names)
            raise

    def choose_server_host_key(self, peer_host_key_algs: "Sequence[bytes]") -> bool:
        """Choose a host key that the client accepts; return whether there is one."""
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
        """Whether anything can still be sent."""
        return self._transport is not None

    @property
    def has_space(self) -> bool:
        """Whether data may be sent now: the transport has no unsent data, and there is no rekey."""
        return self._transport is not None and not self._is_full and self._kex_complete

    @property
    def cipher(self) -> str:
        """SSH name of the cipher towards the client."""
        return str(self.get_extra_info("send_cipher", ""))

    @property
    def mac(self) -> str:
        """The MAC towards the client; empty if the cipher includes one."""
        return "" if any(word in self.cipher for word in _OF_ITSELF) else str(self.get_extra_info("send_mac", ""))

    @property
    def client_version(self) -> str:
        """The client's version string, without `SSH-2.0-`."""
        return str(self.get_extra_info("client_version", "")).removeprefix("SSH-2.0-")

    def piece_bytes(self, channel: "Channel") -> int:
        """Return how many bytes to send next: whole packets that fit the client's window, or one if none fits."""
        packet, window = channel._send_pktsize, channel._send_window  # noqa: SLF001 - see the facts
        packets = min(_MOST_AT_ONCE // packet, _MOST_PACKETS_AT_ONCE)
        return min(window // packet, packets) * packet or min(packet, _MOST_AT_ONCE)

    def send_data(self, channel: "Channel", data: bytes) -> None:
        """Send data on a channel; what exceeds the client's window waits in the channel."""
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
        """Build and encrypt data packets without asyncssh, and send them in one write."""
        encrypt = self._send_encryption.encrypt_packet  # type: ignore[union-attr]
        number, block, in_header = self._send_seq, self._send_blocksize, self._send_enchdrlen
        size = channel._send_pktsize  # noqa: SLF001
        head = bytes((_CHANNEL_DATA,)) + channel.number.to_bytes(4, "big")
        padding = os.urandom(32)
        out: list[bytes] = []
        for begin in range(0, len(data), size):
            piece = data[begin : begin + size]
            pad = -(in_header + _HEAD_BYTES + len(piece)) % block
            # At least four bytes of padding (RFC 4253 6).
            pad += block if pad < 4 else 0
            body = b"".join((bytes((pad,)), head, len(piece).to_bytes(4, "big"), piece, padding[:pad]))
            out.extend(encrypt(number, len(body).to_bytes(4, "big"), body))
            self._rekey_bytes_sent += len(body)
            number = (number + 1) & 0xFFFFFFFF
        self._send_seq = number
        channel._send_window -= len(data)  # noqa: SLF001
        self._send(b"".join(out))


class Channel(asyncssh.SSHServerChannel[bytes]):
    """One session's channel; it refuses all requests but those for SCP and SFTP."""

    def process_open(self, send_chan: int, send_window: int, send_pktsize: int, session: Any) -> None:
        """Open the channel; refuse a maximum packet size that would need an encryption per few bytes (RFC 4254 5.1)."""
        if send_pktsize < _LEAST_PACKET_BYTES:
            self._loop.call_soon(self._cleanup)
            raise asyncssh.ChannelOpenError(
                OPEN_RESOURCE_SHORTAGE,
                f"maximum packet size: expected at least {_LEAST_PACKET_BYTES} bytes, found {send_pktsize}",
            )
        super().process_open(send_chan, send_window, send_pktsize, session)

    def can_send(self, size: int) -> bool:
        """Return whether so much data can be sent at once: it fits into the window, and nothing waits before it."""
        return self.takes_data and size <= self._send_window

    @property
    def number(self) -> int:
        """The client's number of the channel."""
        assert self._send_chan is not None
        return int(self._send_chan)

    @property
    def is_open(self) -> bool:
        """Whether data may still be sent; the client may have closed the channel."""
        return self._send_state == "open"

    @property
    def takes_data(self) -> bool:
        """Whether it is open, and nothing waits in it."""
        return self.is_open and not self._send_buf

    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait for the client's window."""
        return self.get_write_buffer_size()

    @property
    def window_bytes(self) -> int:
        """Bytes that the client's window has room for now."""
        return int(self._send_window)

    def _process_env_request(self, packet: Any) -> bool:
        """Refuse environment variables: no program is run."""
        packet.get_string()
        packet.get_string()
        packet.check_end()
        return False

    def _process_x11_req_request(self, _packet: Any) -> bool:
        return False

    def _process_auth_agent_req_at_openssh_dot_com_request(self, _packet: Any) -> bool:  # type: ignore[override]
        return False


def channel_of(connection: Connection) -> Channel:
    """Return a channel for a client's session."""
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
    """Attach an accepted socket to a connection.

    Raises:
        OSError: The socket was closed.
    """
    await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted)
