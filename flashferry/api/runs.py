"""Runs past and present: status, history, and requests to a run."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.api.fleet_options import state_folder
from flashferry.core.errors import ConfigInvalid
from flashferry.core.units import counted
from flashferry.store.control import control_request, may_approve
from flashferry.store.history import History
from flashferry.store.reader import LATEST_RUNS, find_run, is_run_alive
from flashferry.store.status import read_status
from flashferry.store.stored_run import read_run
from flashferry.tcp.speed_test_size import TYPICAL_IMAGE_BYTES

if TYPE_CHECKING:
    from flashferry.store.control import ControlRequest
    from flashferry.store.control_requests import Asker
    from flashferry.store.history import Expectation
    from flashferry.store.measurements import Measurement
    from flashferry.store.status import Status
    from flashferry.store.stored_run import StoredRun


def status(last: int = LATEST_RUNS, *, state: Path | str | None = None) -> Status:
    """Return which runs are alive, which devices they lease, what is left to recover, and the results of the last runs.

    Args:
        last: Number of runs, >= 1; runs that lease a device are always included.
        state: Folder of the journal, read only; None: the default.

    Raises:
        ConfigInvalid: The journal cannot be read.
    """
    return read_status(state_folder(state), last)


def history(*, state: Path | str | None = None) -> History:
    """Return the timed copies of all devices, and forecasts for the next ones.

    Args:
        state: As for `status`.

    Raises:
        ConfigInvalid: The journal cannot be read.
    """
    return History.read(state_folder(state))


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportHistory:
    """A device's history with one transport.

    Attributes:
        transport: Its name.
        copies: Number of timed copies.
        expected_tuned: Forecast for a copy of half a gigabyte while tuned; None: unknown.
        expected_as_it_is: The same with the device's own settings; None: no forecast.
        shown_not_to_gain: Why tuning the device gains nothing, if that was measured; else None.
    """

    transport: str
    copies: int
    expected_tuned: Expectation | None
    expected_as_it_is: Expectation | None
    shown_not_to_gain: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHistory:
    """A device's timed copies over time.

    Attributes:
        device: Its name in the inventory.
        measurements: The last copies, the oldest first.
        expected_tuned: Forecast for a copy of half a gigabyte while tuned, by the newest copy's transport; None:
            unknown.
        expected_as_it_is: The same with the device's own settings; None: no forecast.
        shown_not_to_gain: Why tuning it gains nothing, if that was measured; else None.
        by_transport: The same for each transport used, the newest copy's first.
        damaged: Number of damaged journal records left out.
    """

    device: str
    measurements: tuple[Measurement, ...]
    expected_tuned: Expectation | None
    expected_as_it_is: Expectation | None
    shown_not_to_gain: str | None
    by_transport: tuple[TransportHistory, ...]
    damaged: int


def device_history(found: History, device: str, last: int = 20) -> DeviceHistory:
    """Return the history of one device.

    Args:
        found: Result of `history`.
        device: Its name in the inventory.
        last: Number of copies, >= 1.

    Raises:
        ConfigInvalid: The history has no copy of it; the message has similar names.
    """
    copies = found.of(device)
    if not copies:
        raise _unknown(device, found)
    series = tuple(_by(found, device, one) for one in dict.fromkeys(copy.transport for copy in reversed(copies)))
    newest = series[0]
    return DeviceHistory(
        device=device,
        measurements=copies[-last:],
        expected_tuned=newest.expected_tuned,
        expected_as_it_is=newest.expected_as_it_is,
        shown_not_to_gain=newest.shown_not_to_gain,
        by_transport=series,
        damaged=found.damaged,
    )


def _by(found: History, device: str, transport: str) -> TransportHistory:
    size_bytes = TYPICAL_IMAGE_BYTES
    return TransportHistory(
        transport=transport,
        copies=sum(one.transport == transport for one in found.of(device)),
        expected_tuned=found.expected(device, tuned=True, size_bytes=size_bytes, transport=transport),
        expected_as_it_is=found.expected(device, tuned=False, size_bytes=size_bytes, transport=transport),
        shown_not_to_gain=found.shown_not_to_gain(device, transport),
    )


def _unknown(device: str, found: History) -> ConfigInvalid:
    close = get_close_matches(device, found.hosts, n=5, cutoff=0.5)
    if close:
        like = f"names like it are {', '.join(close)}"
    elif found.hosts:
        like = f"it has copies of {counted(len(found.hosts), 'device')}, such as {', '.join(found.hosts[:5])}"
    else:
        like = "it has no copy of any device"
    return ConfigInvalid(
        f"the journal has no copy of a device {device!r}: {like}",
        hint="Only what was probed or staged from this state directory is known; check --state-dir",
    )


def stored_run(run: str = "latest", *, state: Path | str | None = None) -> tuple[StoredRun, ControlRequest]:
    """Return the state of a run and its devices, and the operators' requests for it.

    Args:
        run: The run, by a unique beginning or end of its id, or `latest`.
        state: As for `status`.

    Raises:
        ConfigInvalid: The run is unknown, or the journal cannot be read.
    """
    directory = state_folder(state)
    return read_run(directory, run, with_transfers=False), control_request(directory, run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steered:
    """A request to a run; the run reads requests about once a second.

    Attributes:
        run_id: The run.
        control: All present requests.
        wave: The wave that was approved, or None.
    """

    run_id: str
    control: ControlRequest
    wave: int | None = None


def steer(
    run: str,
    *,
    paused: bool | None = None,
    stopping: bool | None = None,
    asker: Asker | None = None,
    state: Path | str | None = None,
) -> Steered:
    """Pause, continue or stop a run that is under way.

    Args:
        run: The run, by a unique beginning or end of its id, or `latest`.
        paused: True: start no further device, finish those in progress; False: continue; None: no change.
        stopping: True: end what is in progress, restore every device and report; None: no change.
        asker: Who asks and why, stored in the journal; None: not given.
        state: Folder of the journal; None: the default.

    Raises:
        ConfigInvalid: The run is unknown, or not alive.
        JournalUnusable: The journal cannot be used; no request was made.
    """
    return _steered(run, state, paused=paused, stopping=stopping, asker=asker)


def approve(
    run: str, wave: int | None = None, *, asker: Asker | None = None, state: Path | str | None = None
) -> Steered:
    """Approve the next wave of a run.

    Args:
        run: As for `steer`.
        wave: Approve up to this wave, >= 0; None: the one that waits, or else the next that has not started.
        asker: As for `steer`.
        state: As for `steer`.

    Returns:
        The request, with the approved wave.

    Raises:
        ConfigInvalid: The run is unknown or not alive, has no such wave, or none is left to approve.
        JournalUnusable: The journal cannot be used; no request was made.
    """
    directory = state_folder(state)
    run_id = _alive(directory, run)
    found = read_run(directory, run_id, with_transfers=False)
    approved = may_approve(found, control_request(directory, run_id), wave)
    return _steered(run_id, state, approved_wave=approved, asker=asker)


def _steered(
    run: str,
    state: Path | str | None,
    *,
    paused: bool | None = None,
    stopping: bool | None = None,
    approved_wave: int | None = None,
    asker: Asker | None = None,
) -> Steered:
    directory = state_folder(state)
    run_id = _alive(directory, run)
    # Imported here for the start time of `status`: the journal's records import nornir.
    from flashferry.store.journal import Journal

    with Journal(directory) as journal:
        journal.set_control(run_id, paused=paused, stopping=stopping, approved_wave=approved_wave, asker=asker)
        return Steered(run_id=run_id, control=journal.control(run_id), wave=approved_wave)


def _alive(directory: Path, run: str) -> str:
    """Return the id of a run that is alive. Does not create a journal.

    Raises:
        ConfigInvalid: The run is unknown, or not alive.
    """
    run_id = find_run(directory, run)
    if not is_run_alive(directory, run_id):
        raise ConfigInvalid(
            f"run {run_id} is not alive: only a running one takes requests",
            hint=f"If it did not finish, 'flashferry stage --resume {run_id}' continues it",
        )
    return run_id
