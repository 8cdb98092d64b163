"""Consoles, tables that fit the terminal, and formatted figures.

Text is sanitized by `flashferry.core.redaction` before it is measured and wrapped: a secret is masked before it could
be cut, and a cell is as wide as what is printed.
"""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from flashferry.cli.terminal.output import here
from flashferry.core import units
from flashferry.core.redaction import sanitize
from flashferry.model.states import Outcome, Restored, Tone

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flashferry.model.record import Failure

GOOD, WARN, BAD = "green", "yellow", "bold red"
STYLES = {Tone.GOOD: GOOD, Tone.WARN: WARN, Tone.BAD: BAD, Tone.QUIET: ""}
"""Rich styles by tone."""

WIDE_COLUMNS = 110
"""Width from which a table has all columns; below, lines under it have the rest."""

PIPED_COLUMNS = 160
_NARROWEST = 20
"""Smallest usable width."""

MOST_SENTENCES = 20
MOST_NAMES = 4
_ADDRESS = "its address,"


class ShownConsole(Console):
    """Console that sanitizes text, ignores markup in it, and raises BrokenPipeError.

    Every text is one line, folded if it is too long; line feeds in it are escaped.
    """

    def __init__(self, **options: Any) -> None:
        # No markup or emoji: device output may contain [brackets] and :colons:.
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def on_broken_pipe(self) -> None:
        """Raise the error; rich would exit with a code of its own."""
        raise BrokenPipeError

    def render_str(self, text: str, **options: Any) -> Text:
        """Return one of our texts as rich text."""
        return super().render_str(sanitize(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the sanitized segments of a renderable."""
        return super().render(_shown_text(renderable) if isinstance(renderable, Text) else renderable, options)


class ShownTable(Table):
    """Table whose cells are sanitized to one line each before columns are measured."""

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row."""
        super().add_row(*map(_shown_cell, cells), **options)


class Verbatim:
    """Line printed unmasked: a copy command, which needs its login."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, out: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the line."""
        yield Segment(self._text)
        yield Segment.line()


def _shown_cell(cell: RenderableType | None) -> RenderableType | None:
    if isinstance(cell, str):
        return sanitize(cell)
    return _shown_text(cell) if isinstance(cell, Text) else cell


def _shown_text(text: Text) -> Text:
    found = sanitize(text.plain)
    if found == text.plain:
        return text
    return Text(found, style=text.style, justify=text.justify, overflow=text.overflow, no_wrap=text.no_wrap)


def console(*, stderr: bool = False) -> Console:
    """Return a console on standard output or error; wide if it is not a terminal, so that no row is cut.

    A width in COLUMNS is respected there, too.
    """
    found = ShownConsole(stderr=stderr)
    given = os.environ.get("COLUMNS", "")
    if found.is_terminal or (given.isdecimal() and int(given) >= _NARROWEST):
        return found
    return ShownConsole(stderr=stderr, width=PIPED_COLUMNS)


def is_wide() -> bool:
    """Return whether standard output is wide enough for all columns."""
    return console().width >= WIDE_COLUMNS


def table(columns: Iterable[str]) -> Table:
    """Return an empty table; cells fold rather than lose text."""
    made = ShownTable(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def show(
    rows: Iterable[dict[str, str | Text]],
    wide_only: frozenset[str] = frozenset(),
    *,
    most_columns: int | None = None,
    folds: str | None = None,
) -> None:
    """Print rows as a table; the columns are the keys of the first row.

    The last column wraps at words; all others are as wide as their content.

    Args:
        rows: The rows.
        wide_only: Columns shown only on a wide terminal.
        most_columns: Maximum width in characters; None: the terminal's.
        folds: The only column that folds if space is short; None: any.
    """
    kept = [{key: cell for key, cell in row.items() if is_wide() or key not in wide_only} for row in rows]
    if not kept:
        return
    made = table(kept[0])
    for column in made.columns if folds is not None else ():
        column.no_wrap = column.header != folds
    for row in kept:
        made.add_row(*row.values())
    out = console()
    out.print(made, width=out.width if most_columns is None else min(out.width, most_columns))


def line(host: str, text: str, style: str = "") -> None:
    """Print a line about a device; a long one is indented under its own text."""
    grid = ShownTable(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(f"{host}:"), Text(here(text), style=style))
    console().print(grid)


def alike(
    pairs: Iterable[tuple[str, str]], style: str = "", addresses: Mapping[str, str] = MappingProxyType({})
) -> int:
    """Print each distinct sentence once, with its devices; return how many sentences were left out.

    Args:
        pairs: Sentence and device.
        style: Rich style.
        addresses: Addresses by device: sentences that differ only in these count as equal.
    """
    found: dict[str, list[str]] = {}
    for text, host in pairs:
        address = addresses.get(host)
        found.setdefault(text.replace(address, _ADDRESS) if address else text, []).append(host)
    for text, hosts in list(found.items())[:MOST_SENTENCES]:
        if len(hosts) == 1:
            line(hosts[0], text.replace(_ADDRESS, addresses.get(hosts[0], _ADDRESS)), style)
        else:
            line(f"{len(hosts)} devices", f"{text} ({names(hosts)})", style)
    return max(0, len(found) - MOST_SENTENCES)


def names(hosts: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    most = MOST_NAMES * 2 if is_wide() else MOST_NAMES
    more = f" and {len(hosts) - most} more" if len(hosts) > most else ""
    return ", ".join(hosts[:most]) + more


def print_error(host: str, failure: Failure | None) -> None:
    """Print why a device failed, and what to do."""
    if failure is not None:
        hint = f". {failure.hint}" if failure.hint else ""
        line(host, f"{failure.step}: {failure.reason}{hint}", BAD)


def rate(bytes_per_s: float | None) -> str:
    """Return a rate such as `5.43 MB/s`, or a dash for None."""
    return units.rate(bytes_per_s) if bytes_per_s else "-"


def outcome(found: Outcome, *, done: str = Outcome.DONE.label) -> Text:
    """Return a device's outcome, in colour."""
    return Text(done if found is Outcome.DONE else found.label, style=STYLES[found.tone])


def restored(found: Restored) -> Text:
    """Return the state of a configuration, in colour; restored means proven (`flashferry.model.states`)."""
    words = "restored but…" if found is Restored.FOREIGN_CHANGE and not is_wide() else found.label
    proven = ", proven" if found is Restored.RESTORED and is_wide() else ""
    return Text(f"{words}{proven}", style=STYLES[found.tone])
