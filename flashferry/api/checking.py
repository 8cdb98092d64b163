"""Looks and speed tests: whether devices are fit for an image, and how fast they take one. Flash is never written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.api.fleet import journal_in, state_folder
from flashferry.core.errors import ConfigInvalid
from flashferry.images.image import published_digests
from flashferry.model.exit_codes import ExitCode, exit_code
from flashferry.model.policy import ServerPlace, StagePolicy
from flashferry.model.probe_result import SweepOptions
from flashferry.monitor.events import Emit, silent
from flashferry.tcp.speed_test_size import TARGET_S, TYPICAL_IMAGE_BYTES
from inventory.transport_policy import AS_USUAL, AUTO

ALL = "all"
"""All transports that the inventory allows and our side can serve."""

if TYPE_CHECKING:
    from nornir.core import Nornir

    from flashferry.model.record import RunReport
    from flashferry.planning.inspection import CheckRecord
    from flashferry.run.probe import SpeedTest
    from flashferry.store.journal import Journal
    from tasks.check import TargetImage


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What a look at devices found.

    Attributes:
        devices: What was found of each, in the order of the inventory.
        exit_code: What that comes to: OK, DEVICES_FAILED, REFUSED, INTERRUPTED, or INTERNAL for a fault of ours.
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
    """Return an image with its size and digests, to be handed to `check`: for several checks it is hashed once.

    Args:
        image: The file.
        md5: What the vendor published for it, in hexadecimal.
        sha512: The same.
        any_image: Whether it is wanted also on a platform that it is not for.
        emit: Takes events about how far it is hashed, where that takes more than a second.

    Raises:
        ConfigInvalid: It is missing, empty or unreadable, or not the file that was published.
    """
    from flashferry.planning.local_images import wanted_image

    return wanted_image(Path(image), published_digests(md5, sha512), is_insisted=any_image, emit=emit)


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
    """Look at devices: platform, room, TCP lines, whether the image is there already. Changes nothing.

    Args:
        nornir: The devices, with credentials: of `open_fleet`, or of whatever inventory plugin.
        image: The image that they are to have, a file or what `read_image` returned; None: a look without one.
        reach: Whether each device fetches a tiny file to `null:` besides: path, login and mode, and its own SYN.
        server: Where they fetch it from.
        transport: By what they fetch: `usual`, `auto`, or a name; see `flashferry.api.StagePolicy`.
        state: Folder of journal and history, read only; None: where the command line has them.
        emit: Takes events; called from several threads.
        interrupted: Whether the caller wants to stop: devices under way are ended, others not started.

    Returns:
        A record per device. A device's fault is in its record, never raised.

    Raises:
        ConfigInvalid: The inventory or the image is wrong, the journal cannot be read, or the server cannot start.
    """
    target = read_image(image, emit=emit) if isinstance(image, Path | str) else image
    folder = state_folder(state)
    if reach:
        from flashferry.run.connectivity import reach_fleet
        from flashferry.run.request import RunOptions

        policy = StagePolicy(transport=transport)
        options = RunOptions(verb="check", policy=policy, server=server or ServerPlace())
        records = reach_fleet(nornir, target, options, state=folder, emit=emit, interrupted=interrupted)
    else:
        from flashferry.planning.inspection import check_fleet

        records = check_fleet(nornir, target, state=folder, emit=emit, interrupted=interrupted)
    code = exit_code((record.outcome for record in records), interrupted=interrupted())
    return CheckResult(devices=records, exit_code=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOptions:
    """What a speed test is to find out.

    Attributes:
        as_is: Whether to time a copy with the device's own settings.
        tuned: Whether to time one while tuned.
        image_bytes: Size of the image that is to follow: times are forecast for it.
        seconds: What a copy should take, 2 to 60; its size follows.
        server: Where the device fetches from.
        transport: By what it fetches: `usual`, `auto`, or a name; see `flashferry.api.StagePolicy`.
        transports: What to compare, `all` that are allowed or names with commas between them: one timed copy by each,
            tuned as a run would, in place of both copies by one; empty: no comparison.
        ssh_sweep: How SSH's ciphers and MACs are to be compared, in place of both copies; None: not at all.
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
    """Time copies to `null:`: as devices are, then tuned, each restored at once and proven. No flash is written.

    Args:
        nornir: The devices, with credentials.
        options: What is to be found out; both copies by default.
        state: An open journal, the folder that it is in, or None: where the command line has it.
        emit: Takes events; called from several threads.
        interrupted: Whether the caller wants to stop: devices under way are restored, others not started.

    Returns:
        A record per device, with its `probe`; `run_exit_code` says what they come to.

    Raises:
        ConfigInvalid: The inventory is wrong, or the server cannot start; no device was touched.
        JournalUnusable: The journal cannot be opened; no device was touched.
    """
    from flashferry.run.probe import SpeedTestOptions, SshSweepTest, TransportComparison, probe_fleet
    from flashferry.run.request import RunOptions
    from flashferry.transports.transport_selection import ssh_transport_names

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
