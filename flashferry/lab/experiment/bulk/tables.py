"""Tables of an experiment of bulk copies, in Markdown: figures beside the published ones, then claim by claim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flashferry.depot.probing.figures import Row, Spread, ranking_told
from flashferry.lab.experiment.bulk.play import Played
from flashferry.lab.experiment.bulk.seen import Claim, Finding
from flashferry.lab.experiment.bulk.studies import (
    MASKED,
    PUBLISHED_BLOCKS,
    PUBLISHED_CIPHERS,
    PUBLISHED_DD_CIPHERS,
    PUBLISHED_PIPES,
    Series,
)

_TABLE_TITLES = {
    "ciphers": "scp by cipher (`scp-ciphers-2019`)",
    "macs": "MACs under aes128-ctr (`scp-mac-compression`; its figures are in charts only)",
    "compression": "Compression (`scp-mac-compression`)",
    "boards": "Without AES instructions at both ends (`scp-arm-2023`, whose board had 30 MB/s by default, 51 by "
    "aes256-gcm)",
    "blocks": "Block sizes of dd through ssh, chacha20 (`dd-ssh-2022`)",
    "pipes": "Pipes, blocks of 64 KiB (`dd-ssh-2022`)",
    "dd-ciphers": "dd through ssh by cipher, blocks of 64 KiB (`dd-ssh-2022`)",
}
_SPEED_COLUMN = frozenset({"ciphers", "boards", "macs", "dd-ciphers"})


def document(series: Sequence[Series], played: Played, claims: Iterable[Claim], command: str) -> str:
    """Return all of it."""
    link = played.link_bytes_per_s
    ceiling = f"bare TCP {link / 1e6:,.0f} MB/s (median of {len(played.conditions.link)})" if link else "no bare TCP"
    parts = [f"`{command}`; {played.conditions.shown()}; {ceiling}."]
    parts += [table(one, played) for one in series]
    parts.append(claims_table(claims))
    return "\n\n".join(parts)


def table(series: Series, played: Played) -> str:
    """Return the table of a series, in the order of cost."""
    rows = sorted(played.rows.get(series.name, ()), key=lambda row: row.cost if row.cost is not None else float("inf"))
    published = {one.key: text for one in series.methods if (text := _published(series, one.key))}
    speeds = _speeds(series, played)
    heads = [
        "method",
        "runs",
        "MB/s (least to most)",
        "of the link",
        "CPU s/GB here",
        "far",
        "busiest here, far",
        "bound by",
    ]
    heads += ["published MB/s"] if published else []
    heads += ["openssl speed, MB/s"] if speeds else []
    lines = [
        f"**{_TABLE_TITLES[series.name]}**, {_sizes(series)}. {ranking_told(rows)}",
        "",
        _line(heads),
        _line(["---"] * len(heads)),
    ]
    for row in rows:
        cells = [
            _short(row.key),
            str(row.trials),
            _rate(row),
            _percent(row.link_share),
            _spread(row.here_cpu),
            _spread(row.far_cpu),
        ]
        cells += [f"{_percent(row.here_busy)}, {_percent(row.far_busy)}", row.bound_by or row.error]
        cells += [published.get(row.key, "")] if published else []
        cells += [speeds.get(row.key, "")] if speeds else []
        lines.append(_line(cells))
    return "\n".join(lines)


def claims_table(claims: Iterable[Claim]) -> str:
    """Return the claims, with how many came to what."""
    given = list(claims)
    lines = [_line(["study", "claim", "here", "figures"]), _line(["---"] * 4)]
    lines += [_line([f"`{one.study}`", one.text, _finding(one.finding), one.why]) for one in given]
    counts = ", ".join(f"{sum(one.finding is each for one in given)} {each.value}" for each in Finding)
    return "\n".join([f"**Claims**: {counts}.", "", *lines])


def _finding(finding: Finding) -> str:
    return f"**{finding.value}**" if finding is Finding.NOT else finding.value


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _sizes(series: Series) -> str:
    sizes = sorted({series.size_of(one) for one in series.methods}, reverse=True)
    return " or ".join(f"{size >> 20} MiB" for size in sizes) + " each"


def _short(key: str) -> str:
    return key.replace("@openssh.com", "").replace("chacha20-poly1305", "chacha20").replace("scp -O ", "scp ")


def _rate(row: Row) -> str:
    if row.rate is None:
        return "-"
    median_mb, least, most = (value / 1e6 for value in (row.rate.median, row.rate.least, row.rate.most))
    return (
        f"{median_mb:.0f} ({least:.0f} to {most:.0f})"
        if least >= 10
        else f"{median_mb:.1f} ({least:.1f} to {most:.1f})"
    )


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _spread(found: Spread | None) -> str:
    return "-" if found is None else f"{found.median:.2f} ({found.least:.2f} to {found.most:.2f})"


def published_of(series: Series, key: str) -> float | None:
    """Return what the study printed for a method, in its MB/s; None: nothing."""
    method = next(one for one in series.methods if one.key == key)
    found = {
        "ciphers": PUBLISHED_CIPHERS.get(method.cipher),
        "blocks": PUBLISHED_BLOCKS.get(method.block_bytes),
        "pipes": PUBLISHED_PIPES.get((method.name, method.squeeze)),
        "dd-ciphers": PUBLISHED_DD_CIPHERS.get(method.cipher),
    }
    return found.get(series.name)


def _published(series: Series, key: str) -> str:
    found = published_of(series, key)
    return "" if found is None else f"{found:g}"


def _speeds(series: Series, played: Played) -> dict[str, str]:
    """Return what OpenSSL itself does of each method's cipher, or of its MAC where that is what differs."""
    known = played.conditions.masked_speeds if series.name == MASKED else played.conditions.speeds
    if not known or series.name not in _SPEED_COLUMN:
        return {}
    what = {one.key: one.mac or one.cipher for one in series.methods}
    return {key: f"{known[name] / 1e6:,.0f}" for key, name in what.items() if name in known}
