"""Image files on our side: what a device is to have, and random ones for speed tests."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import is_below
from flashferry.core.safe_quote import described_image
from flashferry.core.state_folder import scratch_folder
from flashferry.core.units import duration, rough_duration, size
from flashferry.images.catalogue import Catalogue
from flashferry.images.errors import ImageError
from flashferry.images.files import checked_image
from flashferry.images.image import Digests, ImageFile, check_published
from flashferry.monitor.events import Emit, Event, never_failing, silent

if TYPE_CHECKING:
    from tasks.check import TargetImage

_CHUNK_BYTES = 1 << 20
_REPORT_EVERY_S = 1.0


class HashProgress:
    """Reports how far one image is hashed, once a second; of one that takes less, nothing.

    Args:
        emit: Takes events of the step `server`: `progress`, and `done` at the end.
        name: The image's name.
        started_s: Since when the events' time counts; None: from now.
        clock: Seconds, going up.
    """

    def __init__(
        self, emit: Emit, name: str, started_s: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._emit, self._name, self._clock = never_failing(emit), name, clock
        self._hashing_since_s = self._reported_s = clock()
        self._started_s = self._hashing_since_s if started_s is None else started_s

    def __call__(self, done_bytes: int, size_bytes: int) -> None:
        """Take how many bytes of the image are hashed."""
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


def named_image(path: Path, folders: Iterable[Path], *, hint: str = "Put it there") -> Path:
    """Return an image file that an inventory or a rule names, or a plan: one below the folders that were given.

    What an operator names with an option is theirs to name; what stands in a file must not bring any file of
    the controller to a router. Links are followed before the look.

    Args:
        path: Where it is to be.
        folders: Folders of images, as given.
        hint: What to do where it is elsewhere.

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


def wanted_image(
    path: Path, vendor: Digests | None = None, *, is_insisted: bool = False, emit: Emit = silent
) -> TargetImage:
    """Return an image file as what a device is to have: name, size, digests, and what it calls itself.

    Args:
        path: The file.
        vendor: What the vendor published for it, or None.
        is_insisted: Whether it is wanted also on a platform that it is not for.
        emit: Takes events about how far the image is hashed.

    Raises:
        ConfigInvalid: It is missing, empty or unreadable, or not the file that was published.
    """
    # Late: who only looks for a file, as the service does, waits for no step to be imported.
    from tasks.check import TargetImage

    image = hashed_image(path, emit)
    if vendor is not None:
        check_published(image, vendor)
    return TargetImage.of(image, is_insisted=is_insisted)


def hashed_image(path: Path, emit: Emit = silent) -> ImageFile:
    """Return an image file with its digests.

    Args:
        path: The file.
        emit: Takes events about how far it is hashed.

    Raises:
        ConfigInvalid: It is missing, empty or unreadable.
    """
    try:
        return Catalogue((checked_image(path),)).image(path.name, on_progress=HashProgress(emit, path.name))
    except ImageError as error:
        raise ConfigInvalid(error.message, hint=error.hint) from None


@contextmanager
def random_image(size_bytes: int, directory: Path, name: str = "flashferry-probe.bin") -> Iterator[Path]:
    """Yield a file of random bytes, which nothing on the way can shrink, in a folder below a state directory."""
    with scratch_folder(directory) as folder:
        path = folder / name
        fill_randomly(path, size_bytes)
        yield path


def fill_randomly(path: Path, size_bytes: int) -> None:
    """Make a file of so many random bytes, in place of what it held.

    Raises:
        OSError: There is no room for it.
    """
    with path.open("wb") as file:
        for start in range(0, size_bytes, _CHUNK_BYTES):
            file.write(os.urandom(min(_CHUNK_BYTES, size_bytes - start)))
