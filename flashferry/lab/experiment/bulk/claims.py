"""Claims of published studies, and the rows that they are held against: reproduced, not, or not to be repeated.

Everything is compared by processor seconds per GB of both ends, but where a claim is about a rate: the machine is
shared, and rates on it scatter by a factor of two. A cost that is within 5 % of another is no different one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from statistics import median

from flashferry.depot.probing.figures import SAME_SHARE, Row
from flashferry.depot.probing.methods import Method
from flashferry.lab.experiment.bulk.play import Played
from flashferry.lab.experiment.bulk.studies import (
    BLOCKS,
    CBC,
    CHACHA,
    COMPRESSED_CIPHERS,
    CTR,
    GCM128,
    GCM256,
    MACS,
    MODERN,
    TRIPLE,
)

GCM = (GCM128, GCM256)
NEAR_FACTOR = 1.25
"""A factor so close to the published one counts as the same."""

BUSY = 0.9
MUCH_SLOWER = 1.4
_DEARER, _CHEAPER = 1 + SAME_SHARE, 1 - SAME_SHARE
Costs = Sequence[tuple[str, float]]
"""Processor seconds per GB, by name."""


class Finding(StrEnum):
    """What became of a claim."""

    REPRODUCED = "reproduced"
    NOT = "not reproduced"
    UNDECIDED = "undecided"
    CANNOT = "cannot be repeated"
    MISSING = "not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a study said, and what was found: the figures, or why it cannot be repeated."""

    study: str
    text: str
    finding: Finding
    why: str


class Missing(Exception):
    """A row that a claim needs has no figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The rows, by what claims ask for; each raises `Missing` where there is none."""

    played: Played

    def row(self, series: str, method: Method) -> Row:
        """Return a row with figures."""
        row = self.played.row(series, method)
        if row is None or row.rate is None or row.cost is None:
            raise Missing
        return row

    def scp(self, cipher: str) -> Row:
        """Return the row of scp by a cipher."""
        return self.row("ciphers", Method(name="scp -O", cipher=cipher))

    def board(self, cipher: str) -> Row:
        """Return the same without AES instructions."""
        return self.row("boards", Method(name="scp -O", cipher=cipher))

    def mac(self, mac: str) -> Row:
        """Return the row of scp by aes128-ctr and a MAC."""
        return self.row("macs", Method(name="scp -O", cipher="aes128-ctr", mac=mac))

    def compressed(self, cipher: str, data: str, *, compress: bool) -> Row:
        """Return the row of scp with or without compression."""
        return self.row("compression", Method(name="scp -O", cipher=cipher, compress=compress, data=data))

    def block(self, block_bytes: int) -> Row:
        """Return the row of dd through ssh by a block size."""
        return self.row("blocks", Method(name="dd", cipher=CHACHA, block_bytes=block_bytes))

    def pipe(self, name: str, squeeze: str = "") -> Row:
        """Return the row of a pipe."""
        return self.row("pipes", Method(name=name, cipher=CHACHA if name == "dd" else "", squeeze=squeeze))

    def dd(self, cipher: str) -> Row:
        """Return the row of dd through ssh by a cipher."""
        return self.row("dd-ciphers", Method(name="dd", cipher=cipher))


Judge = Callable[[Seen], tuple[bool | None, str]]
"""Returns whether a claim holds, None where runs scatter too widely, and the figures."""

_FINDINGS = {True: Finding.REPRODUCED, False: Finding.NOT, None: Finding.UNDECIDED}


def held(seen: Seen, study: str, claims: Iterable[tuple[str, Judge | str]]) -> Iterator[Claim]:
    """Yield claims with what was found; one with a sentence in place of a test cannot be repeated."""
    for text, judge in claims:
        if isinstance(judge, str):
            finding, why = Finding.CANNOT, judge
        else:
            try:
                is_so, why = judge(seen)
                finding = _FINDINGS[is_so]
            except Missing:
                finding, why = Finding.MISSING, "a figure that it needs is missing here"
        yield Claim(study=study, text=text, finding=finding, why=why)


