"""Checks and speed tests: whether devices are fit for an image, and how fast they copy it. Flash is never written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.api.fleet import journal_in
from flashferry.api.fleet_options import state_folder
from flashferry.core.errors import ConfigInvalid
from flashferry.images.image import published_digests
from flashferry.model.exit_codes import ExitCode, exit_code
from flashferry.model.policy import ServerPlace, StagePolicy
from flashferry.monitor.events import Emit, silent
from flashferry.planning.inspection import check_fleet
from flashferry.planning.local_images import target_image
from flashferry.run.connectivity import reach_fleet
from flashferry.run.probe import SpeedTestOptions, SshSweepTest, TransportComparison, probe_fleet
from flashferry.run.request import RunOptions
from flashferry.tcp.speed_test_size import TARGET_S, TYPICAL_IMAGE_BYTES
from flashferry.transports.transport_selection import ssh_transport_names
from inventory.transport_policy import AS_USUAL, AUTO

ALL = "all"
"""All transports that the inventory allows and our side can serve."""

if TYPE_CHECKING:
    from nornir.core import Nornir

    from flashferry.model.probe_result import SweepOptions
    from flashferry.model.record import RunReport
    from flashferry.planning.inspection import CheckRecord
    from flashferry.run.probe import SpeedTest
    from flashferry.store.journal import Journal
    from tasks.check import TargetImage


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Result of a check.

    Attributes:
        devices: A record per device, in inventory order.
        exit_code: OK, DEVICES_FAILED, REFUSED, INTERRUPTED, or INTERNAL for a fault of flashferry.
    """

    devices: tuple[CheckRecord, ...]
    exit_code: ExitCode


def read_image(
    image: Path | str,
    *,
    md5: str | None = None,
    sha512: str | None = None,
    any_image: bool = False,
    emit: Emit = silent,
) -> TargetImage:
    """Return an image with its size and digests, so that several checks hash it only once.

    Args:
        image: The file.
        md5: MD5 published by the vendor, in hexadecimal.
        sha512: SHA-512 published by the vendor, in hexadecimal.
        any_image: Whether to accept it on a platform that it is not made for.
        emit: Receives progress events if hashing takes more than a second.

    Raises:
        ConfigInvalid: The file is missing, empty or unreadable, or differs from a published digest.
    """
    return target_image(Path(image), published_digests(md5, sha512), is_insisted=any_image, emit=emit)


def check(
    nornir: Nornir,
    image: TargetImage | Path | str | None = None,
    *,
    reach: bool = False,
    server: ServerPlace | None = None,
    transport: str = AS_USUAL,
    state: Path | str | None = None,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> CheckResult:
    """Check devices: platform, free space, TCP lines, whether the image is there already. Changes nothing.

    Args:
        nornir: The devices, with credentials, from `open_fleet` or any inventory plugin.
        image: The image to check for, a file or the result of `read_image`; None: check without an image.
        reach: Whether each device also copies a tiny file to `null:`, which tests path, login, transfer mode, and its
            SYN.
        server: Where devices copy it from.
        transport: How they copy it: `usual`, `auto`, or a name; see `flashferry.api.StagePolicy`.
        state: Folder of journal and history, read only; None: the default.
        emit: Receives events; called from several threads.
        interrupted: Whether to stop: running checks are ended, no further device is started.

    Returns:
        A record per device, with its error if it failed.

    Raises:
        ConfigInvalid: The inventory or image is invalid, the journal cannot be read, or the server cannot start.
    """
    target = read_image(image, emit=emit) if isinstance(image, Path | str) else image
    folder = state_folder(state)
    if reach:
        policy = StagePolicy(transport=transport)
        options = RunOptions(verb="check", policy=policy, server=server or ServerPlace())
        records = reach_fleet(nornir, target, options, state=folder, emit=emit, interrupted=interrupted)
    else:
        records = check_fleet(nornir, target, state=folder, emit=emit, interrupted=interrupted)
    code = exit_code((record.outcome for record in records), interrupted=interrupted())
    return CheckResult(devices=records, exit_code=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOptions:
    """What a speed test measures.

    Attributes:
        as_is: Whether to time a copy with the device's own settings.
        tuned: Whether to time a copy while tuned.
        image_bytes: Size of the image that the duration is forecast for.
        seconds: Intended duration of a copy, 2 to 60; determines its size.
        server: Where the device copies from.
        transport: How it copies: `usual`, `auto`, or a name; see `flashferry.api.StagePolicy`.
        transports: Transports to compare, `all` allowed ones or names with commas: one timed copy each, tuned as in a
            run,
            instead of the copies above; empty: no comparison.
        ssh_sweep: How to compare SSH ciphers and MACs, instead of the copies above; None: no comparison.
    """

    as_is: bool = True
    tuned: bool = True
    image_bytes: int = TYPICAL_IMAGE_BYTES
    seconds: float = TARGET_S
    server: ServerPlace = field(default_factory=ServerPlace)
    transport: str = AS_USUAL
    transports: str = ""
    ssh_sweep: SweepOptions | None = None


def probe(
    nornir: Nornir,
    options: ProbeOptions | None = None,
    *,
    state: Journal | Path | str | None = None,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> RunReport:
    """Time copies to `null:`: as devices are, then tuned; each is restored at once and verified. Writes no flash.

    Args:
        nornir: The devices, with credentials.
        options: What to measure; None: both copies.
        state: An open journal or its folder; None: the default folder.
        emit: Receives events; called from several threads.
        interrupted: Whether to stop: devices in progress are restored, no further device is started.

    Returns:
        A record per device with its `probe`; `run_exit_code` maps the report to an exit code.

    Raises:
        ConfigInvalid: The inventory is invalid, or the server cannot start; no device was contacted.
        JournalUnusable: The journal cannot be opened; no device was contacted.
    """
    asked = options or ProbeOptions()
    if not (asked.as_is or asked.tuned):
        raise ConfigInvalid(
            "probe: expected a copy as the devices are, one while tuned, or both, found neither",
            hint="Ask for at least one of the two",
        )
    probe = SpeedTestOptions(
        as_is=asked.as_is, tuned=asked.tuned, image_bytes=asked.image_bytes, target_s=asked.seconds
    )
    by = asked.transport
    if asked.transports:
        by = AUTO if asked.transports == ALL else asked.transports
    test: Callable[..., SpeedTest] | None = TransportComparison if asked.transports else None
    if asked.ssh_sweep is not None:
        names = ssh_transport_names()
        by = names[0] if by == AS_USUAL else by
        if by not in names:
            raise ConfigInvalid(
                f"--ssh-sweep: expected a transport by SSH, {' or '.join(names)}, found --transport {by}",
                hint="Give one of them, or none",
            )
        test = partial(SshSweepTest, options=asked.ssh_sweep)
    run = RunOptions(verb="probe", policy=StagePolicy(transport=by), server=asked.server)
    with journal_in(state) as journal:
        return probe_fleet(nornir, probe, run, journal=journal, emit=emit, interrupted=interrupted, test=test)
