"""View of a run in progress: a live view in a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from flashferry.api.watching import View, watchers
from flashferry.cli.terminal.output import HASHING_EVERY_S, EventLines, echo, say
from flashferry.cli.view.layout import BAD, STYLES, console
from flashferry.cli.view.live_devices import TerminalSize, cut, left, percent, rate
from flashferry.cli.view.live_layout import left_s, lines_of
from flashferry.model.states import NOT_DONE, Outcome, Phase, label_of
from flashferry.monitor.events import Event
from flashferry.monitor.progress import Fleet, Roster, Tally

SUMMARY_EVERY_S = 10.0


class FleetLines:
    """Prints each device's result, and summaries by site in between, on standard error.

    Args:
        roster: The run's devices.
        last_step: The step that ends a device's run if the run does not report its end.
        devices: Number of devices.
        clock: Monotonic seconds.
    """

    def __init__(
        self, roster: Roster, last_step: str, devices: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._fleet = Fleet(roster, last_step, devices)
        # A run with restore steps reports each device's end.
        self._ends_silently = last_step != "restore"
        self._clock = clock
        self._lock = threading.Lock()
        self._printed: dict[str, str] = {}
        self._summary_at_s = clock()
        self._hashing_at_s = -HASHING_EVERY_S

    def say(self, text: str) -> None:
        """Print a line."""
        say(text)

    def __call__(self, event: Event) -> None:
        """Process an event; most only change the next summary."""
        with self._lock:
            now_s = self._clock()
            was_over = self._is_over(event.host)
            self._fleet.take(event, now_s)
            lines = self._lines(event, has_ended=self._is_over(event.host) and not was_over)
            if now_s - self._summary_at_s >= SUMMARY_EVERY_S:
                self._summary_at_s = now_s
                lines += self._summary()
            for who, text in lines:
                echo(f"{event.at_s:7.1f} s  {who:<12} {text}".rstrip(), err=True)

    def _is_over(self, host: str | None) -> bool:
        device = self._fleet.devices.get(host) if host is not None else None
        return device is not None and device.is_over

    def _lines(self, event: Event, *, has_ended: bool) -> list[tuple[str, str]]:
        """Return the lines for an event, each with its device."""
        mark, text = _marked(event)
        if event.host is None and event.status == "progress":
            if event.at_s - self._hashing_at_s < HASHING_EVERY_S:
                return []
            self._hashing_at_s = event.at_s
        if event.host is None:
            return [("run", f"{event.step:<8} {mark}{text}")] if event.text else []
        if event.step == "transfer":
            return []
        is_end = event.step == "device" or (has_ended and self._ends_silently)
        if event.status in {"failed", "retry"} or (event.status == "done" and is_end):
            return [(event.host, f"{event.step:<8} {mark}{text}")]
        return []

    def _summary(self) -> list[tuple[str, str]]:
        """Return a line for each site with news, and one for the run."""
        lines = []
        for name, tally in self._fleet.sites.items():
            text = _summary_of(tally)
            if (
                len(self._fleet.sites) > 1
                and text != self._printed.get(name)
                and tally.over + tally.devices[Phase.IN_PROGRESS]
            ):
                self._printed[name] = text
                lines.append(("site", f"{name or '(none)'}: {text}"))
        seconds = left_s(self._fleet)
        about = f", about {left(seconds)}" if seconds is not None else ""
        return [*lines, ("all", f"{_summary_of(self._fleet.whole)}{about}")]


def _marked(event: Event) -> tuple[str, str]:
    """Return an event's highlighted word, its outcome if it has one, and the rest of its text."""
    if event.status == "retry":
        return "retry ", event.text
    if event.status != "failed":
        return "", event.text
    word = label_of(event.outcome) if event.outcome is not None else Phase.FAILED.label
    return f"{word.upper()} ", event.text.removeprefix(f"{word}: ")