def _cost(row: Row) -> float:
    return row.cost or 0.0


def _costs(of: Callable[[str], Row], *names: str) -> list[tuple[str, float]]:
    return [(name, _cost(of(name))) for name in names]


def _is_first(of: Callable[[str], Row], name: str, *names: str) -> bool | None:
    """Return whether a row is the cheapest, or as cheap as that; None: its own runs reach as low, so it may be."""
    row, first = of(name), _least(_costs(of, *names))[1]
    if _cost(row) <= first * _DEARER:
        return True
    ends = [end for end in (row.here_cpu, row.far_cpu) if end is not None]
    return None if sum(end.least for end in ends) <= first else False


def _least(costs: Costs) -> tuple[str, float]:
    return min(costs, key=lambda one: one[1])


def _most(costs: Costs) -> tuple[str, float]:
    return max(costs, key=lambda one: one[1])


def _cost_text(name: str, value: float) -> str:
    return f"{name.partition('@')[0]} {value:.2f}"


def _shown(*pairs: tuple[str, float]) -> str:
    """Return costs with their names and unit."""
    return ", ".join(_cost_text(*one) for one in pairs) + " CPU s/GB"


def _is_near(gain: float, published: float) -> bool:
    return published / NEAR_FACTOR <= gain <= published * NEAR_FACTOR


def _rate(row: Row) -> float:
    """Return the median rate of a row in bytes per second; 0 where it has none."""
    return row.rate.median if row.rate is not None else 0.0


def _mb(row: Row) -> str:
    return f"{_rate(row) / 1e6:.0f}"


def _busy(row: Row) -> list[float]:
    """Return how busy the busiest process of each end was, 0 to 1, where that was seen."""
    return [share for share in (row.here_busy, row.far_busy) if share is not None]


def _busiest(rows: Iterable[Row]) -> list[float]:
    return [max(_busy(row), default=0.0) for row in rows]


def _percent(shares: Iterable[float], joined: str = " and ") -> str:
    return joined.join(f"{share:.0%}" for share in shares)


_FAR_APART = 10.0
_HALF = (0.38, 0.58)
_HALF_A_CORE = (0.38, 0.62)
_HARDLY = 1.3
_MAC_SHARES = (1.08, 1.25)
_UMAC = "umac-64@openssh.com"
_RAN = "ran or waited for a processor"


def ssh_claims(played: Played) -> list[Claim]:
    """Return the claims of the three studies of scp."""
    return [claim for study in _CLAIMS if study != _DD for claim in _study_claims(played, study)]


def bulk_claims(played: Played) -> list[Claim]:
    """Return the claims of the study of dd."""
    return _study_claims(played, _DD)


def _gcm_is_first(seen: Seen) -> tuple[bool | None, str]:
    first = _least(_costs(seen.scp, *MODERN))
    return _is_first(seen.scp, GCM128, *MODERN), f"least: {_cost_text(*first)}; {_shown(*_costs(seen.scp, *GCM))}"


def _modes_in_order(seen: Seen) -> tuple[bool, str]:
    modes = {"GCM": GCM, "CTR": CTR, "CBC": CBC}
    means = [(name, median(_cost(seen.scp(one)) for one in names)) for name, names in modes.items()]
    return means[0][1] < means[1][1] < means[2][1], f"medians: {_shown(*means)}"


def _chacha_is_dearer(seen: Seen) -> tuple[bool, str]:
    chacha = _cost(seen.scp(CHACHA))
    dearer = [name for name, cost in _costs(seen.scp, *MODERN) if name != CHACHA and cost > chacha * _DEARER]
    shown = f"; dearer here: {', '.join(dearer)}" if dearer else ", no AES is dearer"
    return not dearer, f"{_shown((CHACHA, chacha))}{shown}"


def _triple_is_last(seen: Seen) -> tuple[bool, str]:
    triple, least = _cost(seen.scp(TRIPLE)), _least(_costs(seen.scp, *MODERN))
    return triple >= _FAR_APART * least[1], f"{_shown((TRIPLE, triple), least)}: {triple / least[1]:.0f} times"


