"""A run while it runs: a live view in a terminal, plain lines elsewhere."""

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
    """Prints what became of each device, and in between where the sites stand, on standard error.

    Args:
        roster: Which devices the run has.
        last_step: The step that ends a device's run where the run does not report it.
        devices: How many there are.
        clock: Seconds, going up.
    """

    def __init__(
        self, roster: Roster, last_step: str, devices: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._fleet = Fleet(roster, last_step, devices)
        # A run that restores reports each device's end by itself.
        self._ends_silently = last_step != "restore"
        self._clock = clock
        self._lock = threading.Lock()
        self._printed: dict[str, str] = {}
        self._summary_at_s = clock()
        self._hashing_at_s = -HASHING_EVERY_S

    def say(self, text: str) -> None:
        """Print a line for people."""
        say(text)

    def __call__(self, event: Event) -> None:
        """Take an event; most of them only change what the next summary says."""
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
        """Return what an event says by itself, with who it is about."""
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
        """Return a line for each site that has something new, and one for all."""
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
    """Return what draws the eye to an event, and its text without that word: the outcome where it has one."""
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

"""Asked each time that a view is drawn: notes on sites, in words by site."""

MANY = 20

"""Beyond so many devices plain lines are a summary."""

_REDRAW_EVERY_S = ((200, 1.0), (MANY, 0.5), (0, 0.25))

"""From so many devices on: each reports once a second, and a line of 160 columns takes a while to draw."""


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
    """Yield what takes a run's events: a live view on standard error where it is a terminal, else plain lines.

    Args:
        last_step: The step that ends a device's run where the run does not report it: `restore`, `reach`, `check`.
        devices: How many devices the run has.
        roster: Which, at which sites, and what they are to get: for totals; None: not known beforehand.
        events: Where events go for programs, see `docs/events.md`; `-` takes the place of what is for people.
        metrics: `[ADDRESS:]PORT` where metrics are to be had; None for nowhere.
        silence: Returns when silent sites were last in contact, for the live view; None: no site has an agent.
        fetching: Returns which image comes into a site's depot, likewise.

    Raises:
        ConfigInvalid: The file cannot be written, or the port cannot be listened on.
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
    """Takes events and renders where the run stands; what failed is printed above, once.

    Events only change numbers; a thread of the view's own draws them, so that neither a slow terminal nor one that was
    stopped by Ctrl-S holds up a device.

    Args:
        out: The terminal.
        last_step: As in `watching`.
        devices: How many devices the run has.
        clock: Seconds, going up.
        roster: Which they are.
        silence: As in `watching`.
        fetching: As in `watching`.
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
        # Appended to without the lock: a signal may have something said in the midst of drawing.
        self._above: deque[Text] = deque()
        self._hashing = ""
        self._styles: dict[str, Style] = {"": Style.null()}
        self._end = threading.Event()

    def __call__(self, event: Event) -> None:
        """Take an event; called from several threads."""
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
        """Print a line for people, above the view, when it is drawn next."""
        self._say_above(f"flashferry: {text}")

    def _say_above(self, text: str, style: str = "") -> None:
        self._above.append(Text(text, style=style))

    @contextmanager
    def drawn(self) -> Iterator[None]:
        """Draw until the block ends; then the view is gone, for the results that follow say more."""
        live = Live(self, console=self._out, auto_refresh=False, transient=True)
        with suppress(OSError):
            live.start()
        artist = threading.Thread(target=self._draw, args=(live,), name="live-view", daemon=True)
        artist.start()
        try:
            yield
        finally:
            self._end.set()
            # One that hangs in a write to a stopped terminal is left behind; the cursor comes back if it can.
            artist.join(timeout=2.0)
            # A terminal that was closed meanwhile must not take the results and the exit code with it.
            if not artist.is_alive():
                with suppress(OSError):
                    self.print_above()
                with suppress(OSError):
                    live.stop()

    def print_above(self) -> None:
        """Print what is to stand above the view."""
        lines = [self._above.popleft() for _ in range(len(self._above))]
        if lines:
            for line in lines:
                # A name may have signs that the terminal has not.
                line.plain = line.plain.encode(self._out.encoding, "replace").decode(self._out.encoding)
            self._out.print(Group(*lines))

    def _draw(self, live: Live) -> None:
        pause_s = next(pause_s for least, pause_s in _REDRAW_EVERY_S if self._fleet.total > least or not least)
        while not self._end.wait(pause_s):
            try:
                # What is printed above has the view drawn anew by itself.
                if self._above:
                    self.print_above()
                else:
                    live.refresh()
            except OSError:
                return  # the terminal is gone

    def __rich_console__(self, out: Console, options: ConsoleOptions) -> RenderResult:
        """Render the view in the lines and columns that the terminal has now."""
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
    """Return the style of an event that did not end well: that of its outcome where it has one."""
    return STYLES[Outcome(event.outcome).tone] if event.outcome in set(Outcome) else BAD
