"""What a test holds until it releases it: a copy at a number of bytes, a line before it is executed, a restart."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from flashferry.lab.standin.device import Device

_POLL_S = 0.02


async def hold(device: Device, what: str, is_held: Callable[[], bool]) -> None:
    """Note that something is held, and wait until it is not."""
    note(device, what)
    while is_held():
        await asyncio.sleep(_POLL_S)


def note(device: Device, what: str) -> None:
    """Note what is held, where a test can see it."""
    device.happened.append(f"held: {what}")


def allowed_bytes(device: Device, size_bytes: int) -> int | None:
    """Return how many bytes a copy that has so many may still take: 0 while it is held, None for all there are."""
    limit = device.faults.hold_copy_at_bytes
    return None if limit is None else max(0, limit - size_bytes)


class _Writer(Protocol):
    def write(self, chunk: bytes) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class HeldWriter:
    """A writer that stops at the byte at which the device holds its copies; ``stop`` ends the wait, too."""

    def __init__(self, device: Device, inner: _Writer, stop: threading.Event) -> None:
        self._device = device
        self._inner = inner
        self._stop = stop
        self._size_bytes = 0

    def write(self, chunk: bytes) -> None:
        """Write a piece, up to that byte and after the release from there. Raises NoSpaceError: it does not fit."""
        while chunk and not self._stop.is_set():
            part = chunk[: allowed_bytes(self._device, self._size_bytes)]
            if part:
                self._inner.write(part)
                self._size_bytes += len(part)
                chunk = chunk[len(part) :]
            self._wait()

    def close(self) -> None:
        """Finish the file."""
        self._inner.close()

    def _wait(self) -> None:
        if allowed_bytes(self._device, self._size_bytes) != 0:
            return
        self._inner.flush()
        note(self._device, f"copy at {self._size_bytes} bytes")
        while allowed_bytes(self._device, self._size_bytes) == 0 and not self._stop.wait(_POLL_S):
            pass
