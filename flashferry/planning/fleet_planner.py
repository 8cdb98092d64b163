"""Make the plan of a run from an inventory and its images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from nornir.core import Nornir

from flashferry.core.errors import ConfigInvalid
from flashferry.core.units import counted
from flashferry.devices.platforms.ios import IOS
from flashferry.images.image import PlannedImage
from flashferry.model.fleet_plan import Action, FleetPlan, PlannedDevice, Supply
from flashferry.model.link_rates import LinkRates, pace_notice
from flashferry.model.policy import StagePolicy
from flashferry.monitor.events import Emit, never_failing, silent
from flashferry.planning.deadline import first_opening
from flashferry.planning.estimates import Known, decided, estimates_of, links_of
from flashferry.planning.forecast import forecast
from flashferry.planning.gather import Found, Inspection, gather
from flashferry.planning.image_hasher import ImageHasher, image_hasher
from flashferry.planning.image_platforms import refused_where_shared
from flashferry.planning.scenario import Scenario
from flashferry.planning.simulation import Timeline
from flashferry.store.history import History
from flashferry.store.leases import leases
from flashferry.store.staged import doubts
from flashferry.store.status import last_add_speeds, last_flash_speeds, last_hash_speeds
from flashferry.transports.transport_selection import NotServed, TransportRequest, candidates, check_asked, unserved
from inventory.host_view import HostView, view
from inventory.image_rules import ImageChoice, ImageRules, Traits, image_path
from inventory.sites import sites_of
from inventory.transport_policy import AUTO

_ANY = Traits(platform=IOS.name, model="", version="")
"""Placeholder for the facts of a device with an explicit image."""
_LONG_COPY_S = 10.0


class PlanRequest(Struct, frozen=True, kw_only=True):
    """What to plan.

    Attributes:
        image: Image for all devices without an explicit one; None chooses by the rules.
        rules: The image rules.
        folders: Folders for relative image names.
        policy: Settings of the run; the vendor's digests are of `image`, and its end is the plan's.
        starts_at: Start of the run; None for now, or when the first site opens.
        state_directory: Folder of history, learned link rates and hash speeds; only read.
        depot: The host's depot, which is asked for its images: `auto`, `never`, or its socket.
    """

    image: Path | None = None
    rules: ImageRules = field(default_factory=ImageRules)
    folders: tuple[Path, ...] = ()
    policy: StagePolicy = field(default_factory=StagePolicy)
    starts_at: datetime | None = None
    state_directory: Path
    depot: str = "auto"


def plan_fleet(
    nornir: Nornir,
    request: PlanRequest,
    *,
    now: datetime,
    not_served: NotServed | None = None,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> FleetPlan:
    """Check every device, and return the plan of a run.

    Args:
        nornir: The devices, with credentials.
        request: What to plan.
        now: Current time, in the time zone for messages.
        not_served: Returns what the host's depot does not serve; None if the run has its own server.
        emit: Receives events, from several threads.
        interrupted: Returns whether the operator stops the command; unchecked devices then count as unreachable.

    Raises:
        ConfigInvalid: The inventory, an image or the rules are invalid, or copies would have neither cap nor pacing
            (`flashferry.model.link_rates`).
    """
    views = {name: view(host) for name, host in nornir.inventory.hosts.items()}
    links = LinkRates(request.state_directory)
    sites = sites_of(views.values())
    # The run checks its own server: a plan needs no certificate.
    asked = TransportRequest(asked=check_asked(request.policy.transport), missing=not_served or {})
    for one in views.values():
        candidates(one.name, one.transport_policy, asked)
    pace = pace_notice(views.values(), links, uncapped=request.policy.uncapped)
    starts_at = _start(request, views, now)
    found, images = _gathered(nornir, request, views, links, emit, interrupted)
    known = Known(
        past=History.read(request.state_directory, now),
        hash_speeds=last_hash_speeds(request.state_directory),
        flash_speeds=last_flash_speeds(request.state_directory),
        add_speeds=last_add_speeds(request.state_directory),
        tune=request.policy.tune,
        transport=asked,
    )
    links_seen = links_of(found, sites, starts_at)
    until = request.policy.until
    until_s = None if until is None else (until - starts_at).total_seconds()
    scenario = Scenario(
        estimates=estimates_of(found, links_seen, known),
        links=links_seen,
        limits=request.policy.limits,
        policy=request.policy.waves,
        until_s=until_s,
    )
    made = _plan(request, scenario, found, known, images, starts_at, now)
    left = [unserved(one.transport_policy, asked) for one in views.values()] if asked.asked == AUTO else []
    more = (*dict.fromkeys(chain.from_iterable(left)), *((pace,) if pace else ()))
    return replace(made, assumptions=(*made.assumptions, *more)) if more else made


class _Images(Struct, frozen=True, kw_only=True):
    """The images of a plan, and their folders."""

    images: tuple[PlannedImage, ...]
    folders: tuple[str, ...]


def _gathered(
    nornir: Nornir,
    request: PlanRequest,
    views: Mapping[str, HostView],
    links: LinkRates,
    emit: Emit,
    interrupted: Callable[[], bool],
) -> tuple[tuple[Found, ...], _Images]:
    """Check the devices while the images are hashed; return both results."""
    everyone = None
    if request.image is not None:
        everyone = ImageChoice(image=request.image.name, reason="the image for all", path=request.image)
    folders = request.folders
    if request.image is not None:
        # A path given by the operator is valid even if it is a link.
        folders = (*folders, request.image.parent, request.image.resolve().parent)
    policy = request.policy
    vendor = None if request.image is None else policy.vendor
    with image_hasher(folders, vendor, is_insisted=policy.any_image, emit=emit, interrupted=interrupted) as hasher:
        _begin_early(hasher, everyone, request.rules, views)
        inspection = Inspection(
            rules=request.rules,
            everyone=everyone,
            hasher=hasher,
            links=links,
            held=leases(request.state_directory),
            doubted=doubts(request.state_directory),
            logins=policy.limits.logins,
            adds=policy.add,
            emit=never_failing(emit),
            interrupted=interrupted,
        )
        found, images = gather(nornir, inspection), hasher.images()
        if not policy.any_image:
            found = refused_where_shared(found)
        return found, _Images(images=images, folders=hasher.folders_of(images))


def _plan(
    request: PlanRequest,
    scenario: Scenario,
    found: tuple[Found, ...],
    known: Known,
    images: _Images,
    starts_at: datetime,
    now: datetime,
) -> FleetPlan:
    expected = forecast(scenario, starts_at)
    by_host = {one.host: one for one in scenario.estimates}
    wave_of = {host: wave.number for wave in expected.waves for host in wave.hosts}

    def device(one: Found) -> PlannedDevice:
        host = one.planned.host
        times = times_of(wave_of.get(host, -1), expected.devices.get(host))
        return decided(one, by_host.get(host), known, expected.pulls.get(host, Supply.CENTRE), times)

    return FleetPlan(
        created_at=now.astimezone(UTC).isoformat(timespec="seconds"),
        starts_at=starts_at.isoformat(timespec="seconds"),
        ends_at=None if (until := request.policy.until) is None else until.isoformat(timespec="seconds"),
        images=images.images,
        image_folders=images.folders,
        **request.policy.of_plan(),
        duration_s=round(expected.duration_s, 1),
        fit=expected.fit,
        assumptions=(*expected.assumptions, *_left_out(found)),
        sites=expected.sites,
        waves=expected.waves,
        devices=tuple(map(device, found)),
        savings=expected.savings,
        depot_advice=expected.depot_advice,
    )


def _left_out(found: tuple[Found, ...]) -> tuple[str, ...]:
    """Return a sentence that unreachable devices are not in the forecast, if there are any."""
    count = sum(one.planned.action is Action.UNREACHABLE for one in found)
    if not count:
        return ()
    of = f"{count} of {counted(len(found), 'device')}"
    return (f"{of}: out of reach now and not in the forecast; make a new plan once they answer",)


def times_of(wave: int, timeline: Timeline | None) -> dict[str, Any]:
    """Return a planned device's fields about time, from its wave and its simulated timeline."""
    if timeline is None:
        return {"wave": wave}
    return {
        "wave": wave,
        "starts_s": round(timeline.begins_s, 1),
        "copy_s": _copy_s(timeline),
        "hash_s": round(timeline.hashed_s - timeline.hashes_from_s, 1),
        "finish_s": round(timeline.ends_s - timeline.restored_s, 1),
        "total_s": round(timeline.ends_s - timeline.begins_s, 1),
    }


