"""Pagination and sorting of tables; the state is in the page's URL. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import replace

Row = TypeVar("Row")
PAGE_ROWS = 100
"""Rows of a table on a page."""


class Listing(Struct, Generic[Row], frozen=True, kw_only=True):
    """One page of a table.

    Attributes:
        path: The URL without its query.
        given: Other query parameters, such as a filter.
        sort: Column that it is sorted by, with `-` in front if descending; empty: the table's own order.
        total: Number of rows on all pages.
    """

    path: str
    given: Mapping[str, str]
    sort: str
    page: int
    total: int
    rows: tuple[Row, ...] = ()

    @property
    def pages(self) -> int:
        """Return the number of pages, >= 1."""
        return max(1, -(-self.total // PAGE_ROWS))

    @property
    def first(self) -> int:
        """Return the number of the page's first row, from 1."""
        return (self.page - 1) * PAGE_ROWS + 1

    def at(self, page: int) -> str:
        """Return the URL of a page."""
        return replace(self, page=page).address

    def by(self, column: str) -> str:
        """Return the URL of the first page sorted by a column, reversed if it is sorted by it already."""
        return replace(self, page=1, sort=f"-{column}" if self.sort == column else column).address

    def order(self, column: str) -> str:
        """Return the value of `aria-sort` for a column; empty for none."""
        return {column: "ascending", f"-{column}": "descending"}.get(self.sort, "")

    @property
    def address(self) -> str:
        """Return the URL of this page."""
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
    """Return a page of rows; an unknown column is ignored, a page past the end is the last one.

    `columns` has the sort key of each column; rows of equal value keep their order. Other arguments are as in
    `Listing`.
    """
    key = columns.get(sort.removeprefix("-"))
    ordered = list(rows) if key is None else sorted(rows, key=key, reverse=sort.startswith("-"))
    made: Listing[Row] = Listing(
        path=path, given=dict(given or {}), sort=sort if key is not None else "", page=page, total=len(ordered)
    )
    made = replace(made, page=min(page, made.pages))
    return replace(made, rows=tuple(ordered[made.first - 1 : made.first - 1 + PAGE_ROWS]))
