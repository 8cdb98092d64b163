"""Where a download goes: a file on a flash, a configuration, or nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from flashferry.lab.standin.copy_files import STARTUP, merge_into_running
from flashferry.lab.standin.copy_questions import begin_questions
from flashferry.lab.standin.flash import FlashWriter, NoSpaceError, NullWriter, Pace
from flashferry.lab.standin.holding import HeldWriter
from flashferry.lab.standin.show_files import free_bytes
from flashferry.lab.standin.verify import verify_copied

if TYPE_CHECKING:
    import threading

    from flashferry.lab.standin.flash import Flash
    from flashferry.lab.standin.ftp_request import Sink
    from flashferry.lab.standin.vty import Vty

_LARGEST_CONFIGURATION_BYTES = 2**24


class Target(Protocol):
    """What a copy needs of the place it goes to."""

    keeps_nothing: bool

    async def may_begin(self) -> bool:
        """Ask what the device asks once the source is open; False ends the copy."""

    def open(self, announced_bytes: int | None, stop: threading.Event) -> Sink:
        """Begin to write; called in the copy's thread. May raise NoSpaceError."""

    def drop(self) -> None:
        """Take away what is there of a copy that did not come whole."""

    def settle(self) -> str:
        """Take over a copy that came whole; return what is printed in front of its result."""

    async def verify(self) -> None:
        """Check the copy where that is wanted, behind its result."""


class NullTarget:
    """``null:``."""

    keeps_nothing = True

    async def may_begin(self) -> bool:
        """Ask nothing."""
        return True

    def open(self, _announced_bytes: int | None, _stop: threading.Event) -> Sink:
        """Take everything and keep nothing."""
        return NullWriter()

    def drop(self) -> None:
        """Do nothing."""

    def settle(self) -> str:
        """Print nothing."""
        return ""

    async def verify(self) -> None:
        """Do nothing."""


class FlashTarget(NullTarget):
    """A file on a flash.

    Args:
        vty: Whose copy it is.
        flash: The file system.
        name: The file's name on it.
        verifies: The copy is verified when it is there, as `copy /verify` and `file verify auto` do.
    """

    keeps_nothing = False

    def __init__(self, vty: Vty, flash: Flash, name: str, *, verifies: bool) -> None:
        self._vty = vty
        self._flash = flash
        self._name = name
        self._verifies = verifies
        self._has_started = False

    async def may_begin(self) -> bool:
        """Ask about erasing the flash, and about a file that is no image."""
        asks = self._vty.device.platform.copy.erase_question or self._vty.device.faults.image_not_executable
        return await begin_questions(self._vty, self._flash) if asks else True

    def open(self, announced_bytes: int | None, stop: threading.Event) -> Sink:
        """Open the file, if what the server announced fits."""
        faults, flash = self._vty.device.faults, self._flash
        left_bytes = free_bytes(self._vty, flash)
        old = flash.find(self._name)
        old_bytes = old.size_bytes if old else 0
        if announced_bytes is not None and announced_bytes > left_bytes + old_bytes:
            raise NoSpaceError
        if faults.disk_full_after_bytes is not None:
            left_bytes = min(left_bytes, faults.disk_full_after_bytes - old_bytes)
        self._has_started = True
        rate = faults.slow_flash_bytes_per_s or flash.figures.write_bytes_per_s
        writer = FlashWriter(flash, self._name, Pace(rate, stop), free_bytes=left_bytes)
        return HeldWriter(self._vty.device, _Spoiled(writer) if faults.flip_byte else writer, stop)

    def drop(self) -> None:
        """Delete the partial file where the platform does; one that was there before the copy began stays."""
        device = self._vty.device
        if self._has_started and not (device.platform.copy.keeps_partial_file or device.faults.keeps_partial_file):
            self._flash.delete(self._name)

    def settle(self) -> str:
        """Print the checksum of class-B flash; it is that of a public log of a C3640 and not computed."""
        return "Verifying checksum...  OK (0x266E)\n" if self._vty.device.platform.copy.erase_question else ""

    async def verify(self) -> None:
        """Verify the file where that is wanted."""
        if self._verifies:
            await verify_copied(self._vty, self._flash, self._name)


class ConfigTarget(NullTarget):
    """The running or the startup configuration, which a file is merged into or replaces."""

    keeps_nothing = False

    def __init__(self, vty: Vty, full_name: str) -> None:
        self._vty = vty
        self._full_name = full_name
        self._held = bytearray()

    def open(self, announced_bytes: int | None, _stop: threading.Event) -> Sink:
        """Collect the file; a configuration of more than 16 MiB is no configuration."""
        if announced_bytes is not None and announced_bytes > _LARGEST_CONFIGURATION_BYTES:
            raise NoSpaceError
        self._held.clear()
        return _Collector(self._held)

    def settle(self) -> str:
        """Apply it; lines that are refused are printed as they are met."""
        text = self._held.decode("latin-1")
        if self._full_name == STARTUP:
            self._vty.device.startup_text = text
            return "[OK]\n"
        return merge_into_running(self._vty, text, "running-config")


class _Collector:
    """A sink that keeps everything in memory."""

    def __init__(self, held: bytearray) -> None:
        self._held = held

    def write(self, chunk: bytes) -> None:
        if len(self._held) + len(chunk) > _LARGEST_CONFIGURATION_BYTES:
            raise NoSpaceError
        self._held += chunk

    def close(self) -> None:
        """Do nothing."""


class _Spoiled:
    """A writer that flips a byte when it is done."""

    def __init__(self, inner: FlashWriter) -> None:
        self._inner = inner

    def write(self, chunk: bytes) -> None:
        self._inner.write(chunk)

    def flush(self) -> None:
        self._inner.flush()

    def close(self) -> None:
        self._inner.flip_byte()
        self._inner.close()
