"""Staging as a library: one call from a Nornir script of one's own.

The steps are usable by themselves, too: each module of `tasks` has a Nornir task, such as `tasks.check.check`, that
takes its place in `nornir.run` or in a task of one's own.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from nornir.core import Nornir

from flashferry.core.errors import ConfigInvalid
from flashferry.images.digests import published
from flashferry.model.fleet_plan import FleetPlan, TuneMode
from flashferry.model.limits import Limits
from flashferry.model.links import LinkRates, told_pace
from flashferry.model.plan_file import load_plan
from flashferry.model.record import RunReport
from flashferry.model.retry import RetryPolicy
from flashferry.model.waves import WavePolicy
from flashferry.monitor.events import Emit, silent
from flashferry.run.context import DeviceOptions
from flashferry.run.make_request import Manner, request_for_image, request_for_plan
from flashferry.run.options import RunOptions
from flashferry.run.run import run_waves
from flashferry.store.journal import Journal
from inventory.access import state_directory
from inventory.view import view

__all__ = ["stage_fleet"]


def stage_fleet(
    nornir: Nornir,
    *,
    image: Path | str | None = None,
    plan: FleetPlan | Path | str | None = None,
    limits: Limits | None = None,
    waves: WavePolicy | None = None,
    tune: TuneMode | str | None = None,
    retries: int = 2,
    until: datetime | None = None,
    remove_partial: bool = False,
    verify_signature: bool = False,
    md5: str | None = None,
    sha512: str | None = None,
    any_image: bool = False,
    uncapped: bool = False,
    server_address: str | None = None,
    ftp_port: int | None = None,
    state_dir: Path | str | None = None,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> RunReport:
    """Have all devices of a Nornir object pull an image; each is restored and proven, whatever happens.

    Args:
        nornir: The devices, with credentials: whatever its inventory plugin is. Narrow it with `nornir.filter`.
        image: The image file for all devices that name none in the inventory.
        plan: Or a plan, or its file: images, waves, limits and who is tuned come from it unless they are given here.
        limits: How much goes on at the same time.
        waves: How waves are made, and when the run stops.
        tune: `auto`, `always` or `never`; `auto` leaves out devices that were shown not to gain from it.
        retries: Tries after a failure that may pass, 0 to 10.
        until: When the run must have ended, with a time zone.
        remove_partial: What a broken copy of ours left on flash may be removed.
        verify_signature: Whether devices verify the vendor's signature inside the image.
        md5: What the vendor published for the image; another file is refused before any device is touched.
        sha512: The same.
        any_image: Whether an image is staged also on a platform that it is not for, or on several.
        uncapped: Whether copies may run with neither a cap nor a pace, where no link rate is stated.
        server_address: Our address as devices reach it, or None: as their SSH connection shows it.
        ftp_port: Port of our FTP server, or None: 21 where that is allowed and free, else 2121, else any.
        state_dir: Where journal and history are, or None: where the command line has them.
        emit: Takes events; called from several threads.
        interrupted: Asked about once a second; once it says True, all is ended and restored.

    Returns:
        A record per device. A device's fault is in its record, never raised.

    Raises:
        ConfigInvalid: Something given is wrong; no device was touched.
    """
    if (image is None) == (plan is None):
        raise ConfigInvalid("stage_fleet: expected either an image or a plan")
    directory = Path(state_dir) if state_dir is not None else state_directory()
    made = load_plan(Path(plan)) if isinstance(plan, Path | str) else plan
    mode = _mode(tune, made)
    manner = Manner(
        limits=limits or (made.limits if made else Limits()),
        policy=waves or (made.policy if made else WavePolicy()),
        retry=RetryPolicy(times=retries),
        tune=mode,
        until=until or (datetime.fromisoformat(made.ends_at) if made and made.ends_at else None),
    )
    if made is not None:
        request = request_for_plan(nornir, made, manner, is_rewaved=waves is not None)
    else:
        assert image is not None
        request = request_for_image(nornir, Path(image), manner, state_directory=directory)
    options = RunOptions(
        device=DeviceOptions(
            tune=mode is not TuneMode.NEVER,
            remove_partial=remove_partial,
            verify_signature=verify_signature,
            any_image=any_image or (made is not None and made.any_image),
            uncapped=uncapped or (made is not None and made.uncapped),
            server_address=server_address,
        ),
        port=ftp_port,
        vendor=published(md5, sha512),
    )
    devices = [view(nornir.inventory.hosts[name]) for name in request.images]
    told_pace(devices, LinkRates(directory), uncapped=options.device.uncapped)
    with Journal(directory) as journal:
        return run_waves(nornir, request, options, journal=journal, emit=emit, interrupted=interrupted)


def _mode(tune: TuneMode | str | None, plan: FleetPlan | None) -> TuneMode:
    if tune is None:
        return plan.tune if plan is not None else TuneMode.AUTO
    try:
        return TuneMode(tune)
    except ValueError:
        known = ", ".join(mode.value for mode in TuneMode)
        raise ConfigInvalid(f"tune: expected one of {known}, found {tune!r}") from None
