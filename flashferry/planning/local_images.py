"""Image files on the controller: targets of a run, and random files for speed tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import is_below
from flashferry.core.state_folder import scratch_folder
from flashferry.core.value_description import described_image
from flashferry.images.image import Digests, check_published
from flashferry.images.safe_open import checked_image
from flashferry.monitor.events import Emit, silent
from flashferry.planning.hashing import hashed_image

if TYPE_CHECKING:
    from tasks.check import TargetImage

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
