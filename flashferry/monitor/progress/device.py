"""One device by its events: what it does, how far its copy is, and whether it is through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flashferry.core.redaction import sanitize
from flashferry.model.states import Outcome, Phase
from flashferry.monitor.events import Event
from tasks.step import ACTIVATE_WORD, CHECK_WORD, COPY_WORD, FATAL_STEPS


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A device that a run is to see to.

    Attributes:
        host: Inventory name.
        site: Its site; empty for none.
        size_bytes: What is to be copied to it; None where that is not known beforehand, as with a speed test.
    """

    host: str
    site: str = ""
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """The devices of a run and what their sites' links may carry.

    Attributes:
        devices: In the order of the inventory.
        caps_bytes_per_s: By site: what all its copies may take together; a site without a cap is missing.
    """

    devices: tuple[Expected, ...] = ()
    caps_bytes_per_s: Mapping[str, float] = field(default_factory=dict)


_SMOOTHING = 0.3

SETTLING_S = 3.0
"""So long after a site's cap was shared anew its rates are shown as they are read: smoothed, a copy would be shown with
what it had before beside what another one has of that by now."""


class Device:
    """Changes with each event of its device; cheap, for five hundred of them have an event every second.

    Args:
        expected: What is known of it beforehand.
        last_step: Its last step, where the run has no event for its end: `restore`, `reach`, `check`.

    Attributes:
        host: Inventory name, as it is shown.
        site: Its site, as it is shown; empty for none.
        planned_bytes: What is to be copied to it; None where that is not known.
        phase: Where it stands.
        step: What it does, or did last.
        since_s: When that began or the device came to its end, on the clock of who follows.
        waits: What it waits for, in words; empty where it does not.
        doing: What it does in its step by now, in words, where that step takes as long as an activation; else empty.
        is_retrying: Whether it waits to begin anew after a failure.
        has_failed: Whether a step of it failed and nothing made that good.
        text: Why, or what it ended with.
        is_copying: Whether bytes are flowing; the three that follow are of this copy.
        acked_bytes: What the device has acknowledged.
        size_bytes: What the file has.
        rate_bytes_per_s: Smoothed rate; 0 as soon as all is acknowledged, though the device may still write flash.
        copying_since_s: When its first bytes were reported.
        moved_s: When the device last acknowledged something new.
        verdict: What limits the copy so far; None where that is unknown.
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
        """Whether it is through, as far as anybody knows."""
        return self.phase.is_over

    @property
    def has_all(self) -> bool:
        """Whether everything of its copy was acknowledged: what it does now is its own, such as writing flash."""
        return self.is_copying and 0 < self.size_bytes <= self.acked_bytes

    @property
    def is_flowing(self) -> bool:
        """Whether its copy has more to send."""
        return self.is_copying and not self.has_all

    def forget_former_share(self) -> None:
        """Show its rate as it was read last: what it had before that was another share of its site's cap."""
        if self.is_flowing:
            self.rate_bytes_per_s = self._read_bytes_per_s

    def take(self, event: Event, now_s: float, *, is_settling: bool = False) -> None:
        """Take an event of this device in.

        Args:
            event: The event.
            now_s: The time, on the clock of who follows.
            is_settling: Whether copies of its site began or ended within the last seconds, so that shares changed.
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
            step = self.step  # the arm of a speed test says more than `pull`
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
            # The last progress event may be seconds old, or none was: from a site it comes thinned.
            self.acked_bytes = max(self.acked_bytes, self.size_bytes or self.planned_bytes or 0)
        if event.status == "failed":
            self.has_failed, self.text = True, f"{event.step}: {event.text}"
        self._has_ended = self._has_ended or self._is_end(event, was_done=was_done)
        if self._has_ended:
            self._close(now_s, event.outcome)

    def _is_end(self, event: Event, *, was_done: bool) -> bool:
        """Return whether a step that ended was the last, for runs without an event for a device's end."""
        if event.status == "failed":
            # One that is refused, not reached or could not be read never comes to the last step.
            return event.step == self._last_step or event.step in FATAL_STEPS
        # A check that is done, and then reported once more, was all: the image is there already.
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
