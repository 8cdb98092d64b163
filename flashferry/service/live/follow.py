"""The events of a run that another process writes, followed: what its devices do and how fast, second by second.

Who begins to follow in the middle reads the end of the file only: where devices stood before, the journal knows, and
each that copies tells of itself within seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from flashferry.monitor.event_reader import Lines, WrittenEvent, event_of, lines_from
from flashferry.monitor.progress import Device, Fleet, Roster
from flashferry.service.live.snapshot import DeviceActivity, EventView

BEGIN_BYTES = 1 << 20
"""So much of the end is read first: with 500 devices that is the last minute, and each tells every ten seconds."""

_MOST_BYTES = 16 << 20
"""Who fell behind by more goes on near the end."""

_LAST_STEPS = {"probe": "probe"}


class Follower:
    """Follows the events of one run.

    Args:
        path: The file of events; it need not be there yet.
        verb: What the run does: `stage` or `probe`.
    """

    def __init__(self, path: Path, verb: str) -> None:
        self.path = path
        self._fleet = Fleet(Roster(), _LAST_STEPS.get(verb, "restore"))
        self._offset, self._mark = -BEGIN_BYTES, ""
        self._hold_since = self._last_at = ""

    def look(self) -> EventView:
        """Read what is new and return what was heard so far.

        Raises:
            OSError: The file is there and cannot be read.
        """
        for event in self._news():
            before = self._fleet.hold
            self._fleet.take(event, event.at_s)
            self._last_at = event.at
            if self._fleet.hold != before:
                self._hold_since = event.at
        return EventView(
            devices=Motions(self._fleet.devices),
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


class Motions(Mapping[str, DeviceActivity]):
    """The devices of a fleet as their events tell of them, each made when it is asked for.

    Args:
        devices: By name.
    """

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
