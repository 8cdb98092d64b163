"""Results as Markdown and CSV; every table says how it came about."""

from __future__ import annotations

import csv
import io
import os
import platform
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import TYPE_CHECKING

from flashferry.lab.experiment.servers import vsftpd_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flashferry.lab.experiment.measured import Measured
    from flashferry.lab.experiment.summary import Row

EMULATED = (
    "What is emulated: the WAN (a user-space link between two network namespaces: rate, delay, random loss, a "
    "drop-tail queue) and the routers (stand-ins: their window, SYN options and the pace of their flash are set, "
    "their TCP is Linux's). What is real: the senders' TCP, the servers, FTP, and every second."
)


def markdown(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; nothing where there is no row."""
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    head = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return "\n".join([*head, *lines]) if lines else ""


def conditions(runs: Sequence[Measured]) -> str:
    """Return in a line what the machine was, and when."""
    loads = [run.load for run in runs]
    load = f", load {min(loads):.1f} to {max(loads):.1f}" if loads else ""
    days = sorted({run.started_at[:10] for run in runs}) or [datetime.now(UTC).date().isoformat()]
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    many = f", {len(runs)} copies in {_minutes(runs):.0f} min" if runs else ""
    vsftpd = vsftpd_version()
    peers = f"vsftpd {vsftpd}" if vsftpd else "no vsftpd"
    return (
        f"{when}{many}, Linux {platform.release()}, {os.cpu_count()} processors{load}, "
        f"Python {platform.python_version()}, flashferry {version('flashferry')}, {peers}"
    )


def _minutes(runs: Sequence[Measured]) -> float:
    """Return how long it took from the first begin to the last end; with a break in between, that too."""
    started = [datetime.fromisoformat(run.started_at) for run in runs]
    ended = max(at + timedelta(seconds=run.seconds) for at, run in zip(started, runs, strict=True))
    return (ended - min(started)).total_seconds() / 60


def published_table(rows: Sequence[Row]) -> str:
    """Return measured beside published beside model, in 10^6 bytes per second by the client's own clock."""
    columns = (
        "arm", "server", "runs", "MB each", "least", "median", "most", "published", "model", "to the article's server",
        "sent again", "verdict",
    )  # fmt: skip
    return markdown(columns, (_published_row(row) for row in rows))


def row_head(row: Row) -> tuple[str, ...]:
    """Return who fetched from whom, how often and how much, and the least, median and most of the rates."""
    return (
        row.arm.name,
        row.sender.name,
        str(row.runs) if not row.failed else f"{row.runs} of {row.runs + row.failed}",
        f"{row.size_bytes / 1e6:.1f}",
        mb(row.least_bytes_per_s),
        mb(row.median_bytes_per_s),
        mb(row.most_bytes_per_s),
    )


def _published_row(row: Row) -> tuple[str, ...]:
    verdicts = ", ".join(f"{kind} {number}x" if len(row.kinds) > 1 else kind for kind, number in row.kinds)
    return (
        *row_head(row),
        mb(row.published_bytes_per_s),
        mb(row.model_bytes_per_s),
        f"{row.ratio:.2f}x" if row.ratio is not None else "",
        percent(row.again_share),
        verdicts,
    )


def syn_table(rows: Sequence[Row]) -> str:
    """Return what each arm's client offered in the SYN of its data connection."""
    seen = {row.arm.name: row.syn for row in rows if row.syn}
    return markdown(("arm", "SYN of the data connection"), seen.items())


def verdict_list(rows: Sequence[Row]) -> str:
    """Return the verdict of each arm's median run in a sentence; `report.html` has its evidence."""
    return "\n".join(
        f"- {row.arm.name}, {row.sender.name}: {row.judgement.sentence}" for row in rows if row.judgement is not None
    )


def runs_csv(runs: Sequence[Measured]) -> str:
    """Return a line per run."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_CSV_COLUMNS)
    for run in runs:
        cell = run.cell
        writer.writerow(
            (
                cell.study, cell.arm, cell.sender.program, cell.sender.control, cell.sender.cap_share or "", cell.seed,
                cell.link.rtt_s, cell.link.loss_ratio, cell.link.rate_bps, cell.link.queue_packets,
                cell.receiver.window_bytes or "", int(cell.receiver.sack), cell.size_bytes, round(run.seconds, 3),
                round(run.rate_bytes_per_s), run.sent_bytes, run.again_bytes, run.control, run.largest_window_bytes,
                run.judgement.kind if run.judgement else "", run.started_at, run.load, run.error, run.syn,
                "" if run.beside_bytes_per_s is None else round(run.beside_bytes_per_s),
            )
        )  # fmt: skip
    return text.getvalue()


_CSV_COLUMNS = (
    "study", "arm", "program", "control_asked", "cap_share", "seed", "rtt_s", "loss_ratio", "link_rate_bps",
    "queue_packets", "window_bytes", "sack", "size_bytes", "seconds", "rate_bytes_per_s", "sent_bytes", "again_bytes",
    "control", "largest_window_bytes", "verdict", "started_at", "load", "error", "syn",
    "beside_bytes_per_s",
)  # fmt: skip


def mb(bytes_per_s: float | None) -> str:
    """Return a rate in 10^6 bytes per second, with three digits."""
    if bytes_per_s is None:
        return ""
    value = bytes_per_s / 1e6
    return f"{value:.3f}" if value < 1 else f"{value:.2f}"


def percent(share: float | None) -> str:
    """Return a share in percent."""
    if share is None:
        return ""
    return f"{share:.2%}" if share < 0.1 else f"{share:.1%}"
