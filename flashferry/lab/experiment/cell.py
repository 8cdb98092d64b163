"""What is run: one copy over one link, described well enough to be run again anywhere."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from flashferry.core.codec import CodecError, decode
from flashferry.lab.experiment.harness import JsonLines
from flashferry.lab.standin.receiver import OPTIMISTIC
from flashferry.tcp.sample import Sample

PAYLOAD_SHARE = 1460 / 1500
"""Payload of a full segment without timestamps, as part of the packet that the link counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSetting:
    """The emulated WAN of a cell, the same in both directions.

    Rates are bits of IP packets per second, the policer's with the bytes that it lets through at once. `loss_times_s`:
    When a copy loses one packet each, beside those of the ratio.
    """

    rate_bps: float = 50e6
    rtt_s: float = 0.1
    loss_ratio: float = 0.0001
    queue_packets: int = 1000
    policer_bps: float | None = None
    policer_burst_bytes: int | None = None
    loss_times_s: tuple[float, ...] = ()

    @property
    def payload_bytes_per_s(self) -> float:
        """What full segments of 1460 bytes carry at most."""
        return self.rate_bps / 8 * PAYLOAD_SHARE

    def changes(self) -> dict[str, Any]:
        """Return it as `World.renew_link` takes it."""
        policer = {} if self.policer_burst_bytes is None else {"policer_burst_bytes": self.policer_burst_bytes}
        return {
            "rate_bps": self.rate_bps,
            "delay_s": self.rtt_s / 2,
            "loss_ratio": self.loss_ratio,
            "queue_packets": self.queue_packets,
            "policer_rate_bps": self.policer_bps,
            "to_site": {"loss_times_s": self.loss_times_s},
            **policer,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The server of a copy.

    `control`: Congestion control: the host's for vsftpd, the profile's for ours (also `auto`). `cap_share`: Pacing cap
    as a share of the link's payload; None for none. Ours only.
    """

    program: str
    control: str
    cap_share: float | None = None

    @property
    def name(self) -> str:
        """How tables call it."""
        host_wide = "host-wide " if self.program == "vsftpd" and self.control == "bbr" else ""
        cap = " with cap" if self.cap_share is not None and self.control == "bbr" else ""
        return f"{self.program} {host_wide}{self.control.upper() if self.control != 'auto' else 'auto'}{cap}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """The client of a copy.

    `kind`: `linux`, `xe` or `ios` (a stand-in by SSH, to flash), or `pull` (the stand-in's FTP client alone).
    `window_bytes`: Receive window; None for that of the kind. `read_bytes_per_s`: Pace at which a `pull` reads, as a
    slow flash; None for as fast as it can. `profile`: Its receiver profile, see `flashferry.lab.standin.receiver`.
    """

    kind: str
    window_bytes: int | None = None
    sack: bool = False
    read_bytes_per_s: float | None = None
    profile: str = OPTIMISTIC

    @property
    def lines(self) -> tuple[str, ...]:
        """The configuration lines that make a stand-in so."""
        window = () if self.window_bytes is None else (f"ip tcp window-size {self.window_bytes}",)
        return (*window, *(("ip tcp selective-ack",) if self.sack else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One copy to run.

    `study`: `published`, `sweep` or `fairness`; `arm` is the name of the receiver in its tables. `seconds`: When the
    client leaves; None fetches the whole file. `beside`: Another client fetches from vsftpd under CUBIC over the same
    link; only with `seconds`.
    """

    study: str
    arm: str
    receiver: Receiver
    sender: Sender
    size_bytes: int
    seed: int
    link: LinkSetting = field(default_factory=LinkSetting)
    seconds: float | None = None
    beside: bool = False
    keeps_samples: bool = True

    @property
    def key(self) -> str:
        """Return what distinguishes it from every other cell: its own description."""
        return json.dumps(msgspec.to_builtins(self), sort_keys=True, separators=(",", ":"))

    @property
    def title(self) -> str:
        """Return it in a few words, for progress."""
        return f"{self.arm}, {self.sender.name}, seed {self.seed}"

    @property
    def cap_bytes_per_s(self) -> int | None:
        """The pacing cap in payload bytes per second."""
        share = self.sender.cap_share
        return None if share is None else int(share * self.link.payload_bytes_per_s)


def cell_from_json(values: dict[str, Any]) -> Cell:
    """Undo `asdict` of a cell."""
    return decode(Cell, values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What limited a copy; fields as in `flashferry.tcp.verdict.Verdict`, and who says so: `server` or `witness`."""

    kind: str
    share: float
    sentence: str
    evidence: tuple[str, ...]
    advice: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Result of one copy.

    Attributes:
        error: Why there is no figure; empty if there is.
        sent_bytes: Payload sent, retransmits (`again_bytes`) included; None if not seen.
        control: Congestion control at the end.
        syn: What the client's SYN offered; empty if not seen.
        judgement: What limited it; None if nothing was seen.
        kind_by_readings: The same without the link's rate.
        samples: Readings ten times a second, where the cell keeps them.
        beside_bytes_per_s: Rate of the other client; None where there was none.
        link: The link's counters towards the site.
        load: Load average at the start.
    """

    cell: Cell
    started_at: str
    load: float
    error: str = ""
    size_bytes: int = 0
    seconds: float = 0.0
    sent_bytes: int | None = None
    again_bytes: int | None = None
    control: str = ""
    largest_window_bytes: int | None = None
    min_rtt_s: float | None = None
    syn: str = ""
    judgement: Judgement | None = None
    kind_by_readings: str = ""
    samples: tuple[Sample, ...] = ()
    beside_bytes_per_s: float | None = None
    link: dict[str, int] | None = None

    @property
    def rate_bytes_per_s(self) -> float:
        """The client's own rate, in payload bytes per second."""
        return self.size_bytes / self.seconds if self.seconds else 0.0

    @property
    def again_share(self) -> float | None:
        """Part of what was sent that was sent again, 0 to 1."""
        return self.again_bytes / self.sent_bytes if self.sent_bytes and self.again_bytes is not None else None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def measured_from_json(values: Mapping[str, Any]) -> Measured:
    """Undo `Measured.to_json`. Raises ValueError: the values are not such a record."""
    try:
        return decode(Measured, values)
    except CodecError as error:
        raise ValueError(f"expected a record of an experiment, found one without sense: {error}") from error


def median_again(runs: Iterable[Measured]) -> float | None:
    """Return the median of the parts that were sent again; None where none was seen."""
    shares = [run.again_share for run in runs if run.again_share is not None]
    return statistics.median(shares) if shares else None


class Ledger(JsonLines[str, Measured]):
    """Runs by their cell; one that failed is kept in the file and run again when asked for anew."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, lambda values: ((run := measured_from_json(values)).cell.key, run))

    def add(self, run: Measured) -> None:
        """Keep a run."""
        self.keep(run.cell.key, run, run.to_json())

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """Return the cells that have no good run yet, in their order."""
        return [cell for cell in cells if cell.key not in self.runs or self.runs[cell.key].error]

    def of(self, cells: Iterable[Cell]) -> list[Measured]:
        """Return the runs there are of these cells, in their order."""
        return [self.runs[cell.key] for cell in cells if cell.key in self.runs]
