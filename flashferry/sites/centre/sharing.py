"""Share a plan out to sites, and explain why it cannot be given to them. Pure.

One device belongs to one agent: two that stage the same router would each restore the other's changes.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.core.units import counted
from flashferry.model.fleet_plan import Action, FleetPlan, PlannedDevice
from flashferry.sites.centre.settings import CentreSettings, SiteSettings
from flashferry.store.sites.agents import AgentState

_MOST_SHOWN = 5


class Share(Struct, frozen=True, kw_only=True):
    """A site's part of a plan: the devices it stages, in the plan's order; at least one."""

    site: str
    devices: tuple[PlannedDevice, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the devices' names."""
        return tuple(device.host for device in self.devices)


def shares(
    plan: FleetPlan, settings: CentreSettings, *, only: frozenset[str] | None = None, called: str = "FILE"
) -> tuple[Share, ...]:
    """Return each site's part of a plan, by name; sites without devices are left out.

    Args:
        plan: The plan.
        settings: The sites.
        only: Names of the devices to include; None: all that the plan stages.
        called: The plan's file, for the suggested command.

    Raises:
        ConfigInvalid: A device to stage belongs to no site, or to two, or there is none to stage.
    """
    found: dict[str, list[PlannedDevice]] = {}
    homeless: list[PlannedDevice] = []
    for device in plan.of(Action.STAGE):
        if only is not None and device.host not in only:
            continue
        owners = owners_of(device, settings)
        if len(owners) > 1:
            raise ConfigInvalid(
                f"{device.host}: expected it at one site, found that {' and '.join(owners)} both claim it; nothing was "
                "sent",
                hint=f"Correct 'devices', 'groups' and 'inventory_sites' in {settings.path}",
            )
        if owners:
            found.setdefault(owners[0], []).append(device)
        else:
            homeless.append(device)
    if homeless:
        raise _at_no_site(plan, settings, homeless, called)
    if not found:
        raise ConfigInvalid("the plan has no device to stage; nothing was sent", hint="Look at it, or make a new one")
    return tuple(Share(site=site, devices=tuple(found[site])) for site in sorted(found))


def _at_no_site(
    plan: FleetPlan, settings: CentreSettings, homeless: Sequence[PlannedDevice], called: str
) -> ConfigInvalid:
    named = ", ".join(f"{one.host} (site {one.site or 'none'})" for one in homeless[:_MOST_SHOWN])
    more = f" and {len(homeless) - _MOST_SHOWN} more" if len(homeless) > _MOST_SHOWN else ""
    hosts = frozenset(one.host for one in homeless)
    names = [*(sites := _whole_sites(plan, settings, hosts)), *(one.host for one in homeless if one.site not in sites)]
    leaving = " ".join(f"--leave-out {shlex.quote(name)}" for name in names)
    return ConfigInvalid(
        f"expected every device of the plan at a site, found {named}{more} at none; nothing was sent",
        hint=f"Add their sites to {settings.path}; or leave them out with '{leaving}', and stage them from here: "
        f"'{staged_from_here(plan, hosts, called)}'",
    )


def _whole_sites(plan: FleetPlan, settings: CentreSettings, hosts: frozenset[str]) -> list[str]:
    """Return the sites whose names leave out exactly devices among `hosts`."""
    sites = dict.fromkeys(one.site for one in plan.devices if one.host in hosts and one.site is not None)
    return [
        site
        for site in sites
        if {one.host for one in left_out(plan, settings, [site]) if one.action is Action.STAGE} <= hosts
    ]


def left_out(plan: FleetPlan, settings: CentreSettings, names: Collection[str]) -> tuple[PlannedDevice, ...]:
    """Return the devices that names leave out, in the plan's order.

    Args:
        plan: The plan.
        settings: The sites.
        names: Sites of the plan or the settings, and devices.

    Raises:
        ConfigInvalid: A name is neither.
    """
    called = {one.host: {one.host, one.site, *owners_of(one, settings)} for one in plan.devices}
    asked, known = set(names), {name for each in called.values() for name in each if name is not None}
    if unknown := sorted(asked - known):
        sites = sorted({one.site for one in plan.devices if one.site is not None})
        more = f" and {len(sites) - _MOST_SHOWN} more" if len(sites) > _MOST_SHOWN else ""
        raise ConfigInvalid(
            f"--leave-out {shlex.quote(unknown[0])}: expected a site or a device of the plan, found neither; nothing "
            "was sent",
            hint=f"The plan's sites are {', '.join(sites[:_MOST_SHOWN]) or 'none'}{more}",
        )
    return tuple(one for one in plan.devices if called[one.host] & asked)


