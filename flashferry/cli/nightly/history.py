"""`flashferry nightly history`: results of the last nights, and their measurements as series."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from flashferry import api
from flashferry.cli.history import blocks
from flashferry.cli.options.shared import JsonOption, StateOption
from flashferry.cli.terminal.output import finish, say
from flashferry.cli.view.layout import BAD, GOOD, console, is_wide, line, show
from flashferry.core.files import write_output
from flashferry.core.units import counted
from flashferry.model.exit_codes import ExitCode
from flashferry.nightly.artefacts import report
from flashferry.nightly.artefacts.page import history_html, night_line
from flashferry.nightly.artefacts.report import series_report
from flashferry.nightly.history import by_series, stored_nights
from flashferry.nightly.night import Rating
from flashferry.store.nights import series_nights

if TYPE_CHECKING:
    from flashferry.nightly.history import Series
    from flashferry.nightly.night import Night

_LAST = 30
"""Default number of nights."""

_SHOWN = 10
"""Number of nights listed in a terminal; series cover all requested nights."""

_COLUMNS = 100
"""Width of the table; longer rows fold."""

_TONES = {"good": GOOD, "bad": BAD, "warn": "yellow"}


def history(
    last: Annotated[int, typer.Option("--last", metavar="N", min=1, max=10_000, help="Of how many nights.")] = _LAST,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write all of it as a page with graphs, too.")
    ] = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Show how each series went over the last nights, and what each night came to. Touches no lab."""
    folder = api.state_folder(state_dir)
    nights = stored_nights(folder, last=last)
    series = by_series(series_nights(folder, last=last))
    if html is not None:
        _write_page(html, nights, series)
    result: dict[str, object] = {
        "nights": [_night_json(night) for night in nights],
        "series": [series_report(one) for one in series],
    }
    finish("nightly-history", ExitCode.OK, result, as_json=json, human=lambda: _print(nights, series))


def _write_page(path: Path, nights: Sequence[Night], series: Sequence[Series]) -> None:
    """Write the page of all nights, atomically. Raises `ConfigInvalid`: the page cannot be written."""
    page = history_html(nights, series, written_by=f"flashferry {version('flashferry')}")
    write_output(path, page, option="--html")
    say(f"page of {counted(len(nights), 'night')} written to {path}, {len(page.encode()):,} bytes")


def _night_json(night: Night) -> dict[str, object]:
    return {
        "night": night.night_id,
        "started_at": night.started_at.isoformat(),
        "ended_at": night.ended_at.isoformat(),
        "exit_code": int(night.exit_code),
        "fault": night.fault,
        "is_comparable": night.is_comparable,
        "not_comparable_because": night.not_comparable_because,
        "backend": night.backend,
        "controller_version": night.controller_version,
        "kernel": night.kernel,
        "tool_version": night.tool_version,
        "judgements": night.judgements,
    }


def _print(nights: Sequence[Night], series: Sequence[Series]) -> None:
    if not nights:
        console().print("no night is kept yet: 'flashferry nightly run' runs one")
        return
    show((_series_row(one) for one in series), wide_only=frozenset({"expected", "beyond"}))
    console().print()
    shown = nights[-_SHOWN:]
    rows = (_night_row(night) for night in reversed(shown))
    show(rows, wide_only=frozenset({"took", "kernel"}), most_columns=_COLUMNS, folds="series")
    if len(shown) < len(nights):
        earlier = counted(len(nights) - len(shown), "earlier night")
        console().print(f"{earlier}: --json and --html have all")
    _print_reasons(shown)


def _print_reasons(nights: Sequence[Night]) -> None:
    """Print why nights failed, and the notes of the last one."""
    for night in reversed(nights):
        for text in report.night_lines(night):
            line(_name(night), text, BAD if report.night_tone(night) == "bad" else "")
    for one in nights[-1].judgements:
        if one.colour not in {Rating.GOOD, Rating.NO_HISTORY}:
            line(report.title_of(one.key), one.sentence, BAD if one.colour is Rating.RED else "")


def _series_row(series: Series) -> dict[str, str | Text]:
    last = series.nights[-1].row
    compared = [one.row.tonight for one in series.nights if one.is_comparable]
    width = _LAST if is_wide() else _SHOWN
    tone = _TONES.get(report.colour_tone(series.colour), "")
    return {
        "series": report.title_of(series.key),
        "nights": str(len(series.nights)),
        "trend": blocks(compared[-width:]),
        "last": report.figure_of(series.key, last.tonight),
        "expected": report.figure_of(series.key, last.history_median),
        "beyond": report.figure_of(series.key, last.threshold),
        "judged": Text(report.colour_word(series.colour), style=tone),
    }


def _night_row(night: Night) -> dict[str, str | Text]:
    line = night_line(night)
    return {
        "night" if is_wide() else "started": _name(night),
        "result": Text(line.word, style=_TONES.get(report.night_tone(night), "")),
        "series": line.series or "-",
        "took": line.took,
        "kernel": _kernel(night),
        "release": line.tool_version,
    }


def _name(night: Night) -> str:
    """Return a night's id; on a narrow terminal only its start time, in UTC and without the year."""
    line = night_line(night)
    return line.night_id if is_wide() else line.began[5:16]


def _kernel(night: Night) -> str:
    """Return a kernel's version without the distribution's suffix: `6.8.0-124` for `6.8.0-124-generic`."""
    return "-".join(night.kernel.split("-")[:2])
