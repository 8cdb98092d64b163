"""The devices of a run that one of its pages shows: filtered, sorted, a hundred rows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from msgspec import Struct

from flashferry.model.states import Phase
from flashferry.service.listing import Listing, listing
from flashferry.service.live.presenters import in_order
from flashferry.service.live.snapshot import DeviceNow, RunNow

_COLUMNS: Mapping[str, Callable[[DeviceNow], Any]] = {
    "device": lambda one: one.host,
    "site": lambda one: one.site,
    "wave": lambda one: one.wave,
    "state": lambda one: one.label,
    "copied": lambda one: one.acked_bytes / one.size_bytes if one.size_bytes else 0.0,
    "rate": lambda one: one.rate_bytes_per_s,
    "left": lambda one: one.left_bytes / one.rate_bytes_per_s if one.rate_bytes_per_s else 0.0,
}
"""What each column is sorted by."""


_LONGEST_WORDS, _LONGEST_NUMBER = 200, 6


class DeviceQuery(Struct, frozen=True, kw_only=True):
    """What a page of a run was asked for.

    Attributes:
        state: `all`, `not restored`, or a phase; an unknown one filters nothing.
        words: All of them stand in a shown row.
        sort: Column, with `-` before it: descending.
        page: Its number, from 1.
        host: Only this device; empty: any.
    """

    state: str = "all"
    words: str = ""
    sort: str = ""
    page: int = 1
    host: str = ""

    @classmethod
    def of(cls, text: str) -> DeviceQuery:
        """Return the query in the address of a page; what is not valid there is as if it was not given."""
        given = dict(parse_qsl(text))
        number = given.get("page", "")
        return cls(
            state=given.get("state", "all"),
            words=given.get("q", "")[:_LONGEST_WORDS],
            sort=given.get("sort", ""),
            host=given.get("host", ""),
            page=int(number) if number.isascii() and number.isdigit() and 0 < len(number) < _LONGEST_NUMBER else 1,
        )


def device_page(run: RunNow, query: DeviceQuery) -> Listing[DeviceNow]:
    """Return a page of the devices of a run."""
    chosen = [
        one for one in in_order(run) if query.host in {"", one.host} and _is_chosen(run, one, query.state, query.words)
    ]
    given = {"q": query.words, "state": "" if query.state == "all" else query.state}
    path = f"/runs/{quote(run.run_id, safe='')}"
    return listing(chosen, _COLUMNS, path=path, sort=query.sort, page=max(1, query.page), given=given)


def channel_of(run_id: str, shown: Listing[DeviceNow]) -> str:
    """Return the name by which a stream carries a page of a run: the run, `?`, and the page's query."""
    return f"{run_id}?{shown.address.partition('?')[2]}"


def channel_of_device(run_id: str, host: str) -> str:
    """Return the name by which a stream carries one device of a run."""
    return f"{run_id}?{urlencode({'host': host})}"


def _is_chosen(found: RunNow, one: DeviceNow, state: str, words: str) -> bool:
    if state == "not restored" and one.host not in found.unrestored:
        return False
    if any(state in (phase, phase.label) for phase in Phase) and state not in (one.phase, one.phase.label):
        return False
    details = " ".join((one.host, one.site, one.label, one.step, one.text, one.verdict or "")).casefold()
    return all(word in details for word in words.casefold().split())