def _choice_gain(seen: Seen) -> tuple[bool, str]:
    costs = _costs(seen.scp, *MODERN)
    most, least = _most(costs), _least(costs)
    gain = most[1] / least[1]
    return _is_near(gain, 3.3), f"{gain:.1f} times: {_shown(least, most)}"


def _ctr_sizes(seen: Seen) -> tuple[bool, str]:
    costs = _costs(seen.scp, *CTR)
    return costs[1][1] < costs[0][1] * _CHEAPER, _shown(*costs)


def _cbc_sizes(seen: Seen) -> tuple[bool, str]:
    costs = _costs(seen.scp, *CBC)
    return all(longer > shorter * _DEARER for (_, shorter), (_, longer) in pairwise(costs)), _shown(*costs)


def _fills_half(seen: Seen) -> tuple[bool, str]:
    shares = [(name, share) for name in MODERN if (share := seen.scp(name).link_share) is not None]
    if not shares:
        raise Missing
    name, share = _most(shares)
    link = (seen.played.link_bytes_per_s or 0.0) / 1e6
    return _HALF[0] <= share <= _HALF[1], f"{name} fills {share:.0%} of {link:,.0f} MB/s, a veth between two namespaces"


def _cipher_matters(seen: Seen) -> tuple[bool, str]:
    costs = _costs(seen.scp, *MODERN)
    most, least = _most(costs), _least(costs)
    return most[1] >= MUCH_SLOWER * least[1], _shown(least, most)


def _weaker_is_faster(seen: Seen) -> tuple[bool, str]:
    pairs = [(GCM128, GCM256), ("aes128-ctr", "aes256-ctr"), ("aes128-cbc", "aes256-cbc"), (TRIPLE, "aes128-cbc")]
    cheaper = [weak for weak, strong in pairs if _cost(seen.scp(weak)) < _cost(seen.scp(strong)) * _CHEAPER]
    named = ", ".join(cheaper) or "none"
    weakest = "the weakest of all, 3des-cbc, is the dearest"
    return len(cheaper) == len(pairs), f"of four pairs the weaker is cheaper in {len(cheaper)} ({named}); {weakest}"


def _mac_costs(seen: Seen) -> Costs:
    return sorted(_costs(seen.mac, *MACS), key=lambda one: one[1])


def _mac_gain(seen: Seen) -> tuple[bool, str]:
    costs = _mac_costs(seen)
    gain = costs[-1][1] / costs[0][1]
    return _MAC_SHARES[0] <= gain <= _MAC_SHARES[1], f"{gain - 1:.0%} between ends: {_shown(costs[0], costs[-1])}"


def _umac_is_first(seen: Seen) -> tuple[bool | None, str]:
    costs = _mac_costs(seen)
    return _is_first(seen.mac, _UMAC, *MACS), _shown(costs[0], (_UMAC, _cost(seen.mac(_UMAC))))


def _md5_does_well(seen: Seen) -> tuple[bool, str]:
    costs = _mac_costs(seen)
    place = [name for name, _ in costs].index("hmac-md5") + 1
    return place <= len(costs) // 2, f"place {place} of {len(costs)}: {_shown(costs[0], *_costs(seen.mac, 'hmac-md5'))}"


def _compression_slows(seen: Seen) -> tuple[bool, str]:
    pairs = [
        (name, seen.compressed(name, "random", compress=False), seen.compressed(name, "random", compress=True))
        for name in COMPRESSED_CIPHERS
    ]
    shown = ", ".join(f"{name.partition('@')[0]} {_mb(off)} off, {_mb(on)} on" for name, off, on in pairs)
    return all(_rate(on) < _rate(off) for _, off, on in pairs), f"{shown} MB/s"


