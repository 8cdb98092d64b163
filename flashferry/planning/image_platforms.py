"""Refuse one image for several platforms.

A name such as `image.bin` names no platform, but it cannot be right for devices of two platforms. A plan checks all
devices in advance; in a run without plan the first device that gets the image decides.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from msgspec.structs import replace

from flashferry.images.image_platform_match import ANY_IMAGE_OPTION, Fits, ImageFit
from flashferry.model.fleet_plan import Action
from flashferry.planning.gather import Found

HINT = f"Give each platform its own image; {ANY_IMAGE_OPTION} has this one staged on all of them"


class GivenImages:
    """The platform to which each image of a run went first. Safe to use from all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: dict[str, tuple[str, str]] = {}

    def refusal(self, image: str, host: str, fit: ImageFit | None) -> str | None:
        """Return why a device must not get an image that another platform gets; None if it may.

        Args:
            image: Name of the image.
            host: The device, which could be staged otherwise.
            fit: Match of image and device.
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


def refused_where_shared(found: tuple[Found, ...]) -> tuple[Found, ...]:
    """Refuse devices whose image goes to several platforms and names none.

    An image that names its platform is refused by the check of other devices.
    """
    by_image: dict[str, dict[str, list[str]]] = {}
    for one in found:
        if (family := _family(one)) is not None:
            by_image.setdefault(str(one.planned.image), {}).setdefault(family, []).append(one.planned.host)
    shared = {image: families for image, families in by_image.items() if len(families) > 1}
    return tuple(_refused(one, shared[str(one.planned.image)]) if _is_among(one, shared) else one for one in found)


def _family(one: Found) -> str | None:
    """Return the platform of a device whose image names none."""
    return one.fit.device_family if _is_open(one) and one.fit is not None else None


def _is_open(one: Found) -> bool:
    return one.planned.action is Action.STAGE and one.fit is not None and one.fit.fits is Fits.UNKNOWN


def _is_among(one: Found, images: Iterable[str]) -> bool:
    return _is_open(one) and str(one.planned.image) in images


def _refused(one: Found, families: dict[str, list[str]]) -> Found:
    given = ", ".join(f"{family} ({_some(hosts)})" for family, hosts in families.items())
    reason = f"{one.planned.image} is given to {len(families)} platforms, {given}: one image is for one of them"
    return replace(one, planned=replace(one.planned, action=Action.REFUSED, reason=reason, hint=HINT))


def _some(hosts: list[str]) -> str:
    return hosts[0] if len(hosts) == 1 else f"{hosts[0]} and {len(hosts) - 1} more"
