"""Define what a probe of a path is asked and finds: ranking, compressibility, and the block for ssh_config."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct, field

from flashferry.core import units
from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import write_output
from flashferry.core.units import size
from flashferry.depot.probing.figures import Ceilings, Row, best_of, in_order, is_by_cost, ranking_text
from flashferry.depot.probing.methods import BLOCK_BYTES, COPIERS, Offers, SshAccess, authenticates_itself
from flashferry.depot.probing.web import WebSource
from flashferry.store.probe_choices import BulkPath

PIECES, PIECE_BYTES = 16, 64 << 10
LEAST_RATIO = 1.05
"""A smaller compression ratio is not worth any processor time."""

_LEVEL = 6


class Shrinking(Struct, frozen=True, kw_only=True):
    """How well a sample compresses: size divided by compressed size, and of how many bytes."""

    ratio: float
    sample_bytes: int

    @property
    def helps(self) -> bool:
        """Whether compression could pay on a slow link."""
        return self.ratio >= LEAST_RATIO

    def sentence(self) -> str:
        """Return it as a sentence."""
        if not self.sample_bytes:
            return "Compression: off, for nothing of the file could be read to see whether it shrinks."
        share = f"a sample of {size(self.sample_bytes)} shrinks by a ratio of {self.ratio:.2f} (deflate)"
        if self.helps:
            return (
                f"Compression: {share}; it pays only where the link is slower than the compressor times "
                f"{1 - 1 / self.ratio:.2f}."
            )
        return f"Compression: off, for {share}, less than {LEAST_RATIO:g}: it would only cost processor time."


def offsets(size_bytes: int) -> list[int]:
    """Return the numbers of the blocks of 64 KiB to sample, evenly spread over a file."""
    blocks = max(1, size_bytes // PIECE_BYTES)
    count = min(PIECES, blocks)
    return [number * blocks // count for number in range(count)]


def shrinking(pieces: Sequence[bytes]) -> Shrinking:
    """Return how well some pieces of a file compress, each by itself."""
    whole = sum(len(piece) for piece in pieces)
    squeezed = sum(len(zlib.compress(piece, _LEVEL)) for piece in pieces if piece)
    return Shrinking(ratio=whole / squeezed if squeezed else 1.0, sample_bytes=whole)


def shrinking_of(size_bytes: int, piece: Callable[[int], bytes]) -> Shrinking:
    """Return how well a file compresses; `piece` returns the block of 64 KiB with a number."""
    return shrinking([piece(number) for number in offsets(size_bytes)])


_FORBIDDEN = Path("/etc/ssh")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:%-]*")
_MARK = "# flashferry depot probe"


def block(found: BulkPath, access: SshAccess) -> str:
    """Return the ssh_config block for a source.

    Raises:
        ConfigInvalid: SSH was not probed there, or the host's name is not valid in a block.
    """
    _check(found, access)
    rate = f"{units.exact_rate(found.rate_bytes_per_s)}, bound by {found.bound_by or 'nothing that was seen'}"
    lines = [
        f"{_MARK}: {found.source}, {found.at}: {found.method}, {rate}",
        f"Host {access.host}",
        f"    Ciphers {','.join(found.ciphers)}",
    ]
    lines += [f"    MACs {','.join(found.macs)}"] if found.macs else []
    lines += ["    Compression no", ""]
    return "\n".join(lines)


def _check(found: BulkPath, access: SshAccess) -> None:
    if not found.ciphers:
        raise ConfigInvalid(
            f"{found.source}: expected ciphers that were measured, found none",
            hint="Probe the path by SSH first (--ssh USER@HOST)",
        )
    if _PLAIN.fullmatch(access.host) is None:
        raise ConfigInvalid(
            f"{access.host!r}: expected a host name or address, found other characters in it",
            hint="Probe it by a name that ssh_config can have",
        )


def replaces(path: Path) -> str:
    """Return what writing a file would replace, and how to have it read."""
    include = f"Have it read by a line at the top of ~/.ssh/config: Include {path.absolute()}"
    try:
        before = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return f"{path} is new. {include}"
    except OSError as error:
        raise ConfigInvalid(f"--write {path}: cannot be read ({error.strerror})", hint="Name another file") from None
    kept = [line.strip() for line in before.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return f"{path} holds so far: {'; '.join(kept) or 'nothing'}. That is replaced. {include}"


def write(path: Path, text: str) -> None:
    """Write the block to a file of its own.

    Raises:
        ConfigInvalid: The file is the system's, is not ours, or cannot be written.
    """
    resolved = path.absolute().resolve()
    own_config = (Path.home() / ".ssh" / "config").resolve()
    if resolved.is_relative_to(_FORBIDDEN) or resolved == own_config:
        raise ConfigInvalid(
            f"--write {path}: expected a file of its own, found one that all of ssh reads",
            hint="Name another file, and have it read by an Include line",
        )
    if path.exists() and _MARK not in path.read_text(encoding="utf-8", errors="replace"):
        raise ConfigInvalid(
            f"--write {path}: expected none, or one that a probe has written, found another file there",
            hint="Name another file; this one is left alone",
        )
    write_output(path, text, option="--write")


WAYS = ("http", *COPIERS)


class ProbeAsked(Struct, frozen=True, kw_only=True):
    """The request for a probe.

    Attributes:
        folder: Where copies are written; its disk is measured.
        access: How SSH reaches the source, or None.
        web: A file that the source offers by HTTP(S), or None.
        ways: Allowed methods of `WAYS`; empty: all.
        pipes: Whether to measure pipes of `dd` through ssh and nc too.
        blocks: Their block sizes.
        raw_port: A free port of the source, open to here, for bare TCP, or None.
        sample: A file at the source to copy; empty: random bytes.
        rounds: Number of counted rounds, >= 3.
        size_bytes: Bytes per copy; None: three seconds' worth, found by a first small one.
        seed: Of the random orders.
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
        """Check that a source is given and fits the methods.

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
        """Return whether a method is allowed."""
        return not self.ways or name in self.ways

    @property
    def source(self) -> str:
        """The source, as results and the state folder name it; without secrets."""
        if self.access is not None:
            return self.access.shown
        assert self.web is not None
        return self.web.url


class Group(Struct, frozen=True, kw_only=True):
    """Methods measured in the same rounds.

    Attributes:
        name: `ways`, `macs`, `compression` or `pipes`.
        rows: Figures of each, the best first.
        login_s: Seconds of copying nothing, by program.
    """

    name: str
    rows: tuple[Row, ...]
    login_s: dict[str, float] = field(default_factory=dict)

    @property
    def ranking(self) -> str:
        """Return in a sentence by what they are ranked."""
        return ranking_text(self.rows)


class PathFound(Struct, frozen=True, kw_only=True):
    """The result of a probe.

    Attributes:
        at: When, in UTC, ISO 8601.
        size_bytes: Bytes per copy.
        rounds: Number of counted rounds.
        offers: The algorithms of both SSH ends; None: SSH was not probed.
        notes: What was left out, and why, in sentences.
        is_whole: Whether it was not interrupted.
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
        """The method to choose; None: none succeeded. Pipes are excluded: they cannot resume or verify."""
        return best_of(self.rows("ways"))

    @property
    def best_pipe(self) -> Row | None:
        """The best pipe, for comparison; None: none succeeded."""
        return best_of(self.rows("pipes"))

    def kept(self) -> BulkPath | None:
        """Return what is stored; None: nothing succeeded."""
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
    """Return the best cipher that uses a MAC, by rows of one program; empty: none was timed."""
    known = [name for name in ciphers if not authenticates_itself(name)]
    best = best_of(row for row in rows if any(name in row.key.split(" ") for name in known))
    return next((name for name in known if best is not None and name in best.key.split(" ")), "")


Report = Callable[[str], None]
