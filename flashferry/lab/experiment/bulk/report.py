"""Tables of an experiment of bulk copies, in Markdown: figures beside the published ones, then claim by claim."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from flashferry.core.codec import to_json
from flashferry.depot.probing.figures import Row, Spread, ranking_text
from flashferry.lab.errors import LabError
from flashferry.lab.experiment.bulk.claims import Claim, Finding, bulk_claims, ssh_claims
from flashferry.lab.experiment.bulk.play import Played, play
from flashferry.lab.experiment.bulk.studies import (
    MASKED,
    PUBLISHED_BLOCKS,
    PUBLISHED_CIPHERS,
    PUBLISHED_DD_CIPHERS,
    PUBLISHED_PIPES,
    Series,
    series_of,
)
from flashferry.lab.experiment.chart import svg_file
from flashferry.lab.experiment.harness import markdown, put, write

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
    published = {
        one.key: f"{found:g}" for one in series.methods if (found := published_of(series, one.key)) is not None
    }
    speeds = _speeds(series, played)
    heads = [
        "method", "runs", "MB/s (least to most)", "of the link", "CPU s/GB here", "far", "busiest here, far",
        "bound by",
    ]  # fmt: skip
    extra = [(head, known) for head, known in (("published MB/s", published), ("openssl speed, MB/s", speeds)) if known]
    cells = (
        (
            _short(row.key), row.trials, _rate(row), _percent(row.link_share), _spread(row.here_cpu),
            _spread(row.far_cpu), f"{_percent(row.here_busy)}, {_percent(row.far_busy)}", row.bound_by or row.error,
            *(known.get(row.key, "") for _, known in extra),
        )
        for row in rows
    )  # fmt: skip
    title = f"**{_TABLE_TITLES[series.name]}**, {_sizes(series)}. {ranking_text(rows)}"
    return f"{title}\n\n{markdown([*heads, *(head for head, _ in extra)], cells)}"


def claims_table(claims: Iterable[Claim]) -> str:
    """Return the claims, with how many came to what; what was not reproduced stands out."""
    given = list(claims)
    marked = {Finding.NOT: f"**{Finding.NOT.value}**"}
    rows = ((f"`{one.study}`", one.text, marked.get(one.finding, one.finding.value), one.why) for one in given)
    counts = ", ".join(f"{sum(one.finding is each for one in given)} {each.value}" for each in Finding)
    return f"**Claims**: {counts}.\n\n{markdown(('study', 'claim', 'here', 'figures'), rows)}"


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


def _speeds(series: Series, played: Played) -> dict[str, str]:
    """Return what OpenSSL itself does of each method's cipher, or of its MAC where that is what differs."""
    known = played.conditions.masked_speeds if series.name == MASKED else played.conditions.speeds
    if not known or series.name not in _SPEED_COLUMN:
        return {}
    what = {one.key: one.mac or one.cipher for one in series.methods}
    return {key: f"{known[name] / 1e6:,.0f}" for key, name in what.items() if name in known}


_WIDTH, _LEFT, _MIDDLE, _RIGHT = 960, 240, 640, 940
_LINE, _HEAD, _GAP = 26, 62, 30
_RATES, _COSTS = (3e6, 2e9), (0.5, 120.0)
_RATE_TICKS, _COST_TICKS = (3, 10, 30, 100, 300, 1000), (1, 3, 10, 30, 100)


def picture(series: Sequence[Series], played: Played, titles: dict[str, str]) -> str:
    """Return the graphs of some series as one SVG file, one below the other; those without figures are left out."""
    parts: list[str] = []
    down = 10
    for one in series:
        rows = sorted((row for row in played.rows.get(one.name, ()) if row.rate), key=lambda row: row.cost or 0.0)
        if rows:
            parts += _panel(one, rows, titles.get(one.name, one.name), down)
            down += _HEAD + len(rows) * _LINE + _GAP
    height = down + 34
    label = "Rates and processor time per GB of bulk copies, beside published rates"
    return svg_file(_WIDTH, height, label, (*parts, *_legend(height - 16)))


