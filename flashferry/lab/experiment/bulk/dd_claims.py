"""What the study of dd through ssh and nc said, claim by claim, and what came of it here."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from flashferry.depot.probing.figures import SAME_SHARE
from flashferry.lab.experiment.bulk.play import Played
from flashferry.lab.experiment.bulk.seen import (
    BUSY,
    GCM,
    MUCH_SLOWER,
    NEAR_FACTOR,
    Claim,
    Seen,
    cost_text,
    costs_text,
    held,
    is_first,
    least_of,
    mb,
    rate_of,
)
from flashferry.lab.experiment.bulk.studies import BLOCKS, CHACHA, CTR, GCM128, GCM256

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
