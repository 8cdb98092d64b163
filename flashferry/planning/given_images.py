"""The images of a run, and which platform each went to. One image is for one platform.

A name such as `image.bin` tells no platform, but two devices of two platforms cannot both be right for it. A plan sees
that beforehand; a run without one sees its devices one by one, and the first that is to get an image decides.
"""

from __future__ import annotations

import threading

from flashferry.images.fit import INSIST, Fits, ImageFit

HINT = f"Give each platform its own image; {INSIST} has this one staged on all of them"


class GivenImages:
    """Safe to use from all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: dict[str, tuple[str, str]] = {}

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
