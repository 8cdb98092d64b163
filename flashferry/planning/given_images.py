"""The images of a run: what they say of themselves, and which platform each went to. One image is for one platform.

A name such as `image.bin` tells no platform, but two devices of two platforms cannot both be right for it. A plan sees
that beforehand; a run without one sees its devices one by one, and the first that is to get an image decides.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from flashferry.fileserver import ImageFile
from flashferry.images.fit import INSIST, Fits, ImageFit
from tasks.check import Wanted

HINT = f"Give each platform its own image; {INSIST} has this one staged on all of them"


class GivenImages:
    """Safe to use from all threads.

    Args:
        inside: By the file's name: the name that it carries itself, or None where it carries none.
    """

    def __init__(self, inside: Mapping[str, str | None] | None = None) -> None:
        self._inside = inside or {}
        self._lock = threading.Lock()
        self._first: dict[str, tuple[str, str]] = {}

    def wanted(self, image: ImageFile, *, is_insisted: bool) -> Wanted:
        """Return what a device is to have."""
        return Wanted(
            name=image.name,
            size_bytes=image.size_bytes,
            md5=image.md5,
            sha512=image.sha512,
            inside=self._inside.get(image.name),
            is_insisted=is_insisted,
        )

    def refusal(self, image: str, host: str, fit: ImageFit | None) -> str | None:
        """Return why a device must not get an image that another platform gets too, or None where it may.

        Args:
            image: Name of the image.
            host: The device, which is fit to be staged otherwise.
            fit: What is known of the two.
        """
        if fit is None or fit.fits is not Fits.UNKNOWN or fit.device_family is None:
            return None
        with self._lock:
            family, first = self._first.setdefault(image, (fit.device_family, host))
        if family == fit.device_family:
            return None
        return (
            f"{image} goes to {first} ({family}) in this run, this is a device of another platform "
            f"({fit.device_family}): one image is for one of them"
        )
