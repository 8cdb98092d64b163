"""Names in requests checked against the inventory, as on the command line (`inventory.selection.check_known`)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.core.errors import ConfigInvalid
from flashferry.service.errors import invalid_from
from flashferry.service.service import Service
from inventory.selection import SAMPLE, Selection, check_known

if TYPE_CHECKING:
    from nornir.core.inventory import Inventory

SITE = "site"


def site_filters(sites: Iterable[str]) -> tuple[str, ...]:
    """Return the filters that select the devices of these sites."""
    return tuple(f"{SITE}={site}" for site in sites if site)


def check_names(service: Service, selection: Selection) -> None:
    """Check that the inventory has every value of a selection.

    An inventory of another system, and one that cannot be read, is left to the job: a request must not wait for it.

    Raises:
        InvalidRequest: A device, group, site or another value is unknown.
    """
    inventory = _inventory(service) if selection != Selection() else None
    if inventory is None:
        return
    try:
        check_known(inventory, selection)
    except ConfigInvalid as error:
        hint = error.hint if error.message.startswith("--filter") else "Name what the inventory has"
        raise invalid_from(ConfigInvalid(error.message.removeprefix("--filter").lstrip(" :"), hint=hint)) from None


def with_devices(service: Service, sites: tuple[str, ...]) -> tuple[str, ...]:
    """Return those sites that have devices; all of them if none has.

    For sites that no request named: a role at a closed site must not block a job at the others.
    """
    inventory = _inventory(service) if sites else None
    if inventory is None:
        return sites
    there = {str(host.get(SITE)) for host in inventory.hosts.values()}
    return tuple(site for site in sites if site in there) or sites


def _inventory(service: Service) -> Inventory | None:
    """Return the inventory if it is a folder that can be read."""
    given = service.settings.runs.inventory
    if given is None or not (given == SAMPLE or Path(given).is_dir()):
        return None
    from inventory.load import open_inventory, sample_directory

    try:
        return open_inventory(sample_directory() if given == SAMPLE else Path(given)).inventory
    except ConfigInvalid:
        return None