def staged_from_here(plan: FleetPlan, hosts: Collection[str], called: str) -> str:
    """Return the command that stages devices from this host: by whole sites if possible, else by name."""
    chosen = [one for one in plan.of(Action.STAGE) if one.host in hosts]
    sites = dict.fromkeys(one.site for one in chosen)
    is_whole = all(one.host in hosts for one in plan.of(Action.STAGE) if one.site in sites)
    if None in sites or not is_whole:
        words = [f"--host {shlex.quote(one.host)}" for one in chosen]
    else:
        words = [f"--filter {shlex.quote(f'site={site}')}" for site in sites]
    return " ".join(["flashferry stage --plan", shlex.quote(called), *words])


def owners_of(device: PlannedDevice, settings: CentreSettings) -> list[str]:
    """Return the sites that claim a device: by its name, else by its group, else by its site."""
    rules = (_names, _has_group, _has_site)
    for rule in rules:
        if owners := [name for name, site in settings.sites.items() if rule(site, device)]:
            return owners
    return []


def _names(site: SiteSettings, device: PlannedDevice) -> bool:
    return device.host in site.devices


def _has_group(site: SiteSettings, device: PlannedDevice) -> bool:
    return device.group is not None and device.group in site.groups


def _has_site(site: SiteSettings, device: PlannedDevice) -> bool:
    return device.site is not None and device.site in site.inventory_sites


def refusals(
    sites: Sequence[str],
    known: Mapping[str, AgentState],
    settings: CentreSettings,
    *,
    release: str,
    now: datetime,
    asked_at: datetime | None = None,
) -> tuple[str, ...]:
    """Return why sites cannot get a run now, a sentence each.

    Args:
        sites: The sites of the run.
        known: The state of agents, by site.
        settings: The centre's settings.
        release: Our release, which agents must have too.
        now: The current time.
        asked_at: When agents were asked; without an answer since, they are silent. None: a recent word suffices.
    """
    found = ((site, _refusal(known.get(site), settings, release, now, asked_at)) for site in sites)
    return tuple(f"site {site}: {why}" for site, why in found if why)


def _refusal(
    agent: AgentState | None, settings: CentreSettings, release: str, now: datetime, asked_at: datetime | None
) -> str:
    if agent is None:
        return "expected its agent to answer, found that it never has"
    last = datetime.fromisoformat(agent.last_message_at)
    since = asked_at if asked_at is not None else now - timedelta(seconds=settings.silent_after_s)
    if last < since:
        return f"expected its agent to answer, found it silent; last message {ago(last, now)}"
    if agent.release != release:
        return f"expected an agent of release {release}, found {agent.release or 'one that does not say'}"
    if agent.clock_ahead_s is not None and agent.clock_off_s > settings.clock_bound_s:
        where = "ahead" if agent.clock_ahead_s > 0 else "behind"
        within_s = agent.clock_within_s or 0.0
        give = f", give or take {within_s:.0f} s" if within_s >= 1 else ""
        off = f"{abs(agent.clock_ahead_s):.0f} s {where}{give}"
        return f"expected its clock within {settings.clock_bound_s:.0f} s of ours, found it {off}"
    if is_contested(agent, settings, now):
        return f"expected one agent, found two processes that send for it: {agent.agent} and {agent.other}"
    return ""


def is_contested(agent: AgentState, settings: CentreSettings, now: datetime) -> bool:
    """Return whether two agents sent words for a site lately."""
    if agent.contested_at is None:
        return False
    return now - datetime.fromisoformat(agent.contested_at) < timedelta(seconds=settings.silent_after_s)


def check_ready(found: Sequence[str]) -> None:
    """Refuse a run if a site cannot get its part.

    Raises:
        ConfigInvalid: One cannot.
    """
    if found:
        more = f"; and {counted(len(found) - _MOST_SHOWN, 'site')} more" if len(found) > _MOST_SHOWN else ""
        raise ConfigInvalid(
            f"{'; '.join(found[:_MOST_SHOWN])}{more}; nothing was sent",
            hint="'flashferry sites list' shows all agents. Bring these in order (an agent answers only the centre "
            "whose key its agent.toml has), or leave them out with '--leave-out SITE': the same plan can be given to "
            "them later",
        )


def ago(then: datetime, now: datetime) -> str:
    """Return how long ago a time was: `12 s ago`, `4 min ago`, `3 h ago`, `2 d ago`."""
    seconds = max(0.0, (now - then.astimezone(UTC)).total_seconds())
    for size_s, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size_s or (size_s == 60 and seconds >= size_s):
            return f"{seconds / size_s:.0f} {word} ago"
    return f"{seconds:.0f} s ago"
