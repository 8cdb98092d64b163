"""Journal API: states of runs and devices, and their copies over time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query

from flashferry import api
from flashferry.core.codec import to_json
from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.errors import NotFound, ServiceError
from flashferry.service.run_visibility import is_visible, sites_of, status_seen
from flashferry.store.fleet_view import device_runs, known_devices
from flashferry.store.history import History

router = APIRouter(prefix="/api/v1", tags=["runs"])
MOST_OF_ONE = 2000
"""Copies of one device, the newest."""
MOST_OF_EACH = 100
"""Copies of each when all devices are requested."""
_MOST_RUNS = 200


@router.get("/status")
def status(
    service: TheService,
    actor: TheActor,
    last: Annotated[
        int, Query(ge=1, le=_MOST_RUNS, description="How many runs; those that hold a device come on top.")
    ] = 5,
) -> dict[str, object]:
    """Return runs, their devices and the devices to be recovered, as `flashferry status --json` does."""
    found = api.status(last, state=service.state)
    runs = tuple(seen for run in found.runs if (seen := status_seen(run, actor)) is not None)
    # The files beside the journal do not have the sites of devices.
    lost = found.lost if sites_of(actor) is None else ()
    return {"status": to_json(replace(found, directory=Path(), runs=runs, lost=lost))}


@router.get("/history")
def history(
    service: TheService,
    actor: TheActor,
    device: Annotated[str, Query(max_length=300, description="One device, by its name; empty: all.")] = "",
    last: Annotated[int, Query(ge=1, le=MOST_OF_ONE, description="How many of its copies `device` has.")] = 20,
) -> dict[str, object]:
    """Return timed copies of devices; for one device also the expected speed of its next copy."""
    found = History.read(service.state)
    if not device:
        copies = [copy for host in _seen(service, actor) for copy in found.of(host)[-MOST_OF_EACH:]]
        return {"copies": to_json(copies), "damaged": found.damaged}
    found = _of_what_is_seen(service, actor, found, device)
    try:
        details = api.device_history(found, device, last)
    except ConfigInvalid as error:
        raise _no_copy(device) from error
    copies = list(found.of(device)[-MOST_OF_ONE:])
    return {"device": to_json(details), "copies": to_json(copies), "damaged": found.damaged}


def _no_copy(device: str) -> ServiceError:
    sentence = f"no copy of a device {device[:60]!r} is known that you may see"
    return NotFound(sentence, hint="GET /api/v1/history lists them")


def _seen(service: TheService, actor: TheActor) -> tuple[str, ...]:
    sites = sites_of(actor)
    return tuple(one.host for one in known_devices(service.state) if is_visible(one.site, sites))


def _of_what_is_seen(service: TheService, actor: TheActor, found: History, device: str) -> History:
    """Return a device's history without copies at sites that the caller may not see."""
    sites = sites_of(actor)
    if sites is None:
        return found
    mine = {one.run_id for one in device_runs(service.state, device) if is_visible(one.site, sites)}
    copies = [one for one in found.of(device) if one.run_id in mine]
    return found if len(copies) == len(found.of(device)) and copies else History(copies, damaged=found.damaged)
