"""State and totals of a run's devices, followed by its events in constant time each. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from flashferry.core.redaction import sanitize
from flashferry.model.states import Outcome, Phase
from flashferry.model.waves import wave_label
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


LONGEST_S = 4 * 86_400.0
"""A longer estimate means a stalled copy, so none is shown."""


class Tally:
    """Totals of the devices of a site, or of all.

    Attributes:
        devices: Number by phase.
        todo_bytes: Bytes to copy, without devices that ended without a copy.
        acked_bytes: Acknowledged part of them.
        received_bytes: All acknowledged bytes, failed and repeated copies included; only increases.
        rate_bytes_per_s: Sum of all running copies.
        copies: Running copies, those whose device still writes flash included.
        shared_s: When a copy last started or ended, which changes the shares of a cap; None for never.
        cap_bytes_per_s: Rate limit; None if unknown.
    """

    __slots__ = (
        "acked_bytes",
        "cap_bytes_per_s",
        "copies",
        "devices",
        "rate_bytes_per_s",
        "received_bytes",
        "shared_s",
        "todo_bytes",
    )

    def __init__(self, cap_bytes_per_s: float | None = None) -> None:
        self.devices: Counter[Phase] = Counter()
        self.todo_bytes = self.acked_bytes = self.received_bytes = self.copies = 0
        self.shared_s: float | None = None
        self.rate_bytes_per_s = 0.0
        self.cap_bytes_per_s = cap_bytes_per_s

    @property
    def total(self) -> int:
        """All devices."""
        return self.devices.total()

    @property
    def over(self) -> int:
        """Devices that have ended."""
        return sum(count for phase, count in self.devices.items() if phase.is_over)

    @property
    def share(self) -> float:
        """Progress, 0 to 1: by bytes if known, else by devices."""
        if self.todo_bytes:
            return min(1.0, self.acked_bytes / self.todo_bytes)
        return self.over / max(1, self.total)

    @property
    def left_s(self) -> float | None:
        """Remaining seconds at the current rate; None if unknown, or above four days."""
        left = self.todo_bytes - self.acked_bytes
        if left <= 0 or not self.copies or self.rate_bytes_per_s * LONGEST_S < left:
            return None
        return left / self.rate_bytes_per_s

    def is_settling(self, now_s: float) -> bool:
        """Return whether the shares of a cap changed in the last seconds."""
        return self.shared_s is not None and now_s - self.shared_s < SETTLING_S

    def count(self, device: Device, sign: int) -> None:
        """Add (1) or subtract (-1) a device."""
        self.devices[device.phase] += sign
        self.rate_bytes_per_s += sign * device.rate_bytes_per_s
        self.copies += sign * device.is_copying
        if device.planned_bytes is not None:
            acked = 0 if device.is_over and device.phase is not Phase.DONE else device.acked_bytes
            self.acked_bytes += sign * acked
            self.todo_bytes += sign * (acked if device.is_over else device.planned_bytes)


class Fleet:
    """Follows a run by its events. Not thread-safe.

    Args:
        roster: The devices; missing ones are added at their first event.
        last_step: Last step of a device, if the run has no event for its end.
        unnamed: Number of devices of the run that are not in the roster.

    Attributes:
        devices: By name, as in the events.
        sites: Totals by site, also for devices without one, in the order of the roster.
        whole: Totals of all.
        run_id: Empty until it is known.
        wave: Current wave, as text; empty without waves.
        hold: Why the whole run waits: `paused`, `stopping` or `waiting` for approval; empty for no reason.
        hold_text: The same as a sentence.
    """

    def __init__(self, roster: Roster, last_step: str, unnamed: int = 0) -> None:
        self._last_step = last_step
        self._caps = roster.caps_bytes_per_s
        self._unnamed = unnamed
        self.devices: dict[str, Device] = {}
        self.sites: dict[str, Tally] = {}
        self._flowing: dict[str, set[Device]] = {}
        self.whole = Tally(sum(self._caps.values()) or None)
        self.run_id = self.wave = self.hold = self.hold_text = ""
        for expected in roster.devices:
            self._add(expected)

    @property
    def total(self) -> int:
        """All devices, those without an event included."""
        return max(self.whole.total, self._unnamed)

    @property
    def has_copies(self) -> bool:
        """Whether anything is or will be copied, as far as known."""
        return bool(self.whole.todo_bytes or self.whole.received_bytes or self.whole.copies)

    def take(self, event: Event, now_s: float) -> None:
        """Process an event; constant time, except for a site's copies when one of them starts or ends.

        Args:
            event: The event.
            now_s: Current time by any monotonic clock.
        """
        # Progress events only have figures; other texts are sanitised for display.
        if event.status != "progress" and (text := sanitize(event.text)) != event.text:
            event = replace(event, text=text)
        if event.host is None:
            self._take_run(event)
            return
        device = self.devices.get(event.host) or self._add(Expected(host=event.host, site=event.site or ""))
        tallies = (self.sites[device.site], self.whole)
        before, flowed = device.acked_bytes, device.is_flowing
        for tally in tallies:
            tally.count(device, -1)
        device.take(event, now_s, is_settling=tallies[0].is_settling(now_s))
        grown = device.acked_bytes - before if device.acked_bytes >= before else device.acked_bytes
        for tally in tallies:
            tally.count(device, 1)
            tally.received_bytes += grown
        if device.is_flowing is not flowed:
            self._share_anew(device, now_s)

    def _share_anew(self, device: Device, now_s: float) -> None:
        """Record that a copy started or ended, so that former rates of its site's copies are not shown."""
        flowing = self._flowing[device.site]
        flowing.discard(device)
        tallies = (self.sites[device.site], self.whole)
        tallies[0].shared_s = now_s
        for other in flowing:
            for tally in tallies:
                tally.count(other, -1)
            other.forget_former_share()
            for tally in tallies:
                tally.count(other, 1)
        if device.is_flowing:
            flowing.add(device)

    def _add(self, expected: Expected) -> Device:
        device = self.devices[expected.host] = Device(expected, self._last_step)
        if device.site not in self.sites:
            self.sites[device.site] = Tally(self._caps.get(expected.site))
            self._flowing[device.site] = set()
        for tally in (self.sites[device.site], self.whole):
            tally.count(device, 1)
        return device

    def _take_run(self, event: Event) -> None:
        self.run_id = event.run_id or self.run_id
        if event.step == "wave":
            self._take_wave(event)
        elif event.step == "run" and event.status in ("paused", "stopping"):
            self.hold, self.hold_text = event.status, event.text
        elif event.step == "run" and event.status == "continued":
            self.hold = self.hold_text = ""

    def _take_wave(self, event: Event) -> None:
        if event.status == "waiting":
            self.hold, self.hold_text = event.status, event.text
        elif event.status == "started":
            self.wave = event.text if event.wave is None else wave_label(event.wave, event.text)
            if self.hold == "waiting":
                self.hold = self.hold_text = ""
