"""The published experiment: its arms, its figures, and what a model says of each.

Figures: https://zenn.dev/win_beauty/articles/4b9738dc658c9f (2021-03-20), seconds as printed there. Its server was
vsftpd 3.0.3 on Ubuntu 18.04, which sends by CUBIC. Seconds are compared and not rates: a mean of rates flatters.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from flashferry.lab.experiment.cell import Cell, Judgement, LinkSetting, Measured, Receiver, Sender, median_again
from flashferry.tcp.models import predicted_bytes_per_s

STUDY = "published"
FILE_BYTES = 52_428_800
LINK = LinkSetting()
CAP_SHARE = 0.98
"""Nothing else uses the lab's link; on a real one copies take four fifths unless the inventory says otherwise."""

NEAR_SHARE = 0.15
"""A figure so close to the published one counts as the same."""

_TUNED_WINDOW_BYTES = 2_500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A case of the article, with its three times in seconds.

    Attributes:
        short_bytes: Size of a short copy, whose rate is that of the whole file.
        window_bytes: The stand-in's window, for the model; None where it is never the limit.
        flash_bytes_per_s: The same of its flash.
        limited_by: Right verdicts with a CUBIC sender.
    """

    name: str
    receiver: Receiver
    seconds: tuple[float, ...]
    short_bytes: int = FILE_BYTES
    window_bytes: int | None = None
    flash_bytes_per_s: float | None = None
    limited_by: tuple[str, ...]

    @property
    def published_bytes_per_s(self) -> float:
        """The article's size over the mean of its times."""
        return FILE_BYTES / statistics.mean(self.seconds)

    def size_bytes(self, *, full: bool, file_bytes: int = FILE_BYTES) -> int:
        """Return how much a run copies of a file; the whole of it if the arm is fast or `full`."""
        return file_bytes if full or self.short_bytes == FILE_BYTES else self.short_bytes


ARMS = (
    Arm(
        name="Linux client", receiver=Receiver(kind="linux", sack=True), seconds=(17.54, 27.05, 12.34),
        limited_by=("random loss",),
    ),
    Arm(
        name="IOS-XE default", receiver=Receiver(kind="xe"), seconds=(345.601, 345.567, 346.743),
        short_bytes=3_000_000, window_bytes=16_060, limited_by=("window",),
    ),
    Arm(
        name="IOS-XE tuned", receiver=Receiver(kind="xe", window_bytes=_TUNED_WINDOW_BYTES, sack=True),
        seconds=(31.914, 35.501, 30.600),
        limited_by=("random loss",),
    ),
    Arm(
        name="IOS default", receiver=Receiver(kind="ios"), seconds=(628.761, 646.168, 643.862),
        short_bytes=1_500_000, window_bytes=10_220, flash_bytes_per_s=83_000, limited_by=("window", "slow receiver"),
    ),
    Arm(
        name="IOS tuned", receiver=Receiver(kind="ios", window_bytes=_TUNED_WINDOW_BYTES, sack=True),
        seconds=(604.506, 602.020, 602.453),
        short_bytes=5_000_000, flash_bytes_per_s=83_000, limited_by=("slow receiver",),
    ),
)  # fmt: skip

SENDERS = (
    Sender(program="vsftpd", control="cubic"),
    Sender(program="vsftpd", control="bbr"),
    Sender(program="ours", control="cubic"),
    Sender(program="ours", control="auto", cap_share=CAP_SHARE),
)
"""The article's server first; then the same with our kernel's other setting, and ours with and without its policy."""


def cells(
    seeds: Iterable[int],
    *,
    full: bool = False,
    senders: Sequence[Sender] = SENDERS,
    losses: Sequence[float] = (LINK.loss_ratio,),
    file_bytes: int = FILE_BYTES,
) -> list[Cell]:
    """Return the cells: every arm from every server, once per seed and loss; `full` copies the whole file."""
    links = [replace(LINK, loss_ratio=loss) for loss in losses]
    return [
        Cell(
            study=STUDY,
            arm=arm.name,
            receiver=arm.receiver,
            sender=sender,
            link=link,
            size_bytes=arm.size_bytes(full=full, file_bytes=file_bytes),
            seed=seed,
        )
        for seed in seeds
        for link in links
        for arm in ARMS
        for sender in senders
    ]


def expected_kinds(arm: Arm, sender: Sender) -> tuple[str, ...]:
    """Return the verdicts that are right: losses do not hold back a paced sender, so that its cap or the link does."""
    if sender.control == "cubic" or "random loss" not in arm.limited_by:
        return arm.limited_by
    return ("bandwidth",) if sender.cap_share is None else ("cap", "bandwidth")


def model_bytes_per_s(arm: Arm, sender: Sender, link: LinkSetting = LINK) -> float:
    """Return what the models of `flashferry.tcp.models` and the stand-in's own brakes allow an arm."""
    paced = sender.control in ("bbr", "auto") and arm.window_bytes is None
    cap = sender.cap_share
    network = predicted_bytes_per_s(
        rtt_s=link.rtt_s,
        window_bytes=arm.window_bytes,
        loss=link.loss_ratio,
        link_rate_bps=link.payload_bytes_per_s * 8,
        cap_bytes_per_s=None if cap is None else cap * link.payload_bytes_per_s,
        congestion_control="bbr" if paced else "cubic",
    )
    return min(network, arm.flash_bytes_per_s or network)


BASELINE = SENDERS[0]
"""The article's server: peers are compared with it."""

NEAR_LINK_SHARE = 0.9
"""A copy at so much of what the link carries was hardly held back by anything else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An arm from one server; rates in bytes per second by the client.

    Attributes:
        published_bytes_per_s: The article's; of its own server only.
        ratio: Median over that of the article's server; `worst_ratio` by the slowest run of each.
        kinds: Verdicts with their number, most frequent first.
        near_link: Runs that name the bandwidth though another limit was meant, at nine tenths of the link or more.
        judgement: That of the median run.
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
        again_share=median_again(good),
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
