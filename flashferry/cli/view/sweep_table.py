"""A sweep over SSH's ciphers and MACs for people: a row for each, and what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from flashferry.cli.view.layout import BAD, GOOD, console, line, rate, show
from flashferry.cli.view.run_details import print_details, rows_of
from flashferry.core.units import rough_megabytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashferry.model.record import DeviceRecord, RunReport
    from flashferry.model.ssh_sweep import SshSweep, SweepRow


def print_sweep(report: RunReport, *, is_kept: bool = True) -> None:
    """Print what a sweep of each device found; `is_kept` as in `print_run`."""
    console().print(f"run {report.run_id}: copies to null: by one cipher or MAC at a time")
    rows = [row for device in rows_of(report.devices) for row in _rows(device)]
    show(rows, wide_only=frozenset({"least to most", "copies"}))
    print_details(report, _print_device, is_kept=is_kept)


def _rows(device: DeviceRecord) -> Iterator[dict[str, str | Text]]:
    found = device.ssh_sweep
    if found is None:
        return
    for kind, rows, best in (("cipher", found.ciphers, found.best_cipher), ("MAC", found.macs, found.best_mac)):
        for row in rows:
            yield {"device": device.host, "what": kind, **_cells(row, is_best=row.name == best)}


def _cells(row: SweepRow, *, is_best: bool) -> dict[str, str | Text]:
    scatter = "-"
    if row.least_bytes_per_s is not None and row.most_bytes_per_s is not None:
        scatter = f"{rate(row.least_bytes_per_s).removesuffix(' MB/s')} to {rate(row.most_bytes_per_s)}"
    return {
        "name": Text(f"{row.name} *" if is_best else row.name, style=GOOD if is_best else ""),
        "median": rate(row.median_bytes_per_s),
        "least to most": scatter,
        "copies": str(row.copies) if row.copies else "-",
        "bound by": row.bound_by or Text(row.refused, style=BAD),
    }


def _print_device(device: DeviceRecord) -> None:
    found = device.ssh_sweep
    if found is None:
        return
    for text in _sentences(found):
        line(device.host, text)


def _sentences(found: SshSweep) -> Iterator[str]:
    """Yield what there is to say of a sweep besides its rows."""
    login = "" if found.login_s is None else f", {found.login_s:.1f} s of login taken off each"
    yield f"{rough_megabytes(found.size_bytes)} each{login}"
    yield found.conclusion
    if found.mac_cipher:
        told = f"MACs under {found.mac_cipher}"
        yield f"{told}: {found.best_mac} is the fastest" if found.best_mac else f"{told}: none is told apart"
    for what, names in (("ciphers", found.device_ciphers), ("MACs", found.device_macs)):
        if names:
            yield f"the device's own list of {what}: {', '.join(names)}"
    yield f"compression: {found.compression}"
    if found.is_kept:
        yield f"kept: devices of this model are offered {found.best_cipher} alone from now on"
