"""Claims of published studies, and the rows that they are held against: reproduced, not, or not to be repeated.

Everything is compared by processor seconds per GB of both ends, but where a claim is about a rate: the machine is
shared, and rates on it scatter by a factor of two. A cost that is within 5 % of another is no different one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
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
    seen = Seen(played=played)
    return [claim for study, claims in _SSH.items() for claim in held(seen, study, claims)]


def bulk_claims(played: Played) -> list[Claim]:
    """Return the claims of the study of dd."""
    return list(held(Seen(played=played), "dd-ssh-2022", _DD))


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


_SSH: dict[str, list[tuple[str, Judge | str]]] = {
    "scp-ciphers-2019": [
        ("aes128-gcm is the fastest (503 MB/s)", _gcm_is_first),
        ("GCM before CTR before CBC", _modes_in_order),
        ("chacha20-poly1305, the default, is behind all AES (153 MB/s against 244 to 503)", _chacha_is_dearer),
        ("3des-cbc is last by far, 24 times behind the best", _triple_is_last),
        ("The choice among today's ciphers is worth 3.3 times", _choice_gain),
        ("aes192-ctr beats aes128-ctr (8 %, three runs; we took it for noise)", _ctr_sizes),
        ("CBC is slower the longer its key (305, 271, 244 MB/s)", _cbc_sizes),
        ("The best cipher fills about half of the network (48 %)", _fills_half),
        (
            "rijndael-cbc is aes256-cbc under another name (2.6 % apart)",
            "OpenSSH has taken that name out; 10 of the 11 ciphers are left",
        ),
    ],
    "scp-mac-compression": [
        ("The cipher changes the speed a lot", _cipher_matters),
        ("As a rule the weaker cipher is faster", _weaker_is_faster),
        ("The MAC is worth 10 to 20 %", _mac_gain),
        ("umac-64 is the fastest MAC", _umac_is_first),
        ("hmac-md5 does well too", _md5_does_well),
        ("Compression usually makes scp slower", _compression_slows),
        ("With compression on, ciphers hardly differ", _compression_levels_ciphers),
        ("Data full of holes gains much from compression", _holes_gain),
        ("Better to compress by pigz before the copy than inside ssh", _pigz_is_better),
        (
            "The options that it suggests about double the speed",
            "two of the three have arcfour128 in them; of the third, aes192-cbc, it gives no figure",
        ),
        ("-c arcfour128 is fastest", "removed from OpenSSH in 7.6 (2017), and rightly"),
        (
            "The level of compression makes little difference",
            "OpenSSH takes no CompressionLevel any more (it was one of protocol 1), so there is one level",
        ),
        ("scp runs at about 40 MB/s by default", "an E5-2430 behind 1 Gbit/s and 17 ms; that is its own figure"),
    ],
    "scp-arm-2023": [
        ("With defaults one core is full: the processor is the limit, not the disk", _one_core_full),
        ("aes256-gcm is the fastest of all common ciphers (a board with AES instructions)", _gcm256_is_first),
        ("aes256-gcm is 1.7 times the default", _gcm_gain),
        ("A board without AES instructions gains little from another cipher (16 to 20 MB/s)", _masked_gain),
        ("Faster means weaker", _faster_is_weaker),
        ("No compression: the file is compressed already", _compression_slows),
        ("30 and 51 MB/s, 45 % of a Gigabit line", "rates of a rock64; there is none here, and its line is not ours"),
    ],
}


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


_AS_PRINTED = (
    "as printed, the last dd of these lines runs on the sending host, so that data comes back over ssh; here it is as "
    "it was meant"
)
_DD: list[tuple[str, Judge | str]] = [
    ("Blocks of 512 B are three times slower than of 4 KiB (118 to 363 MB/s)", _small_blocks),
    ("With blocks of 512 B ssh takes about half a core at both ends", _half_a_core),
    ("64 KiB is the best block", _best_block),
    ("512 KiB and 4 MiB are slower again (324 and 330 against 385 MB/s)", _large_blocks),
    ("From 4 KiB on one ssh process fills a core", _ssh_is_full),
    ("nc is slower than ssh (160 against 385 MB/s)", _nc_is_slower),
    ("gzip is the slowest by far", _gzip_is_slowest),
    ("gzip fills a core", _gzip_is_full),
    (f"Through ssh any compression is slower than none ({_AS_PRINTED})", _ssh_squeezed),
    ("Through nc, pigz beats bare nc (397 against 160 MB/s)", _pigz_beats_nc),
    ("lzo is faster through nc than through ssh (277 against 160 MB/s)", _lzo_by_nc),
    ("Each AES is faster than the default (538 to 642 against 402 MB/s)", _aes_beats_default),
    ("aes256-gcm is the fastest, 1.6 times chacha20 (642 against 402 MB/s)", _dd_gcm_gain),
    ("GCM before CTR before chacha20", _dd_order),
    ("A whole disk of 3.2 TB, one run each", "files in memory of 32 to 128 MiB here, medians of five"),
]
