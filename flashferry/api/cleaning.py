"""Cleaning: old images that nothing names are deleted, where somebody says yes to each device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.api.options import state_folder
from flashferry.model.exit_codes import ExitCode, exit_code
from flashferry.monitor.events import Emit, silent

if TYPE_CHECKING:
    from nornir.core import Nornir

    from flashferry.run.clean import CleanRecord, Confirm


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanRequest:
    """What is asked for.

    Attributes:
        files: Names of the files that may go; empty: all that could.
        only_shown: Whether they are only shown.
        at_a_time: Devices at the same time, >= 1.
    """

    files: tuple[str, ...] = ()
    only_shown: bool = False
    at_a_time: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanResult:
    """What became of devices.

    Attributes:
        devices: Each, in the order of the inventory.
        exit_code: OK: all was done that somebody said yes to, or shown; UNFINISHED: nobody said yes to some; REFUSED:
            of some nobody can tell, or they may not be touched; DEVICES_FAILED: some did not get to the end.
    """

    devices: tuple[CleanRecord, ...]
    exit_code: ExitCode


def clean(
    nornir: Nornir,
    request: CleanRequest,
    confirm: Confirm,
    *,
    state: Path | str | None = None,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> CleanResult:
    """Delete images older than what runs, which nothing on the device names, and which this journal did not stage.

    Args:
        nornir: The devices, with credentials.
        request: What is asked for.
        confirm: Tells of a device whether all that was found there may go; called for one after the other.
        state: Folder of journal and history, read only; None: where the command line has them.
        emit: Takes events; called from several threads.
        interrupted: Whether the caller wants to stop: the file under way is ended, no other is begun.

    Returns:
        What became of each device. A device's fault is in its record, never raised.

    Raises:
        ConfigInvalid: The inventory is wrong, or the journal cannot be read.
    """
    from flashferry.run.clean import Cleaning, clean_fleet
    from flashferry.store.leases import leases
    from flashferry.store.staged import last_staged

    folder = state_folder(state)
    kept: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
    for host, image in last_staged(folder, frozenset(nornir.inventory.hosts)):
        kept[host] |= {image}
    cleaning = Cleaning(
        held=lambda: leases(folder),
        kept=kept,
        only=frozenset(request.files),
        only_shown=request.only_shown,
        at_a_time=request.at_a_time,
    )
    records = clean_fleet(nornir, cleaning, confirm, emit=emit, interrupted=interrupted)
    code = exit_code((record.outcome for record in records), interrupted=interrupted())
    return CleanResult(devices=records, exit_code=code)