def _summary_of(tally: Tally) -> str:
    counts = tally.devices
    words = [f"{counts[Phase.DONE]} of {tally.total} {Phase.DONE.label}"]
    words.append(f"{counts[Phase.IN_PROGRESS]} {Phase.IN_PROGRESS.label}")
    words += [f"{counts[phase]} {phase.label}" for phase in (Phase.QUEUED, *NOT_DONE) if counts[phase]]
    if tally.copies:
        cap = f" of {rate(tally.cap_bytes_per_s)}" if tally.cap_bytes_per_s else ""
        words.append(f"{percent(tally.share)} copied, {rate(tally.rate_bytes_per_s)}{cap} MB/s")
    return ", ".join(words)


OfSites = Callable[[], Mapping[str, str]]
"""Returns notes by site; called at each drawing."""

MANY = 20
"""Number of devices above which plain lines are summaries."""

_REDRAW_EVERY_S = ((200, 1.0), (MANY, 0.5), (0, 0.25))
"""Redraw interval by least number of devices: drawing time grows with their number."""


@contextmanager
def watching(
    last_step: str,
    *,
    devices: int,
    roster: Roster | None = None,
    events: Path | None = None,
    metrics: str | None = None,
    silence: OfSites | None = None,
    fetching: OfSites | None = None,
) -> Iterator[View]:
    """Yield the receiver of a run's events: a live view if standard error is a terminal, else plain lines.

    Args:
        last_step: The step that ends a device's run if the run does not report its end: `restore`, `reach`, `check`.
        devices: Number of devices.
        roster: The devices with their sites and image sizes, for totals; None: unknown.
        events: File for events, see `docs/events.md`; `-`: standard error, in place of lines for people.
        metrics: `[ADDRESS:]PORT` that serves metrics, or None.
        silence: Returns when silent sites were last in contact; None: no site has an agent.
        fetching: Returns which images depots are fetching; None: no site has an agent.

    Raises:
        ConfigInvalid: The file cannot be written, or the port cannot be used.
    """
    roster = roster or Roster()
    with watchers(roster, say, last_step=last_step, events=events, metrics=metrics) as others:
        if events is not None and str(events) == "-":
            yield others.over(None)
            return
        with _shown(last_step, devices, roster, silence, fetching) as view:
            yield others.over(view) if events is not None or metrics is not None else view


@contextmanager
def _shown(
    last_step: str, devices: int, roster: Roster, silence: OfSites | None, fetching: OfSites | None
) -> Iterator[View]:
    out = console(stderr=True)
    if not out.is_terminal or out.is_dumb_terminal or "FLASHFERRY_PLAIN" in os.environ:
        yield FleetLines(roster, last_step, devices) if devices > MANY else EventLines()
        return
    view = LiveTable(out, last_step, devices, roster=roster, silence=silence, fetching=fetching)
    with view.drawn():
        yield view


