"""Results of speed tests and SSH cipher comparisons for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from flashferry.cli.view.device_tables import print_details, rows_of
from flashferry.cli.view.layout import BAD, GOOD, console, line, outcome, rate, restored, show
from flashferry.core.units import megabytes, rough_megabytes, short_duration
from flashferry.model.probe_result import CAVEAT, Arm, ProbeResult
from flashferry.reports.words import running_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashferry.model.probe_result import SshSweep, SweepRow
    from flashferry.model.record import DeviceRecord, RunReport


def print_sweep(report: RunReport, *, is_kept: bool = True) -> None:
    """Print each device's cipher comparison; `is_kept` as in `print_run`."""
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
    """Yield notes on a comparison besides its rows."""
    login = "" if found.login_s is None else f", {found.login_s:.1f} s of login taken off each"
    yield f"{rough_megabytes(found.size_bytes)} each{login}"
    yield found.conclusion
    if found.mac_cipher:
        what = f"MACs under {found.mac_cipher}"
        yield f"{what}: {found.best_mac} is the fastest" if found.best_mac else f"{what}: none is distinctly faster"
    for what, names in (("ciphers", found.device_ciphers), ("MACs", found.device_macs)):
        if names:
            yield f"the device's own list of {what}: {', '.join(names)}"
    yield f"compression: {found.compression}"
    if found.is_kept:
        yield f"kept: devices of this model are offered {found.best_cipher} alone from now on"


def print_probe(report: RunReport, *, is_kept: bool = True) -> None:
    """Print each device's speed test; `is_kept` as in `print_run`."""
    if any(device.ssh_sweep is not None for device in report.devices):
        print_sweep(report, is_kept=is_kept)
        return
    image_bytes = next((one.probe.image_bytes for one in report.devices if one.probe is not None), 0)
    console().print(f"run {report.run_id}: copies to null:, times for an image of {megabytes(image_bytes)}")
    if any(device.probe is not None and device.probe.by_transport for device in report.devices):
        rows = [row for device in rows_of(report.devices) for row in _transport_rows(device)]
        show(rows, wide_only=frozenset({"windows let through", "CPU"}))
        if any(row.is_best for device in report.devices if device.probe for row in device.probe.by_transport):
            console().print("* what --transport auto takes from now on")
    else:
        show((_row(device) for device in rows_of(report.devices)), wide_only=frozenset({"result", "config"}))
    print_details(report, _print_evidence, is_kept=is_kept)
    if any(device.probe is not None and _is_timed(device.probe) for device in report.devices):
        console().print(CAVEAT)


def _is_timed(found: ProbeResult) -> bool:
    return bool(found.as_is or found.tuned or any(row.arm for row in found.by_transport))


def _transport_rows(device: DeviceRecord) -> Iterator[dict[str, str | Text]]:
    """Yield a row per transport of a device, the fastest marked."""
    rows = device.probe.by_transport if device.probe is not None else ()
    for row in rows:
        words = f"{row.transport} *" if row.is_best else row.transport
        yield {
            "device": device.host,
            "by": Text(words, style=GOOD if row.is_best else ""),
            "MB/s": rate(row.arm.measured_bytes_per_s if row.arm else None).removesuffix(" MB/s"),
            "time": short_duration(row.image_s) if row.image_s is not None else "-",
            "windows let through": rate(row.ceiling_bytes_per_s),
            "CPU": "-" if row.arm is None else str(row.cpu or "not read"),
            "verdict": row.arm.verdict.kind.value if row.arm else Text("no copy", style=BAD),
            "config": restored(device.restored),
        }
    if not rows:
        nothing: dict[str, str | Text] = dict.fromkeys(_COMPARED, "-")
        yield nothing | {"device": device.host, "verdict": outcome(device.outcome)}


_COMPARED = ("device", "by", "MB/s", "time", "windows let through", "CPU", "verdict", "config")


def _row(device: DeviceRecord) -> dict[str, str | Text]:
    found = device.probe or ProbeResult(image_bytes=0)
    return {
        "device": device.host,
        "result": outcome(device.outcome),
        "as it is": rate(found.as_is.measured_bytes_per_s if found.as_is else None),
        "time": short_duration(found.as_is_s) if found.as_is_s is not None else "-",
        "tuned": rate(found.tuned.measured_bytes_per_s if found.tuned else None),
        "time tuned": short_duration(found.tuned_s) if found.tuned_s is not None else "-",
        "gain": f"{found.worth.gain:.1f}x" if found.worth else "-",
        "tune it?": _decision(found),
        "config": restored(device.restored),
    }


def _decision(found: ProbeResult) -> Text:
    if found.worth is None:
        return Text("-")
    return Text("yes", style=GOOD) if found.worth.is_worth else Text("no")


def _print_evidence(device: DeviceRecord) -> None:
    found = device.probe
    if found is None:
        return
    for row in found.by_transport:
        if row.reason:
            line(device.host, f"by {row.transport}: {row.reason}", BAD)
    arms = [(f"by {row.transport}", row.arm) for row in found.by_transport]
    for name, arm in (("as it is", found.as_is), ("tuned", found.tuned), *arms):
        if arm is not None:
            line(device.host, f"{name}: {_described(arm)}")
            line(device.host, f"{name}: {arm.verdict.sentence}")
    if found.undecided:
        line(device.host, f"is tuning worth it: not known, for a gain takes two measurements; {found.undecided}", BAD)
    if found.worth is not None:
        line(device.host, f"tuning is {'worth it' if found.worth.is_worth else 'not worth it'}: {found.worth.reason}")
    for change in device.changes if device.tune is not None else ():
        line(device.host, f"set for the test: {change.ours}; before: {change.before or '(default)'}")
    if device.restore is not None:
        proof = device.restore.running_difference
        line(device.host, f"proof: {running_sentence(str(proof or ''))}", BAD if proof else "")


def _described(arm: Arm) -> str:
    """Return what was copied, and the cost of starting the copy, which a long copy does not notice."""
    if arm.too_short:
        return f"not measured: {arm.too_short}{f'; SYN: {arm.syn.describe()}' if arm.syn else ''}"
    start = max(0.0, 1 - arm.server_bytes_per_s / arm.steady_bytes_per_s)
    says = f", router says {rate(arm.device_bytes_per_s)}" if arm.device_bytes_per_s else ""
    syn = f"; SYN: {arm.syn.describe()}" if arm.syn else ""
    return (
        f"{rough_megabytes(arm.size_bytes)} in {arm.duration_s:.1f} s = {rate(arm.server_bytes_per_s)}{says}; after "
        f"the start, which cost {start:.0%}, {rate(arm.steady_bytes_per_s)}; {arm.sender.congestion_control}{syn}"
    )
