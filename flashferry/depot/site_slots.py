"""Which run has how many copies at which site: slots that all runs share. Pure; the depot holds it under a lock.

A run keeps its own limits besides. What is shared is a site's: the strictest limit that any run there stated holds for
all of them together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flashferry.depot.messages import SiteSeen

Slot = tuple[str, int]
"""A run, and the number that it gave to the slot."""


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
        is_held_up: Whether nothing is granted until `begin`: runs that held slots before are to claim them first.
    """

    def __init__(self, *, is_held_up: bool = False) -> None:
        # In the order in which they were asked for.
        self._places: dict[Slot, _Place] = {}
        self._is_held_up = is_held_up

    def ask(self, run: str, number: int, site: str | None, limit: int | None) -> tuple[Slot, ...]:
        """Have a run wait for a slot; asked twice it waits once.

        Returns:
            What is granted by it, to be told to the runs: here and below.
        """
        self._places.setdefault((run, number), _Place(run, number, site, limit, is_held=False))
        return self._granted(site)

    def claim(self, run: str, number: int, site: str | None, limit: int | None) -> None:
        """Give a run a slot at once: nobody else gets one there until so many are held again."""
        self._places[run, number] = _Place(run, number, site, limit, is_held=True)

    def free(self, run: str, number: int) -> tuple[Slot, ...]:
        """Take a slot back; one that is not known is none."""
        place = self._places.pop((run, number), None)
        return () if place is None else self._granted(place.site)

    def part(self, run: str) -> tuple[Slot, ...]:
        """Take all slots of a run back."""
        gone = [place for place in self._places.values() if place.run == run]
        for place in gone:
            del self._places[run, place.number]
        sites = dict.fromkeys(place.site for place in gone)
        return tuple(slot for site in sites for slot in self._granted(site))

    def hold_up(self) -> None:
        """Grant nothing more."""
        self._is_held_up = True

    def begin(self) -> tuple[Slot, ...]:
        """Grant what there is, from now on."""
        self._is_held_up = False
        sites = dict.fromkeys(place.site for place in self._places.values())
        return tuple(slot for site in sites for slot in self._granted(site))

    def counts(self, run: str) -> tuple[int, int]:
        """Return how many slots a run holds, and for how many it waits."""
        own = [place.is_held for place in self._places.values() if place.run == run]
        return own.count(True), own.count(False)

    def seen(self) -> Iterator[SiteSeen]:
        """Yield how each site stands that has a name; caps are none of this module's."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedCap:
    """What a run says that a site's transfers may take together.

    Attributes:
        cap_bytes_per_s: Payload bytes per second; None where nobody says anything.
        source: Where the figure comes from, for the records.
    """

    cap_bytes_per_s: int | None = None
    source: str = ""


class SiteCaps:
    """The caps that runs state for sites: the least of a site's holds for all of them, as long as its run is there."""

    def __init__(self) -> None:
        self._stated: dict[str, dict[str, StatedCap]] = {}

    def state(self, run: str, site: str, cap: StatedCap) -> StatedCap:
        """Take in what a run says of a site, instead of what it said before; return what holds now."""
        stated = self._stated.setdefault(site, {})
        stated.pop(run, None)
        if cap.cap_bytes_per_s is not None:
            stated[run] = cap
        if not stated:
            del self._stated[site]
        return self.of(site)

    def part(self, run: str) -> dict[str, StatedCap]:
        """Drop all that a run said; return what holds now where that is something else than before."""
        changed: dict[str, StatedCap] = {}
        for site in [site for site, stated in self._stated.items() if run in stated]:
            before, now = self.of(site), self.state(run, site, StatedCap())
            if now != before:
                changed[site] = now
        return changed

    def of(self, site: str) -> StatedCap:
        """Return what holds at a site."""
        stated = self._stated.get(site, {})
        return min(stated.values(), key=lambda one: one.cap_bytes_per_s or 0, default=StatedCap())

    def sites(self) -> tuple[str, ...]:
        """Return the sites that have one."""
        return tuple(sorted(self._stated))
