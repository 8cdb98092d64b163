"""What tuning alone is worth: each router tuned over the same router with its own settings, from the same server.

Factors are those of the figures as they are printed, so that a reader who divides them gets the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashferry.core.units import short_duration
from flashferry.lab.experiment.published import ARMS, SENDERS
from flashferry.lab.experiment.tables import markdown, mb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashferry.lab.experiment.cell import Sender
    from flashferry.lab.experiment.summary import Row

TYPICAL_IMAGE_BYTES = 500_000_000
"""Size that times are given for: an IOS-XE image has 400 to 900 MB."""

_DEFAULT, _TUNED = " default", " tuned"
ROUTERS = tuple(arm.name.removesuffix(_TUNED) for arm in ARMS if arm.name.endswith(_TUNED))
"""Clients of the article that are there untuned and tuned."""


def gain_by_tuning(rows: Sequence[Row], arm: str, sender: Sender) -> float | None:
    """Return how many times as fast a tuned arm is as the same router untuned, from one server.

    Args:
        rows: All arms.
        arm: The arm's name.
        sender: The server.

    Returns:
        None for an arm that is not tuned, and where one of the two is missing.
    """
    if not arm.endswith(_TUNED):
        return None
    at = {row.arm.name: row for row in rows if row.sender == sender}
    untuned, tuned = at.get(arm.removesuffix(_TUNED) + _DEFAULT), at.get(arm)
    return None if untuned is None or tuned is None else _factor(untuned.median_bytes_per_s, tuned.median_bytes_per_s)


def gains_table(rows: Sequence[Row]) -> str:
    """Return a row per router: what tuning gains in the article, and here from each server; nothing without a pair."""
    senders = [sender for sender in SENDERS if any(gain_by_tuning(rows, f"{one}{_TUNED}", sender) for one in ROUTERS)]
    columns = ("router", "published", *(sender.name for sender in senders))
    return markdown(columns, (_row(rows, router, senders) for router in ROUTERS) if senders else ())


def _row(rows: Sequence[Row], router: str, senders: Sequence[Sender]) -> tuple[str, ...]:
    untuned, tuned = (
        next(arm for arm in ARMS if arm.name == f"{router}{which}").published_bytes_per_s
        for which in (_DEFAULT, _TUNED)
    )
    found = (gain_by_tuning(rows, f"{router}{_TUNED}", sender) for sender in senders)
    return (router, in_words(_factor(untuned, tuned)), *(in_words(gain) for gain in found))


def _factor(untuned_bytes_per_s: float, tuned_bytes_per_s: float) -> float:
    return float(mb(tuned_bytes_per_s)) / float(mb(untuned_bytes_per_s))


def in_words(gain: float | None) -> str:
    """Return a factor: `35x`, `1.0x`; nothing for none."""
    if gain is None:
        return ""
    return f"{gain:.0f}x" if gain >= 9.95 else f"{gain:.1f}x"


def time_for_image(bytes_per_s: float) -> str:
    """Return how long a typical image takes at a rate as it is printed: `52 min`, `88 s`."""
    return short_duration(TYPICAL_IMAGE_BYTES / 1e6 / float(mb(bytes_per_s)))
