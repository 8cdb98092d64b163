"""Claims of published studies, and the rows that they are held against: reproduced, not, or not to be repeated.

Everything is compared by processor seconds per GB of both ends, but where a claim is about a rate: the machine is
shared, and rates on it scatter by a factor of two. A cost that is within 5 % of another is no different one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from flashferry.depot.probing.figures import SAME_SHARE, Row
from flashferry.depot.probing.methods import Method
from flashferry.lab.experiment.bulk.play import Played
from flashferry.lab.experiment.bulk.studies import (
    CHACHA,
    GCM128,
    GCM256,
)

GCM = (GCM128, GCM256)
NEAR_FACTOR = 1.25
"""A factor so close to the published one counts as the same."""
BUSY = 0.9
MUCH_SLOWER = 1.4


class Finding(StrEnum):
    """What became of a claim."""

    REPRODUCED = "reproduced"
    NOT = "not reproduced"
    UNDECIDED = "undecided"
    CANNOT = "cannot be repeated"
    MISSING = "not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim, and what was found.

    Attributes:
        study: The study, by the name of its data.
        text: What it said.
        finding: What became of it.
        why: The figures, or why it cannot be repeated.
    """

    study: str
    text: str
    finding: Finding
    why: str


class Missing(Exception):
    """A row that a claim needs has no figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The rows, by what claims ask for."""

    played: Played

    def row(self, series: str, method: Method) -> Row:
        """Return a row with figures; raise `Missing` where there is none."""
        row = self.played.row(series, method)
        if row is None or row.rate is None or row.cost is None:
            raise Missing
        return row

    def scp(self, cipher: str, series: str = "ciphers") -> float:
        """Return what scp by a cipher costs."""
        return self.row(series, Method(name="scp -O", cipher=cipher)).cost or 0.0

    def scp_row(self, cipher: str, series: str = "ciphers") -> Row:
        """Return the row of scp by a cipher."""
        return self.row(series, Method(name="scp -O", cipher=cipher))

    def mac_row(self, mac: str) -> Row:
        """Return the row of scp by aes128-ctr and a MAC."""
        return self.row("macs", Method(name="scp -O", cipher="aes128-ctr", mac=mac))

    def mac(self, mac: str) -> float:
        """Return what scp by aes128-ctr and a MAC costs."""
        return self.mac_row(mac).cost or 0.0

    def compressed(self, cipher: str, data: str, *, compress: bool) -> Row:
        """Return the row of scp with or without compression."""
        return self.row("compression", Method(name="scp -O", cipher=cipher, compress=compress, data=data))

    def block(self, block_bytes: int) -> Row:
        """Return the row of dd through ssh by a block size."""
        return self.row("blocks", Method(name="dd", cipher=CHACHA, block_bytes=block_bytes))

    def pipe(self, name: str, squeeze: str = "") -> Row:
        """Return the row of a pipe."""
        return self.row("pipes", Method(name=name, cipher=CHACHA if name == "dd" else "", squeeze=squeeze))

    def dd(self, cipher: str) -> float:
        """Return what dd through ssh by a cipher costs."""
        return self.row("dd-ciphers", Method(name="dd", cipher=cipher)).cost or 0.0


Judge = Callable[[Seen], tuple[bool | None, str]]
"""Says whether a claim holds, None where runs scatter too widely, and the figures."""


def held(seen: Seen, study: str, claims: Iterable[tuple[str, Judge | str]]) -> Iterator[Claim]:
    """Yield claims with what was found; one with a sentence in place of a test cannot be repeated."""
    for text, judge in claims:
        if isinstance(judge, str):
            yield Claim(study=study, text=text, finding=Finding.CANNOT, why=judge)
            continue
        try:
            is_so, why = judge(seen)
        except Missing:
            yield Claim(study=study, text=text, finding=Finding.MISSING, why="a figure that it needs is missing here")
        else:
            yield Claim(study=study, text=text, finding=_FINDINGS[is_so], why=why)


_FINDINGS = {True: Finding.REPRODUCED, False: Finding.NOT, None: Finding.UNDECIDED}


def is_first(row: Row, others: Iterable[Row]) -> bool | None:
    """Return whether a row is the cheapest, or as cheap as that; None: its own runs reach as low, so it may be."""
    first = min((other.cost or 0.0) for other in others)
    if (row.cost or 0.0) <= first * (1 + SAME_SHARE):
        return True
    ends = [end for end in (row.here_cpu, row.far_cpu) if end is not None]
    return None if sum(end.least for end in ends) <= first else False


def least_of(costs: Sequence[tuple[str, float]]) -> tuple[str, float]:
    """Return the cheapest of some costs, with its name."""
    return min(costs, key=lambda one: one[1])


def cost_text(name: str, value: float) -> str:
    """Return a cost with its name, short."""
    return f"{name.partition('@')[0]} {value:.2f}"


def costs_text(pairs: Iterable[tuple[str, float]]) -> str:
    """Return costs with their names and unit."""
    return ", ".join(cost_text(*one) for one in pairs) + " CPU s/GB"


def rate_of(row: Row) -> float:
    """Return the median rate of a row in bytes per second; 0 where it has none."""
    return row.rate.median if row.rate is not None else 0.0


def mb(row: Row) -> str:
    """Return the same in 10^6 bytes per second, to the whole."""
    return f"{rate_of(row) / 1e6:.0f}"
