"""How a device's process reads what TCP has received: a model per release, chosen by the name of a receiver profile.

The profile `optimistic` has no model: a copy is as fast as the host's TCP and the platform's flash allow. With the
profile `published` rates and windows of the published experiment come out together (docs/evidence.md): the process
reads at a pace, writes to flash in blocks, and reads nothing while it writes. Whether a real IOS works so is not known;
the evidence stands beside the figures in the platforms' data files.

The advertised window is the receive buffer less what the process has not read yet (RFC 9293 3.8.6). Linux advertises
none while less than a sixteenth of its buffer is free (net/ipv4/tcp_output.c, `__tcp_select_window`); the article's
tuned IOS kept 10 kB of 2.5 MB open. So the kernel holds only the front of the buffer, the stand-in the rest.
"""

from __future__ import annotations

import fcntl
import math
import select
import socket
import struct
import termios
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.lab.standin import device_tcp

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

OPTIMISTIC, PUBLISHED = "optimistic", "published"
"""Names of receiver profiles."""

_TICK_S = 0.002
_READ_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverFigures:
    """The process of a copy by FTP to flash, as a model.

    Attributes:
        buffer_bytes: The receive buffer without a line `ip tcp window-size`.
        reads_bytes_per_s: Pace at which it reads while it does not write.
        block_bytes: How much it reads before it writes.
        write_s: How long a write takes, in seconds; nothing is read meanwhile.
    """

    buffer_bytes: int
    reads_bytes_per_s: float
    block_bytes: int
    write_s: float

    @property
    def mean_bytes_per_s(self) -> float:
        """What it takes in the long run."""
        return self.block_bytes / (self.block_bytes / self.reads_bytes_per_s + self.write_s)


class Process:
    """The process that reads what TCP holds, by a clock that the caller gives."""

    def __init__(self, figures: ReceiverFigures, now_s: float) -> None:
        self._figures = figures
        self._at_s = now_s
        self._left_bytes = figures.block_bytes

    def reads(self, held_bytes: int, now_s: float) -> int:
        """Return how many of the bytes held it reads between the last call and now."""
        rate, taken = self._figures.reads_bytes_per_s, 0
        while taken < held_bytes and self._at_s < now_s:
            due = math.floor((now_s - self._at_s) * rate)
            count = min(held_bytes - taken, self._left_bytes, due)
            if not count:
                return taken
            taken += count
            self._at_s += count / rate
            self._left_bytes -= count
            if not self._left_bytes:
                self._left_bytes = self._figures.block_bytes
                self._at_s += self._figures.write_s
        if taken == held_bytes:
            # It has nothing to read: time that passes now is not made up for later.
            self._at_s = max(self._at_s, now_s)
        return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveBuffer:
    """A device's receive buffer: `front_bytes` of it are in the kernel, the rest is in the stand-in."""

    size_bytes: int
    front_bytes: int

    @classmethod
    def of(cls, size_bytes: int, figures: ReceiverFigures) -> ReceiveBuffer:
        """Return the buffer of a window; its front holds what the process reads in a second, more than a round trip."""
        return cls(size_bytes=size_bytes, front_bytes=min(size_bytes, math.ceil(figures.mean_bytes_per_s)))

    def space_bytes(self, own_bytes: int) -> int:
        """Return how much can move from the front to the stand-in, which holds so much already; it may be negative."""
        return max(0, self.size_bytes - self.front_bytes - own_bytes)

    def window_bytes(self, own_bytes: int) -> int:
        """Return the window over an empty front; the kernel subtracts what is in it."""
        return max(self.front_bytes, self.size_bytes - own_bytes)


class PacedReceiver:
    """Receives a file as a device does whose process reads at its own pace."""

    def __init__(self, data: socket.socket, window_bytes: int, figures: ReceiverFigures) -> None:
        self._data = data
        self._process = Process(figures, time.monotonic())
        self._buffer = ReceiveBuffer.of(window_bytes, figures)
        self._own = bytearray()
        self._set_bytes = 0
        self._is_over = False

    def receive(self, stop: threading.Event, took: Callable[[bytes], None], patience_s: float) -> None:
        """Receive until the other side ends; `took` gets what the process read. Raises TimeoutError: nothing came."""
        waiter = select.poll()
        waiter.register(self._data, select.POLLIN)
        while not stop.is_set():
            queued = self._queued_bytes()
            if not (queued or self._own):
                if self._is_over:
                    return
                if not waiter.poll(patience_s * 1000):
                    raise TimeoutError
                # Raises what a broken connection has to say; no byte at all is its end.
                self._is_over = not self._data.recv(1, socket.MSG_PEEK)
                queued = self._queued_bytes()
            taken = self._process.reads(len(self._own) + queued, time.monotonic())
            count = min(queued, self._buffer.space_bytes(len(self._own) - taken))
            if count:
                self._own += self._data.recv(count)
                self._advertise()
            if taken:
                took(bytes(self._own[:taken]))
                del self._own[:taken]
            stop.wait(_TICK_S)

    def _advertise(self) -> None:
        """Set the kernel's buffer to what is left of the device's."""
        window_bytes = self._buffer.window_bytes(len(self._own))
        if window_bytes != self._set_bytes:
            self._set_bytes = window_bytes
            device_tcp.set_window(self._data, window_bytes)

    def _queued_bytes(self) -> int:
        found: int = struct.unpack("i", fcntl.ioctl(self._data, termios.FIONREAD, b"\0\0\0\0"))[0]
        return found
