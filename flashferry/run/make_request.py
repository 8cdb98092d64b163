"""Make requests from one image for all devices, or from a plan, with what earlier runs recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nornir.core import Nornir

from flashferry.core.errors import ConfigInvalid, Kind
from flashferry.core.value_description import described_image
from flashferry.model.fleet_plan import Action, FleetPlan, PlannedDevice
from flashferry.model.plan_file import check_against
from flashferry.model.policy import StagePolicy, TuneMode
from flashferry.model.record import DeviceRecord, Failure
from flashferry.model.states import Outcome, State
from flashferry.model.waves import WaveDevice, WavePolicy, waves
from flashferry.planning.local_images import named_image
from flashferry.run.request import FleetRequest
from flashferry.store.history import History
from flashferry.store.journal import NewDevice
from flashferry.store.status import last_hash_speeds
from flashferry.transports.transport_selection import TransportRequest, candidates
from inventory.host_view import SSH_PORT, HostView, view
from inventory.platforms import platform_of
from inventory.transport_policy import AUTO
from inventory.value_readers import at_home

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nornir.core.inventory import Host

_EXCLUDED = {
    Action.ALREADY_THERE: (Outcome.ALREADY_THERE, State.DONE),
    Action.STAYS: (Outcome.NOT_BEGUN, State.DONE),
    Action.REFUSED: (Outcome.REFUSED, State.FAILED),
    Action.UNREACHABLE: (Outcome.FAILED, State.FAILED),
}
"""What a report says of devices that a run does not touch by its plan: they are entered all the same, so that it has
every device. Out of reach is a failure: the device was to have its image, and has not."""


def excluded_by(plan: FleetPlan, hosts: Mapping[str, Host]) -> tuple[tuple[NewDevice, DeviceRecord], ...]:
    """Return the devices that a plan does not stage, as far as they are among some hosts, with their records."""
    return tuple(
        (_device(one, hosts[one.host]), excluded_record(one, plan.created_at))
        for one in plan.devices
        if one.action in _EXCLUDED and one.host in hosts
    )


def _moment(stamp: str) -> str:
    """Return a plan's time, ISO 8601 and UTC, for people."""
    return f"{stamp[:16].replace('T', ' ')} UTC"


def _device(planned: PlannedDevice, host: Host) -> NewDevice:
    """Return a device as the plan has it; the inventory may say what a run would refuse, and is not asked for more."""
    return NewDevice(
        host=planned.host,
        address=planned.address,
        port=host.port or SSH_PORT,
        platform=platform_of(host.platform) or host.platform or "",
        site=planned.site,
        wave=planned.wave,
        image=planned.image,
    )


def excluded_record(planned: PlannedDevice, created_at: str) -> DeviceRecord:
    """Return what a report says of a device that a run does not touch by its plan.

    Args:
        planned: The device; its plan does not stage it.
        created_at: When the plan was made, ISO 8601 and UTC.
    """
    looked_at = _moment(created_at)
    outcome, state = _EXCLUDED[planned.action]
    why, notes = None, planned.notes
    if planned.action is Action.ALREADY_THERE:
        notes = (*notes, f"the plan found the image there at {looked_at}; this run did not look again")
    else:
        word = {Action.UNREACHABLE: "out of reach"}.get(planned.action, planned.action.value)
        why = Failure(
            step="plan",
            reason=f"{word} when the plan was made, {looked_at}, so this run did not touch it: {planned.reason}",
            hint=planned.hint,
            kind=Kind.EXCLUDED_BY_PLAN,
        )
    return DeviceRecord(
        host=planned.host,
        state=state,
        outcome=outcome,
        failure=why,
        image=planned.image,
        notes=notes,
        seconds_by_step={},
    )


_ELSEWHERE = (
    "Put it there, or make a plan and give its folder too: 'flashferry plan --image-dir DIR'; an inventory names no "
    "other files of this machine"
)

OVERHEAD_S = 30.0
"""What a device takes besides copy and hash: login, check, tuning, restoring and proving at a long round trip."""


def request_for_image(
    nornir: Nornir, image: Path, policy: StagePolicy, *, state_directory: Path, folders: Iterable[Path] = ()
) -> FleetRequest:
    """Return the request to give all devices an image; one that names its own in the inventory gets that.

    Args:
        nornir: The devices.
        image: The image of all others.
        policy: How the run goes about it.
        state_directory: Where history is; read only.
        folders: Where an image is looked for that an inventory names, besides the folder of `image`; it may be nowhere
            else, however it is written and whatever links lead there.

    Raises:
        ConfigInvalid: The inventory is wrong, or a device's own image is in none of the folders, or no regular file.
    """
    views = [view(host) for host in nornir.inventory.hosts.values()]
    images = {one.name: _image_of(one, image, (image.parent, *folders)) for one in views}
    history, speeds = History.read(state_directory), last_hash_speeds(state_directory)
    ways = _transports(views, images, history, policy.transport)
    untuned = {}
    if policy.tune is TuneMode.AUTO:
        shown = ((one.name, history.shown_not_to_gain(one.name, ways[one.name])) for one in views)
        untuned = {name: why for name, why in shown if why is not None}
    return FleetRequest(
        images=images,
        waves=waves([_wave_device(one, images[one.name], history) for one in views], policy.waves),
        untuned=untuned,
        expected_s=_expected(images, history, speeds, untuned, ways),
        transports=ways if policy.transport == AUTO else {},
    )


