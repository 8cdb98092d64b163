"""Operator actions on selected devices: each requests jobs and needs the roles of their kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from flashferry.service.device_list import ListedDevice
from flashferry.service.errors import Conflict, InvalidRequest, NotFound
from flashferry.service.images.golden import golden_rules
from flashferry.service.jobs.job_spec import Devices, JobSpec
from flashferry.service.jobs.steering import restore
from flashferry.service.jobs.submit import ask
from flashferry.service.plans.planning import PlanSpec, make_plan
from flashferry.service.principal import Actor
from flashferry.service.service import Service
from flashferry.store.service.jobs import Job, JobKind

GOLDEN = "golden:"
"""In place of an image's name: the golden image of each model; no name has a colon."""
_PROBE_S = "8.0"


class Act(StrEnum):
    """Action on devices."""

    CHECK = "check"
    PROBE = "probe"
    READY = "ready"
    PLAN = "plan"
    RECOVER = "recover"


def named(devices: Sequence[ListedDevice], hosts: Iterable[str]) -> list[ListedDevice]:
    """Return the devices with the given names, each once. Raises `NotFound`."""
    known = {one.host: one for one in devices}
    picked = dict.fromkeys(hosts)
    if missing := next((host for host in picked if host not in known), None):
        raise NotFound(
            f"device: expected one of the inventory or of a run that you may see, found {missing[:60]!r}",
            hint="See the list of devices",
        )
    return [known[host] for host in picked]


def act(
    service: Service,
    actor: Actor,
    what: Act,
    devices: Sequence[ListedDevice],
    *,
    image: str,
    reason: str,
    chosen: Mapping[str, object],
) -> list[Job]:
    """Request the jobs of an action on devices (at least one) and return them.

    The caller operates each of their sites; all sites for a device without one. `image` is a name, `GOLDEN`, or empty;
    `reason` becomes the title of a plan; `chosen` are settings of a plan.

    Raises:
        ServiceError: There is no device, the caller is not allowed, or a value does not fit the action.
    """
    if not devices:
        raise InvalidRequest("devices: expected at least one, found none", hint="Tick devices, or all that are listed")
    if what is Act.RECOVER:
        runs = dict.fromkeys(one.last.run_id for one in devices if one.is_held and one.last is not None)
        if not runs:
            raise Conflict(
                "recover: expected a device that a run left changed, found none among these",
                hint="Filter the list by 'not restored'",
            )
        return [restore(service, actor, run_id, reason) for run_id in runs]
    # A device without a site needs the role at all sites.
    sites = () if any(not one.site for one in devices) else tuple(sorted({one.site for one in devices}))
    hosts = tuple(one.host for one in devices)
    if what is Act.PLAN:
        is_golden = image == GOLDEN
        spec = PlanSpec(
            title=reason, image="" if is_golden else image, golden=is_golden, sites=sites, hosts=hosts, chosen=chosen
        )
        return [make_plan(service, actor, spec)]
    return [ask(service, actor, _job_spec(service, what, Devices(hosts=hosts), sites, image, reason))]


def _job_spec(
    service: Service, what: Act, devices: Devices, sites: tuple[str, ...], image: str, reason: str
) -> JobSpec:
    """Return the specification of a check, a speed test or a readiness check. Raises `InvalidRequest`."""
    rules = ""
    words: tuple[str, ...] = ()
    if image == GOLDEN and what is not Act.READY:
        raise InvalidRequest(
            f"{what}: expected one image, or none, found the golden images", hint="Choose an image, or none"
        )
    if what is Act.READY and image in ("", GOLDEN):
        words = ("--image-dir", str(service.images))
        if image:
            with service.database.reading() as database:
                rules = golden_rules(database, sites)
    elif what is Act.PROBE:
        image, words = "", ("--seconds", _PROBE_S)
    return JobSpec(
        kind=JobKind(what.value),
        devices=devices,
        image="" if image == GOLDEN else image,
        rules=rules,
        sites=sites,
        words=words,
        reason=reason,
    )
