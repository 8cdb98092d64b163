"""One image is for one platform: a plan that gives one to several is wrong for some of them, whatever it is. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from flashferry.images.fit import Fits
from flashferry.model.fleet_plan import Action
from flashferry.planning.gather import Found
from flashferry.planning.given_images import HINT


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
    """Return the platform of a device whose image tells none."""
    return one.fit.device_family if _is_open(one) and one.fit is not None else None


def _is_open(one: Found) -> bool:
    return one.planned.action is Action.STAGE and one.fit is not None and one.fit.fits is Fits.UNKNOWN


def _is_among(one: Found, images: Iterable[str]) -> bool:
    return _is_open(one) and str(one.planned.image) in images


def _refused(one: Found, families: dict[str, list[str]]) -> Found:
    told = ", ".join(f"{family} ({_some(hosts)})" for family, hosts in families.items())
    reason = f"{one.planned.image} is given to {len(families)} platforms, {told}: one image is for one of them"
    return replace(one, planned=replace(one.planned, action=Action.REFUSED, reason=reason, hint=HINT))


def _some(hosts: list[str]) -> str:
    return hosts[0] if len(hosts) == 1 else f"{hosts[0]} and {len(hosts) - 1} more"
