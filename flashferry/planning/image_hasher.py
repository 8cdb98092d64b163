"""Hash the image files of a plan, each once, in the background while devices are checked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import is_below
from flashferry.core.value_description import described_image
from flashferry.images.image import Digests, PlannedImage
from flashferry.monitor.events import Emit, silent
from flashferry.planning.local_images import named_image, target_image
from flashferry.transports.transport import checked_name
from inventory.image_rules import ImageChoice
from tasks.check import TargetImage

_HINT = "Put it there, or give its folder too, with --image-dir"


class ImageHasher:
    """Image files by path. Safe to use from all threads.

    Args:
        pool: Where files are hashed.
        folders: Where an image written without a folder is looked for, in this order; all images are in one of them.
        vendor: What the vendor published; only where there is one image.
        is_insisted: Whether images are wanted also on platforms that they are not for.
        emit: Takes events about how far images are hashed; called from several threads.
        interrupted: Whether the operator wants to stop; what is hashed then ends with `Interrupted`.
    """

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        folders: Iterable[Path] = (),
        vendor: Digests | None = None,
        *,
        is_insisted: bool = False,
        emit: Emit = silent,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self._pool = pool
        self._emit, self._interrupted = emit, interrupted
        self._folders = tuple(folders)
        self._vendor = vendor
        self._is_insisted = is_insisted
        self._lock = threading.Lock()
        self._by_name: dict[str, tuple[Path, Future[TargetImage]]] = {}
        self.error: ConfigInvalid | None = None

    def find(self, choice: ImageChoice) -> Path:
        """Return the file of an image choice.

        Raises:
            ConfigInvalid: There is none; also stored in `error`, because the whole plan is then invalid.
        """
        try:
            return self._found(choice)
        except ConfigInvalid as error:
            self.error = self.error or error
            raise

    def target(self, path: Path) -> TargetImage:
        """Return name, size and hashes of a file; waits for the hash.

        Raises:
            ConfigInvalid: It cannot be an image, or another image has its name; also stored in `error`.
        """
        try:
            return self.begin(path).result()
        except ConfigInvalid as error:
            self.error = self.error or error
            raise

    def begin(self, path: Path) -> Future[TargetImage]:
        """Start hashing a file, unless that was started.

        Raises:
            ConfigInvalid: Another image has its name, or no copy command can contain it.
        """
        checked_name(path.name)
        path = path.absolute()
        with self._lock:
            if (known := self._by_name.get(path.name)) is None:
                hashed = partial(target_image, path, self._vendor, is_insisted=self._is_insisted, emit=self._emit)
                known = (path, self._pool.submit(hashed, interrupted=self._interrupted))
                self._by_name[path.name] = known
        if known[0] != path:
            raise ConfigInvalid(
                f"image {path.name}: expected one file of this name, found {known[0]} and {path}",
                hint="The name is what the file is called on the devices: rename one of them",
            )
        return known[1]

    def images(self) -> tuple[PlannedImage, ...]:
        """Return all hashed files, by name."""
        known = sorted(self._by_name.items())
        return tuple(PlannedImage.of(future.result().image, path) for _, (path, future) in known)

    def confine(self, path: Path) -> None:
        """Refuse a path outside the folders; the file need not exist.

        Raises:
            ConfigInvalid: It is outside; also stored in `error`.
        """
        if not is_below(path, self._folders):
            self.find(ImageChoice(image=path.name, reason="", path=path))

    def folders_of(self, images: Iterable[PlannedImage]) -> tuple[str, ...]:
        """Return the folders, with links resolved, of some images."""
        paths = [Path(image.path) for image in images]
        found = dict.fromkeys(folder for folder in self._folders if any(is_below(path, (folder,)) for path in paths))
        return tuple(dict.fromkeys(str(folder.resolve()) for folder in found))

    def _found(self, choice: ImageChoice) -> Path:
        if choice.path is not None:
            return named_image(choice.path, self._folders, hint=_HINT)
        for folder in self._folders:
            if (folder / choice.image).exists():
                return named_image(folder / choice.image, self._folders, hint=_HINT)
        places = ", ".join(map(str, self._folders)) or "no folder"
        raise ConfigInvalid(
            f"image {described_image(choice.image)} ({choice.reason}): expected a file of this name in {places}, found "
            "none",
            hint="Give the folder of the images with --image-dir",
        )


@contextmanager
def image_hasher(
    folders: Iterable[Path] = (),
    vendor: Digests | None = None,
    *,
    is_insisted: bool = False,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> Iterator[ImageHasher]:
    """Yield an image hasher; what is not hashed when the block ends is not waited for."""
    is_over = threading.Event()

    def is_stopped() -> bool:
        return is_over.is_set() or interrupted()

    pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="hash")
    try:
        yield ImageHasher(pool, folders, vendor, is_insisted=is_insisted, emit=emit, interrupted=is_stopped)
    finally:
        is_over.set()
        pool.shutdown(wait=True, cancel_futures=True)
