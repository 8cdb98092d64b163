"""A look at a site from its own host, with no device touched: the depot, the inventory, versions and clocks."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from typing import Any

from flashferry.core.errors import FlashferryError
from flashferry.sites.agent.carrying import Bench
from flashferry.sites.agent.depot import SiteDepot
from flashferry.sites.wire import Order, moment_text

PREFIX_DIGITS = 16
"""Digits of a SHA-512 that a beat reports: enough to know an image again, never a proof."""
_MOST_IMAGES = 200
_MOST_NAMES = 200


def look(bench: Bench, order: Order) -> dict[str, Any]:
    """Return what a site has: proven images, how many devices its inventory has, and which of those asked for it lacks.

    Args:
        bench: The agent's.
        order: Which devices are asked about; none: none in particular.
    """
    found: dict[str, Any] = {"images": depot_images(bench.depot), "clock": moment_text(datetime.now(UTC))}
    found |= {"python": platform.python_version(), "system": platform.platform(terse=True)}
    try:
        names = bench.devices()
    except FlashferryError as error:
        return found | {"inventory": {"devices": 0, "missing": [], "error": error.message}}
    missing = sorted(set(order.devices) - names)
    return found | {"inventory": {"devices": len(names), "missing": missing[:_MOST_NAMES], "error": ""}}


def depot_images(depot: SiteDepot) -> list[dict[str, Any]]:
    """Return the images of a depot as reported: name, size, and the first digits of the proven SHA-512."""
    try:
        images = depot.catalogue.unchanged()
    except FlashferryError:
        return []
    return [
        {"name": one.name, "size_bytes": one.size_bytes, "sha512": one.sha512[:PREFIX_DIGITS], "proven": True}
        for one in images[:_MOST_IMAGES]
    ]
