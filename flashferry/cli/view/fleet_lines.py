"""A run over many devices in plain lines: each device's end, and every ten seconds a line per site."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from flashferry.cli.terminal.output import echo, say
from flashferry.cli.view.live_cells import left, percent, rate
from flashferry.cli.view.live_layout import left_s
from flashferry.model.states import NOT_DONE, Phase, label_of
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
                and tally.over + tally.devices[Phase.UNDER_WAY]
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
    words.append(f"{counts[Phase.UNDER_WAY]} {Phase.UNDER_WAY.label}")
    words += [f"{counts[phase]} {phase.label}" for phase in (Phase.QUEUED, *NOT_DONE) if counts[phase]]
    if tally.copies:
        cap = f" of {rate(tally.cap_bytes_per_s)}" if tally.cap_bytes_per_s else ""
        words.append(f"{percent(tally.share)} copied, {rate(tally.rate_bytes_per_s)}{cap} MB/s")
    return ", ".join(words)
