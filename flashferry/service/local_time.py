"""The time zone in which a person reads times, and the sites' own time beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cache
from zoneinfo import available_timezones

from flashferry.core.errors import ConfigInvalid
from flashferry.reports.words import NOT_MEASURED, moment, zone_word
from flashferry.service.errors import invalid_from
from flashferry.service.known_names import site_zones
from flashferry.service.principal import Actor
from flashferry.service.service import Service
from flashferry.store.service import people as rows
from inventory.time_window import zone

_ALIASES = ("Etc/", "SystemV/", "US/", "posix/", "right/")


@cache
def zone_names() -> tuple[str, ...]:
    """Return the names to choose from: `UTC`, then `Continent/City`."""
    names = (name for name in available_timezones() if "/" in name and not name.startswith(_ALIASES))
    return ("UTC", *sorted(names))


def time_zone(service: Service, actor: Actor) -> tzinfo:
    """Return the time zone that a caller chose; UTC where the machine no longer knows it."""
    with service.database.reading() as database:
        name = rows.time_zone(database, actor.name)
    try:
        return zone(name)
    except ConfigInvalid:
        return UTC


@dataclass(frozen=True, slots=True)
class LocalTime:
    """Times for the reader of a page."""

    service: Service
    zone: tzinfo

    def moment(self, stamp: str | None, missing: str = NOT_MEASURED) -> str:
        """Return a time in the reader's zone; see `flashferry.reports.words.moment`."""
        return moment(stamp, missing, self.zone)

    @staticmethod
    def zone_of(stamp: str) -> str:
        """Return the zone that a time was written with: `UTC+01:00`."""
        return zone_word(datetime.fromisoformat(stamp))

    def at_sites(self, stamp: str | None, sites: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """Return a time by the clocks of sites, as `site_times` does, with the zones of the inventory."""
        return site_times(stamp, sites, site_zones(self.service), self.zone)


def choose_time_zone(service: Service, actor: Actor, name: str) -> None:
    """Store the time zone in which a caller reads times. Raises `InvalidRequest` for an unknown name."""
    try:
        zone(name)
    except ConfigInvalid as error:
        raise invalid_from(error) from None
    with service.database.writing() as database:
        rows.set_time_zone(database, actor.name, name)
        service.note(database, actor, "time_zone.chosen", f"user:{actor.name}", after={"time_zone": name})


def site_times(
    stamp: str | None, sites: Iterable[str], zones: Mapping[str, str], chosen: tzinfo
) -> tuple[tuple[str, str], ...]:
    """Return a time by the clocks of some sites, each with the names of its sites.

    Args:
        stamp: The time, ISO 8601.
        sites: Names of sites.
        zones: Time zones of sites, by name of the site; sites without one are left out.
        chosen: The zone that the reader has it in already; sites whose clocks show the same are left out.
    """
    try:
        at = datetime.fromisoformat(stamp or "")
        found: dict[str, list[str]] = {}
        for site in sites:
            if site in zones:
                local = at.astimezone(zone(zones[site]))
                if local.utcoffset() != at.astimezone(chosen).utcoffset():
                    found.setdefault(f"{local:%a %H:%M} {zone_word(local)}", []).append(site)
    except (ConfigInvalid, ValueError, OverflowError):
        return ()
    return tuple((text, ", ".join(names)) for text, names in found.items())
