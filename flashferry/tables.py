"""Results for people: a table of the devices, then what needs attention, then the evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from staging.states import Outcome, Restored

if TYPE_CHECKING:
    from ftpserver import TransferRecord
    from staging.fleet_check import CheckRecord
    from staging.record import DeviceRecord, Failure, RunReport
    from staging.recover import RecoveryRecord
    from tasks.tuning import TcpLines

_GOOD, _BAD = "green", "bold red"


def print_checks(records: tuple[CheckRecord, ...]) -> None:
    """Print what a look at each device found."""
    table = _table("device", "model", "release", "file system", "free", "ip tcp lines", "RTT", "result")
    for record in records:
        found = record.check
        table.add_row(
            record.host,
            found.facts.model if found else "-",
            found.version.release if found else "-",
            found.file_system if found else "-",
            f"{found.free_bytes / 1e6:,.0f} MB" if found and found.free_bytes is not None else "-",
            _lines(found.running) if found else "-",
            f"{found.rtt_s * 1e3:.0f} ms" if found and found.rtt_s else "-",
            _outcome(record.outcome, done="fit"),
        )
    _show(table)
    for record in records:
        _complain(record.host, record.failure)


def print_run(report: RunReport) -> None:
    """Print what became of each device of a run, and why."""
    table = _table("device", "result", "config", "router says", "server says", "verdict", "hash", "took")
    for device in report.devices:
        table.add_row(
            device.host,
            _outcome(device.outcome),
            Text(device.restored.value, style=_BAD if device.restored is Restored.INCOMPLETE else _GOOD),
            f"{device.pull.device.rate_bytes_per_s / 1e6:.2f} MB/s" if device.pull else "-",
            _server_rate(device.transfer),
            device.transfer.verdict.kind.value if device.transfer else "-",
            "proven" if device.verify or device.outcome is Outcome.ALREADY_THERE else "-",
            f"{sum(device.seconds_by_step.values()):.1f} s",
        )
    console().print(f"run {report.run_id}: {report.image}, {report.image_bytes:,} bytes, MD5 {report.md5}")
    _show(table)
    for device in report.devices:
        _print_evidence(device)
        _complain(device.host, device.failure)
        _complain(device.host, device.restore_failure)


def print_recovery(records: tuple[RecoveryRecord, ...]) -> None:
    """Print what recovery did."""
    if not records:
        console().print("nothing to recover: no dead run left a device tuned")
        return
    table = _table("device", "run", "configuration", "sent", "running configuration", "left on flash")
    for record in records:
        table.add_row(
            record.host,
            record.run_id,
            Text(record.restored.value, style=_GOOD if record.restored is Restored.RESTORED else _BAD),
            "\n".join(record.restore.commands) or "nothing" if record.restore else "-",
            str(record.restore.running_difference) if record.restore else "-",
            record.partial_file or "-",
        )
    _show(table)
    for record in records:
        if record.restore is not None:
            _print_foreign(record.host, record.restore.foreign, startup_changed=record.restore.startup_changed)
        _complain(record.host, record.failure)


def console(*, stderr: bool = False) -> Console:
    """Return a console on standard output or error; wide where it is no terminal, so that no row is cut."""
    # No markup: a device may well print [brackets].
    found = Console(stderr=stderr, highlight=False, markup=False)
    return found if found.is_terminal else Console(stderr=stderr, highlight=False, markup=False, width=160)


def _print_evidence(device: DeviceRecord) -> None:
    out = console()
    seen = device.transfer
    if seen is not None:
        if seen.data_syn is not None:
            out.print(f"{device.host}: the device's SYN: {seen.data_syn.describe()}")
        out.print(f"{device.host}: verdict: {seen.verdict.sentence}")
    for change in device.changes if device.tune is not None else ():
        assert device.tune is not None
        shown = "" if change.ours not in device.tune.not_shown else " (taken, but not shown by the device)"
        out.print(f"{device.host}: set for the copy: {change.ours}{shown}; before: {change.before or '(default)'}")
    if device.window is not None and device.changes:
        out.print(f"{device.host}: window: {device.window.reason}")
    if device.restore is not None:
        proof = device.restore.running_difference
        word = "equal to the start, line by line" if not proof else f"differs: {proof}"
        out.print(f"{device.host}: proof: running configuration {word}")
        _print_foreign(device.host, device.restore.foreign, startup_changed=device.restore.startup_changed)
    if device.partial_file is not None:
        out.print(f"{device.host}: the copy left {device.partial_file}; delete it before staging again", style=_BAD)
    if device.restored is Restored.INCOMPLETE:
        out.print(f"{device.host}: still tuned as far as we know: run 'flashferry recover'", style=_BAD)


def _print_foreign(host: str, foreign: tuple[object, ...], *, startup_changed: bool) -> None:
    for change in foreign:
        console().print(f"{host}: {change}", style=_BAD)
    if startup_changed:
        console().print(
            f"{host}: the startup configuration's ip tcp lines changed while the device was tuned: somebody saved. "
            "Look at them and, if they are ours, save again: copy running-config startup-config",
            style=_BAD,
        )


def _complain(host: str, failure: Failure | None) -> None:
    if failure is None:
        return
    hint = f". {failure.hint}" if failure.hint else ""
    console().print(f"{host}: {failure.step}: {failure.reason}{hint}", style=_BAD)


def _server_rate(seen: TransferRecord | None) -> str:
    return f"{seen.rate_bytes_per_s / 1e6:.2f} MB/s" if seen and seen.rate_bytes_per_s else "-"


def _outcome(outcome: Outcome, *, done: str = "done") -> Text:
    good = outcome in {Outcome.DONE, Outcome.ALREADY_THERE}
    return Text(done if outcome is Outcome.DONE else outcome.value, style=_GOOD if good else _BAD)


def _lines(found: TcpLines) -> str:
    return "\n".join(found.lines) or "none (defaults)"


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _show(table: Table) -> None:
    console().print(table)
