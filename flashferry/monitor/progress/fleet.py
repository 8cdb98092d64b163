"""State and totals of all devices of a run, updated in constant time per event."""

from __future__ import annotations

from collections import Counter

from flashferry.core.redaction import sanitize
from flashferry.core.values import replace
from flashferry.model.states import Phase
from flashferry.monitor.events import Event
from flashferry.monitor.progress.device import SETTLING_S, Device, Expected, Roster

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
            self.wave = event.text if event.wave is None else f"{event.wave}: {event.text}"
            if self.hold == "waiting":
                self.hold = self.hold_text = ""
