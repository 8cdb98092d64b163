"""Results as Markdown and CSV; every table says how it came about."""

from __future__ import annotations

import csv
import io
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.metadata import version

from flashferry.core.units import short_duration
from flashferry.lab.experiment.cell import Measured, Sender
from flashferry.lab.experiment.harness import markdown
from flashferry.lab.experiment.published import (
    ARMS,
    FILE_BYTES,
    LINK,
    NEAR_LINK_SHARE,
    NEAR_SHARE,
    SENDERS,
    Row,
    expected_kinds,
)
from flashferry.lab.experiment.servers import vsftpd_version

EMULATED = (
    "What is emulated: the WAN (a user-space link between two network namespaces: rate, delay, random loss, a "
    "drop-tail queue) and the routers (stand-ins: their window, SYN options and the pace of their flash are set, "
    "their TCP is Linux's). What is real: the senders' TCP, the servers, FTP, and every second."
)


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


AUTO, HOST_BBR = SENDERS[-1], SENDERS[1]
LEAST_MEDIAN_BYTES_PER_S = 5.4e6
MOST_SPREAD = 0.05
LEAST_RATIO = {0.0001: (1.3, 2.0), 0.001: (5.0, None)}
"""By loss: what `auto` over the article's server shall come to, by medians and in the slowest run of each."""

_PAYLOAD_BYTES = 1460


def beside_published(rows: Sequence[Row]) -> str:
    """Return, for the arms of the article's server, whether each is the published figure, or why not."""
    columns = ("arm", "published", "its runs", "here", "our runs", "to published", f"within {NEAR_SHARE:.0%}")
    return markdown(columns, (_beside(row) for row in rows if row.published_bytes_per_s is not None))


def _beside(row: Row) -> tuple[str, ...]:
    assert row.published_bytes_per_s is not None
    theirs = [FILE_BYTES / seconds for seconds in row.arm.seconds]
    return (
        row.arm.name,
        mb(row.published_bytes_per_s),
        f"{mb(min(theirs))} to {mb(max(theirs))}",
        mb(row.median_bytes_per_s),
        f"{mb(row.least_bytes_per_s)} to {mb(row.most_bytes_per_s)}",
        f"{row.median_bytes_per_s / row.published_bytes_per_s:.2f}x",
        "yes" if row.is_near_published else f"no: {_why(row)}",
    )


def _why(row: Row) -> str:
    kind = row.kinds[0][0] if row.kinds else "no verdict"
    if kind != "random loss":
        return kind
    losses = row.size_bytes / _PAYLOAD_BYTES * row.link.loss_ratio
    return f"random loss; about {losses:.1f} packets of a copy are lost, and chance decides when"


def tally(rows: Sequence[Row]) -> str:
    """Return how many verdicts name what the arm was built to be limited by, per arm and kind of sender."""
    groups: dict[tuple[str, tuple[str, ...]], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.arm.name, expected_kinds(row.arm, row.sender)), []).append(row)
    lines = [
        f"- {arm}, {', '.join(dict.fromkeys(row.sender.name for row in own))}: {_right_of(own)} name "
        f"{' or '.join(kinds)}."
        for (arm, kinds), own in groups.items()
    ]
    return "\n".join([*lines, verdict_totals(rows)])


def verdict_totals(rows: Sequence[Row]) -> str:
    """Return how many verdicts of all arms are right, and what is to be known of the others."""
    return "\n".join([f"- All: {_right_of(rows)} verdicts are right.", *_near_link(rows)])


def _near_link(rows: Sequence[Row]) -> list[str]:
    """Return what is to be known of the others, if anything: losses that limit no copy are not to be named."""
    number = sum(row.near_link for row in rows)
    others = sum(row.runs - row.right_verdicts for row in rows)
    reached = f"reached at least {NEAR_LINK_SHARE:.0%} of what the link carries, in spite of the losses"
    return [f"- Of the {others} others {number} named bandwidth and {reached}."] if number else []


def _right_of(rows: Sequence[Row]) -> str:
    right, runs = sum(row.right_verdicts for row in rows), sum(row.runs for row in rows)
    return f"{right} of {runs} ({right / runs:.0%})" if runs else "none of none"


def beside_host_bbr(rows: Sequence[Row]) -> str:
    """Return a row per arm: `auto` beside the article's server with BBR for the whole host, which knows no cap."""
    at = {(row.arm.name, row.sender): row for row in rows}
    both = [(at[name, AUTO], at[name, HOST_BBR]) for name, sender in at if sender == AUTO and (name, HOST_BBR) in at]
    columns = ("arm", HOST_BBR.name, AUTO.name, "to it", f"not below by more than {MOST_SPREAD:.0%}", "sent again",
               "by it")  # fmt: skip
    return markdown(columns, (_beside_row(auto, bbr) for auto, bbr in both))


def _beside_row(auto: Row, bbr: Row) -> tuple[str, ...]:
    share = auto.median_bytes_per_s / bbr.median_bytes_per_s
    return (
        auto.arm.name,
        mb(bbr.median_bytes_per_s),
        mb(auto.median_bytes_per_s),
        f"{share:.2f}x",
        "kept" if share >= 1 - MOST_SPREAD else "missed",
        percent(auto.again_share),
        percent(bbr.again_share),
    )


def seeds_table(rows_by_loss: Mapping[float, Sequence[Row]]) -> str:
    """Return a row per loss, arm and server, with the spread of the rates over their median."""
    columns = (
        "loss", "arm", "server", "runs", "MB each", "least", "median", "most", "spread", "to the article's server",
        "by the slowest", "sent again", "verdict right",
    )  # fmt: skip
    return markdown(columns, (_seeds_row(loss, row) for loss, rows in rows_by_loss.items() for row in rows))


