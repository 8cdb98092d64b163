"""A run's report in a terminal: sites, then what needs attention, then a line per device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import StringIO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from flashferry.cli.terminal.output import here
from flashferry.cli.view.layout import BAD, GOOD, STYLES, WIDE_COLUMNS, ShownConsole, ShownTable, console, names
from flashferry.core.redaction import sanitize_record
from flashferry.core.units import counted
from flashferry.reports import words
from flashferry.reports.headline import configuration_line, headline, saved_line, state_line
from flashferry.reports.marks import proof_tone, proof_word, tone
from flashferry.reports.model import DeviceReport, Proof, Report, Severity, SiteReport
from flashferry.reports.thresholds import Check, Status, Threshold, checks_of
from flashferry.reports.words import unproven_sentence
from inventory.transport_policy import USUAL

_FILE_COLUMNS = 120


def print_report(report: Report, thresholds: Sequence[Threshold] = ()) -> None:
    """Print a report to standard output."""
    _print(console(), report, thresholds)


def report_text(report: Report, thresholds: Sequence[Threshold] = ()) -> str:
    """Return a report as plain text at the width for files."""
    out = StringIO()
    _print(ShownConsole(file=out, width=_FILE_COLUMNS, no_color=True), report, thresholds)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _print(out: Console, report: Report, thresholds: Sequence[Threshold]) -> None:
    report = sanitize_record(report)
    for part in _parts(report, thresholds, is_wide=out.width >= WIDE_COLUMNS):
        out.print(part)


def _parts(report: Report, thresholds: Sequence[Threshold], *, is_wide: bool) -> Iterator[RenderableType]:
    yield from _head(report)
    if len(report.sites) > 1 or (report.sites and report.sites[0].name):
        yield from _heading("Sites")
        yield _table([_site_row(site, is_wide=is_wide) for site in report.sites])
    yield from _attention(report)
    yield from _heading("Devices")
    has_sites = any(device.site for device in report.devices)
    rows = [_device_row(device, is_wide=is_wide, has_site=has_sites and is_wide) for device in report.devices]
    if all(device.transport == USUAL for device in report.devices):
        # Leave out columns whose cells are all equal.
        rows = [{key: cell for key, cell in row.items() if key != "by"} for row in rows]
    yield _table(rows)
    yield from _compared(report)
    yield from _facts(report)
    yield from _held(report, thresholds)
    for note in report.notes:
        yield Text(f"note: {note}")


def _heading(text: str) -> Iterator[Text]:
    yield Text("")
    yield Text(text, style="bold")


def _head(report: Report) -> Iterator[Text]:
    found = report.summary
    took = f", {words.duration(found.wall_s)}" if found.wall_s is not None else ""
    yield Text(f"run {report.run_id}: {report.verb}, started {words.moment(report.started_at)}{took}", style="bold")
    for image in report.images:
        yield Text(f"{image.name}, {words.size(image.size_bytes)}, MD5 {image.md5 or words.NOT_MEASURED}")
    if state := state_line(report):
        yield Text(here(state), style="yellow")
    yield Text(headline(report), style=BAD if found.needing_attention else "")
    fine = {Proof.PROVEN.value, Proof.UNTOUCHED.value}
    is_fine = all(count.word in fine for count in found.proofs)
    yield Text(configuration_line(report), style=GOOD if is_fine else BAD)
    again = f", {words.size(found.retransmitted_bytes)} sent again" if found.retransmitted_bytes is not None else ""
    copies = counted(found.copies, "copy", "copies")
    yield Text(f"{words.size(found.acked_bytes)} in {copies}{again}. {saved_line(report)}".strip())


def _site_row(site: SiteReport, *, is_wide: bool) -> dict[str, str | Text]:
    attention = Text(str(site.needing_attention), style=BAD if site.needing_attention else "")
    row: dict[str, str | Text] = {
        "site": site.name or "(none)",
        "devices": f"{site.good}/{site.devices}",
        "attention": attention,
        "bytes": words.size(site.acked_bytes),
        "while copying": words.rate(site.rate_bytes_per_s, words.DASH),
        "of cap": words.share(site.cap_share, words.DASH),
    }
    if is_wide:
        row["cap"] = words.rate(site.cap_bytes_per_s, words.DASH)
        row["copied for"] = words.share(site.copying_share, words.DASH)
        row["first to last byte"] = words.duration(site.span_s, words.DASH)
    return row


def _attention(report: Report) -> Iterator[RenderableType]:
    urgent = [device for device in report.devices if device.needs_attention]
    if not urgent:
        return
    order = list(Severity)
    urgent.sort(key=lambda device: order.index(device.standing))
    yield from _heading(f"Needs attention: {words.devices(len(urgent))}")
    grid = ShownTable(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for device in urgent:
        for number, text in enumerate(_complaints(device, report.verb)):
            grid.add_row(Text(f"{device.host}:" if number == 0 else ""), Text(here(text), style="" if number else BAD))
    yield grid


def _complaints(device: DeviceReport, verb: str) -> Iterator[str]:
    """Yield what is wrong with a device and what to do, one sentence each."""
    if device.reason:
        yield f"{device.label} at {device.step}: {device.reason}" if device.step else device.reason
    else:
        yield device.label
    if device.hint:
        yield device.hint
    if device.restore.proof in {Proof.NOT_PROVEN, Proof.FOREIGN} and not device.restore.is_accepted:
        yield f"configuration {device.restore.label}"
        yield from (one for one in (*device.restore.foreign, device.restore.failure) if one and one != device.reason)
    if device.restore.proof is Proof.NOT_PROVEN and not device.restore.is_accepted:
        yield unproven_sentence(verb)
    if device.left_over:
        yield device.left_over


def _device_row(device: DeviceReport, *, is_wide: bool, has_site: bool) -> dict[str, str | Text]:
    style = STYLES[proof_tone(device.restore)]
    speed = device.tuned or device.untuned
    row: dict[str, str | Text] = {"device": device.host}
    if has_site:
        row["site"] = device.site or words.DASH
    row["result"] = Text(device.label, style=STYLES[tone(device)])
    row["by"] = device.transport
    row["before"] = words.rate(device.as_is.bytes_per_s if device.as_is else None, words.DASH)
    row["this run"] = words.rate(speed.bytes_per_s if speed else None, words.DASH)
    row["limited by"] = device.verdict.kind if device.verdict else words.DASH
    if is_wide:
        row["hash"] = "proven" if device.hash_proof else words.DASH
    row["config"] = Text(proof_word(device.restore), style=style)
    row["took"] = words.duration(device.total_s, words.DASH)
    return row


def _compared(report: Report) -> Iterator[RenderableType]:
    """Yield the copies of a speed test that compares transports, and why some transports have none."""
    rows = [row for device in report.devices for row in _compared_rows(device)]
    if not rows:
        return
    yield from _heading("Copies by each transport (* what --transport auto takes first)")
    yield _table(rows)
    for device in report.devices:
        for row in device.compared:
            if row.reason:
                yield Text(f"{device.host}: no copy by {row.transport}: {row.reason}", style=BAD)


def _facts(report: Report) -> Iterator[RenderableType]:
    """Yield what the run did besides copies, each distinct sentence once with its devices."""
    found: dict[str, list[str]] = {}
    for device in report.devices:
        for fact in device.facts:
            found.setdefault(str(fact), []).append(device.host)
    if found:
        yield from _heading("Besides the copy")
    for sentence, hosts in found.items():
        yield Text(f"{names(hosts)}: {sentence}")


def _compared_rows(device: DeviceReport) -> Iterator[dict[str, str | Text]]:
    """Yield a row per transport of such a speed test, with rate and verdict."""
    for row in device.compared:
        yield {
            "device": device.host,
            "by": Text(f"{row.transport} *" if row.is_best else row.transport, style=GOOD if row.is_best else ""),
            "rate": words.rate(row.bytes_per_s, words.DASH),
            "limited by": row.verdict.kind if row.verdict else words.DASH,
        }


def _held(report: Report, thresholds: Sequence[Threshold]) -> Iterator[RenderableType]:
    """Yield the results of thresholds: failed ones by name, the others as counts."""
    if not thresholds:
        return
    found = [(device, check) for device in report.devices for check in checks_of(device, report.verb, thresholds)]
    yield from _heading(f"Checks: {_tally([check for _, check in found])}")
    # Faults of images and configurations are printed above, with what needs attention.
    names = {check.name for _, check in found[: len(checks_of(report.devices[0], report.verb, ()))]} if found else set()
    for device, check in found:
        if check.status in {Status.FAILED, Status.ERROR} and check.name not in names:
            yield Text(f"{device.host}: {check.message}", style=BAD)


def _tally(checks: Sequence[Check]) -> str:
    numbers = {status: sum(check.status is status for check in checks) for status in Status}
    return ", ".join(f"{number:,} {status.value}" for status, number in numbers.items() if number)


def _table(rows: Sequence[dict[str, str | Text]]) -> Table:
    made = ShownTable(box=None, pad_edge=False, header_style="bold")
    for key in rows[0] if rows else ():
        made.add_column(key, overflow="fold", justify="right" if key in _FIGURES else "left")
    for row in rows:
        made.add_row(*row.values())
    return made


_FIGURES = frozenset(
    {
        "devices",
        "attention",
        "bytes",
        "while copying",
        "of cap",
        "cap",
        "copied for",
        "first to last byte",
        "before",
        "rate",
        "this run",
    }
    | {"took"}
)
