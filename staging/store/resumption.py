"""What is left of a run that died or was stopped: who is proven done, who is still to do, who is to be recovered."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inventory.errors import ConfigInvalid
from staging.states import Outcome, Restored
from staging.store.run_ids import find_run
from staging.store.run_state import RunState
from staging.store.stored_run import StoredDevice, StoredRun, read_run

VERB = "stage"

_GOOD = frozenset({Outcome.DONE.value, Outcome.ALREADY_THERE.value})
_AS_IT_WAS = frozenset({Restored.RESTORED.value, Restored.FOREIGN_CHANGE.value, Restored.UNTOUCHED.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """How a run goes on.

    Attributes:
        run_id: The run, in full.
        request: What it was asked for.
        done: Devices that have their image, verified, and are what they were.
        to_do: All others, those that were refused included: they may have been mended.
        held: Those of `to_do` that the run left in its hands; recovery comes first.
    """

    run_id: str
    request: dict[str, Any]
    done: tuple[str, ...]
    to_do: tuple[str, ...]
    held: tuple[str, ...]


def resumption(directory: Path, run_id: str) -> Resumption:
    """Return how a run goes on.

    Args:
        directory: State directory.
        run_id: The run; its beginning or end where that is unique, or `latest` for the newest that staged.

    Raises:
        ConfigInvalid: The run is unknown, alive, was no staging run, or has not kept what it was asked for.
    """
    return resumption_of(read_run(directory, find_run(directory, run_id, verb=VERB), with_transfers=False))


def resumption_of(run: StoredRun) -> Resumption:
    """Return how a run goes on, from what is stored of it. Errors as in `resumption`."""
    if run.verb != VERB:
        raise ConfigInvalid(f"run {run.run_id} was a {run.verb}: expected a run of {VERB}, nothing else is resumed")
    if run.state is RunState.ALIVE:
        raise ConfigInvalid(
            f"run {run.run_id} is alive: expected one that died or ended",
            hint=f"Wait for it, or end it with 'flashferry run stop {run.run_id}'",
        )
    if not run.request:
        raise ConfigInvalid(
            f"run {run.run_id} has not kept what it was asked for, as runs of earlier releases",
            hint="Stage anew: what is there already is found out and not copied again",
        )
    return Resumption(
        run_id=run.run_id,
        request=run.request,
        done=tuple(device.host for device in run.devices if is_proven_done(device)),
        to_do=tuple(device.host for device in run.devices if not is_proven_done(device)),
        held=tuple(device.host for device in run.devices if device.is_held),
    )


def is_proven_done(device: StoredDevice) -> bool:
    """Return whether a device has its image, by hash, and its configuration is what it was.

    A change of somebody else's, which restoring left alone, is theirs: staging again would not mend it.
    """
    record = device.record
    return not device.is_held and record.get("outcome") in _GOOD and record.get("restored") in _AS_IT_WAS
