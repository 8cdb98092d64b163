"""The published experiment: its arms, its figures, and what a model says of each.

Figures: https://zenn.dev/win_beauty/articles/4b9738dc658c9f (2021-03-20), seconds as printed there. Its server was
vsftpd 3.0.3 on Ubuntu 18.04, which sends by CUBIC. Seconds are compared and not rates: a mean of rates flatters.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashferry.lab.experiment.cell import Cell, LinkSetting, Receiver, Sender
from flashferry.tcp.models import predicted_bytes_per_s

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    """A case of the article.

    Attributes:
        name: How it is called.
        receiver: Who fetches.
        seconds: The article's three runs.
        short_bytes: What is copied unless the whole file is asked for; its rate does not depend on the length.
        window_bytes: Window that the stand-in offers, for the model; None where it never is the limit.
        flash_bytes_per_s: Pace of the stand-in's flash, for the model; None where it never is the limit.
        limited_by: Verdicts that are right with a CUBIC sender.
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
    """Return the cells of the experiment: every arm from every server, once per seed and loss.

    Args:
        seeds: Seeds of the link's losses.
        full: Copy the whole file in every arm.
        senders: The servers.
        losses: Shares of packets lost, the article's unless given.
        file_bytes: Length of the file, the article's unless given.
    """
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
