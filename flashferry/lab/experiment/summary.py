"""Runs of the same arm and server, summed up: medians with their spread, beside the article and the model."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.lab.experiment.published import ARMS, LINK, NEAR_SHARE, SENDERS, Arm, expected_kinds, model_bytes_per_s

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flashferry.lab.experiment.cell import LinkSetting, Sender
    from flashferry.lab.experiment.measured import Judgement, Measured

BASELINE = SENDERS[0]
"""The article's server: peers are compared with it."""
NEAR_LINK_SHARE = 0.9
"""A copy at so much of what the link carries was hardly held back by anything else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An arm from one server.

    Attributes:
        sender: The server.
        runs: How many gave a figure.
        failed: How many did not.
        size_bytes: What each run copied.
        least_bytes_per_s: The slowest run's rate, by the client.
        median_bytes_per_s: Median of the rates.
        most_bytes_per_s: The fastest run's.
        published_bytes_per_s: The article's; of its own server only.
        model_bytes_per_s: What the model allows.
        ratio: Median over that of the article's server; None for that itself and where it is missing.
        worst_ratio: The same by the slowest run of each.
        again_share: Median share sent again; None if unknown.
        kinds: Verdicts with their number, most frequent first.
        near_link: Runs that name the bandwidth though the arm was built to be limited by something else, and that
            reached nine tenths of what the link carries.
        judgement: That of the run whose rate is the median.
        syn: What the client offered.
        control: Congestion controls that were in force.
    """

    arm: Arm
    sender: Sender
    link: LinkSetting
    runs: int
    failed: int
    size_bytes: int
    least_bytes_per_s: float
    median_bytes_per_s: float
    most_bytes_per_s: float
    published_bytes_per_s: float | None
    model_bytes_per_s: float
    ratio: float | None
    worst_ratio: float | None
    again_share: float | None
    kinds: tuple[tuple[str, int], ...]
    near_link: int
    judgement: Judgement | None
    syn: str
    control: str

    @property
    def spread(self) -> float:
        """Fastest less slowest run, over the median."""
        return (self.most_bytes_per_s - self.least_bytes_per_s) / self.median_bytes_per_s

    @property
    def right_verdicts(self) -> int:
        """How many verdicts name what the arm is limited by."""
        return sum(number for kind, number in self.kinds if kind in expected_kinds(self.arm, self.sender))

    @property
    def is_near_published(self) -> bool | None:
        """Whether the median is within 15 % of the published figure; None where none was published."""
        if self.published_bytes_per_s is None:
            return None
        return abs(self.median_bytes_per_s / self.published_bytes_per_s - 1) <= NEAR_SHARE


def summed_up(runs: Sequence[Measured]) -> list[Row]:
    """Return a row for every arm and server that has a run over one and the same link, in the article's order."""
    rows: list[Row] = []
    for arm in ARMS:
        own = [run for run in runs if run.cell.arm == arm.name]
        base = _rates(run for run in own if run.cell.sender == BASELINE)
        senders = dict.fromkeys((*SENDERS, *(run.cell.sender for run in own)))
        for sender in senders:
            there = [run for run in own if run.cell.sender == sender]
            if _rates(there):
                rows.append(_row(arm, sender, there, base))
    return rows


def _row(arm: Arm, sender: Sender, runs: Sequence[Measured], base: Sequence[float]) -> Row:
    good = sorted((run for run in runs if not run.error), key=lambda run: run.rate_bytes_per_s)
    rates = _rates(good)
    middle = statistics.median(rates)
    is_base = sender == BASELINE
    shares = [run.again_share for run in good if run.again_share is not None]
    kinds = Counter(run.judgement.kind for run in good if run.judgement)
    return Row(
        arm=arm,
        sender=sender,
        link=good[0].cell.link,
        runs=len(good),
        failed=len(runs) - len(good),
        size_bytes=good[0].cell.size_bytes,
        least_bytes_per_s=rates[0],
        median_bytes_per_s=middle,
        most_bytes_per_s=rates[-1],
        published_bytes_per_s=arm.published_bytes_per_s if is_base and good[0].cell.link == LINK else None,
        model_bytes_per_s=model_bytes_per_s(arm, sender, good[0].cell.link),
        ratio=None if is_base or not base else middle / statistics.median(base),
        worst_ratio=None if is_base or not base else rates[0] / base[0],
        again_share=statistics.median(shares) if shares else None,
        kinds=tuple(kinds.most_common()),
        near_link=sum(_is_near_link(run) for run in good) if "bandwidth" not in expected_kinds(arm, sender) else 0,
        judgement=good[len(good) // 2].judgement,
        syn=good[0].syn,
        control=", ".join(sorted({run.control for run in good})),
    )


def _is_near_link(run: Measured) -> bool:
    carries = run.cell.link.payload_bytes_per_s
    is_called_so = run.judgement is not None and run.judgement.kind == "bandwidth"
    return is_called_so and run.rate_bytes_per_s >= NEAR_LINK_SHARE * carries


def by_loss(runs: Sequence[Measured]) -> dict[float, list[Row]]:
    """Return the rows of every loss, least first."""
    losses = sorted({run.cell.link.loss_ratio for run in runs})
    return {loss: summed_up([run for run in runs if run.cell.link.loss_ratio == loss]) for loss in losses}


def _rates(runs: Iterable[Measured]) -> list[float]:
    return sorted(run.rate_bytes_per_s for run in runs if not run.error)