def _compression_levels_ciphers(seen: Seen) -> tuple[bool, str]:
    spreads = []
    for compress in (True, False):
        costs = [_cost(seen.compressed(name, "random", compress=compress)) for name in COMPRESSED_CIPHERS]
        spreads.append(max(costs) / min(costs))
    on, off = spreads
    return on <= _HARDLY and on < off, f"most by least {on:.2f} with compression, {off:.2f} without, by CPU s/GB"


def _holes_gain(seen: Seen) -> tuple[bool, str]:
    off, on = (seen.compressed(GCM128, "holes", compress=each) for each in (False, True))
    shown = f"{_mb(off)} MB/s off, {_mb(on)} on: it pays on links slower than about {_rate(on) * 8 / 1e6:.0f} Mbit/s"
    return _rate(on) > _rate(off) * _DEARER, shown


def _pigz_is_better(seen: Seen) -> tuple[bool, str]:
    pairs = [
        (data, seen.row("compression", Method(name="dd", cipher="aes128-ctr", squeeze="pigz", data=data)),
         seen.compressed("aes128-ctr", data, compress=True))
        for data in ("random", "holes")
    ]  # fmt: skip
    shown = ", ".join(f"{data}: {_mb(pigz)} by pigz, {_mb(inside)} inside ssh" for data, pigz, inside in pairs)
    return all(_rate(pigz) > _rate(inside) for _, pigz, inside in pairs), f"{shown} MB/s, two processors"


def _one_core_full(seen: Seen) -> tuple[bool, str]:
    shares = _busy(seen.scp(CHACHA))
    return max(shares, default=0.0) >= BUSY, f"busiest process of each end {_RAN} {_percent(shares)} of the time"


def _gcm256_is_first(seen: Seen) -> tuple[bool | None, str]:
    first = _least(_costs(seen.scp, *MODERN))
    return _is_first(seen.scp, GCM256, *MODERN), _shown(first, *_costs(seen.scp, GCM256))


def _gcm_gain(seen: Seen) -> tuple[bool, str]:
    gain = _cost(seen.scp(CHACHA)) / _cost(seen.scp(GCM256))
    return _is_near(gain, 1.7), f"{gain:.2f} times, by CPU s/GB"


def _masked_gain(seen: Seen) -> tuple[bool, str]:
    first, others = _least(_costs(seen.board, *MODERN)), _costs(seen.board, CHACHA, GCM128)
    is_little = others[0][1] / first[1] <= NEAR_FACTOR
    return is_little, f"AES masked: {_shown(first, *others)}; {first[0].partition('@')[0]} first"


def _faster_is_weaker(seen: Seen) -> tuple[bool, str]:
    costs = _costs(seen.scp, GCM256, "aes128-cbc", TRIPLE)
    return costs[0][1] > costs[1][1], f"{_shown(*costs)}: speed follows the processor's instructions, not strength"


def _two(one: Row, two: Row, names: tuple[str, str]) -> str:
    """Return rates and costs of two rows."""
    return f"{_mb(one)} and {_mb(two)} MB/s; {_shown((names[0], _cost(one)), (names[1], _cost(two)))}"


def _small_blocks(seen: Seen) -> tuple[bool, str]:
    small, usual = seen.block(512), seen.block(4096)
    return _cost(small) >= MUCH_SLOWER * _cost(usual), _two(small, usual, ("512 B", "4 KiB"))


def _half_a_core(seen: Seen) -> tuple[bool, str]:
    shares = _busy(seen.block(512))
    is_so = len(shares) == 2 and all(_HALF_A_CORE[0] <= share <= _HALF_A_CORE[1] for share in shares)
    return is_so, f"the busiest process of each end {_RAN} {_percent(shares)} of the time"


def _block_costs(seen: Seen) -> list[tuple[str, float]]:
    return [(f"{block:,}", _cost(seen.block(block))) for block in BLOCKS]


def _best_block(seen: Seen) -> tuple[bool | None, str]:
    by_name = {f"{block:,}": seen.block(block) for block in BLOCKS}
    return _is_first(by_name.__getitem__, f"{65_536:,}", *by_name), _shown(*_block_costs(seen))


