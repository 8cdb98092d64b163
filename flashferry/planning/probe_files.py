"""Random files of any of a few sizes, made when first asked for: nothing on the way can shrink them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flashferry.core.state_folder import scratch_folder
from flashferry.planning.local_images import fill_randomly
from flashferry.tcp.speed_test_size import LARGEST_BYTES, PILOT_BYTES


def _sizes() -> tuple[int, ...]:
    """Return the sizes offered: the pilot's, then two digits from 70 kB to the largest."""
    found = {PILOT_BYTES}
    for exponent in range(3, 8):
        found |= {digits * 10**exponent for digits in range(10, 100)}
    return tuple(sorted(size for size in found if PILOT_BYTES <= size <= LARGEST_BYTES))


SIZES = _sizes()


class ProbeFiles:
    """A folder of random files, one name per size; a file has no contents until it is asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        for size_bytes in SIZES:
            (folder / name_of(size_bytes)).touch()
        self.pilot = self.of(PILOT_BYTES)

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return what the server has to offer."""
        return (self._folder,)

    def of(self, size_bytes: int) -> Path:
        """Return the file of a size; a size between two offered ones gives the larger.

        Raises:
            OSError: There is no room for it.
        """
        size_bytes = next((size for size in SIZES if size >= size_bytes), SIZES[-1])
        path = self._folder / name_of(size_bytes)
        with self._lock:
            if path.stat().st_size != size_bytes:
                fill_randomly(path, size_bytes)
        return path


def name_of(size_bytes: int) -> str:
    """Return the name of the file of a size; short, as it goes into an IOS command line."""
    return f"probe-{size_bytes}.bin"


@contextmanager
def probe_files(directory: Path) -> Iterator[ProbeFiles]:
    """Yield probe files in a folder below a state directory, which ends with the block."""
    with scratch_folder(directory) as folder:
        yield ProbeFiles(folder)
