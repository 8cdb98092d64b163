"""The README's table and picture made anew from what the documents have on record; nothing is measured.

    python -m benchmarks.redraw docs

reads the table of the published experiment in `docs/evidence.md` and the speed test in `docs/demo-transcript.md`, both
as their commands printed them, and writes what follows from them: the factors of tuning in `docs/evidence.md`, the
README's table, and `docs/gain.svg`, the README's first picture. Run it after a change of what these look like.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

from flashferry.lab.errors import LabError
from flashferry.lab.experiment.chart import CHART_STYLE, svg_file
from flashferry.lab.experiment.documents import put_in_readme, write_beside
from flashferry.lab.experiment.harness import put
from flashferry.lab.experiment.published import ARMS, LINK, SENDERS, Row
from flashferry.lab.experiment.tables import gains_table

_WIDTH, _HEIGHT, _LEFT, _RIGHT = 960, 232, 24, 130
_BAR = 34


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedTest:
    """A router's speed test as it was printed: rates after the start, times for an image of that size, and windows."""

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
        f"settings, {found.tuned_time} tuned, up to {found.gain:.0f} times as fast"
    )
    full = _WIDTH - _LEFT - _RIGHT
    short = max(3, round(full * found.as_is_mb_per_s / found.tuned_mb_per_s))
    as_is = (
        f"its own TCP settings: a window of {found.as_is_window_bytes / 1e3:.0f} kB, {found.as_is_mb_per_s:.2f} MB/s"
    )
    tuned = (
        f"tuned for the copy, then restored: a window of {found.tuned_window_bytes / 1e6:.2f} MB and SACK, "
        f"{found.tuned_mb_per_s:.2f} MB/s"
    )
    title = (
        f'<text class="t" x="{_LEFT}" y="34">{found.image_mb} MB to an IOS-XE router, 50 Mbit/s and 100 ms away</text>'
    )
    foot = (
        f'<text class="n" x="{_LEFT}" y="{_HEIGHT - 12}">Upper bound (optimistic receiver profile), as make demo '
        "measured copies to null: (no flash). Emulated WAN and router, real TCP.</text>"
    )
    bars = (
        *_bar("v", 74, full, found.as_is_time, as_is),
        *_bar("o", 150, short, f"{found.tuned_time}: up to {found.gain:.0f} times as fast", tuned),
    )
    style = f"{CHART_STYLE}.chart .big{{font-size:24px;font-weight:700}}\n"
    return svg_file(_WIDTH, _HEIGHT, shown, (title, *bars, foot), style=style)


def _bar(kind: str, down: int, length: int, time: str, words: str) -> tuple[str, ...]:
    return (
        f'<text x="{_LEFT}" y="{down - 8}">{escape(words)}</text>',
        f'<rect class="{kind}" x="{_LEFT}" y="{down}" width="{length}" height="{_BAR}"/>',
        f'<text class="big" x="{_LEFT + length + 14}" y="{down + 26}">{escape(time)}</text>',
    )


_COUNTED = re.compile(r"(.+?)(?: (\d+)x)?")


def recorded_rows(section: str) -> list[Row]:
    """Return the arms as the published experiment's table has them, to the digits that it prints.

    Raises LabError: there is no such table in it.
    """
    rows = [row for line in section.splitlines() if (row := _row([cell.strip() for cell in line.split("|")[1:-1]]))]
    if not rows:
        raise LabError("expected the published experiment's table, found none; run 'flashferry lab experiment --docs'.")
    return rows


def _row(cells: list[str]) -> Row | None:
    arm = next((one for one in ARMS if cells and one.name == cells[0]), None)
    sender = next((one for one in SENDERS if len(cells) == 12 and one.name == cells[1]), None)
    if arm is None or sender is None:
        return None
    least, middle, most, published, model = (float(cell) * 1e6 if cell else None for cell in cells[4:9])
    ratio, runs = cells[9].removesuffix("x"), int(cells[2].split(" of ")[0])
    assert least is not None and middle is not None and most is not None  # noqa: PT018 -- the table always has them
    return Row(
        arm=arm,
        sender=sender,
        link=LINK,
        runs=runs,
        failed=0,
        size_bytes=round(float(cells[3]) * 1e6),
        least_bytes_per_s=least,
        median_bytes_per_s=middle,
        most_bytes_per_s=most,
        published_bytes_per_s=published,
        model_bytes_per_s=model or 0.0,
        ratio=float(ratio) if ratio else None,
        worst_ratio=None,
        again_share=None,
        kinds=_kinds(cells[11], runs),
        near_link=0,
        judgement=None,
        syn="",
        control="",
    )


def _kinds(text: str, runs: int) -> tuple[tuple[str, int], ...]:
    found = (_COUNTED.fullmatch(part) for part in text.split(", ") if part)
    return tuple((one[1], int(one[2] or runs)) for one in found if one is not None)


def recorded_speed_test(transcript: str) -> SpeedTest:
    """Return the first speed test of a transcript of the demo. Raises LabError: there is none in it."""
    text = re.sub(r"\s+", " ", transcript)
    row = re.search(
        r"times for an image of (\d+) MB .*?"
        r"(\w+)(?: done)? ([\d.]+) MB/s (\d+ (?:min|s)) ([\d.]+) MB/s (\d+ (?:min|s)) ([\d.]+)x",
        text,
    )
    if row is None:
        raise LabError("expected a speed test as 'flashferry probe' prints it, found none; record 'make demo' anew.")
    windows = re.search(rf"{row[2]}: as it is: .*?SYN: window (\d+)", text)
    set_to = re.search(rf"{row[2]}: set for the test: ip tcp window-size (\d+)", text)
    if windows is None or set_to is None:
        raise LabError(f"expected the windows of {row[2]} in its speed test, found none; record 'make demo' anew.")
    return SpeedTest(
        image_mb=int(row[1]),
        as_is_mb_per_s=float(row[3]),
        as_is_time=row[4],
        as_is_window_bytes=int(windows[1]),
        tuned_mb_per_s=float(row[5]),
        tuned_time=row[6],
        tuned_window_bytes=int(set_to[1]),
        gain=float(row[7]),
    )


def redraw(docs: Path) -> list[Path]:
    """Write what follows from the figures on record; return what was written.

    `docs`: The folder with the documents; the README lies above it. Raises LabError: a document is missing, lacks its
    markers or has no figures.
    """
    evidence = docs / "evidence.md"
    try:
        text = evidence.read_text(encoding="utf-8")
        transcript = (docs / "demo-transcript.md").read_text(encoding="utf-8")
    except OSError as error:
        raise LabError(
            f"{error.filename}: cannot be read ({error.strerror}); give the folder with both documents."
        ) from None
    section = text.partition("<!-- published: begin -->")[2].partition("<!-- published: end -->")[0]
    rows, command = recorded_rows(section), section.partition("`")[2].partition("`")[0]
    put(evidence, "gains", gains_table(rows))
    picture = write_beside(evidence, "gain.svg", gain_svg(recorded_speed_test(transcript)))
    return [evidence, picture, *put_in_readme(evidence, rows, command)]


if __name__ == "__main__":
    try:
        for path in redraw(Path(sys.argv[1] if len(sys.argv) > 1 else "docs")):
            sys.stdout.write(f"{path}\n")
    except LabError as error:
        sys.exit(str(error))