def _large_blocks(seen: Seen) -> tuple[bool, str]:
    best = _cost(seen.block(65_536))
    return all(_cost(seen.block(one)) > best * _DEARER for one in BLOCKS[-2:]), _shown(*_block_costs(seen)[3:])


def _ssh_is_full(seen: Seen) -> tuple[bool, str]:
    shares = _busiest(map(seen.block, BLOCKS[1:]))
    shown = f"{_percent(shares, ', ')} of the time; ssh, sshd and dd share two"
    return min(shares) >= BUSY, f"the busiest process {_RAN} {shown}"


def _nc_is_slower(seen: Seen) -> tuple[bool, str]:
    nc, ssh = seen.pipe("nc"), seen.pipe("dd")
    return _cost(nc) > _cost(ssh), f"{_two(nc, ssh, ('nc', 'ssh'))}: their nc was the limit, not TCP"


def _gzip_is_slowest(seen: Seen) -> tuple[bool, str]:
    least = min(_rate(seen.pipe(name, squeeze)) for name in ("dd", "nc") for squeeze in ("", "lzop", "pigz"))
    slow = [seen.pipe(name, "gzip") for name in ("dd", "nc")]
    return max(map(_rate, slow)) < least, f"{' and '.join(map(_mb, slow))} MB/s; next: {least / 1e6:.0f}"


def _gzip_is_full(seen: Seen) -> tuple[bool, str]:
    shares = _busiest(seen.pipe(name, "gzip") for name in ("dd", "nc"))
    return min(shares) >= BUSY, f"the busiest process {_RAN} {_percent(shares)} of the time"


def _ssh_squeezed(seen: Seen) -> tuple[bool, str]:
    plain = _cost(seen.pipe("dd"))
    squeezed = _costs(lambda name: seen.pipe("dd", name), "gzip", "lzop", "pigz")
    return all(cost > plain for _, cost in squeezed), _shown(("none", plain), *squeezed)


def _pigz_beats_nc(seen: Seen) -> tuple[bool, str]:
    pigz, bare = seen.pipe("nc", "pigz"), seen.pipe("nc")
    shown = f"{_mb(pigz)} and {_mb(bare)} MB/s; random data cannot shrink, and pigz has two processors here, not 32"
    return _rate(pigz) > _rate(bare), shown


def _lzo_by_nc(seen: Seen) -> tuple[bool, str]:
    nc, ssh = seen.pipe("nc", "lzop"), seen.pipe("dd", "lzop")
    return _cost(nc) < _cost(ssh), _two(nc, ssh, ("nc", "ssh"))


_AES = (*GCM, *CTR)


def _aes_beats_default(seen: Seen) -> tuple[bool, str]:
    default, *costs = _costs(seen.dd, CHACHA, *_AES)
    return all(cost < default[1] for _, cost in costs), _shown(default, *costs)


def _dd_gcm_gain(seen: Seen) -> tuple[bool, str]:
    gcm, first = _cost(seen.dd(GCM256)), _least(_costs(seen.dd, *_AES, CHACHA))
    gain = _cost(seen.dd(CHACHA)) / gcm
    is_so = gcm <= first[1] * _DEARER and _is_near(gain, 1.6)
    return is_so, f"{gain:.2f} times by CPU s/GB, least: {_cost_text(*first)}"


def _dd_order(seen: Seen) -> tuple[bool, str]:
    gcm, ctr = (median(_cost(seen.dd(name)) for name in names) for names in (GCM, CTR))
    chacha = _cost(seen.dd(CHACHA))
    return gcm < ctr < chacha, _shown(("GCM", gcm), ("CTR", ctr), ("chacha20", chacha))


def _study_claims(played: Played, study: str) -> list[Claim]:
    seen = Seen(played=played)
    rows = _CLAIMS[study].items()
    return list(held(seen, study, ((text, judge if " " in judge else globals()[judge]) for text, judge in rows)))


_CLAIMS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("claims.toml").read_text(encoding="utf-8"))
_DD = "dd-ssh-2022"
