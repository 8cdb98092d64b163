"""Image files on the controller: hashing, targets of a run, and random files for speed tests."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import is_below
from flashferry.core.state_folder import scratch_folder
from flashferry.core.units import duration, rough_duration, size
from flashferry.core.value_description import described_image
from flashferry.images.catalogue import Catalogue
from flashferry.images.errors import ImageError
from flashferry.images.image import Digests, check_published
from flashferry.images.safe_open import checked_image
from flashferry.monitor.events import Emit, Event, never_failing, silent
from flashferry.tcp.speed_test_size import LARGEST_BYTES, PILOT_BYTES

if TYPE_CHECKING:
    from flashferry.images.image import ImageFile
    from tasks.check import TargetImage

_REPORT_EVERY_S = 1.0


class HashProgress:
    """Reports how far one image is hashed, once a second; of one that takes less, nothing. Ends the hashing at Ctrl-C.

    Args:
        emit: Receives events of the step `server`: `progress`, and `done` at the end.
        name: The image's name.
        started_s: Since when the events' time counts; None: from now.
        clock: Seconds, going up.
        interrupted: Whether the operator wants to stop.
    """

    def __init__(
        self,
        emit: Emit,
        name: str,
        started_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self._interrupted = interrupted
        self._emit, self._name, self._clock = never_failing(emit), name, clock
        self._hashing_since_s = self._reported_s = clock()
        self._started_s = self._hashing_since_s if started_s is None else started_s

    def __call__(self, done_bytes: int, size_bytes: int) -> None:
        """Take how many bytes of the image are hashed. Raises `Interrupted`."""
        if self._interrupted():
            # Late: the service, which only looks for image files, starts without what talks to devices.
            from flashferry.devices.errors import Interrupted

            raise Interrupted(f"stopped by the operator while {self._name} was hashed: no device was touched")
        now_s = self._clock()
        took_s = now_s - self._hashing_since_s
        if done_bytes >= size_bytes:
            if self._reported_s > self._hashing_since_s:
                self._report("done", f"hashed {self._name}, {size(size_bytes)}, in {duration(took_s)}", now_s)
        elif now_s - self._reported_s >= _REPORT_EVERY_S:
            self._reported_s = now_s
            share = done_bytes / size_bytes
            left = f", about {rough_duration(took_s / share - took_s)} left" if share else ""
            self._report("progress", f"hashing {self._name}: {share:.0%} of {size(size_bytes)}{left}", now_s)

    def _report(self, status: str, text: str, now_s: float) -> None:
        self._emit(Event(host=None, step="server", status=status, text=text, at_s=now_s - self._started_s))


def hashed_image(path: Path, emit: Emit = silent, interrupted: Callable[[], bool] = lambda: False) -> ImageFile:
    """Return an image file with its digests.

    Args:
        path: The file.
        emit: Takes events about how far it is hashed.
        interrupted: Whether the operator wants to stop.

    Raises:
        ConfigInvalid: It is missing, empty or unreadable.
        Interrupted: The operator stopped it.
    """
    progress = HashProgress(emit, path.name, interrupted=interrupted)
    try:
        return Catalogue((checked_image(path),)).image(path.name, on_progress=progress)
    except ImageError as error:
        raise ConfigInvalid(error.message, hint=error.hint) from None


_CHUNK_BYTES = 1 << 20


def named_image(path: Path, folders: Iterable[Path], *, hint: str = "Put it there") -> Path:
    """Return an image file named by an inventory, a rule or a plan, which must be in one of the folders.

    A file must not make the controller send arbitrary files to routers; only a command-line option may. Links are
    resolved before the check.

    Args:
        path: The file.
        folders: The image folders.
        hint: Hint of the error if it is elsewhere.

    Raises:
        ConfigInvalid: It is elsewhere, missing, no regular file, empty or unreadable.
    """
    allowed = tuple(folders)
    if not is_below(path, allowed):
        places = " or ".join(dict.fromkeys(str(folder.resolve()) for folder in allowed)) or "no folder"
        raise ConfigInvalid(
            f"image {described_image(path.name)}: expected it below {places}, found that its path leads elsewhere",
            hint=hint,
        )
    return checked_image(path)


def target_image(
    path: Path,
    vendor: Digests | None = None,
    *,
    is_insisted: bool = False,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> TargetImage:
    """Return an image file as the target of a run: name, size, digests, and the name in its header.

    Args:
        path: The file.
        vendor: What the vendor published for it, or None.
        is_insisted: Whether it is wanted also on a platform that it is not for.
        emit: Takes events about how far the image is hashed.
        interrupted: Whether the operator wants to stop.

    Raises:
        ConfigInvalid: It is missing, empty or unreadable, or not the file that was published.
        Interrupted: The operator stopped it.
    """
    # Start time: callers that only need paths, such as the service, do not load the steps.
    from tasks.check import TargetImage

    image = hashed_image(path, emit, interrupted)
    if vendor is not None:
        check_published(image, vendor)
    return TargetImage.of(image, is_insisted=is_insisted)


@contextmanager
def random_image(size_bytes: int, directory: Path, name: str = "flashferry-probe.bin") -> Iterator[Path]:
    """Yield a file of random (incompressible) bytes in a temporary folder below a state directory."""
    with scratch_folder(directory) as folder:
        path = folder / name
        fill_randomly(path, size_bytes)
        yield path


def fill_randomly(path: Path, size_bytes: int) -> None:
    """Fill a file with random bytes.

    Raises:
        OSError: The disk is full.
    """
    with path.open("wb") as file:
        for start in range(0, size_bytes, _CHUNK_BYTES):
            file.write(os.urandom(min(_CHUNK_BYTES, size_bytes - start)))


def _sizes() -> tuple[int, ...]:
    """Return the offered sizes: the pilot's, then two significant digits from 70 kB to the largest."""
    found = {PILOT_BYTES}
    for exponent in range(3, 8):
        found |= {digits * 10**exponent for digits in range(10, 100)}
    return tuple(sorted(size for size in found if PILOT_BYTES <= size <= LARGEST_BYTES))


SIZES = _sizes()


class ProbeFiles:
    """A folder of random files, one per size; a file is filled on first use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        for size_bytes in SIZES:
            (folder / name_of(size_bytes)).touch()
        self.pilot = self.of(PILOT_BYTES)

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return the files that the server offers."""
        return (self._folder,)

    def of(self, size_bytes: int) -> Path:
        """Return the file of a size, or of the next larger offered size.

        Raises:
            OSError: The disk is full.
        """
        size_bytes = next((size for size in SIZES if size >= size_bytes), SIZES[-1])
        path = self._folder / name_of(size_bytes)
        with self._lock:
            if path.stat().st_size != size_bytes:
                fill_randomly(path, size_bytes)
        return path


def name_of(size_bytes: int) -> str:
    """Return the file name for a size; short, because it is part of an IOS command line."""
    return f"probe-{size_bytes}.bin"


@contextmanager
def probe_files(directory: Path) -> Iterator[ProbeFiles]:
    """Yield probe files in a temporary folder below a state directory."""
    with scratch_folder(directory) as folder:
        yield ProbeFiles(folder)
