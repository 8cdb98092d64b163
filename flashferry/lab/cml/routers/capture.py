"""Records what goes over a router's emulated link, at its end in the core namespace."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

from flashferry.lab.cml.pcap import pcap_of

_EVERY_KIND = 0x0003
"""ETH_P_ALL (linux/if_ether.h): outgoing packets, too."""
_POLL_S = 0.2
_MOST_BYTES = 256 * 2**20
_HEADER = bytes.fromhex("525400000002" + "525400000001" + "0800")
"""Of Ethernet, towards the router; the links of the lab carry bare IP packets."""
_HEADER_BACK = bytes.fromhex("525400000001" + "525400000002" + "0800")


class LinkCapture:
    """Records from its making on, in a thread, until it is ended or holds 256 MiB.

    The caller is in the core namespace.

    Args:
        interface: The link's end there.

    Raises OSError: there is no such interface, or the right is missing.
    """

    def __init__(self, interface: str) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_EVERY_KIND))
        try:
            self._socket.bind((interface, _EVERY_KIND))
        except OSError:
            self._socket.close()
            raise
        self._socket.settimeout(_POLL_S)
        self._frames: list[tuple[float, bytes]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._record, name=f"capture-{interface}")
        self._thread.start()

    def frames(self) -> list[tuple[float, bytes]]:
        """Return what was recorded so far, each frame with its time."""
        return list(self._frames)

    def end(self) -> None:
        """Stop recording; what there is stays."""
        self._over.set()
        self._thread.join()
        self._socket.close()

    def _record(self) -> None:
        held_bytes = 0
        while not self._over.is_set() and held_bytes < _MOST_BYTES:
            with suppress(OSError):  # nothing came, or the interface is gone with its router
                packet, (_, _, direction, *_) = self._socket.recvfrom(65535)
                header = _HEADER if direction == socket.PACKET_OUTGOING else _HEADER_BACK
                self._frames.append((time.time(), header + packet))
                held_bytes += len(packet)
                continue
            self._over.wait(_POLL_S / 10)


def as_pcap(captures: list[LinkCapture]) -> bytes:
    """Return what several captures of one link recorded, in the order of time."""
    return pcap_of(sorted(frame for each in captures for frame in each.frames()))
