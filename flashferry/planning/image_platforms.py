"""One image is for one platform: a plan or a run that gives one to several is wrong for some of them, whatever it is.

A name such as `image.bin` names no platform, but two devices of two platforms cannot both be right for it. A plan sees
that beforehand; a run without one sees its devices one by one, and the first that is to get an image decides.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace

from flashferry.images.image_platform_match import ANY_IMAGE_OPTION, Fits, ImageFit
from flashferry.model.fleet_plan import Action
from flashferry.planning.gather import Found

HINT = f"Give each platform its own image; {ANY_IMAGE_OPTION} has this one staged on all of them"


class GivenImages:
    """Which platform each image of a run went to first. Safe to use from all threads."""

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


def refused_where_shared(found: tuple[Found, ...]) -> tuple[Found, ...]:
    """Return what was found with those devices refused whose image goes to several platforms and is known as none's.

    An image that is known to be for one platform is refused by the check of every device of another.
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
