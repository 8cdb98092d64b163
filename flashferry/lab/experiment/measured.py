"""What one run gave, as it is written to the ledger: plain values, so that it can be read by anything."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from flashferry.core.codec import decode
from flashferry.lab.experiment.cell import Cell, cell_from_json
from flashferry.tcp.sample import Sample

if TYPE_CHECKING:
    from collections.abc import Mapping


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
    """One copy.

    Attributes:
        cell: What was run.
        error: Why there is no figure; empty if there is.
        size_bytes: What the client got.
        seconds: The client's own time for it.
        sent_bytes: Payload that the server's kernel sent, what it sent again included; None if not seen.
        again_bytes: Payload sent again.
        control: Congestion control in force at the end.
        largest_window_bytes: Largest window that the client offered.
        min_rtt_s: Least round-trip time.
        syn: What the client's SYN offered, in words; empty if not seen.
        judgement: What limited it; None if nothing was seen.
        kind_by_readings: The verdict on the same readings without the link's rate; empty if nothing was seen.
        samples: Readings ten times a second; empty unless the cell keeps them.
        beside_bytes_per_s: What the other client got meanwhile; None where there was none.
        link: The link's counters towards the site.
        load: The machine's load average at the start.
        started_at: UTC, ISO 8601.
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
        return asdict(self)


def measured_from_json(values: Mapping[str, Any]) -> Measured:
    """Undo `Measured.to_json`. Raises ValueError: the values are not such a record."""
    try:
        own = dict(values)
        own["cell"] = cell_from_json(own["cell"])
        if own.get("judgement"):
            own["judgement"] = Judgement(**own["judgement"] | {"evidence": tuple(own["judgement"]["evidence"])})
        own["samples"] = tuple(decode(Sample, each) for each in own.get("samples", ()))
        return Measured(**own)
    except (KeyError, TypeError) as error:
        raise ValueError(f"expected a record of an experiment, found one without sense: {error}") from error
