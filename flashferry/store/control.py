"""What operators requested of a live run, and which wave an approval means."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.model.states import State
from flashferry.store.reader import find_run, is_run_alive, reading, unknown_run
from flashferry.store.stored_run import StoredRun
from flashferry.store.tables import ControlRow, RunRow, control_row, waiting_runs


class ControlRequest(Struct, frozen=True, kw_only=True):
    """What operators requested of a run, which polls it about once a second.

    Attributes:
        paused: Start no further device; those in progress continue.
        stopping: As Ctrl-C: stop devices in progress, restore, report.
        approved_wave: Highest approved wave; -1 for none.
        waiting_wave: The wave that waits for approval, set by the run; None for none.
    """

    paused: bool = False
    stopping: bool = False
    approved_wave: int = -1
    waiting_wave: int | None = None

    @classmethod
    def of(cls, row: ControlRow | RunRow) -> ControlRequest:
        """Make it from a run's row."""
        return cls(
            paused=bool(row.paused),
            stopping=bool(row.stopping),
            approved_wave=row.approved_wave,
            waiting_wave=row.waiting_wave,
        )


def control_request(directory: Path, run_id: str) -> ControlRequest:
    """Return what operators requested of a run.

    Args:
        directory: State directory.
        run_id: The run; its beginning or end if unique, or `latest`.

    Raises:
        ConfigInvalid: The run is unknown, or the journal cannot be read.
    """
    found_id = find_run(directory, run_id)
    with reading(directory) as database:
        row = control_row(database, found_id) if database is not None else None
    if row is None:
        raise unknown_run(run_id, [])
    return ControlRequest.of(row)


def waiting_waves(directory: Path) -> dict[str, int]:
    """Return the waves of live runs that wait for approval, by run.

    Raises:
        ConfigInvalid: The journal cannot be read.
    """
    with reading(directory) as database:
        rows = waiting_runs(database) if database is not None else []
    return {
        row.run_id: row.waiting_wave
        for row in rows
        if row.waiting_wave is not None and is_run_alive(directory, row.run_id)
    }


def may_approve(run: StoredRun, control: ControlRequest, wave: int | None) -> int:
    """Return the wave that an approval means.

    Args:
        run: The run.
        control: What is requested of it so far.
        wave: The given wave; None for the waiting one, else the next that has not started.

    Raises:
        ConfigInvalid: The run has no such wave, or none is left to approve.
    """
    waves = sorted({device.wave for device in run.devices if device.wave >= 0})
    if wave is not None:
        if wave not in waves:
            known = (
                "none" if not waves else f"wave {waves[0]}" if len(waves) == 1 else f"waves {waves[0]} to {waves[-1]}"
            )
            raise ConfigInvalid(f"run {run.run_id} has no wave {wave}: it has {known}", hint="Check --wave")
        return wave
    if control.waiting_wave is not None:
        return control.waiting_wave
    started = [device.wave for device in run.devices if device.state != State.PLANNED.value]
    after = max([control.approved_wave, *started], default=-1)
    left = [number for number in waves if number > after]
    if not left:
        raise ConfigInvalid(
            f"run {run.run_id}: no wave is left to approve; all have started or are approved",
            hint=f"'flashferry run show {run.run_id}' says how far it is",
        )
    return left[0]
