"""The report of a run of a state directory: what is read, put together."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from flashferry.store.history import History
from flashferry.store.stored_run import read_run
from staging.reports.before import speeds_before
from staging.reports.build import build_report
from staging.reports.model import Report


def read_report(directory: Path, run_id: str) -> Report:
    """Return the report of a run that ended, died or is under way. Reads the journal only.

    Args:
        directory: State directory.
        run_id: The run, shortened where that is unique, or `latest`.

    Raises:
        ConfigInvalid: The run is unknown, or the journal cannot be read.
    """
    run = read_run(directory, run_id)
    history = History.read(directory)
    return build_report(
        run,
        written_at=datetime.now(UTC).isoformat(timespec="seconds"),
        written_by=f"flashferry {_version()}",
        before=speeds_before(history, (device.host for device in run.devices), run.started_at),
    )


def _version() -> str:
    try:
        return version("flashferry")
    except PackageNotFoundError:
        return "of unknown version"
