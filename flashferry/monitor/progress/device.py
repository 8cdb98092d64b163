"""State of one device by its events: its step, the progress of its copy, and whether it has ended."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from flashferry.core.redaction import sanitize
from flashferry.model.states import Outcome, Phase
from flashferry.monitor.events import Event
from tasks.step import ACTIVATE_WORD, CHECK_WORD, COPY_WORD, FATAL_STEPS


class Expected(Struct, frozen=True, kw_only=True):
    """A device of a run.

    Attributes:
        site: Its site; empty for none.
        size_bytes: Bytes to copy; None if unknown, as in a speed test.
    """

    host: str
    site: str = ""
    size_bytes: int | None = None


class Roster(Struct, frozen=True, kw_only=True):
    """The devices of a run, and the caps of their sites.

    Attributes:
        devices: In the order of the inventory.
        caps_bytes_per_s: Rate limit of all copies together by site; sites without a cap are missing.
    """

    devices: tuple[Expected, ...] = ()
    caps_bytes_per_s: Mapping[str, float] = field(default_factory=dict)


_SMOOTHING = 0.3

SETTLING_S = 3.0
"""How long rates are shown unsmoothed after the shares of a site's cap changed: smoothed rates would include the former
share."""


class Device:
    """State of a device, updated with each of its events; cheap, because five hundred have an event every second.

    Args:
        expected: The device.
        last_step: Last step of a device, if the run has no event for its end: `restore`, `reach`, `check`.

    Attributes:
        host: Inventory name, sanitised for display.
        site: Its site, sanitised; empty for none.
        planned_bytes: Bytes to copy; None if unknown.
        step: Current or last step.
        since_s: Start of the step, or end of the device, by the caller's clock.
        waits: What it waits for; empty for nothing.
        doing: Current activity within a long step such as an activation; else empty.
        is_retrying: Whether it waits for another attempt.
        has_failed: Whether a step failed and was not repeated successfully.
        text: Why, or the result.
        is_copying: Whether bytes flow; the next three are of this copy.
        acked_bytes: Acknowledged bytes.
        size_bytes: Size of the file.
        rate_bytes_per_s: Smoothed rate; 0 once all is acknowledged, although the device may still write flash.
        copying_since_s: When its first bytes were reported.
        moved_s: When the device last acknowledged new bytes.
        verdict: What limits the copy so far; None if unknown.
    """

    __slots__ = (
        "_has_ended",
        "_is_done",
        "_is_idle",
        "_last_step",
        "_read_bytes_per_s",
        "acked_bytes",
        "copying_since_s",
        "doing",
        "has_failed",
        "host",
        "is_copying",
        "is_retrying",
        "moved_s",
        "phase",
        "planned_bytes",
        "rate_bytes_per_s",
        "since_s",
        "site",
        "size_bytes",
        "step",
        "text",
        "verdict",
        "waits",
    )

    def __init__(self, expected: Expected, last_step: str) -> None:
        self.host, self.site = sanitize(expected.host), sanitize(expected.site)
        self.planned_bytes = expected.size_bytes
        self._last_step = last_step
        self.phase = Phase.QUEUED
        self.step, self.since_s = "", 0.0
        self.waits, self.doing, self.text = "", "", ""
        self.is_retrying = self.has_failed = False
        self._is_done = self._is_idle = self._has_ended = False
        self.is_copying = False
        self.acked_bytes = self.size_bytes = 0
        self.rate_bytes_per_s = self.copying_since_s = self.moved_s = 0.0
        self._read_bytes_per_s = 0.0
        self.verdict: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended, as far as known."""
        return self.phase.is_over

    @property
    def has_all(self) -> bool:
        """Whether its whole copy is acknowledged; it may still write flash."""
        return self.is_copying and 0 < self.size_bytes <= self.acked_bytes

    @property
    def is_flowing(self) -> bool:
        """Whether its copy has more to send."""
        return self.is_copying and not self.has_all

    def forget_former_share(self) -> None:
        """Show its last measured rate, because the smoothed one is from before a change of its share."""
        if self.is_flowing:
            self.rate_bytes_per_s = self._read_bytes_per_s

    def take(self, event: Event, now_s: float, *, is_settling: bool = False) -> None:
        """Process an event of this device.

        Args:
            event: The event.
            now_s: Current time by the caller's clock.
            is_settling: Whether copies of its site started or ended in the last seconds, so that shares changed.
        """
        if event.status == "progress":
            self._take_progress(event, now_s, is_settling=is_settling)
        elif event.status in ("queued", "retry"):
            self._wait(event, now_s)
        elif event.step == "device":
            self._end(event, now_s)
        elif event.status == "started":
            self._begin(event, now_s)
        elif event.status in ("note", "waiting") and event.step == self.step == ACTIVATE_WORD:
            self.doing = event.text
        elif event.step != "transfer" and event.status in ("done", "failed"):
            self._leave_step(event, now_s)

    def _take_progress(self, event: Event, now_s: float, *, is_settling: bool) -> None:
        seen = event.progress
        if seen is None:
            return
        if not self.is_copying:
            self.is_copying, self.copying_since_s, self.moved_s = True, now_s, now_s
        if seen.acked_bytes > self.acked_bytes:
            self.moved_s = now_s
        rate = self._read_bytes_per_s = seen.rate_bytes_per_s
        before = self.rate_bytes_per_s
        self.rate_bytes_per_s = before + _SMOOTHING * (rate - before) if before and not is_settling else rate
        self.acked_bytes, self.size_bytes = seen.acked_bytes, seen.size_bytes
        if self.has_all:
            self.rate_bytes_per_s = 0.0
        self.verdict = event.verdict or self.verdict
        self.phase, self.waits = Phase.IN_PROGRESS, ""

    def _begin(self, event: Event, now_s: float) -> None:
        step = event.text if event.step == "probe" else event.step
        if event.step == COPY_WORD and ":" in self.step:
            step = self.step  # the name of a speed test's copy is clearer than `pull`
        self.step, self.since_s = step, now_s
        self.waits, self.doing, self.is_retrying = "", "", False
        self._is_done = self._is_idle = False
        self.phase = Phase.IN_PROGRESS
        self.is_copying, self.rate_bytes_per_s = False, 0.0

    def _wait(self, event: Event, now_s: float) -> None:
        self.waits, self.since_s = event.text or event.status, now_s
        if event.status == "retry":
            self.is_retrying, self.has_failed, self._has_ended = True, False, False
            self._no_copy()
            self.phase = Phase.IN_PROGRESS

    def _leave_step(self, event: Event, now_s: float) -> None:
        was_done = self._is_done
        self._is_done, self._is_idle = event.status == "done", True
        self.is_copying, self.rate_bytes_per_s, self.waits, self.doing = False, 0.0, "", ""
        if event.step == COPY_WORD and event.status == "done":
            # The last progress event may be seconds old or missing: those from a site are thinned.
            self.acked_bytes = max(self.acked_bytes, self.size_bytes or self.planned_bytes or 0)
        if event.status == "failed":
            self.has_failed, self.text = True, f"{event.step}: {event.text}"
        self._has_ended = self._has_ended or self._is_end(event, was_done=was_done)
        if self._has_ended:
            self._close(now_s, event.outcome)

    def _is_end(self, event: Event, *, was_done: bool) -> bool:
        """Return whether an ended step was the last, for runs without an event for a device's end."""
        if event.status == "failed":
            # A device that is refused, unreachable or unreadable never gets to the last step.
            return event.step == self._last_step or event.step in FATAL_STEPS
        # A check that is reported as done twice was everything: the image is in place.
        is_all = event.step == self.step == CHECK_WORD and was_done
        return is_all or event.step == self._last_step

    def _end(self, event: Event, now_s: float) -> None:
        self.has_failed = event.status == "failed"
        self.text = event.text
        self._has_ended = True
        if event.outcome != Outcome.DONE:
            self._no_copy()
        self._close(now_s, event.outcome)

    def _close(self, now_s: float, outcome: str | None) -> None:
        self.since_s = now_s
        self.is_copying, self.is_retrying, self.rate_bytes_per_s, self.waits = False, False, 0.0, ""
        self.phase = Phase.FAILED if self.has_failed else Phase.DONE
        if outcome in set(Outcome):
            self.phase = Outcome(outcome).phase
        if self.phase is Phase.NOT_STARTED:
            self.has_failed = False

    def _no_copy(self) -> None:
        self.is_copying = False
        self.acked_bytes = self.size_bytes = 0
        self.rate_bytes_per_s = self.copying_since_s = self.moved_s = 0.0
        self.verdict = None
