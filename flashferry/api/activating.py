"""Activation: the devices of a plan that are ready are restarted into their images, round by round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.api.fleet import journal_in
from flashferry.core.errors import ConfigInvalid
from flashferry.core.value_description import counted
from flashferry.model.activation import ActivationLimits
from flashferry.monitor.events import Emit, silent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nornir.core import Nornir

    from flashferry.model.fleet_plan import PlannedDevice
    from flashferry.model.record import RunReport
    from flashferry.model.waves import Wave
    from flashferry.planning.activation_order import ActivationMember
    from flashferry.store.journal import Journal
    from inventory.host_view import HostView
    from tasks.check import TargetImage

LEAST_DIGEST = 8
"""So many digits of a plan's digest distinguish it from every other plan at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationOptions:
    """How a plan is activated.

    Attributes:
        limits: How long things may take.
        per_site: Devices of one site that are restarted at the same time, >= 1.
        at_a_time: Devices that are restarted at the same time, >= 1.
        canary: Whether one device of each model goes first.
        max_failures: So many failed devices are borne, >= 0; one more, and nothing new begins.
        signature: Whether devices verify the vendor's signature once more.
        has_console_access: Whether the console of every device can be reached; else the inventory has to say so
            of each (`console_access`).
    """

    limits: ActivationLimits = field(default_factory=ActivationLimits)
    per_site: int = 1
    at_a_time: int = 10
    canary: bool = True
    max_failures: int = 0
    signature: bool = True
    has_console_access: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationPlan:
    """Who is restarted when, into which image; for people to read before they approve it.

    Attributes:
        path: The plan's file.
        digest: Its SHA-256, which an approval names.
        nornir: The devices that take part, with credentials.
        rounds: Who goes when.
        images: The image of each device, by its name.
        identities: What devices called themselves when the plan was made.
        sites: Site of each device, by its name.
        options: How it is activated.
    """

    path: Path
    digest: str
    nornir: Nornir
    rounds: tuple[Wave, ...]
    images: Mapping[str, TargetImage]
    identities: Mapping[str, str | None]
    sites: Mapping[str, str | None]
    options: ActivationOptions

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the devices, in the order in which they go."""
        return tuple(host for one in self.rounds for host in one.hosts)

    def image_of(self, host: str) -> str:
        """Return the name of a device's image."""
        return self.images[host].image.name

    def site_of(self, host: str) -> str | None:
        """Return the site of a device."""
        return self.sites[host]


def activation_plan(nornir: Nornir, plan: Path, options: ActivationOptions | None = None) -> ActivationPlan:
    """Return who would be restarted when. Nothing is sent to any device.

    Args:
        nornir: The devices, with credentials; those that the plan does not have take no part.
        plan: The file of the plan that was staged.
        options: How it is activated.

    Raises:
        ConfigInvalid: Plan, inventory or limits are wrong, or the console of a device cannot be reached.
    """
    from flashferry.model.plan_file import check_against, read_plan
    from flashferry.planning.activation_order import activation_rounds
    from flashferry.planning.readiness import planned_images
    from flashferry.run.activation.fleet import check_limits
    from inventory.host_view import view

    said = options or ActivationOptions()
    check_limits(said.limits)
    found = read_plan(plan)
    check_against(found, set(nornir.inventory.hosts))
    images = {host: one for host, one in planned_images(found).items() if host in nornir.inventory.hosts}
    if not images:
        raise ConfigInvalid(f"plan {plan}: it stages nothing here", hint="Give a plan that has devices to stage")
    views = {host: view(nornir.inventory.hosts[host]) for host in images}
    _check_consoles([host for host, one in views.items() if not one.console_access], said)
    planned = {device.host: device for device in found.devices if device.host in views}
    members = [_member(device, views[host]) for host, device in planned.items()]
    return ActivationPlan(
        path=plan,
        digest=found.digest,
        nornir=nornir.filter(filter_func=lambda host: host.name in images),
        rounds=activation_rounds(members, per_site=said.per_site, at_a_time=said.at_a_time, canary=said.canary),
        images=images,
        identities={host: planned[host].identity for host in images},
        sites={host: one.site for host, one in views.items()},
        options=said,
    )


def _member(device: PlannedDevice, seen: HostView) -> ActivationMember:
    """Return what decides about a device's round: by the plan, and by the inventory."""
    from flashferry.planning.activation_order import ActivationMember

    return ActivationMember(
        host=device.host,
        site=seen.site,
        model=device.model,
        image=device.image or "",
        is_upstream=seen.upstream,
    )


def _check_consoles(hosts: list[str], options: ActivationOptions) -> None:
    if hosts and not options.has_console_access:
        more = f" and {len(hosts) - 5} more" if len(hosts) > 5 else ""
        raise ConfigInvalid(
            f"of {', '.join(hosts[:5])}{more} the inventory does not say that the console can be reached: a "
            "device that does not come back from its restart needs that",
            hint="Give --i-have-console-access, or 'console_access: true' in the inventory",
        )


def activate(
    plan: ActivationPlan,
    approved: str,
    *,
    state: Journal | Path | str | None = None,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> RunReport:
    """Restart the devices of a plan into their images, those that are ready, each once at most.

    Args:
        plan: Who goes when.
        approved: The digest of the plan that was approved, or its first digits, LEAST_DIGEST at least.
        state: An open journal, the folder that it is in, or None: where the command line has it.
        emit: Takes events; called from several threads.
        interrupted: Whether the caller wants to stop: nothing new begins, what was restarted is followed to its end.

    Returns:
        A record per device. A device's fault is in its record, never raised.

    Raises:
        ConfigInvalid: It is not this plan that was approved; no device was touched.
        JournalUnusable: The journal cannot be written; no device was touched.
    """
    from flashferry.run.activation.fleet import ActivationRequest, activate_fleet

    _check_approval(plan, approved)
    options = plan.options
    request = ActivationRequest(
        images=plan.images,
        rounds=plan.rounds,
        identities=plan.identities,
        limits=options.limits,
        max_failures=options.max_failures,
        signature=options.signature,
        stored={"plan": {"path": str(plan.path), "digest": plan.digest}},
    )
    with journal_in(state) as journal:
        return activate_fleet(plan.nornir, request, journal=journal, emit=emit, interrupted=interrupted)


def _check_approval(plan: ActivationPlan, approved: str) -> None:
    given = approved.strip().casefold()
    if len(given) < LEAST_DIGEST or not plan.digest.startswith(given):
        raise ConfigInvalid(
            f"expected the approval of plan {plan.path}, SHA-256 {plan.digest[:16]}..., of "
            f"{counted(len(plan.hosts), 'device')}, found "
            f"{given[:LEAST_DIGEST] or 'nothing'!r}{'...' if len(given) > LEAST_DIGEST else ''}: no device was asked "
            "or restarted",
            hint=f"Look at it with --dry-run, then approve it by the first {LEAST_DIGEST} digits of its SHA-256",
        )
