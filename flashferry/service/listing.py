"""Long tables in pieces: a page of rows, sorted by a column, all of it kept in the address. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

Row = TypeVar("Row")

PAGE_ROWS = 100
"""Rows of a table on a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[Row]):
    """A page of a table.

    Attributes:
        path: The address without its query.
        given: What the address says besides page and sorting, such as a filter.
        sort: Column that it is sorted by, with `-` before it: descending; empty: the table's own order.
        total: Rows on all pages.
    """

    path: str
    given: Mapping[str, str]
    sort: str
    page: int
    total: int
    rows: tuple[Row, ...] = ()

    @property
    def pages(self) -> int:
        """Return the number of pages, 1 at least."""
        return max(1, -(-self.total // PAGE_ROWS))

    @property
    def first(self) -> int:
        """Return the number of the first row on the page, from 1."""
        return (self.page - 1) * PAGE_ROWS + 1

    def at(self, page: int) -> str:
        """Return the address of a page."""
        return replace(self, page=page).address

    def by(self, column: str) -> str:
        """Return the address of the first page sorted by a column, in the other direction if it is already."""
        return replace(self, page=1, sort=f"-{column}" if self.sort == column else column).address

    def order(self, column: str) -> str:
        """Return the value of `aria-sort` for a column; empty for none."""
        return {column: "ascending", f"-{column}": "descending"}.get(self.sort, "")

    @property
    def address(self) -> str:
        """Return the address of this page."""
        query = self.given | {"sort": self.sort, "page": "" if self.page == 1 else str(self.page)}  # type: ignore[operator]
        text = urlencode({name: value for name, value in query.items() if value})
        return f"{self.path}?{text}" if text else self.path


def listing(
    rows: Sequence[Row],
    columns: Mapping[str, Callable[[Row], Any]],
    *,
    path: str,
    sort: str = "",
    page: int = 1,
    given: Mapping[str, str] | None = None,
) -> Listing[Row]:
    """Return a page of rows; a column that is unknown sorts nothing, a page after the last is the last.

    Args:
        rows: All rows, in the table's own order.
        columns: What each column is sorted by; rows of equal value keep their order.
        path: As in `Listing`.
        sort: As in `Listing`.
        page: Its number, from 1.
        given: As in `Listing`.
    """
    key = columns.get(sort.removeprefix("-"))
    ordered = list(rows) if key is None else sorted(rows, key=key, reverse=sort.startswith("-"))
    made: Listing[Row] = Listing(
        path=path, given=dict(given or {}), sort=sort if key is not None else "", page=page, total=len(ordered)
    )
    made = replace(made, page=min(page, made.pages))
    return replace(made, rows=tuple(ordered[made.first - 1 : made.first - 1 + PAGE_ROWS]))