def request_for_plan(nornir: Nornir, plan: FleetPlan, policy: StagePolicy) -> FleetRequest:
    """Return the request to carry a plan out: the devices that it stages, each checked again by the run.

    Args:
        nornir: The devices; of those planned, the ones that are missing here take no part.
        plan: The plan.
        policy: How the run goes about it: the plan's own policy, but for what the operator overrode. Waves are made
            anew where it has other ones made.

    Raises:
        ConfigInvalid: A device that is to be staged is not in the inventory, or none is to be staged.
    """
    check_against(plan, nornir.inventory.hosts)
    paths = {image.name: Path(image.path) for image in plan.images}
    staged = plan.of(Action.STAGE)
    if not staged:
        raise ConfigInvalid(
            "the plan has no device to stage: all are there already, refused or out of reach",
            hint="Look at it with 'flashferry plan', which says why",
        )
    made = plan.waves
    if _makes(policy.waves) != _makes(plan.policy):
        made = waves(staged, policy.waves)
    always = policy.tune is TuneMode.ALWAYS
    return FleetRequest(
        images={one.host: paths[one.image] for one in staged if one.image is not None},
        waves=made,
        untuned={} if always else {one.host: one.tune_reason for one in staged if not one.tune},
        adds=frozenset(one.host for one in staged if one.adds),
        expected_s={one.host: one.total_s for one in staged if one.total_s is not None},
        identities={one.host: one.identity for one in staged if one.identity is not None},
        transports={one.host: one.transport for one in staged} if policy.transport == AUTO else {},
        since=datetime.fromisoformat(plan.starts_at),
        excluded=excluded_by(plan, nornir.inventory.hosts),
    )


def _makes(policy: WavePolicy) -> tuple[object, ...]:
    """Return what decides about who is in which wave."""
    return policy.canary, policy.by, policy.size


def _image_of(device: HostView, image: Path, folders: tuple[Path, ...]) -> Path:
    if device.image is None:
        return image
    own = at_home(device.image)
    allowed = (*folders, image.resolve().parent)
    for folder in folders:
        # A path from the root stays what it is.
        if (folder / own).exists():
            try:
                return named_image(folder / own, allowed, hint=_ELSEWHERE)
            except ConfigInvalid as error:
                raise ConfigInvalid(error.message, host=device.name, hint=error.hint) from None
    looked = ", ".join(str(folder) for folder in folders)
    raise ConfigInvalid(
        f"image {described_image(device.image)}, which the inventory names: expected it in {looked}, found it in none "
        "of them",
        host=device.name,
        hint="Put it there",
    )


def _wave_device(device: HostView, image: Path, history: History) -> WaveDevice:
    """Return what decides about a device's wave; its model is known from earlier runs only."""
    models = [one.model for one in history.of(device.name) if one.model is not None]
    return WaveDevice(
        host=device.name,
        site=device.site,
        group=device.groups[0] if device.groups else None,
        model=models[-1] if models else None,
        image=str(image),
    )


def _transports(views: Iterable[HostView], images: Mapping[str, Path], history: History, asked: str) -> dict[str, str]:
    """Return by what each device begins to fetch; what our side cannot serve the run leaves out.

    Raises:
        ConfigInvalid: What is asked for is not allowed.
    """
    found = {}
    for one in views:
        tried = [each.name for each in candidates(one.name, one.transport_policy, TransportRequest(asked=asked))]
        path = images[one.name]
        size_bytes = path.stat().st_size if path.is_file() else 1
        fastest = history.fastest(one.name, tried, size_bytes=size_bytes) if len(tried) > 1 else None
        found[one.name] = fastest[0] if fastest is not None else tried[0]
    return found


def _expected(
    images: Mapping[str, Path],
    history: History,
    speeds: Mapping[str, float],
    untuned: Mapping[str, str],
    transports: Mapping[str, str],
) -> dict[str, float]:
    """Return how long devices take, those of which that is known."""
    found = {}
    sizes = {path: path.stat().st_size for path in set(images.values()) if path.is_file()}
    for host, path in images.items():
        size_bytes = sizes.get(path, 0)
        rate = None
        if size_bytes:
            tuned, transport = host not in untuned, transports[host]
            rate = history.expected(host, tuned=tuned, size_bytes=size_bytes, transport=transport)
        if rate is not None:
            hash_s = size_bytes / speeds[host] if host in speeds else 0.0
            found[host] = OVERHEAD_S + size_bytes / rate.bytes_per_s + hash_s
    return found