def _seeds_row(loss: float, row: Row) -> tuple[str, ...]:
    return (
        f"{loss:.2%}",
        *row_head(row),
        f"{row.spread:.1%}",
        f"{row.ratio:.2f}x" if row.ratio is not None else "",
        f"{row.worst_ratio:.2f}x" if row.worst_ratio is not None else "",
        percent(row.again_share),
        f"{row.right_verdicts} of {row.runs}",
    )


def held_to(rows_by_loss: Mapping[float, Sequence[Row]]) -> str:
    """Return a line for everything that `auto` is held to in the tuned arm, with the figure and whether it is kept."""
    lines: list[str] = []
    for loss, rows in rows_by_loss.items():
        at = {row.sender: row for row in rows if row.arm.name == "IOS-XE tuned"}
        auto = at.get(AUTO)
        if auto is not None:
            claims = [*_own(auto), *_ratios(auto), *(_beside_bbr(auto, at[HOST_BBR]) if HOST_BBR in at else ())]
            lines += [f"- {loss:.2%} loss: {text}: {'kept' if kept else '**missed**'}." for text, kept in claims]
    return "\n".join(lines)


def _own(auto: Row) -> list[tuple[str, bool]]:
    if auto.link.loss_ratio != LINK.loss_ratio:
        return []
    median, spread = auto.median_bytes_per_s, auto.spread
    return [
        (
            f"median of {auto.runs} seeds {mb(median)} MB/s, at least {mb(LEAST_MEDIAN_BYTES_PER_S)} asked for",
            median >= LEAST_MEDIAN_BYTES_PER_S,
        ),
        (f"spread {spread:.1%}, at most {MOST_SPREAD:.0%} asked for", spread <= MOST_SPREAD),
    ]


def _ratios(auto: Row) -> list[tuple[str, bool]]:
    by_medians, by_slowest = LEAST_RATIO.get(auto.link.loss_ratio, (None, None))
    claims = []
    if auto.ratio is not None and by_medians is not None:
        text = f"{auto.ratio:.2f} times the article's server by medians, at least {by_medians:g} asked for"
        claims.append((text, auto.ratio >= by_medians))
    if auto.worst_ratio is not None and by_slowest is not None:
        text = f"{auto.worst_ratio:.2f} times by the slowest run of each, at least {by_slowest:g} asked for"
        claims.append((text, auto.worst_ratio >= by_slowest))
    return claims


def _beside_bbr(auto: Row, bbr: Row) -> list[tuple[str, bool]]:
    share = auto.median_bytes_per_s / bbr.median_bytes_per_s
    claims = [(f"{share:.1%} of {bbr.sender.name}, at least {1 - MOST_SPREAD:.0%} asked for", share >= 1 - MOST_SPREAD)]
    if auto.again_share is not None and bbr.again_share is not None:
        text = f"{auto.again_share:.3%} sent again, fewer than {bbr.sender.name}'s {bbr.again_share:.3%}"
        claims.append((f"{text} asked for", auto.again_share < bbr.again_share))
    return claims


TYPICAL_IMAGE_BYTES = 500_000_000
"""Size that times are given for: an IOS-XE image has 400 to 900 MB."""

_DEFAULT, _TUNED = " default", " tuned"
ROUTERS = tuple(arm.name.removesuffix(_TUNED) for arm in ARMS if arm.name.endswith(_TUNED))
"""Clients of the article that are there untuned and tuned."""


def gain_by_tuning(rows: Sequence[Row], arm: str, sender: Sender) -> float | None:
    """Return how many times as fast a tuned arm is as the same router untuned, from one server.

    Returns None for an arm that is not tuned, and where one of the two is missing.
    """
    if not arm.endswith(_TUNED):
        return None
    at = {row.arm.name: row for row in rows if row.sender == sender}
    untuned, tuned = at.get(arm.removesuffix(_TUNED) + _DEFAULT), at.get(arm)
    return None if untuned is None or tuned is None else _factor(untuned.median_bytes_per_s, tuned.median_bytes_per_s)


def gains_table(rows: Sequence[Row]) -> str:
    """Return a row per router: what tuning gains in the article, and here from each server; nothing without a pair."""
    senders = [sender for sender in SENDERS if any(gain_by_tuning(rows, f"{one}{_TUNED}", sender) for one in ROUTERS)]
    columns = ("router", "published", *(sender.name for sender in senders))
    return markdown(columns, (_row(rows, router, senders) for router in ROUTERS) if senders else ())


def _row(rows: Sequence[Row], router: str, senders: Sequence[Sender]) -> tuple[str, ...]:
    untuned, tuned = (
        next(arm for arm in ARMS if arm.name == f"{router}{which}").published_bytes_per_s
        for which in (_DEFAULT, _TUNED)
    )
    found = (gain_by_tuning(rows, f"{router}{_TUNED}", sender) for sender in senders)
    return (router, in_words(_factor(untuned, tuned)), *(in_words(gain) for gain in found))


def _factor(untuned_bytes_per_s: float, tuned_bytes_per_s: float) -> float:
    return float(mb(tuned_bytes_per_s)) / float(mb(untuned_bytes_per_s))


def in_words(gain: float | None) -> str:
    """Return a factor: `35x`, `1.0x`; nothing for none."""
    if gain is None:
        return ""
    return f"{gain:.0f}x" if gain >= 9.95 else f"{gain:.1f}x"


def time_for_image(bytes_per_s: float) -> str:
    """Return how long a typical image takes at a rate as it is printed: `52 min`, `88 s`."""
    return short_duration(TYPICAL_IMAGE_BYTES / 1e6 / float(mb(bytes_per_s)))