def _copy_s(timeline: Timeline) -> float:
    """Return the duration of a copy, to the millisecond below 10 s, because its rate is derived from it."""
    copy_s = timeline.copied_s - timeline.copies_from_s
    return round(copy_s, 1 if copy_s >= _LONG_COPY_S else 3)


def _start(request: PlanRequest, views: Mapping[str, HostView], now: datetime) -> datetime:
    """Return the start of the run.

    Raises:
        ConfigInvalid: The run would have to end before.
    """
    starts_at = request.starts_at or first_opening(views.values(), now)
    if (until := request.policy.until) is not None and until <= starts_at:
        raise ConfigInvalid(
            f"the run must end at {until:%Y-%m-%d %H:%M} and cannot start before {starts_at:%Y-%m-%d %H:%M}, "
            "when the first site opens",
            hint="Give a later end, or other windows",
        )
    return starts_at


def _begin_early(
    hasher: ImageHasher, everyone: ImageChoice | None, rules: ImageRules, views: Mapping[str, HostView]
) -> None:
    """Start hashing images that are needed in any case, and report missing ones at once."""
    if everyone is not None and any(one.image is None for one in views.values()):
        hasher.begin(hasher.find(everyone))
    for explicit in {one.image: None for one in views.values()}:
        if explicit is not None:
            hasher.begin(hasher.find(rules.choose(_ANY, explicit=explicit)))
    for rule in rules.rules:
        path = image_path(rule.image, rules.source) if rule.image is not None else None
        if path is not None:
            hasher.confine(path)
