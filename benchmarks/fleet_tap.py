"""What a server's copies put on the lines to their sites, packet by packet: seen where they leave, before any queue.

The lines' own counters hold logins and show commands too, and acknowledgements come in bursts when a hole is filled.
Neither tells whether the copies of a site kept to its cap; this does.
"""

import ctypes
import select
import socket
import struct
import threading
import time
from collections import Counter
from typing import Self

from flashferry.lab.world import World, in_core

_EVERY_PROTOCOL = 0x0003  # linux/if_ether.h, ETH_P_ALL; what leaves is shown to no other socket
_SO_ATTACH_FILTER = 26
_SO_TIMESTAMPNS = 35  # asm-generic/socket.h; by the kernel's clock, for on a busy machine this thread may be late
_TIMESPEC = struct.Struct("qq")
_PKTTYPE = 0xFFFFF004  # linux/filter.h: SKF_AD_OFF + SKF_AD_PKTTYPE
_SNAP_BYTES = 128
# Classic BPF: TCP packets that leave, their heads.
_FILTER = b"".join(
    struct.pack("HBBI", *instruction)
    for instruction in (
        (0x20, 0, 0, _PKTTYPE),
        (0x15, 0, 3, socket.PACKET_OUTGOING),
        (0x30, 0, 0, 9),  # the protocol
        (0x15, 0, 1, socket.IPPROTO_TCP),
        (0x06, 0, 0, _SNAP_BYTES),
        (0x06, 0, 0, 0),
    )
)
_FIRST_PASSIVE_PORT = 32768
_BIN_S = 0.1
_BINS_PER_S = 10
_BUFFER_BYTES = 8 << 20
_ABOUT_BYTES = 64
_LOOK_S = 0.2


class CopyTap:
    """Counts payload of data connections by site in tenths of a second, while its with block lasts.

    Args:
        world: The world; copies by passive FTP alone, from ports of the kernel's choice.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._site_of = {socket.inet_aton(one.address): site.name for site in world.sites for one in site.devices}
        self._ssh_ports = {one.port for one in world.devices}
        self._payload: dict[str, Counter[int]] = {site.name: Counter() for site in world.sites}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def most_bytes_per_s(self, site: str, seconds: float) -> float:
        """Return the most payload per second that a site's copies sent within any stretch of so many seconds."""
        bins = self._payload[site]
        if not bins:
            return 0.0
        width = round(seconds * _BINS_PER_S)
        starts = range(min(bins), max(bins) + 1)
        # No stretch that is the worst begins with an empty bin.
        return max(sum(bins[start + number] for number in range(width)) for start in starts if bins[start]) / seconds

    def mean_bytes_per_s(self, site: str) -> float:
        """Return the payload per second from the first packet of a site's copies to the last."""
        bins = self._payload[site]
        return sum(bins.values()) / ((max(bins) - min(bins) + 1) * _BIN_S) if bins else 0.0

    def _listen(self) -> None:
        with in_core(self._world):
            tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_EVERY_PROTOCOL))
        with tap:
            program = ctypes.create_string_buffer(_FILTER)
            tap.setsockopt(
                socket.SOL_SOCKET,
                _SO_ATTACH_FILTER,
                struct.pack("HxxxxxxP", len(_FILTER) // 8, ctypes.addressof(program)),
            )
            tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
            tap.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            tap.setblocking(False)
            while not self._stop.is_set():
                if select.select([tap], [], [], _LOOK_S)[0]:
                    self._drain(tap)

    def _drain(self, tap: socket.socket) -> None:
        try:
            while True:
                head, about, _, _ = tap.recvmsg(_SNAP_BYTES, _ABOUT_BYTES)
                self._note(head, _moment(about))
        except BlockingIOError:
            # A breath, so that many packets are taken at once; a tenth of a second is fine enough.
            time.sleep(_BIN_S / 10)

    def _note(self, head: bytes, moment: int) -> None:
        ip_bytes = (head[0] & 15) * 4
        source, target = struct.unpack_from("!HH", head, ip_bytes)
        site = self._site_of.get(head[16:20])
        if site is None or source < _FIRST_PASSIVE_PORT or target in self._ssh_ports:
            return
        self._payload[site][moment] += _payload_bytes(head)


class WireTap(CopyTap):
    """Counts the payload of all TCP but SSH that leaves for a site, its depot included: what is sent again, too.

    Args:
        world: The world.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._site_of |= {socket.inet_aton(depot.address): site for site, depot in world.depots.items()}

    def payload_bytes(self, site: str) -> int:
        """Return the payload that was sent to a site so far."""
        return sum(self._payload[site].values())

    def _note(self, head: bytes, moment: int) -> None:
        ports = struct.unpack_from("!HH", head, (head[0] & 15) * 4)
        site = self._site_of.get(head[16:20])
        if site is not None and not self._ssh_ports.intersection(ports):
            self._payload[site][moment] += _payload_bytes(head)


def _payload_bytes(head: bytes) -> int:
    ip_bytes = (head[0] & 15) * 4
    return int.from_bytes(head[2:4]) - ip_bytes - (head[ip_bytes + 12] >> 4) * 4


def _moment(about: list[tuple[int, int, bytes]]) -> int:
    """Return when the kernel saw a packet, in tenths of a second since 1970."""
    stamps = (data for level, kind, data in about if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS))
    seconds, nanoseconds = _TIMESPEC.unpack(next(stamps)[: _TIMESPEC.size])
    return int(seconds * _BINS_PER_S + nanoseconds * _BINS_PER_S // 10**9)
