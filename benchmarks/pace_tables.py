"""The figures of `benchmarks.pace` as tables, and whether they are what we want to hold."""

import statistics
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.report import about
from flashferry.lab.experiment.harness import targets_table

Part = dict[str, Any]
Target = tuple[str, str, bool]
"""What is wanted, what was found, whether it is met."""

CUBIC, BBR, STATED, LEARNED = "vsftpd CUBIC", "vsftpd host-wide BBR", "ours auto 98%", "ours auto"
_NAMES = {
    CUBIC: "CUBIC, whole host (vsftpd)",
    BBR: "BBR, whole host (vsftpd)",
    STATED: "ours, rate stated, 98 % of it",
    LEARNED: "**ours, without options**",
}
_LEAST_OF_BBR = 0.95
_MOST_AGAIN = 0.005
_LEAST_LATER = 0.95
_LEAST_EVEN = 0.8


def to_markdown(parts: Part) -> str:
    """Return the tables of each part that was measured."""
    blocks = []
    for name, (table, targets) in _PARTS.items():
        if name not in parts:
            continue
        part = parts[name]
        rows = [row for row in part["rows"] if not row.get("error")]
        failed = len(part["rows"]) - len(rows)
        head = f"**{name}**: {about(part)}." + (f" {failed} runs failed." if failed else "")
        blocks.append("\n".join([head, "", *table(rows), "", targets_table(targets(rows))]))
    return "\n\n".join(blocks) + "\n"


def for_document(parts: Part) -> str:
    """Return the targets of each part that was measured: what the page needs of `to_markdown`."""
    blocks = []
    for name, (_, targets) in _PARTS.items():
        if name in parts:
            rows = [row for row in parts[name]["rows"] if not row.get("error")]
            blocks.append(f"**{name}**: {about(parts[name])}.\n\n{targets_table(targets(rows))}")
    return "\n\n".join(blocks) + "\n"


def missed(parts: Part) -> list[str]:
    """Return what was wanted and not found."""
    return [
        text
        for name, part in parts.items()
        for text, _, met in _PARTS[name][1]([row for row in part["rows"] if not row.get("error")])
        if not met
    ]


def _mb(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e6:.2f}"


def _groups(rows: list[Part], *keys: str) -> Iterator[tuple[tuple[Any, ...], list[Part]]]:
    """Go through the rows that agree in some fields, in the order in which they first come."""
    for values in dict.fromkeys(tuple(row[key] for key in keys) for row in rows):
        yield values, [row for row in rows if tuple(row[key] for key in keys) == values]


def _median(rows: list[Part], key: str) -> float:
    return statistics.median(row[key] or 0.0 for row in rows)


def _of(rows: list[Part], sender: str) -> list[Part]:
    return [row for row in rows if row["sender"] == sender]


def _alone(rows: list[Part]) -> Iterator[str]:
    yield "| queue, packets | random loss | sender | runs | MB/s, median | least | most | of BBR | sent again | most |"
    yield f"|{'---|' * 10}"
    for (queue, loss), cell in _groups(rows, "queue_packets", "loss_ratio"):
        bbr = _median(_of(cell, BBR), "rate_bytes_per_s")
        for (sender,), own in _groups(cell, "sender"):
            rates, again = [row["rate_bytes_per_s"] for row in own], [row["again_share"] or 0.0 for row in own]
            middle = statistics.median(rates)
            yield (
                f"| {queue:,} | {loss:.2%} | {_NAMES[sender]} | {len(own)} | {_mb(middle)} | {_mb(min(rates))} | "
                f"{_mb(max(rates))} | {middle / bbr:.3f} | {statistics.median(again):.2%} | {max(again):.2%} |"
            )


def _alone_targets(rows: list[Part]) -> Iterator[Target]:
    for (queue, loss), cell in _groups(rows, "queue_packets", "loss_ratio"):
        where = f"queue of {queue:,}, {loss:.2%}"
        own = _of(cell, LEARNED)
        ratio = _median(own, "rate_bytes_per_s") / _median(_of(cell, BBR), "rate_bytes_per_s")
        again = _median(own, "again_share")
        yield f"{where}: at least {_LEAST_OF_BBR} of host-wide BBR", f"{ratio:.3f}", ratio >= _LEAST_OF_BBR
        yield f"{where}: less than {_MOST_AGAIN:.1%} sent again", f"{again:.2%}", again < _MOST_AGAIN


def _beside(rows: list[Part]) -> Iterator[str]:
    yield "| queue, packets | copy | runs | copy MB/s, median | neighbour MB/s, median | least | most | sent again |"
    yield f"|{'---|' * 8}"
    for (queue, sender), own in _groups(rows, "queue_packets", "sender"):
        others = [row["beside_bytes_per_s"] or 0.0 for row in own]
        yield (
            f"| {queue:,} | {_NAMES[sender]} | {len(own)} | {_mb(_median(own, 'rate_bytes_per_s'))} | "
            f"{_mb(statistics.median(others))} | {_mb(min(others))} | {_mb(max(others))} | "
            f"{_median(own, 'again_share'):.2%} |"
        )


def _beside_targets(rows: list[Part]) -> Iterator[Target]:
    for (queue,), cell in _groups(rows, "queue_packets"):
        ours, stated = (_median(_of(cell, name), "beside_bytes_per_s") for name in (LEARNED, STATED))
        text = f"queue of {queue:,}: the neighbour has at least what it has beside a copy with the rate stated"
        yield text, f"{_mb(ours)} against {_mb(stated)} MB/s", ours >= stated


def _together(rows: list[Part]) -> Iterator[str]:
    yield "| queue, packets | copies | runs | all together MB/s, median | a copy MB/s, least | most | sent again |"
    yield f"|{'---|' * 7}"
    names = {"before": "one, first", "together": "four at once", "after": "one, later"}
    for (queue, stage), own in _groups(rows, "queue_packets", "stage"):
        rates = [rate for row in own for rate in row["rates_bytes_per_s"]]
        yield (
            f"| {queue:,} | {names[stage]} | {len(own)} | {_mb(_median(own, 'all_bytes_per_s'))} | {_mb(min(rates))} | "
            f"{_mb(max(rates))} | {_median(own, 'again_share'):.2%} |"
        )


def _together_targets(rows: list[Part]) -> Iterator[Target]:
    for (queue,), cell in _groups(rows, "queue_packets"):
        first, later = (
            _median([row for row in cell if row["stage"] == stage], "all_bytes_per_s") for stage in ("before", "after")
        )
        text = f"queue of {queue:,}: a later copy has at least {_LEAST_LATER} of the first"
        yield text, f"{later / first:.2f}", later >= _LEAST_LATER * first
        both = [row for row in cell if row["stage"] == "together"]
        even = statistics.median(min(row["rates_bytes_per_s"]) / max(row["rates_bytes_per_s"]) for row in both)
        text = f"queue of {queue:,}: the slowest of four copies has at least {_LEAST_EVEN} of the fastest, median"
        yield text, f"{even:.2f}", even >= _LEAST_EVEN


_PARTS: dict[str, tuple[Callable[[list[Part]], Iterator[str]], Callable[[list[Part]], Iterator[Target]]]] = {
    "alone": (_alone, _alone_targets),
    "beside": (_beside, _beside_targets),
    "together": (_together, _together_targets),
}