class LiveTable:
    """Live view of a run; failures are printed above it once.

    Events only change numbers. A separate thread draws, so that a slow terminal, or one stopped by Ctrl-S, delays no
    device.

    Args:
        out: The terminal.
        last_step: See `watching`.
        devices: Number of devices.
        clock: Monotonic seconds.
        roster: The run's devices.
        silence: See `watching`.
        fetching: See `watching`.
    """

    def __init__(
        self,
        out: Console,
        last_step: str,
        devices: int,
        clock: Callable[[], float] = time.monotonic,
        roster: Roster | None = None,
        silence: OfSites | None = None,
        fetching: OfSites | None = None,
    ) -> None:
        self._silence, self._fetching = silence or dict, fetching or dict
        self._out = out
        self._clock = clock
        self._started_s = clock()
        self._lock = threading.Lock()
        self._fleet = Fleet(roster or Roster(), last_step, devices)
        # Appended without the lock: a signal handler may call this during drawing.
        self._above: deque[Text] = deque()
        self._hashing = ""
        self._styles: dict[str, Style] = {"": Style.null()}
        self._end = threading.Event()

    def __call__(self, event: Event) -> None:
        """Process an event; called from several threads."""
        with self._lock:
            known = self._fleet.devices.get(event.host) if event.host is not None else None
            is_news = known is None or not known.has_failed
            self._fleet.take(event, self._clock())
        if event.host is None:
            self._hashing = event.text if event.status == "progress" else ""
            if event.status == "progress":
                return
            if event.step == "run" and event.status == "waiting":
                self._say_above(event.text)
            elif event.step not in {"wave", "run"}:
                self._say_above(f"{event.step}: {event.text}")
        elif event.status == "failed" and event.step not in {"device", "transfer"}:
            self._say_above(f"{event.host}: {event.step}: {event.text}", style=_style(event))
        elif event.status == "failed" and event.step == "device" and is_news and event.outcome != Outcome.NOT_STARTED:
            # No step of it failed, and yet it did not end well: as one that is not ready, or that was rolled back.
            self._say_above(f"{event.host}: {event.text}", style=_style(event))
        elif event.status == "note":
            self._say_above(f"{event.host}: {event.text}")

    def say(self, text: str) -> None:
        """Print a line above the view at its next update."""
        self._say_above(f"flashferry: {text}")

    def _say_above(self, text: str, style: str = "") -> None:
        self._above.append(Text(text, style=style))

    @contextmanager
    def drawn(self) -> Iterator[None]:
        """Draw until the block ends, then remove the view."""
        live = Live(self, console=self._out, auto_refresh=False, transient=True)
        with suppress(OSError):
            live.start()
        artist = threading.Thread(target=self._draw, args=(live,), name="live-view", daemon=True)
        artist.start()
        try:
            yield
        finally:
            self._end.set()
            # A thread blocked by a stopped terminal is abandoned; restore the cursor if possible.
            artist.join(timeout=2.0)
            # A closed terminal must not prevent results and exit code.
            if not artist.is_alive():
                with suppress(OSError):
                    self.print_above()
                with suppress(OSError):
                    live.stop()

    def print_above(self) -> None:
        """Print the lines that go above the view."""
        lines = [self._above.popleft() for _ in range(len(self._above))]
        if lines:
            for line in lines:
                # A name may contain characters that the terminal cannot show.
                line.plain = line.plain.encode(self._out.encoding, "replace").decode(self._out.encoding)
            self._out.print(Group(*lines))

    def _draw(self, live: Live) -> None:
        pause_s = next(pause_s for least, pause_s in _REDRAW_EVERY_S if self._fleet.total > least or not least)
        while not self._end.wait(pause_s):
            try:
                # Printing above redraws the view.
                if self._above:
                    self.print_above()
                else:
                    live.refresh()
            except OSError:
                return  # the terminal is gone

    def __rich_console__(self, out: Console, options: ConsoleOptions) -> RenderResult:
        """Render the view for the terminal's present size."""
        screen = TerminalSize(
            width=options.max_width, height=max(2, (options.height or out.height) - 1), plain=options.ascii_only
        )
        with self._lock:
            now_s = self._clock()
            lines = lines_of(
                self._fleet,
                screen,
                now_s=now_s,
                elapsed_s=now_s - self._started_s,
                silent=self._silence(),
                fetching=self._fetching(),
            )
        if self._hashing:
            lines = [cut([(self._hashing, "")], screen), *lines[: screen.height - 1]]
        for line in lines:
            for text, style in line:
                yield Segment(text, self._style(style))
            yield Segment.line()

    def _style(self, name: str) -> Style:
        if name not in self._styles:
            self._styles[name] = Style.parse(name)
        return self._styles[name]


def _style(event: Event) -> str:
    """Return the style of a failed event: that of its outcome if it has one."""
    return STYLES[Outcome(event.outcome).tone] if event.outcome in set(Outcome) else BAD
