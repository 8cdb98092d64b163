"""The copies that runs have at each site, as slots that all runs share. Pure; the depot uses it under a lock.

Each run applies its own limits, too. The lowest limit that any run states for a site applies to all of them together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flashferry.depot.messages import SiteSeen
from flashferry.fileserver.wire import SetSiteCap

Slot = tuple[str, int]
"""A run and its number of the slot."""


@dataclass(slots=True, eq=False)
class _Place:
    """One slot that is held or waited for."""

    run: str
    number: int
    site: str | None
    limit: int | None
    is_held: bool


class SiteSlots:
    """The slots of all sites.

    Args:
        is_held_up: Whether nothing is granted until `start`: runs that held slots before have to claim them first.
    """

    def __init__(self, *, is_held_up: bool = False) -> None:
        # In the order of the requests.
        self._places: dict[Slot, _Place] = {}
        self._is_held_up = is_held_up

    def ask(self, run: str, number: int, site: str | None, limit: int | None) -> tuple[Slot, ...]:
        """Let a run wait for a slot; asked twice it waits once.

        Returns:
            The slots granted by it, to be reported to their runs; so do the following.
        """
        self._places.setdefault((run, number), _Place(run, number, site, limit, is_held=False))
        return self._granted(site)

    def claim(self, run: str, number: int, site: str | None, limit: int | None) -> None:
        """Give a run a slot at once, even above the limit."""
        self._places[run, number] = _Place(run, number, site, limit, is_held=True)

    def free(self, run: str, number: int) -> tuple[Slot, ...]:
        """Take a slot back; an unknown one is ignored."""
        place = self._places.pop((run, number), None)
        return () if place is None else self._granted(place.site)

    def leave(self, run: str) -> tuple[Slot, ...]:
        """Take all slots of a run back."""
        gone = [place for place in self._places.values() if place.run == run]
        for place in gone:
            del self._places[run, place.number]
        sites = dict.fromkeys(place.site for place in gone)
        return tuple(slot for site in sites for slot in self._granted(site))

    def hold_up(self) -> None:
        """Grant nothing more."""
        self._is_held_up = True

    def start(self) -> tuple[Slot, ...]:
        """Grant slots from now on."""
        self._is_held_up = False
        sites = dict.fromkeys(place.site for place in self._places.values())
        return tuple(slot for site in sites for slot in self._granted(site))

    def counts(self, run: str) -> tuple[int, int]:
        """Return how many slots a run holds, and for how many it waits."""
        own = [place.is_held for place in self._places.values() if place.run == run]
        return own.count(True), own.count(False)

    def seen(self) -> Iterator[SiteSeen]:
        """Yield the status of each named site, without its cap."""
        for site in sorted({place.site for place in self._places.values() if place.site is not None}):
            here = self._at(site)
            held = sum(place.is_held for place in here)
            yield SiteSeen(
                site=site,
                copies=held,
                waiting=len(here) - held,
                limit=_least(here),
                cap_bytes_per_s=None,
            )

    def _granted(self, site: str | None) -> tuple[Slot, ...]:
        granted: list[Slot] = []
        while (place := self._next(site)) is not None:
            place.is_held = True
            granted.append((place.run, place.number))
        return tuple(granted)

    def _next(self, site: str | None) -> _Place | None:
        """Return who gets a slot now: of the runs that wait the one with fewest there, and of its the oldest."""
        here = self._at(site)
        held = [place.run for place in here if place.is_held]
        limit = None if site is None else _least(here)
        if self._is_held_up or (limit is not None and len(held) >= limit):
            return None
        waiting = (place for place in here if not place.is_held)
        return min(waiting, key=lambda place: held.count(place.run), default=None)

    def _at(self, site: str | None) -> list[_Place]:
        return [place for place in self._places.values() if place.site == site]


def _least(places: list[_Place]) -> int | None:
    return min((place.limit for place in places if place.limit is not None), default=None)


class SiteCaps:
    """The caps that runs state for sites: the lowest of a site applies to all, as long as its owner is there."""

    def __init__(self) -> None:
        self._stated: dict[str, dict[str, SetSiteCap]] = {}

    def state(self, owner: str, cap: SetSiteCap) -> SetSiteCap:
        """Replace what an owner stated for a site; return what applies now."""
        stated = self._stated.setdefault(cap.site, {})
        stated.pop(owner, None)
        if cap.cap_bytes_per_s is not None:
            stated[owner] = cap
        if not stated:
            del self._stated[cap.site]
        return self.of(cap.site)

    def leave(self, owner: str) -> tuple[SetSiteCap, ...]:
        """Drop all that an owner stated; return what applies now at each site where that changed."""
        changed = []
        for site in [site for site, stated in self._stated.items() if owner in stated]:
            before, now = self.of(site), self.state(owner, _no_cap(site))
            if now != before:
                changed.append(now)
        return tuple(changed)

    def of(self, site: str) -> SetSiteCap:
        """Return the cap that applies at a site."""
        stated = self._stated.get(site, {})
        return min(stated.values(), key=lambda one: one.cap_bytes_per_s or 0, default=_no_cap(site))

    def sites(self) -> tuple[str, ...]:
        """Return the sites that have one."""
        return tuple(sorted(self._stated))


def _no_cap(site: str) -> SetSiteCap:
    return SetSiteCap(site=site, cap_bytes_per_s=None, source="")
