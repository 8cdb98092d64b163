"""Follower of a run's event file: activity and transfer rates of its devices.

It starts with the end of the file only: the journal has earlier states, and each copying device reports within seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from flashferry.monitor.events import Lines, WrittenEvent, event_of, lines_from
from flashferry.monitor.progress import Device, Fleet, Roster
from flashferry.service.live.snapshot import DeviceActivity, EventView

BEGIN_BYTES = 1 << 20
"""Read first from the end: with 500 devices the last minute, and each reports every ten seconds."""
_MOST_BYTES = 16 << 20
"""Backlog after which reading continues near the end."""
_LAST_STEPS = {"probe": "probe"}


class Follower:
    """Follows the event file of one run (verb `stage` or `probe`), which may not exist yet."""

    def __init__(self, path: Path, verb: str) -> None:
        self.path = path
        self._fleet = Fleet(Roster(), _LAST_STEPS.get(verb, "restore"))
        self._offset, self._mark = -BEGIN_BYTES, ""
        self._hold_since = self._last_at = ""

    def read(self) -> EventView:
        """Read new events and return the state from all events so far. Raises `OSError`."""
        for event in self._news():
            before = self._fleet.hold
            self._fleet.take(event, event.at_s)
            self._last_at = event.at
            if self._fleet.hold != before:
                self._hold_since = event.at
        return EventView(
            devices=DeviceActivities(self._fleet.devices),
            wave=self._fleet.wave,
            hold=self._fleet.hold,
            hold_since=self._hold_since,
            last_at=self._last_at,
        )

    def _news(self) -> Iterator[WrittenEvent]:
        read = 0
        while True:
            lines = lines_from(self.path, self._offset, mark=self._mark)
            self._keep_place(lines)
            for line, _ in lines.each():
                if (event := event_of(line)) is not None:
                    yield event
            read += len(lines.data)
            if not lines.data:
                return
            if read > _MOST_BYTES:
                self._offset = -BEGIN_BYTES

    def _keep_place(self, lines: Lines) -> None:
        if lines.mark:
            self._offset, self._mark = lines.end, lines.mark


class DeviceActivities(Mapping[str, DeviceActivity]):
    """Mapping of device activities by name; each is converted when accessed."""

    def __init__(self, devices: Mapping[str, Device]) -> None:
        self._devices = devices

    def __getitem__(self, host: str) -> DeviceActivity:
        one = self._devices[host]
        return DeviceActivity(
            phase=one.phase,
            step=one.step,
            waits=one.waits,
            text=one.text if one.has_failed else "",
            acked_bytes=one.acked_bytes,
            size_bytes=one.size_bytes,
            rate_bytes_per_s=one.rate_bytes_per_s,
            verdict=one.verdict,
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._devices)

    def __len__(self) -> int:
        return len(self._devices)
