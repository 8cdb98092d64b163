"""The README's first picture: how long an image takes with a router's own TCP settings, and tuned; to scale."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from flashferry.lab.experiment.chart import CHART_STYLE

_WIDTH, _HEIGHT, _LEFT, _RIGHT = 960, 232, 24, 130
_BAR = 34


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedTest:
    """A router's speed test as it was printed: rates behind the start, times for an image of that size, and windows."""

    image_mb: int
    as_is_mb_per_s: float
    as_is_time: str
    as_is_window_bytes: int
    tuned_mb_per_s: float
    tuned_time: str
    tuned_window_bytes: int
    gain: float


def gain_svg(found: SpeedTest) -> str:
    """Return the picture as an SVG file, for light and dark pages."""
    shown = (
        f"{found.image_mb} MB to an IOS-XE router over 50 Mbit/s and 100 ms: {found.as_is_time} with its own TCP "
        f"settings, {found.tuned_time} tuned, {found.gain:.0f} times as fast"
    )
    full = _WIDTH - _LEFT - _RIGHT
    short = max(3, round(full * found.as_is_mb_per_s / found.tuned_mb_per_s))
    as_is = (
        f"its own TCP settings: a window of {found.as_is_window_bytes / 1e3:.0f} kB, {found.as_is_mb_per_s:.2f} MB/s"
    )
    tuned = (
        f"tuned for the copy, then put back: a window of {found.tuned_window_bytes / 1e6:.2f} MB and SACK, "
        f"{found.tuned_mb_per_s:.2f} MB/s"
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" font-family="system-ui,sans-serif" role="img" aria-label="{escape(shown)}">'
        f"<style>{CHART_STYLE}.chart .big{{font-size:24px;font-weight:700}}\n</style>"
        f'<rect class="paper" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>'
        f'<text class="t" x="{_LEFT}" y="34">{found.image_mb} MB to an IOS-XE router, 50 Mbit/s and 100 ms away</text>'
    )
    foot = (
        f'<text class="n" x="{_LEFT}" y="{_HEIGHT - 12}">Times at the rates that make demo measured by copies to '
        "null: (no flash). Emulated WAN and router, real TCP.</text></svg>\n"
    )
    bars = (
        *_bar("v", 74, full, found.as_is_time, as_is),
        *_bar("o", 150, short, f"{found.tuned_time}: {found.gain:.0f} times as fast", tuned),
    )
    return "".join((head, *bars, foot))


def _bar(kind: str, down: int, length: int, time: str, words: str) -> tuple[str, ...]:
    return (
        f'<text x="{_LEFT}" y="{down - 8}">{escape(words)}</text>',
        f'<rect class="{kind}" x="{_LEFT}" y="{down}" width="{length}" height="{_BAR}"/>',
        f'<text class="big" x="{_LEFT + length + 14}" y="{down + 26}">{escape(time)}</text>',
    )
