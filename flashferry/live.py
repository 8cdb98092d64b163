"""A run while it runs: a row per device in a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from flashferry.layout import BAD, console, rate
from flashferry.output import EventLines
from staging.events import Event, Progress

_STEP_COLUMNS = 20
_SMOOTHING = 0.3


@contextmanager
def watching(last_step: str, *, devices: int) -> Iterator[EventLines | LiveTable]:
    """Yield what takes a run's events: a live table on standard error where it is a terminal, else plain lines.

    Args:
        last_step: The step that ends a device's way, well or not: `restore`, `reach`, `check`.
        devices: How many devices the run has.
    """
    out = console(stderr=True)
    if not out.is_terminal or out.is_dumb_terminal or "FLASHFERRY_PLAIN" in os.environ:
        yield EventLines()
        return
    table = LiveTable(out, last_step, devices)
    # Gone at the end: the results that follow say more. The cursor comes back whatever ends the block.
    live = Live(table, console=out, refresh_per_second=4, transient=True)
    live.start()
    try:
        yield table
    finally:
        # A terminal that was closed meanwhile must not take the results and the exit code with it.
        with suppress(OSError):
            live.stop()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """What is shown of a device."""

    host: str
    step: str
    since_s: float
    progress: Progress | None = None
    rate_bytes_per_s: float = 0.0
    is_done: bool = False
    is_idle: bool = False
    has_ended: bool = False
    has_failed: bool = False

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to come: after the last step a device may still be seen to, or restored once more."""
        return self.has_ended and self.is_idle


class LiveTable:
    """Takes events and renders the devices under way; what failed is told above, once."""

    def __init__(self, out: Console, last_step: str, devices: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._last_step = last_step
        self._devices = devices
        self._clock = clock
        self._started_s = clock()
        # Reentrant: a signal may have something said in the midst of drawing.
        self._lock = threading.RLock()
        self._rows: dict[str, _Row] = {}

    def __call__(self, event: Event) -> None:
        """Take an event; called from several threads."""
        if event.host is None:
            self._above(f"{event.step}: {event.text}")
            return
        with self._lock:
            row = self._rows.get(event.host) or _Row(host=event.host, step=event.step, since_s=self._clock())
            self._rows[event.host] = self._next(row, event)
        if event.status == "failed":
            self._above(f"{event.host}: {event.step}: {event.text}", style=BAD)
        elif event.status == "note":
            self._above(f"{event.host}: {event.text}")

    def say(self, text: str) -> None:
        """Print a line for people, above the table."""
        with suppress(OSError):
            self._above(f"flashferry: {text}")

    def _next(self, row: _Row, event: Event) -> _Row:
        if event.status == "progress" and event.progress is not None:
            now = event.progress.rate_bytes_per_s
            smooth = row.rate_bytes_per_s + _SMOOTHING * (now - row.rate_bytes_per_s) if row.rate_bytes_per_s else now
            return replace(row, progress=event.progress, rate_bytes_per_s=smooth)
        if event.status == "started":
            step = event.text if event.step == "probe" else event.step
            if event.step == "pull" and ":" in row.step:
                step = row.step  # the arm of a speed test says more than `pull`
            begun = replace(row, step=step, since_s=self._clock(), progress=None, rate_bytes_per_s=0.0)
            return replace(begun, is_done=False, is_idle=False)
        if event.status == "note":
            return row
        has_failed = row.has_failed or event.status == "failed"
        return replace(
            row,
            progress=None,
            has_failed=has_failed,
            is_done=event.status == "done",
            is_idle=True,
            has_ended=row.has_ended or self._is_end(row, event),
        )

    def _is_end(self, row: _Row, event: Event) -> bool:
        """Tell whether a device has come to its end with a step that ended."""
        if event.status == "failed":
            # One that is refused, not reached or could not be read never comes to the last step.
            return event.step in {self._last_step, "check", "connect", "snapshot"}
        # A check that is done, and then told once more, was all: the image is there already.
        is_all = event.step == "check" and row.step == "check" and row.is_done
        return is_all or event.step == self._last_step

    def __rich_console__(self, out: Console, options: ConsoleOptions) -> RenderResult:
        """Render as many devices as the terminal has lines for, those with a copy first."""
        with self._lock:
            rows = list(self._rows.values())
        under_way = sorted((row for row in rows if not row.is_over), key=lambda row: row.progress is None)
        room = max(1, (options.height or out.height) - 3)
        yield _table(under_way[:room], self._clock())
        yield Text(self._summary(rows, hidden=len(under_way[room:])), style="dim")

    def _summary(self, rows: list[_Row], *, hidden: int) -> str:
        over = sum(row.is_over for row in rows)
        failed = sum(row.has_failed for row in rows)
        parts = [f"{over} of {self._devices} devices through"]
        parts += [f"{failed} with a failure"] if failed else []
        parts += [f"{hidden} more under way"] if hidden else []
        return f"{', '.join(parts)}, {_clock(self._clock() - self._started_s)}"

    def _above(self, text: str, style: str = "") -> None:
        self._out.print(Text(text, style=style))


def _table(rows: list[_Row], now_s: float) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(2):
        table.add_column(no_wrap=True, overflow="ellipsis", max_width=_STEP_COLUMNS)
    for _ in range(4):
        table.add_column(no_wrap=True)
    for row in rows:
        style = BAD if row.has_failed else ""
        table.add_row(Text(row.host, style=style), Text(row.step, style=style), *_copying(row), _times(row, now_s))
    return table


def _copying(row: _Row) -> tuple[ProgressBar | str, str, str]:
    seen = row.progress
    if seen is None:
        return "", "", ""
    bar = ProgressBar(total=max(seen.size_bytes, 1), completed=seen.acked_bytes, width=16)
    return bar, f"{seen.acked_bytes / max(seen.size_bytes, 1):.0%}", rate(row.rate_bytes_per_s)


def _times(row: _Row, now_s: float) -> str:
    seen = row.progress
    if seen is None or not row.rate_bytes_per_s:
        return _clock(now_s - row.since_s)
    return f"{_clock((seen.size_bytes - seen.acked_bytes) / row.rate_bytes_per_s)} left"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
