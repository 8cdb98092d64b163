"""`stage --dry-run`: what a run would do to each device, by the run's own check and plan. Changes nothing.

No server is started and no journal is written.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from nornir.core import Nornir
from nornir.core.task import Result, Task

from flashferry.core.errors import Kind
from flashferry.devices.connection import recent_of, session_of
from flashferry.model.doubts import Doubted
from flashferry.model.link_rates import LinkRate, LinkRates
from flashferry.model.record import DeviceRecord, Failure, failure_of
from flashferry.model.states import Outcome
from flashferry.monitor.events import Emit, Event, never_failing, silent
from flashferry.planning.image_platforms import HINT as ONE_PLATFORM
from flashferry.planning.image_platforms import GivenImages
from flashferry.planning.inspection import CheckRecord, inspect_device
from flashferry.planning.local_images import target_image
from flashferry.run.device_plan import DevicePlan, plan_device
from flashferry.run.request import FleetRequest, RunOptions
from flashferry.run.server import served_for, transports_of
from flashferry.store.leases import Lease, leases
from flashferry.store.staged import dead_man_proven, doubts
from flashferry.transports.listeners import free_port
from flashferry.transports.transport import Transport, checked_name
from inventory.host_view import view
from tasks.add import NOTHING_TO_ADD_TO, without_add
from tasks.check import CheckReport, TargetImage
from tasks.run_marker import local_owner, mark_line
from tasks.software_state import Mode, mode_of


class DryRecord(Struct, frozen=True, kw_only=True):
    """What a run would do to one device.

    Attributes:
        outcome: DONE: it would be staged as planned; ALREADY_THERE; REFUSED; FAILED or ERROR.
        plan: Lines and commands, or None if nothing would be done.
        link_rate: Its link's rate and where that is from, or None if unknown.
        notes: Notes of the check.
        failure: Why it would not be staged; None if it would.
    """

    host: str
    outcome: Outcome
    plan: DevicePlan | None
    link_rate: LinkRate | None
    notes: tuple[str, ...]
    failure: Failure | None


def excluded_dry_record(record: DeviceRecord) -> DryRecord:
    """Return the record of a device that the plan does not stage."""
    return DryRecord(
        host=record.host,
        outcome=record.outcome,
        plan=None,
        link_rate=None,
        notes=record.notes,
        failure=record.failure,
    )


def dry_run_fleet(
    nornir: Nornir,
    request: FleetRequest,
    options: RunOptions,
    *,
    state_directory: Path,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> tuple[DryRecord, ...]:
    """Return what `run_fleet` would do, one record per device in inventory order.

    Args:
        nornir: The devices, with credentials.
        request: Which devices get which image; others are left out.
        options: How the run is to be done.
        state_directory: State folder with learned link rates, read only.
        emit: Receives events, from several threads.
        interrupted: Whether the operator stops.

    Raises:
        ConfigInvalid: The inventory or the image is wrong.
    """
    policy, images = options.policy, request.images
    files = dict.fromkeys(images.values())
    targets = {
        path: target_image(path, policy.vendor, is_insisted=policy.any_image, emit=emit, interrupted=interrupted)
        for path in files
    }
    given = GivenImages()
    for one_image in targets.values():
        checked_name(one_image.image.name)
    chosen = nornir.filter(filter_func=lambda host: host.name in images)
    choices = transports_of([view(host) for host in chosen.inventory.hosts.values()], options, first=request.transports)
    held, proven = leases(state_directory), dead_man_proven(state_directory)
    doubted = doubts(state_directory)
    links, started, emit = LinkRates(state_directory), time.monotonic(), never_failing(emit)
    ports = {one.name: _port(one, options) for one in served_for(choices)}

    def one(task: Task) -> Result:
        name = task.host.name
        its = policy.of_device(
            is_untuned=name in request.untuned, adds=name in request.adds, takes_dead_man=name in proven
        )
        mine = replace(options, policy=its)
        transport = choices[name][0]
        image = replace(targets[images[name]], adds=its.add)
        port = ports.get(transport.name, 0)
        record = _planned(task, image, mine, links, transport, port, interrupted, held, doubted, given)
        task.host.close_connections()
        status, text = ("failed", record.failure.reason) if record.failure else ("done", "")
        at_s, outcome = time.monotonic() - started, record.outcome.value
        emit(Event(host=task.host.name, step="plan", status=status, text=text, at_s=at_s, outcome=outcome))
        return Result(host=task.host, result=record)

    results = chosen.run(task=one, name="dry-run")
    return tuple(results[name][0].result for name in chosen.inventory.hosts)


def _port(transport: Transport, options: RunOptions) -> int:
    asked = options.server.port_of(transport.listener_name)
    return free_port(transport) if asked is None else asked


def _planned(
    task: Task,
    target: TargetImage,
    options: RunOptions,
    links: LinkRates,
    transport: Transport,
    port: int,
    interrupted: Callable[[], bool],
    held: tuple[Lease, ...],
    doubted: Doubted,
    given: GivenImages,
) -> DryRecord:
    seen = inspect_device(task, target, interrupted, held=held, doubted=doubted)
    if seen.outcome is not Outcome.DONE or seen.check is None:
        return _without_plan(seen, seen.failure)
    shared = None if target.is_insisted else given.refusal(target.image.name, seen.host, seen.check.image)
    if shared is not None:
        failure = Failure(step="check", reason=shared, hint=ONE_PLATFORM, kind=Kind.POLICY_VIOLATION)
        return _without_plan(replace(seen, outcome=Outcome.REFUSED), failure)
    try:
        device = view(task.host)
        link = links.of(device, session_of(task).peer_address)
        plan = plan_device(
            device=device,
            platform=session_of(task).platform,
            check=seen.check,
            before=seen.check.running,
            policy=options.policy,
            to_null=options.to_null,
            server_address=options.server.address,
            link=link,
            image=target.image.name,
            port=port,
            transport=transport,
            expected=None if options.to_null else target.image.digests,
            mark=mark_line("RUN", local_owner()),
        )
    except Exception as error:  # noqa: BLE001 -- one device's fault must not end the others' plans
        return _without_plan(seen, failure_of("plan", error, recent_of(task).lines()))
    return DryRecord(
        host=seen.host,
        outcome=Outcome.DONE,
        plan=plan,
        link_rate=link,
        notes=(
            *seen.check.notes,
            *((DEAD_MAN_NOTE,) if options.policy.dead_man and plan.tune.changes else ()),
            *_after_the_restore(task, seen.check, plan.target, adds=target.adds),
        ),
        failure=None,
    )


DEAD_MAN_NOTE = (
    "before the first line: an EEM applet that takes our lines and itself back when its countdown is over, without a "
    "look at what stands there by then; where the "
    "device takes none, it is staged without"
)


def _after_the_restore(task: Task, check: CheckReport, target: str, *, adds: bool) -> tuple[str, ...]:
    """Return what would be done after the restore, in words."""
    if not adds or without_add(check.version, target) is not None:
        return ()  # for an older train the check reports it
    if mode_of(check.version) is Mode.INSTALL:
        return (f"once it is restored: {session_of(task).platform.add_command(target)}",)
    return (NOTHING_TO_ADD_TO,)


def _without_plan(seen: CheckRecord, failure: Failure | None) -> DryRecord:
    outcome = Outcome.FAILED if failure is not None and seen.outcome is Outcome.DONE else seen.outcome
    notes = seen.check.notes if seen.check else ()
    return DryRecord(host=seen.host, outcome=outcome, plan=None, link_rate=None, notes=notes, failure=failure)
