"""Who else is told of a run: a file of events for programs, and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from flashferry.cli.command_line import OUTPUT
from flashferry.cli.terminal.output import say
from flashferry.monitor.events import Emit, Event
from flashferry.monitor.progress import Roster

if TYPE_CHECKING:
    from nornir.core import Nornir

    from flashferry.monitor.progress import Roster

# Who else watches a run: the options for it, and what is known of its devices beforehand.

EventsOption = Annotated[
    Path | None,
    typer.Option(
        "--events",
        metavar="FILE",
        help="Append what happens as JSON lines, for programs; - puts them on standard error in place of the view.",
        rich_help_panel=OUTPUT,
    ),
]
MetricsOption = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="[ADDRESS:]PORT",
        help="Serve metrics for Prometheus while it runs (default address: 127.0.0.1).",
        rich_help_panel=OUTPUT,
    ),
]


def roster_of(nornir: Nornir, sizes_bytes: int | Mapping[str, int] | None = None) -> Roster:
    """Return which devices a run has, for whoever watches it.

    Args:
        nornir: The devices.
        sizes_bytes: What each is to get, or by device what it is; one that is missing, or None, is not known.

    Raises:
        ConfigInvalid: The inventory is wrong, or two devices of a site state different links.
    """
    from flashferry.monitor.progress import Expected, Roster
    from flashferry.run.server import site_caps
    from inventory.view import view

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


class _View(Protocol):
    def __call__(self, event: Event) -> None: ...

    def say(self, text: str) -> None: ...


class Told:
    """Hands each event on to all who watch; none of them can keep it from the others.

    Args:
        takers: Who takes events besides the view.
        message: Takes what is said to people where there is no view.
        view: What people see, or None.
    """

    def __init__(self, takers: tuple[Emit, ...], message: Callable[[str], None], view: _View | None = None) -> None:
        self._takers, self._message, self._view = takers, message, view

    def over(self, view: _View | None) -> Told:
        """Return the same with a view for people."""
        return Told(self._takers, self._message, view)

    def __call__(self, event: Event) -> None:
        """Take an event; called from several threads."""
        for take in (*self._takers, *((self._view,) if self._view is not None else ())):
            with suppress(Exception):
                take(event)

    def say(self, text: str) -> None:
        """Tell people something else."""
        (self._view.say if self._view is not None else self._message)(text)


@contextmanager
def also_told(roster: Roster, last_step: str, *, events: Path | None, metrics: str | None) -> Iterator[Told]:
    """Yield who else is told of a run, for as long as it lasts; arguments and errors as in `live.watching`."""
    takers: list[Emit] = []
    message: Callable[[str], None] = say
    with ExitStack() as stack:
        if metrics is not None:
            from flashferry.monitor.metrics import run_metrics

            takers.append(stack.enter_context(run_metrics(metrics, roster, last_step)))
        if events is not None:
            from flashferry.monitor.event_log import event_log

            log = stack.enter_context(event_log(events, devices=len(roster.devices)))
            takers.append(log)
            message = log.message
        yield Told(tuple(takers), message)
