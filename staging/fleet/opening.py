"""Telling once that devices wait for their time: a run that begins tonight must not look as if it hung."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from inventory.view import HostView
from staging.fleet.deadline import Deadline
from staging.fleet.line import Bar

Tell = Callable[[str, str | None], None]
"""Takes what is waited for, with its time, and the site that is meant or None."""


class Opening:
    """Asks a deadline whether devices fit, and tells what is waited for: once for the run, a site and each opening.

    Args:
        deadline: The ends to keep.
        views: The inventory's view on each device.
        tell: Takes what is new.
    """

    def __init__(self, deadline: Deadline, views: Mapping[str, HostView], tell: Tell) -> None:
        self._deadline, self._views, self._tell = deadline, views, tell
        self._told: set[tuple[str, str]] = set()

    def fit(self, host: str) -> Bar | None:
        """Return why a device may not begin now, or None where it may; called by one thread."""
        bar = self._deadline.fit(host)
        if bar is not None and not bar.for_good:
            site = self._views[host].site
            # Devices without a site have windows of their own.
            who = "" if bar.of_run else f"site {site}: " if site is not None else f"{host}: "
            if (who, bar.reason) not in self._told:
                self._told.add((who, bar.reason))
                self._tell(f"waits: {who}{bar.reason}", None if bar.of_run else site)
        return bar
