"""Activation: reload the devices of a plan that are ready into their images, in rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.api.fleet import journal_in
from flashferry.core.errors import ConfigInvalid
from flashferry.core.units import counted
from flashferry.model.activation import ActivationLimits
from flashferry.model.plan_file import check_against, read_plan
from flashferry.monitor.events import Emit, silent
from flashferry.planning.activation_order import ActivationMember, activation_rounds
from flashferry.planning.readiness import planned_images
from flashferry.run.activation.fleet import ActivationRequest, activate_fleet, check_limits
from inventory.host_view import view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nornir.core import Nornir

    from flashferry.model.fleet_plan import PlannedDevice
    from flashferry.model.record import RunReport
    from flashferry.model.waves import Wave
    from flashferry.store.journal import Journal
    from inventory.host_view import HostView
    from tasks.check import TargetImage

LEAST_DIGEST = 8
"""Number of digest digits that identify a plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationOptions:
    """How a plan is activated.

    Attributes:
        limits: Time limits.
        per_site: Devices of one site reloaded at the same time, >= 1.
        at_a_time: Devices reloaded at the same time, >= 1.
        canary: Whether one device of each model goes first.
        max_failures: Tolerated number of failed devices, >= 0; one more, and no further device is started.
        signature: Whether devices verify the vendor's signature again.
        has_console_access: Whether every device's console can be reached; otherwise the inventory must state it per
            device
            (`console_access`).
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
    """Which device is reloaded when, into which image; shown for approval.

    Attributes:
        path: The plan's file.
        digest: SHA-256 of the file, named by the approval.
        nornir: The devices that take part, with credentials.
        rounds: Devices by round.
        images: Image by device name.
        identities: What each device identified itself as when the plan was made; None: unknown.
        sites: Site by device name; None: it has none.
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
        """Return the devices in the order in which they are reloaded."""
        return tuple(host for one in self.rounds for host in one.hosts)

    def image_of(self, host: str) -> str:
        """Return the name of a device's image."""
        return self.images[host].image.name

    def site_of(self, host: str) -> str | None:
        """Return the site of a device."""
        return self.sites[host]


def activation_plan(nornir: Nornir, plan: Path, options: ActivationOptions | None = None) -> ActivationPlan:
    """Return which devices would be reloaded when. Contacts no device.

    Args:
        nornir: The devices, with credentials; those that are not in the plan take no part.
        plan: File of the plan that was staged.
        options: How it is activated.

    Raises:
        ConfigInvalid: Plan, inventory or limits are invalid, or a device's console cannot be reached.
    """
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
    """Return what determines a device's round."""
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
    """Reload the devices of a plan that are ready into their images, each at most once.

    Args:
        plan: Which device is reloaded when.
        approved: Digest of the approved plan, or at least its first LEAST_DIGEST digits.
        state: An open journal or its folder; None: the default folder.
        emit: Receives events; called from several threads.
        interrupted: Whether to stop: no further device is started, reloading ones are followed to their end.

    Returns:
        A record per device, with its error if it failed.

    Raises:
        ConfigInvalid: Another plan was approved; no device was contacted.
        JournalUnusable: The journal cannot be written; no device was contacted.
    """
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
