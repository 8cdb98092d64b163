"""What the figures answer: is each arm the published one, is the verdict right, does `auto` keep what it is held to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashferry.lab.experiment.published import FILE_BYTES, LINK, NEAR_SHARE, SENDERS, expected_kinds
from flashferry.lab.experiment.summary import NEAR_LINK_SHARE
from flashferry.lab.experiment.tables import markdown, mb, percent, row_head

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flashferry.lab.experiment.summary import Row

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
        f"- {arm}, {_senders_of(own)}: {_right_of(own)} name {' or '.join(kinds)}."
        for (arm, kinds), own in groups.items()
    ]
    return "\n".join([*lines, f"- All: {_right_of(rows)} verdicts are right.", *_near_link(rows)])


def _senders_of(rows: Sequence[Row]) -> str:
    return ", ".join(dict.fromkeys(row.sender.name for row in rows))


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
