"""Fairness: what a foreign CUBIC flow keeps beside a copy of ours, by queue and by cap."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from flashferry.lab.experiment.cell import Cell, LinkSetting, Measured, Receiver, Sender, median_again
from flashferry.lab.experiment.harness import markdown, write
from flashferry.lab.experiment.study import Plan
from flashferry.lab.experiment.tables import conditions, mb, percent, runs_csv
from flashferry.tcp.receive_window import bdp_bytes, choose_window

STUDY = "fairness"
QUEUES_BDP = (0.5, 1.0, 4.0)
SENDERS = (
    Sender(program="ours", control="auto", cap_share=0.5),
    Sender(program="ours", control="auto", cap_share=0.9),
    Sender(program="ours", control="cubic"),
    Sender(program="ours", control="bbr"),
)
"""Ours under a site cap of half and of 90 % of the link; then what two CUBICs, and BBR without a cap, come to."""
_MTU_BYTES = 1500
_WHAT = (
    "One CUBIC flow from vsftpd to a Linux client beside ours, over 50 Mbit/s and 100 ms without random loss; medians "
    "over the whole time, start included. The rest is the link less the cap; where there is none, half the link."
)


def cells(seeds: Iterable[int], *, seconds: float) -> list[Cell]:
    """Return the cells: the published link without random loss, three queues, four senders."""
    found = []
    for seed in seeds:
        for queue_bdp in QUEUES_BDP:
            plain = LinkSetting(loss_ratio=0.0)
            product_bytes = bdp_bytes(rate_bps=plain.rate_bps, rtt_s=plain.rtt_s)
            link = LinkSetting(loss_ratio=0.0, queue_packets=round(queue_bdp * product_bytes / _MTU_BYTES))
            window = choose_window(link.rtt_s, link.rate_bps).window_bytes
            found += [
                Cell(
                    study=STUDY,
                    arm=f"queue of {queue_bdp:g} BDP",
                    receiver=Receiver(kind="pull", window_bytes=window, sack=True),
                    sender=sender,
                    link=link,
                    size_bytes=int(link.payload_bytes_per_s * seconds * 1.25),
                    seed=seed,
                    seconds=seconds,
                    beside=True,
                    keeps_samples=False,
                )
                for sender in SENDERS
            ]
    return found


def fairness_table(runs: Sequence[Measured]) -> str:
    """Return a row per queue and sender: what ours got, what the other flow kept, and its part of what is due."""
    columns = ("queue", "ours", "cap", "runs", "ours MB/s", "other MB/s", "least", "of the rest", "sent again")
    rows = []
    for cell in {(run.cell.arm, run.cell.sender): run.cell for run in runs}.values():
        own = [run for run in runs if (run.cell.arm, run.cell.sender) == (cell.arm, cell.sender) and not run.error]
        if own:
            rows.append(_row(cell, own))
    return markdown(columns, rows)


def _row(cell: Cell, runs: Sequence[Measured]) -> tuple[str, ...]:
    others = [run.beside_bytes_per_s or 0.0 for run in runs]
    middle = statistics.median(others)
    rest = cell.link.payload_bytes_per_s - (cell.cap_bytes_per_s or cell.link.payload_bytes_per_s / 2)
    return (
        cell.arm,
        cell.sender.control,
        "none" if cell.sender.cap_share is None else f"{cell.sender.cap_share:.0%}",
        str(len(runs)),
        mb(statistics.median(run.rate_bytes_per_s for run in runs)),
        mb(middle),
        mb(min(others)),
        f"{middle / rest:.0%}",
        percent(median_again(runs)),
    )


def write_fairness(runs: Sequence[Measured], plan: Plan) -> str:
    """Write report.md and runs.csv into the folder; return the text for people."""
    text = "\n\n".join((f"`{plan.command}`; {conditions(runs)}", _WHAT, fairness_table(runs)))
    write(plan.folder / "report.md", text + "\n")
    write(plan.folder / "runs.csv", runs_csv(runs))
    return text
