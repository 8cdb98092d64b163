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


_FAR_APART = 10.0
_HALF = (0.38, 0.58)
_HARDLY = 1.3
_MAC_SHARES = (1.08, 1.25)


def ssh_claims(played: Played) -> list[Claim]:
    """Return the claims of the three studies of scp."""
    seen = Seen(played=played)
    return [*_of_ciphers(seen), *_of_macs(seen), *_of_boards(seen)]


def _of_ciphers(seen: Seen) -> Iterator[Claim]:
    yield from held(
        seen,
        "scp-ciphers-2019",
        [
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
    )


def _gcm_is_first(seen: Seen) -> tuple[bool | None, str]:
    costs = [(name, seen.scp(name)) for name in MODERN]
    first = least_of(costs)
    is_so = is_first(seen.scp_row(GCM128), map(seen.scp_row, MODERN))
    return is_so, f"least: {cost_text(*first)}; {costs_text([(GCM128, seen.scp(GCM128)), (GCM256, seen.scp(GCM256))])}"


def _modes_in_order(seen: Seen) -> tuple[bool, str]:
    means = [(name, median(seen.scp(one) for one in names)) for name, names in _MODES]
    is_so = means[0][1] < means[1][1] < means[2][1]
    return is_so, f"medians: {costs_text(means)}"


_MODES = (("GCM", GCM), ("CTR", CTR), ("CBC", CBC))


def _chacha_is_dearer(seen: Seen) -> tuple[bool, str]:
    chacha = seen.scp(CHACHA)
    dearer = [name for name in MODERN if name != CHACHA and seen.scp(name) > chacha * (1 + SAME_SHARE)]
    why = f"{cost_text(CHACHA, chacha)} CPU s/GB"
    return not dearer, f"{why}; dearer here: {', '.join(dearer)}" if dearer else f"{why}, no AES is dearer"


def _triple_is_last(seen: Seen) -> tuple[bool, str]:
    triple, (name, least) = seen.scp(TRIPLE), least_of([(one, seen.scp(one)) for one in MODERN])
    is_so = triple >= _FAR_APART * least
    return is_so, f"{costs_text([(TRIPLE, triple), (name, least)])}: {triple / least:.0f} times"


def _choice_gain(seen: Seen) -> tuple[bool, str]:
    costs = [(name, seen.scp(name)) for name in MODERN]
    (most_name, most), (least_name, least) = max(costs, key=lambda one: one[1]), least_of(costs)
    gain, shown = most / least, costs_text([(least_name, least), (most_name, most)])
    return 3.3 / NEAR_FACTOR <= gain <= 3.3 * NEAR_FACTOR, f"{gain:.1f} times: {shown}"


def _ctr_sizes(seen: Seen) -> tuple[bool, str]:
    costs = [(name, seen.scp(name)) for name in CTR]
    return costs[1][1] < costs[0][1] * (1 - SAME_SHARE), costs_text(costs)


def _cbc_sizes(seen: Seen) -> tuple[bool, str]:
    costs = [(name, seen.scp(name)) for name in CBC]
    is_so = all(longer > shorter * (1 + SAME_SHARE) for (_, shorter), (_, longer) in pairwise(costs))
    return is_so, costs_text(costs)


def _fills_half(seen: Seen) -> tuple[bool, str]:
    shares = [(name, share) for name in MODERN if (share := seen.scp_row(name).link_share) is not None]
    if not shares:
        raise Missing
    name, share = max(shares, key=lambda one: one[1])
    link = (seen.played.link_bytes_per_s or 0.0) / 1e6
    return _HALF[0] <= share <= _HALF[1], f"{name} fills {share:.0%} of {link:,.0f} MB/s, a veth between two namespaces"


def _of_macs(seen: Seen) -> Iterator[Claim]:
    yield from held(
        seen,
        "scp-mac-compression",
        [
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
    )


def _cipher_matters(seen: Seen) -> tuple[bool, str]:
    costs = [(name, seen.scp(name)) for name in MODERN]
    most, least = max(costs, key=lambda one: one[1]), least_of(costs)
    return most[1] >= MUCH_SLOWER * least[1], costs_text([least, most])


def _weaker_is_faster(seen: Seen) -> tuple[bool, str]:
    pairs = [(GCM128, GCM256), ("aes128-ctr", "aes256-ctr"), ("aes128-cbc", "aes256-cbc"), (TRIPLE, "aes128-cbc")]
    cheaper = [f"{weak}" for weak, strong in pairs if seen.scp(weak) < seen.scp(strong) * (1 - SAME_SHARE)]
    why = (
        f"of four pairs the weaker is cheaper in {len(cheaper)} ({', '.join(cheaper) or 'none'}); the weakest of all, "
    )
    return len(cheaper) == len(pairs), f"{why}3des-cbc, is the dearest"


def _mac_costs(seen: Seen) -> list[tuple[str, float]]:
    return sorted(((mac, seen.mac(mac)) for mac in MACS), key=lambda one: one[1])


def _mac_gain(seen: Seen) -> tuple[bool, str]:
    costs = _mac_costs(seen)
    gain = costs[-1][1] / costs[0][1]
    return _MAC_SHARES[0] <= gain <= _MAC_SHARES[1], f"{gain - 1:.0%} between ends: {costs_text([costs[0], costs[-1]])}"


def _umac_is_first(seen: Seen) -> tuple[bool | None, str]:
    costs = _mac_costs(seen)
    umac = seen.mac("umac-64@openssh.com")
    is_so = is_first(seen.mac_row("umac-64@openssh.com"), map(seen.mac_row, MACS))
    return is_so, costs_text([costs[0], ("umac-64", umac)])


def _md5_does_well(seen: Seen) -> tuple[bool, str]:
    costs = _mac_costs(seen)
    place = [name for name, _ in costs].index("hmac-md5") + 1
    return place <= len(
        costs
    ) // 2, f"place {place} of {len(costs)}: {costs_text([costs[0], ('hmac-md5', seen.mac('hmac-md5'))])}"


def _compression_slows(seen: Seen) -> tuple[bool, str]:
    pairs = [
        (name, seen.compressed(name, "random", compress=False), seen.compressed(name, "random", compress=True))
        for name in COMPRESSED_CIPHERS
    ]
    shown = ", ".join(f"{name.partition('@')[0]} {mb(off)} off, {mb(on)} on" for name, off, on in pairs)
    return all(rate_of(on) < rate_of(off) for _, off, on in pairs), f"{shown} MB/s"


def _compression_levels_ciphers(seen: Seen) -> tuple[bool, str]:
    on = [seen.compressed(name, "random", compress=True).cost or 0.0 for name in COMPRESSED_CIPHERS]
    off = [seen.compressed(name, "random", compress=False).cost or 0.0 for name in COMPRESSED_CIPHERS]
    shown = f"most by least {max(on) / min(on):.2f} with compression, {max(off) / min(off):.2f} without, by CPU s/GB"
    return max(on) / min(on) <= _HARDLY and max(on) / min(on) < max(off) / min(off), shown


def _holes_gain(seen: Seen) -> tuple[bool, str]:
    off, on = (seen.compressed(GCM128, "holes", compress=each) for each in (False, True))
    shown = f"{mb(off)} MB/s off, {mb(on)} on: it pays on links slower than about {rate_of(on) * 8 / 1e6:.0f} Mbit/s"
    return rate_of(on) > rate_of(off) * (1 + SAME_SHARE), shown


def _pigz_is_better(seen: Seen) -> tuple[bool, str]:
    pairs = [
        (data, seen.row("compression", Method(name="dd", cipher="aes128-ctr", squeeze="pigz", data=data)),
         seen.compressed("aes128-ctr", data, compress=True))
        for data in ("random", "holes")
    ]  # fmt: skip
    shown = ", ".join(f"{data}: {mb(pigz)} by pigz, {mb(inside)} inside ssh" for data, pigz, inside in pairs)
    return all(rate_of(pigz) > rate_of(inside) for _, pigz, inside in pairs), f"{shown} MB/s, two processors"


def _of_boards(seen: Seen) -> Iterator[Claim]:
    yield from held(
        seen,
        "scp-arm-2023",
        [
            ("With defaults one core is full: the processor is the limit, not the disk", _one_core_full),
            ("aes256-gcm is the fastest of all common ciphers (a board with AES instructions)", _gcm256_is_first),
            ("aes256-gcm is 1.7 times the default", _gcm_gain),
            ("A board without AES instructions gains little from another cipher (16 to 20 MB/s)", _masked_gain),
            ("Faster means weaker", _faster_is_weaker),
            ("No compression: the file is compressed already", _compression_slows),
            (
                "30 and 51 MB/s, 45 % of a Gigabit line",
                "rates of a rock64; there is none here, and its line is not ours",
            ),
        ],
    )


def _one_core_full(seen: Seen) -> tuple[bool, str]:
    row = seen.scp_row(CHACHA)
    shares = [share for share in (row.here_busy, row.far_busy) if share is not None]
    shown = " and ".join(f"{share:.0%}" for share in shares)
    return max(
        shares, default=0.0
    ) >= BUSY, f"busiest process of each end ran or waited for a processor {shown} of the time"


def _gcm256_is_first(seen: Seen) -> tuple[bool | None, str]:
    costs = [(name, seen.scp(name)) for name in MODERN]
    first = least_of(costs)
    is_so = is_first(seen.scp_row(GCM256), map(seen.scp_row, MODERN))
    return is_so, costs_text([first, (GCM256, seen.scp(GCM256))])


def _gcm_gain(seen: Seen) -> tuple[bool, str]:
    gain = seen.scp(CHACHA) / seen.scp(GCM256)
    return 1.7 / NEAR_FACTOR <= gain <= 1.7 * NEAR_FACTOR, f"{gain:.2f} times, by CPU s/GB"


def _masked_gain(seen: Seen) -> tuple[bool, str]:
    costs = [(name, seen.scp(name, "boards")) for name in MODERN]
    first, default = least_of(costs), seen.scp(CHACHA, "boards")
    shown = f"AES masked: {costs_text([first, (CHACHA, default), (GCM128, seen.scp(GCM128, 'boards'))])}"
    return default / first[1] <= NEAR_FACTOR, f"{shown}; {first[0].partition('@')[0]} first"


def _faster_is_weaker(seen: Seen) -> tuple[bool, str]:
    shown = costs_text([(GCM256, seen.scp(GCM256)), ("aes128-cbc", seen.scp("aes128-cbc")), (TRIPLE, seen.scp(TRIPLE))])
    return seen.scp(GCM256) > seen.scp(
        "aes128-cbc"
    ), f"{shown}: speed follows the processor's instructions, not strength"


_HALF_A_CORE = (0.38, 0.62)


def bulk_claims(played: Played) -> list[Claim]:
    """Return the claims of the study of dd."""
    return list(_of_dd(Seen(played=played)))


def _of_dd(seen: Seen) -> Iterator[Claim]:
    printed = (
        "as printed, the last dd of these lines runs on the sending host, so that data comes back over ssh; here it is"
    )
    yield from held(
        seen,
        "dd-ssh-2022",
        [
            ("Blocks of 512 B are three times slower than of 4 KiB (118 to 363 MB/s)", _small_blocks),
            ("With blocks of 512 B ssh takes about half a core at both ends", _half_a_core),
            ("64 KiB is the best block", _best_block),
            ("512 KiB and 4 MiB are slower again (324 and 330 against 385 MB/s)", _large_blocks),
            ("From 4 KiB on one ssh process fills a core", _ssh_is_full),
            ("nc is slower than ssh (160 against 385 MB/s)", _nc_is_slower),
            ("gzip is the slowest by far", _gzip_is_slowest),
            ("gzip fills a core", _gzip_is_full),
            (f"Through ssh any compression is slower than none ({printed} as it was meant)", _ssh_squeezed),
            ("Through nc, pigz beats bare nc (397 against 160 MB/s)", _pigz_beats_nc),
            ("lzo is faster through nc than through ssh (277 against 160 MB/s)", _lzo_by_nc),
            ("Each AES is faster than the default (538 to 642 against 402 MB/s)", _aes_beats_default),
            ("aes256-gcm is the fastest, 1.6 times chacha20 (642 against 402 MB/s)", _dd_gcm_gain),
            ("GCM before CTR before chacha20", _dd_order),
            ("A whole disk of 3.2 TB, one run each", "files in memory of 32 to 128 MiB here, medians of five"),
        ],
    )


def _small_blocks(seen: Seen) -> tuple[bool, str]:
    small, usual = seen.block(512), seen.block(4096)
    shown = f"{mb(small)} and {mb(usual)} MB/s; {costs_text([('512 B', small.cost or 0), ('4 KiB', usual.cost or 0)])}"
    return (small.cost or 0) >= MUCH_SLOWER * (usual.cost or 0), shown


def _half_a_core(seen: Seen) -> tuple[bool, str]:
    small = seen.block(512)
    shares = [share for share in (small.here_busy, small.far_busy) if share is not None]
    shown = " and ".join(f"{share:.0%}" for share in shares)
    is_so = len(shares) == 2 and all(_HALF_A_CORE[0] <= share <= _HALF_A_CORE[1] for share in shares)
    return is_so, f"the busiest process of each end ran or waited for a processor {shown} of the time"


def _block_costs(seen: Seen) -> list[tuple[str, float]]:
    return [(f"{block:,}", seen.block(block).cost or 0.0) for block in BLOCKS]


def _best_block(seen: Seen) -> tuple[bool | None, str]:
    costs = _block_costs(seen)
    return is_first(seen.block(65_536), map(seen.block, BLOCKS)), costs_text(costs)


def _large_blocks(seen: Seen) -> tuple[bool, str]:
    best = seen.block(65_536).cost or 0.0
    large = [seen.block(block).cost or 0.0 for block in BLOCKS[-2:]]
    return all(cost > best * (1 + SAME_SHARE) for cost in large), costs_text(_block_costs(seen)[3:])


def _ssh_is_full(seen: Seen) -> tuple[bool, str]:
    shares = []
    for block in BLOCKS[1:]:
        row = seen.block(block)
        shares.append(max(row.here_busy or 0.0, row.far_busy or 0.0))
    shown = ", ".join(f"{share:.0%}" for share in shares)
    return min(
        shares
    ) >= BUSY, f"the busiest process ran or waited for a processor {shown} of the time; ssh, sshd and dd share two"


def _nc_is_slower(seen: Seen) -> tuple[bool, str]:
    nc, ssh = seen.pipe("nc"), seen.pipe("dd")
    shown = f"{mb(nc)} and {mb(ssh)} MB/s; {costs_text([('nc', nc.cost or 0), ('ssh', ssh.cost or 0)])}"
    return (nc.cost or 0) > (ssh.cost or 0), f"{shown}: their nc was the limit, not TCP"


def _gzip_is_slowest(seen: Seen) -> tuple[bool, str]:
    rows = [seen.pipe(name, squeeze) for name in ("dd", "nc") for squeeze in ("", "lzop", "pigz")]
    slow = [seen.pipe(name, "gzip") for name in ("dd", "nc")]
    least = min(map(rate_of, rows)) / 1e6
    return max(map(rate_of, slow)) < min(map(rate_of, rows)), f"{' and '.join(map(mb, slow))} MB/s; next: {least:.0f}"


def _gzip_is_full(seen: Seen) -> tuple[bool, str]:
    shares = [
        max(row.here_busy or 0.0, row.far_busy or 0.0) for row in (seen.pipe(name, "gzip") for name in ("dd", "nc"))
    ]
    shown = " and ".join(f"{share:.0%}" for share in shares)
    return min(shares) >= BUSY, f"the busiest process ran or waited for a processor {shown} of the time"


def _ssh_squeezed(seen: Seen) -> tuple[bool, str]:
    plain, squeezed = seen.pipe("dd"), [(name, seen.pipe("dd", name)) for name in ("gzip", "lzop", "pigz")]
    shown = costs_text([("none", plain.cost or 0.0), *((name, row.cost or 0.0) for name, row in squeezed)])
    return all((row.cost or 0) > (plain.cost or 0) for _, row in squeezed), shown


def _pigz_beats_nc(seen: Seen) -> tuple[bool, str]:
    pigz, bare = seen.pipe("nc", "pigz"), seen.pipe("nc")
    shown = f"{mb(pigz)} and {mb(bare)} MB/s; random data cannot shrink, and pigz has two processors here, not 32"
    return rate_of(pigz) > rate_of(bare), shown


def _lzo_by_nc(seen: Seen) -> tuple[bool, str]:
    nc, ssh = seen.pipe("nc", "lzop"), seen.pipe("dd", "lzop")
    shown = f"{mb(nc)} and {mb(ssh)} MB/s; {costs_text([('nc', nc.cost or 0), ('ssh', ssh.cost or 0)])}"
    return (nc.cost or 0) < (ssh.cost or 0), shown


_AES = (GCM128, GCM256, *CTR)


def _aes_beats_default(seen: Seen) -> tuple[bool, str]:
    default = seen.dd(CHACHA)
    dearer = [name for name in _AES if seen.dd(name) >= default]
    shown = costs_text([(CHACHA, default), *((name, seen.dd(name)) for name in _AES)])
    return not dearer, shown


def _dd_gcm_gain(seen: Seen) -> tuple[bool, str]:
    costs = [(name, seen.dd(name)) for name in (*_AES, CHACHA)]
    gain, first = seen.dd(CHACHA) / seen.dd(GCM256), least_of(costs)
    is_first = seen.dd(GCM256) <= first[1] * (1 + SAME_SHARE)
    is_near = 1.6 / NEAR_FACTOR <= gain <= 1.6 * NEAR_FACTOR
    return is_first and is_near, f"{gain:.2f} times by CPU s/GB, least: {cost_text(*first)}"


def _dd_order(seen: Seen) -> tuple[bool, str]:
    means = [
        ("GCM", median(seen.dd(name) for name in GCM)),
        ("CTR", median(seen.dd(name) for name in CTR)),
        ("chacha20", seen.dd(CHACHA)),
    ]
    return means[0][1] < means[1][1] < means[2][1], costs_text(means)
