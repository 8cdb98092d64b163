"""What a probe is asked, and what it finds: values that the command line shows and the state folder keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.depot.probing.figures import Ceilings, Row, best_of, in_order, is_by_cost, ranking_told
from flashferry.depot.probing.methods import BLOCK_BYTES, COPIERS, SshAccess
from flashferry.depot.probing.offers import Offers, authenticates_itself
from flashferry.depot.probing.squeezing import Shrinking
from flashferry.depot.probing.web import WebSource
from flashferry.store.bulk_paths import BulkPath

WAYS = ("http", *COPIERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAsked:
    """What is asked of a path.

    Attributes:
        folder: Where copies land; its disk is measured.
        access: How SSH reaches the source; None: it does not.
        web: A file that the source offers by HTTP(S); None: none.
        ways: Which of `WAYS` are allowed; empty: all that can be had.
        pipes: Whether pipes of `dd` through ssh and nc are measured, too.
        blocks: Their block sizes.
        raw_port: A port of the source that is free and open to here, for bare TCP; None: there is none.
        sample: A file at the source to copy from; empty: random bytes.
        rounds: How many count, >= 3.
        size_bytes: How much a copy takes; None: three seconds' worth, found by a first small one.
        seed: Of the orders.
    """

    folder: Path
    access: SshAccess | None = None
    web: WebSource | None = None
    ways: tuple[str, ...] = ()
    pipes: bool = False
    blocks: tuple[int, ...] = (BLOCK_BYTES,)
    raw_port: int | None = None
    sample: str = ""
    rounds: int = 3
    size_bytes: int | None = None
    seed: int = 1

    def check(self) -> None:
        """Check that something is asked, and that it can be had.

        Raises:
            ConfigInvalid: It is not so.
        """
        if self.access is None and self.web is None:
            raise ConfigInvalid(
                "expected a source, found none", hint="Give --ssh USER@HOST, --from URL, or both for the same source"
            )
        if unknown := [name for name in self.ways if name not in WAYS]:
            raise ConfigInvalid(
                f"--method: expected one of {', '.join(WAYS)}, found {unknown[0]!r}", hint="Give one of these names"
            )
        if self.web is not None:
            self.web.check()
        for name in self.ways:
            if (self.web if name == "http" else self.access) is None:
                option = "--from URL" if name == "http" else "--ssh USER@HOST"
                raise ConfigInvalid(f"--method {name}: expected {option} with it, found none", hint=f"Give {option}")

    def wants(self, name: str) -> bool:
        """Return whether a way is allowed."""
        return not self.ways or name in self.ways

    @property
    def source(self) -> str:
        """The source, as results and the state folder name it; nothing secret is in it."""
        if self.access is not None:
            return self.access.shown
        assert self.web is not None
        return self.web.url


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Methods that were measured in the same rounds.

    Attributes:
        name: `ways`, `macs`, `compression` or `pipes`.
        rows: A row each, the best first.
        login_s: Seconds of a copy of nothing, by program.
    """

    name: str
    rows: tuple[Row, ...]
    login_s: dict[str, float] = field(default_factory=dict)

    @property
    def told(self) -> str:
        """By what they are ranked, in a sentence."""
        return ranking_told(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFound:
    """What was found of a path.

    Attributes:
        source: The source.
        at: When, in UTC, ISO 8601.
        size_bytes: How much each copy took.
        rounds: How many counted.
        ceilings: What path and ends carry.
        shrinking: Whether the sample shrinks.
        groups: What was measured.
        offers: What both ends of SSH have; None: it was not probed.
        notes: What was left out, and why, in sentences.
        is_whole: Whether it was not broken off.
    """

    source: str
    at: str
    size_bytes: int
    rounds: int
    ceilings: Ceilings
    shrinking: Shrinking
    groups: tuple[Group, ...]
    offers: Offers | None = None
    notes: tuple[str, ...] = ()
    is_whole: bool = True

    def rows(self, *names: str) -> list[Row]:
        """Return the rows of some groups."""
        return [row for group in self.groups if group.name in names for row in group.rows]

    @property
    def best(self) -> Row | None:
        """The way to take; None: none succeeded. No pipe is one: it cannot be resumed, and proves nothing."""
        return best_of(self.rows("ways"))

    @property
    def best_pipe(self) -> Row | None:
        """The pipe that would be, to hold against it; None: none was measured, or succeeded."""
        return best_of(self.rows("pipes"))

    def kept(self) -> BulkPath | None:
        """Return what is kept of it; None: nothing succeeded."""
        if (best := self.best) is None or best.rate is None:
            return None
        return BulkPath(
            source=self.source,
            at=self.at,
            method=best.key,
            rate_bytes_per_s=best.rate.median,
            cost=best.cost,
            bound_by=best.bound_by,
            by_cost=is_by_cost(self.rows("ways")),
            ciphers=_ciphers(self.rows("ways"), self.offers),
            macs=_macs(self.rows("macs"), self.offers),
            link_bytes_per_s=self.ceilings.link_bytes_per_s,
            compression_helps=self.shrinking.helps,
        )


def _ciphers(rows: Iterable[Row], offers: Offers | None) -> tuple[str, ...]:
    """Return the ciphers of both ends, the best first, by the first program that tried them all."""
    if offers is None:
        return ()
    timed = [row for row in rows if row.rate is not None and row.key.split(" ")[0] in COPIERS]
    program = next((name for name in COPIERS if any(row.key.split(" ")[0] == name for row in timed)), "")
    ordered = [row.key.split(" ")[1] for row in in_order(row for row in timed if row.key.split(" ")[0] == program)]
    return tuple(name for name in ordered if name in offers.ciphers)


def _macs(rows: Iterable[Row], offers: Offers | None) -> tuple[str, ...]:
    if offers is None:
        return ()
    return tuple(name for row in in_order(rows) for name in row.key.split(" ") if name in offers.macs)


def best_with_mac(rows: Iterable[Row], ciphers: Iterable[str]) -> str:
    """Return the best cipher that a MAC goes with, by rows of one program; empty: none was timed."""
    known = [name for name in ciphers if not authenticates_itself(name)]
    best = best_of(row for row in rows if any(name in row.key.split(" ") for name in known))
    return next((name for name in known if best is not None and name in best.key.split(" ")), "")


Report = Callable[[str], None]
