"""Decide whether an order is carried out, before any device is touched. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from flashferry.core.errors import FlashferryError, Kind
from flashferry.sites.wire import Order, OrderJob, WireError, canonical, moment_of, moment_text

_RELEASE = re.compile(r"\d+\.\d+\.\d+", re.ASCII)


class OrderRefused(FlashferryError):
    """Report that an order is not carried out; no device was touched for it."""

    kind: ClassVar[Kind] = Kind.ORDER_REFUSED


def check_addressee(order: Order, key_id: str) -> None:
    """Check that an order is for this agent's key.

    Raises:
        WireError: It is for another key. It gets no answer, so that a corrected centre can send it again under the same
            ID.
    """
    if order.agent_key != key_id:
        raise WireError(
            f"order {order.id}: expected one for the agent of site {order.site} with key {key_id}, which is this one's"
            f", found one for key {order.agent_key or 'none'}: the centre has another agent for the site",
            hint="Put this agent's public line into the centre's settings, or end this agent",
        )


def check_order(order: Order, *, site: str, release: str, now: datetime, clock_differs_s: float) -> None:
    """Check site, validity and release of an order.

    Args:
        order: The order, with a verified signature.
        site: Our site.
        release: Our release.
        now: The current time.
        clock_differs_s: How far its start may lie in the future.

    Raises:
        OrderRefused: It is for another site, not valid now, or from another release.
    """
    if order.site != site:
        raise OrderRefused(
            f"order {order.id}: expected one for site {site}, found one for {order.site}",
            hint="Check which queue the centre sends it to",
        )
    begins, ends = moment_of(order.valid_from), moment_of(order.valid_until)
    if begins > now + timedelta(seconds=clock_differs_s):
        ahead = (begins - now).total_seconds()
        raise OrderRefused(
            f"order {order.id}: expected one that is valid by now, found one from {order.valid_from} on, which is "
            f"{ahead:,.0f} s from now ({moment_text(now)}): the clocks differ",
            hint="Have both hosts keep their clocks by NTP",
        )
    if ends <= now:
        raise OrderRefused(
            f"order {order.id}: expected one that is still valid, found that it ended at {order.valid_until}, and here "
            f"it is {moment_text(now)}",
            hint="Order it anew; if it was just sent, the clocks differ",
        )
    if order.job is not OrderJob.ACKNOWLEDGE and _numbers(order.release) != _numbers(release):
        raise OrderRefused(
            f"order {order.id}: expected a centre of release {_numbers(release)}, as this agent is, found "
            f"{_numbers(order.release)}",
            hint="Bring both to one release",
        )


def check_begins(order: Order, now: datetime | None = None) -> None:
    """Check that work can still start: the order may have waited for others, or for the agent.

    Raises:
        OrderRefused: It has expired.
    """
    at = now or datetime.now(UTC)
    if moment_of(order.valid_until) <= at:
        raise OrderRefused(
            f"order {order.id}: expected to come to it in time, found that it must not start after "
            f"{order.valid_until}, and here it is {moment_text(at)}; no device was touched",
            hint="Order it anew",
        )


def work_of(order: Order) -> str:
    """Return a text that is equal for orders of the same work."""
    return canonical([order.job, order.run, order.plan, sorted(order.devices), order.wave])


def _numbers(release: str) -> str:
    """Return `major.minor.patch` of a release."""
    found = _RELEASE.match(release)
    return found[0] if found is not None else release
