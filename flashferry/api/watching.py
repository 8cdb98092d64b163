"""Receivers of a run's events: the view for people, an event file, and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from flashferry.monitor.event_log import event_log
from flashferry.monitor.events import Emit, Event
from flashferry.monitor.metrics import run_metrics
from flashferry.monitor.progress import Expected, Roster
from flashferry.run.server import site_caps
from inventory.host_view import view

if TYPE_CHECKING:
    from nornir.core import Nornir


def roster_of(nornir: Nornir, sizes_bytes: int | Mapping[str, int] | None = None) -> Roster:
    """Return the devices of a run for a view.

    Args:
        nornir: The devices.
        sizes_bytes: Image size, one for all or by device; missing or None: unknown.

    Raises:
        ConfigInvalid: The inventory is invalid, or two devices of a site state different links.
    """
    views = [view(host) for host in nornir.inventory.hosts.values()]
    return Roster(
        devices=tuple(
            Expected(
                host=one.name,
                site=one.site or "",
                size_bytes=sizes_bytes.get(one.name) if isinstance(sizes_bytes, Mapping) else sizes_bytes,
            )
            for one in views
        ),
        caps_bytes_per_s=site_caps(views),
    )


class View(Protocol):
    """Shows a run's events to people."""

    def __call__(self, event: Event) -> None:
        """Receive an event; called from several threads."""

    def say(self, text: str) -> None:
        """Show a notice."""


class Watchers:
    """Passes each event to all receivers; an error in one does not affect the others.

    Args:
        takers: Receivers besides the view.
        message: Receives notices if there is no view.
        view: The view, or None.
    """

    def __init__(self, takers: tuple[Emit, ...], message: Callable[[str], None], view: View | None = None) -> None:
        self._takers, self._message, self._view = takers, message, view

    def over(self, view: View | None) -> Watchers:
        """Return the same with a view."""
        return Watchers(self._takers, self._message, view)

    def __call__(self, event: Event) -> None:
        """Receive an event; called from several threads."""
        for take in (*self._takers, *((self._view,) if self._view is not None else ())):
            with suppress(Exception):
                take(event)

    def say(self, text: str) -> None:
        """Show a notice."""
        (self._view.say if self._view is not None else self._message)(text)


@contextmanager
def watchers(
    roster: Roster,
    say: Callable[[str], None],
    *,
    last_step: str = "restore",
    events: Path | None = None,
    metrics: str | None = None,
) -> Iterator[Watchers]:
    """Yield the receivers of a run's events, for the duration of the run.

    Args:
        roster: The run's devices with their sites and image sizes.
        say: Receives notices, unless events go to standard error.
        last_step: The step that ends a device's run if the run does not report its end: `restore`, `reach`, `check`.
        events: File for events, see `docs/events.md`; `-`: standard error; None: none.
        metrics: `[ADDRESS:]PORT` that serves metrics, or None.

    Raises:
        ConfigInvalid: The file cannot be written, or the port cannot be used.
    """
    takers: list[Emit] = []
    message = say
    with ExitStack() as stack:
        if metrics is not None:
            takers.append(stack.enter_context(run_metrics(metrics, roster, last_step)))
        if events is not None:
            log = stack.enter_context(event_log(events, devices=len(roster.devices)))
            takers.append(log)
            message = log.message
        yield Watchers(tuple(takers), message)
