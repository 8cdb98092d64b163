"""Who watches a run besides people: a file of events for programs, and metrics; and what is known beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from flashferry.monitor.events import Emit, Event

if TYPE_CHECKING:
    from nornir.core import Nornir

    from flashferry.monitor.progress import Roster


def roster_of(nornir: Nornir, sizes_bytes: int | Mapping[str, int] | None = None) -> Roster:
    """Return which devices a run has, for a view of it.

    Args:
        nornir: The devices.
        sizes_bytes: What each is to get, or by device what it is; one that is missing, or None, is not known.

    Raises:
        ConfigInvalid: The inventory is wrong, or two devices of a site state different links.
    """
    from flashferry.monitor.progress import Expected, Roster
    from flashferry.run.server import site_caps
    from inventory.host_view import view

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
    """Takes a run's events, and shows them to people."""

    def __call__(self, event: Event) -> None:
        """Take an event; called from several threads."""

    def say(self, text: str) -> None:
        """Show a line of another kind."""


class Watchers:
    """Hands each event on to all who watch; none of them can keep it from the others.

    Args:
        takers: Who takes events besides the view.
        message: Takes what is said to people where there is no view.
        view: What people see, or None.
    """

    def __init__(self, takers: tuple[Emit, ...], message: Callable[[str], None], view: View | None = None) -> None:
        self._takers, self._message, self._view = takers, message, view

    def over(self, view: View | None) -> Watchers:
        """Return the same with a view for people."""
        return Watchers(self._takers, self._message, view)

    def __call__(self, event: Event) -> None:
        """Take an event; called from several threads."""
        for take in (*self._takers, *((self._view,) if self._view is not None else ())):
            with suppress(Exception):
                take(event)

    def say(self, text: str) -> None:
        """Show a line of another kind."""
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
    """Yield the receivers of a run's events, for as long as it lasts.

    Args:
        roster: Which devices the run has, at which sites, and what they are to get.
        say: Takes what is said to people where no file of events does.
        last_step: The step that ends a device's run where the run does not report it: `restore`, `reach`, `check`.
        events: Where events go for programs, see `docs/events.md`; `-` is standard error; None for nowhere.
        metrics: `[ADDRESS:]PORT` where metrics are to be had; None for nowhere.

    Raises:
        ConfigInvalid: The file cannot be written, or the port cannot be listened on.
    """
    takers: list[Emit] = []
    message = say
    with ExitStack() as stack:
        if metrics is not None:
            from flashferry.monitor.metrics import run_metrics

            takers.append(stack.enter_context(run_metrics(metrics, roster, last_step)))
        if events is not None:
            from flashferry.monitor.event_log import event_log

            log = stack.enter_context(event_log(events, devices=len(roster.devices)))
            takers.append(log)
            message = log.message
        yield Watchers(tuple(takers), message)