def _panel(series: Series, rows: Sequence[Row], title: str, down: int) -> Iterator[str]:
    bottom = down + _HEAD + len(rows) * _LINE
    yield f'<text class="t" x="16" y="{down + 20}">{escape(title)}</text>'
    yield f'<text class="n" x="{_LEFT}" y="{down + 40}">MB/s</text>'
    yield f'<text class="n" x="{_MIDDLE + 20}" y="{down + 40}">CPU s/GB, both ends</text>'
    for tick in _RATE_TICKS:
        yield from _tick(_over_rate(tick * 1e6), f"{tick:g}", down + _HEAD - 8, bottom)
    for tick in _COST_TICKS:
        yield from _tick(_over_cost(tick), f"{tick:g}", down + _HEAD - 8, bottom)
    common = set.intersection(*(set(row.key.split(" ")) for row in rows))
    for number, row in enumerate(rows):
        yield from _row(series, row, _name(row.key, common), down + _HEAD + number * _LINE + _LINE // 2)


def _tick(over: float, text: str, top: int, bottom: int) -> Iterator[str]:
    yield f'<path class="g" d="M{over} {top}V{bottom}"/><text class="n m" x="{over}" y="{bottom + 15}">{text}</text>'


def _row(series: Series, row: Row, name: str, middle: int) -> Iterator[str]:
    assert row.rate is not None
    yield f'<text class="a" x="{_LEFT - 14}" y="{middle + 5}">{escape(name)}</text>'
    least, most = _over_rate(row.rate.least), _over_rate(row.rate.most)
    yield f'<path class="o" d="M{least} {middle}H{most}"/>{_square("o", _over_rate(row.rate.median), middle)}'
    if (theirs := published_of(series, row.key)) is not None:
        over = _over_rate(theirs * 1e6)
        yield f'<path class="p" d="M{over} {middle - 7}l7 7l-7 7l-7 -7z"/>'
    if row.cost is not None:
        over = _over_cost(row.cost)
        yield f'{_square("v", over, middle)}<text class="n" x="{over + 12}" y="{middle + 5}">{row.cost:.1f}</text>'


def _square(kind: str, over: float, middle: int) -> str:
    return f'<rect class="{kind}" x="{over - 5:g}" y="{middle - 5}" width="10" height="10"/>'


def _legend(down: int) -> Iterator[str]:
    yield f'<path class="p" d="M24 {down - 12}l7 7l-7 7l-7 -7z"/>{_said(40, down, "published, in its MB/s")}'
    yield f"{_square('o', 216, down - 5)}{_said(232, down, 'here, in 10^6 B/s; the line spans its runs')}"
    yield f"{_square('v', 556, down - 5)}{_said(572, down, 'processor time here; logarithmic axes')}"


def _said(over: int, down: int, text: str) -> str:
    return f'<text class="n" x="{over}" y="{down}">{text}</text>'


def _name(key: str, common: set[str]) -> str:
    """Return a method's name without what all of its panel have."""
    words = [word for word in key.split(" ") if word not in common]
    name = " ".join(words) or key
    for long, short in (
        ("@openssh.com", ""), ("chacha20-poly1305", "chacha20"), ("scp -O ", ""), ("compressed", "-C"), ("data=", ""),
        (" bs=65536", ""), ("bs=", "blocks of "),
    ):  # fmt: skip
        name = name.replace(long, short)
    return name


def _over_rate(bytes_per_s: float) -> int:
    return _LEFT + round(_share(bytes_per_s, *_RATES) * (_MIDDLE - 20 - _LEFT))


def _over_cost(cost: float) -> int:
    return _MIDDLE + 20 + round(_share(cost, *_COSTS) * (_RIGHT - 50 - _MIDDLE - 20))


def _share(value: float, least: float, most: float) -> float:
    return min(1.0, math.log(max(value, least) / least) / math.log(most / least))


_TITLES = {
    "ciphers": "scp by cipher",
    "macs": "MACs under aes128-ctr",
    "compression": "scp with compression (-C) and without; pigz before ssh",
    "boards": "scp by cipher, AES instructions masked",
    "blocks": "dd through ssh by block size",
    "pipes": "Compressing pipes through ssh (dd) and nc",
    "dd-ciphers": "dd through ssh by cipher",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked for.

    `only`: Parts of the names of series; empty: all. `document`: Where tables go, or None.
    """

    experiment: str
    folder: Path
    rounds: int
    size_mib: int
    seed: int
    only: tuple[str, ...] = ()
    document: Path | None = None
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of it.

    `graph_name`: Name of the graph's file.
    """

    text: str
    played: Played
    claims: tuple[Claim, ...]
    graph_name: str

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left to do."""
        return self.played.is_whole

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {**self.played.to_json(), "claims": to_json(self.claims)}


def run(asked: Asked, *, log: Callable[[str], None], interrupted: Callable[[], bool]) -> Report:
    """Do what is missing, and write all of it down.

    Raises LabError: there is no such series, the lab cannot be built here, or a file cannot be written.
    """
    series = chosen(asked)
    played = play(series, asked.folder, rounds=asked.rounds, seed=asked.seed, log=log, interrupted=interrupted)
    claims = tuple(ssh_claims(played) if asked.experiment == "ssh" else bulk_claims(played))
    graph_name = f"evidence-{asked.experiment}.svg"
    text = document(series, played, claims, asked.command)
    report = Report(text=text, played=played, claims=claims, graph_name=graph_name)
    graph = picture(series, played, _TITLES)
    write(asked.folder / "report.json", json.dumps(report.to_json(), indent=1) + "\n")
    write(asked.folder / graph_name, graph)
    if asked.document is not None:
        write(asked.document.parent / graph_name, graph)
        put(asked.document, f"bulk-{asked.experiment}", f"![Graph]({graph_name})\n\n{text}")
    return report


def chosen(asked: Asked) -> tuple[Series, ...]:
    """Return the series that were asked for. Raises LabError: there is none of that name."""
    series = series_of(asked.experiment, asked.size_mib)
    found = tuple(one for one in series if not asked.only or any(part in one.name for part in asked.only))
    if not found:
        known = ", ".join(one.name for one in series)
        raise LabError(f"--series: expected part of one of {known}; give one of these, or leave it out for all.")
    return found
