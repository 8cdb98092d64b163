"""Hash an image file on the controller, with progress events."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.core.errors import ConfigInvalid
from flashferry.core.units import duration, rough_duration, size
from flashferry.images.catalogue import Catalogue
from flashferry.images.errors import ImageError
from flashferry.images.safe_open import checked_image
from flashferry.monitor.events import Emit, Event, never_failing, silent

if TYPE_CHECKING:
    from flashferry.images.image import ImageFile

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
