"""What the three studies of scp said, claim by claim, and what came of it here."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from flashferry.depot.probing.figures import SAME_SHARE
from flashferry.depot.probing.methods import Method
from flashferry.lab.experiment.bulk.play import Played
from flashferry.lab.experiment.bulk.seen import (
    BUSY,
    GCM,
    MUCH_SLOWER,
    NEAR_FACTOR,
    Claim,
    Missing,
    Seen,
    cost_text,
    costs_text,
    held,
    is_first,
    least_of,
    mb,
    rate_of,
)
from flashferry.lab.experiment.bulk.studies import (
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
