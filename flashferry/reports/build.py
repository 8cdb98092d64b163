"""Make the report of a stored run.

`build_report` is pure; `read_report` reads its input from the journal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from flashferry.core.json_access import Node
from flashferry.reports.device import device_report
from flashferry.reports.model import DeviceReport, ImageReport, Report, Speed
from flashferry.reports.sites import epoch_s, site_reports, summary_of
from flashferry.reports.speeds import speeds_before
from flashferry.store.history import History
from flashferry.store.stored_run import read_run
from flashferry.store.transfer_row import STAGE
from inventory.transport_policy import USUAL

if TYPE_CHECKING:
    from flashferry.store.stored_run import StoredRun


_NO_SPEEDS: Mapping[str, Speed] = MappingProxyType({})


def build_report(
    run: StoredRun,
    *,
    written_at: str,
    written_by: str,
    before: Mapping[str, Speed] = _NO_SPEEDS,
) -> Report:
    """Return the report of a run.

    Args:
        run: The run in the journal: alive, finished or dead.
        written_at: Current time, ISO 8601, UTC.
        written_by: Name and version of the program.
        before: Speed with the device's own TCP settings, measured before the run, by host.
    """
    stages = run.verb == STAGE
    devices = tuple(device_report(one, run.state, before.get(one.host), stages=stages) for one in run.devices)
    return Report(
        run_id=run.run_id,
        verb=run.verb,
        standing=run.state,
        started_at=run.started_at,
        finished_at=run.finished_at,
        written_at=written_at,
        written_by=written_by,
        images=_images(run, devices),
        summary=summary_of(devices, _wall_s(run, written_at)),
        sites=site_reports(devices),
        devices=devices,
        notes=_notes(run),
    )


def _notes(run: StoredRun) -> tuple[str, ...]:
    times = "once" if run.resumed == 1 else f"{run.resumed} times"
    return ((f"the run was resumed {times}",) if run.resumed else ()) + run.damaged


def _wall_s(run: StoredRun, now: str) -> float | None:
    end = now if run.is_alive else run.finished_at
    began_s, ended_s = epoch_s(run.started_at), epoch_s(end)
    return None if began_s is None or ended_s is None else max(0.0, ended_s - began_s)


def _images(run: StoredRun, devices: Sequence[DeviceReport]) -> tuple[ImageReport, ...]:
    """Return the images of the run, with size and digest from transfers and proofs."""
    names = dict.fromkeys(device.image for device in devices if device.image is not None)
    records = {device.host: Node(device.record) for device in run.devices}
    return tuple(_image(name, [device for device in devices if device.image == name], records) for name in names)


def _image(name: str, devices: Sequence[DeviceReport], records: Mapping[str, Node]) -> ImageReport:
    sizes = [one.size_bytes for device in devices for one in device.transfers if one.image == name]
    proofs = [
        proof.text("md5")
        for device in devices
        for proof in (records[device.host].at("verify"), records[device.host].at("check", "proof"))
    ]
    return ImageReport(
        name=name,
        size_bytes=next((size for size in sizes if size), None),
        md5=next((md5 for md5 in proofs if md5), None),
        devices=len(devices),
    )


def read_report(directory: Path, run_id: str) -> Report:
    """Return the report of a run, from the journal.

    Args:
        directory: State directory.
        run_id: The run, abbreviated if unique, or `latest`.

    Raises:
        ConfigInvalid: The run is unknown, or the journal cannot be read.
    """
    return report_of(read_run(directory, run_id), directory)


def report_of(run: StoredRun, directory: Path) -> Report:
    """Return the report of a run that was read with its transfers; reads the history.

    Raises:
        ConfigInvalid: The journal cannot be read.
    """
    history = History.read(directory)
    return build_report(
        run,
        written_at=datetime.now(UTC).isoformat(timespec="seconds"),
        written_by=report_author(),
        before=speeds_before(
            history, {one.host: str(one.record.get("transport") or USUAL) for one in run.devices}, run.started_at
        ),
    )


def report_author() -> str:
    """Return name and version of the program."""
    try:
        return f"flashferry {version('flashferry')}"
    except PackageNotFoundError:
        return "flashferry of unknown version"
