"""The record of a device in a run, and of the run: all that reports show, without secrets."""

from __future__ import annotations

import traceback
from pathlib import PurePath

from msgspec import Struct
from msgspec.structs import replace

from flashferry.core.errors import FlashferryError, kind_of
from flashferry.core.redaction import masked
from flashferry.devices.errors import DeviceUnreachable, Stopped
from flashferry.fileserver import TransferRecord
from flashferry.images.image import Image
from flashferry.model.activation import ActivationReport
from flashferry.model.link_rates import LinkRate
from flashferry.model.lost_copy_rules import RecoveryDecision
from flashferry.model.probe_result import ProbeResult, SshSweep
from flashferry.model.states import Outcome, Restored, State
from flashferry.tcp.receive_window import WindowChoice
from flashferry.transports import USUAL
from tasks.add import AddReport
from tasks.check import CheckReport
from tasks.copy import CopyReport
from tasks.dead_man import DeadManReport
from tasks.distribute import DistributionReport
from tasks.readiness.values import Readiness
from tasks.restore import RestoreReport
from tasks.tcp_config import Change
from tasks.tune import TuneReport
from tasks.verify import VerifyReport

SHARE = 0.10
LEAST_S = 2.0
"""Clocks disagree if they differ by more than both."""


class Clocks(Struct, frozen=True, kw_only=True):
    """Duration of a copy in seconds by three clocks; None if unknown.

    They measure different intervals: the device's line from opening to closing its file, flash writing included; the
    server from first byte to last acknowledgement; ours from command to prompt, the dialogue included. A difference
    that the dialogue does not explain is reported with its direction.

    Attributes:
        device_s: By the device's `bytes copied` line.
        server_s: First byte to last acknowledgement, by our server.
        wall_s: Command to prompt, by our clock.
        disagreement: What differs and what that means, in a sentence; empty if they agree.
    """

    device_s: float | None
    server_s: float | None
    wall_s: float | None
    disagreement: str = ""


def compare_clocks(*, device_s: float | None, server_s: float | None, wall_s: float | None) -> Clocks:
    """Compare the three durations."""
    said = []
    if device_s is not None and server_s is not None and _differ(device_s, server_s):
        meaning = (
            "the device kept running after the last byte, writing flash or checking"
            if device_s > server_s
            else "the device's clock does not count all of the transfer"
        )
        said.append(f"the device says {device_s:.1f} s, our server {server_s:.1f} s: {meaning}")
    if device_s is not None and wall_s is not None and _differ(device_s, wall_s):
        meaning = (
            "the rest is login, questions and the way to the prompt"
            if wall_s > device_s
            else "its clock runs faster than time"
        )
        said.append(f"the device says {device_s:.1f} s, our clock {wall_s:.1f} s from command to prompt: {meaning}")
    return Clocks(device_s=device_s, server_s=server_s, wall_s=wall_s, disagreement="; ".join(said))


def _differ(one_s: float, other_s: float) -> bool:
    apart_s = abs(one_s - other_s)
    return apart_s > LEAST_S and apart_s > SHARE * max(one_s, other_s)


class Failure(Struct, frozen=True, kw_only=True):
    """Why a device failed or was refused.

    Attributes:
        step: The step that failed.
        reason: What was expected and what was found.
        hint: What to do; None for nothing.
        kind: Error type, such as `LoginRefused`.
        transcript: Last lines sent to and received from the device, secrets masked, with time and direction; empty if
            no session was open or the failure was elsewhere.
        cause: For an unreachable device: `name not resolved`, `refused`, `timeout`, `no route`, `no ssh`, `closed` or
            `unknown`; else None.
    """

    step: str
    reason: str
    hint: str | None
    kind: str
    transcript: tuple[str, ...] = ()
    cause: str | None = None


class TransportTried(Struct, frozen=True, kw_only=True):
    """A transport by which no byte arrived, so that the next one was tried.

    Attributes:
        reason: Why no byte arrived.
        hint: What to do; None for nothing.
        kind: Error type, such as `TransferStalled`.
    """

    transport: str
    reason: str
    hint: str | None
    kind: str


class DeviceRecord(Struct, frozen=True, kw_only=True):
    """Result of one device.

    Attributes:
        state: Its last state.
        restored: Whether its configuration is restored.
        failure: Why it failed or was refused, the first failure of several; None if it did not.
        restore_failure: Why the restore failed; None if it did not.
        check: Facts and results of the check; None before it.
        window: The chosen TCP window and why; None if nothing was tuned.
        link_rate: Rate of its link and where that is from; None if unknown.
        changes: Lines to set, with the lines before.
        dead_man: Applet that removes our lines by itself; None for none.
        tune: Lines after tuning; None if they were not set.
        pull: The copy, as the device reported it; None before its end.
        transfer: The copy, as the server recorded it: SYN options, rates, verdict; None if it recorded none.
        reconciled: Result for each time that a copy's session was lost.
        clocks: The copy's duration by three clocks.
        verify: The hash that the device computed; None if it computed none.
        restore: The restore and its proof; None if nothing was changed, or not restored yet.
        distribution: The image on other members; None for a single device.
        added: Result of `install add`; None if not requested.
        readiness: Readiness to boot the image; None if not checked.
        activation: Result of its activation; None for none.
        partial_file: Partial file that a failed copy left; None for none.
        partial_advice: What to do about it; None without such a file.
        partial_removed: Whether it was removed, as the operator allowed.
        probe: Result of a speed test; None for none.
        ssh_sweep: Result of a sweep over SSH ciphers; None for none.
        image: Name of its image; None for none.
        transport: Transport of its copy.
        transports_tried: Transports that were tried before, without a byte.
        source: Source of the image if not our server: `neighbour r1`; else None.
        attempt: Number of this attempt in the run, from 1.
        earlier: Failures of earlier attempts, in order.
        notes: Notes for the reader, such as why the device was not tuned.
        seconds_by_step: Duration of each step.
    """

    host: str
    state: State = State.PLANNED
    outcome: Outcome = Outcome.ERROR
    restored: Restored = Restored.UNTOUCHED
    failure: Failure | None = None
    restore_failure: Failure | None = None
    check: CheckReport | None = None
    window: WindowChoice | None = None
    link_rate: LinkRate | None = None
    changes: tuple[Change, ...] = ()
    dead_man: DeadManReport | None = None
    tune: TuneReport | None = None
    pull: CopyReport | None = None
    transfer: TransferRecord | None = None
    reconciled: tuple[RecoveryDecision, ...] = ()
    clocks: Clocks | None = None
    verify: VerifyReport | None = None
    restore: RestoreReport | None = None
    distribution: DistributionReport | None = None
    added: AddReport | None = None
    readiness: Readiness | None = None
    activation: ActivationReport | None = None
    partial_file: str | None = None
    partial_advice: str | None = None
    partial_removed: bool = False
    probe: ProbeResult | None = None
    ssh_sweep: SshSweep | None = None
    image: str | None = None
    transport: str = USUAL.name
    transports_tried: tuple[TransportTried, ...] = ()
    source: str | None = None
    attempt: int = 1
    earlier: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()
    seconds_by_step: dict[str, float]

    @property
    def is_staged_and_restored(self) -> bool:
        """Return whether its image is verified and its configuration restored."""
        is_there = self.outcome.is_good and self.failure is None
        return is_there and self.restore_failure is None and self.restored is not Restored.INCOMPLETE

    @property
    def is_left_by_plan(self) -> bool:
        """Return whether its plan excluded it, so that nothing is open."""
        return self.outcome is Outcome.NOT_STARTED and self.state is State.DONE

    def after_serving(self, found: DeviceRecord) -> DeviceRecord:
        """Return this record after the device also served other devices of its site.

        Args:
            found: Result of serving; if that failed, the device's own result is unaffected.
        """
        failure = found.failure or found.restore_failure
        notes = found.notes if failure is None else (*found.notes, f"it was to serve others: {failure.reason}")
        fresh = tuple(one for one in notes if one not in self.notes)
        record = replace(self, attempt=found.attempt, notes=(*self.notes, *fresh))
        if found.restored is Restored.UNTOUCHED:
            return record
        return replace(
            record,
            changes=found.changes,
            restore=found.restore,
            restored=found.restored,
            restore_failure=found.restore_failure,
        )


class RunReport(Struct, frozen=True, kw_only=True):
    """Result of a run.

    Attributes:
        verb: `stage`, `probe`, `activate` or `recover`.
        image: Name of the first image.
        image_bytes: Its size.
        md5: Its MD5.
        devices: One record per device, in the order of the inventory.
        interrupted: Whether the operator stopped the run.
        stopped: Why the run started nothing new from some time on; None if it did not stop.
    """

    run_id: str
    verb: str
    image: str
    image_bytes: int
    md5: str
    devices: tuple[DeviceRecord, ...]
    interrupted: bool = False
    images: tuple[Image, ...] = ()
    stopped: str | None = None


def failure_of(step: str, error: BaseException, transcript: tuple[str, ...] = ()) -> Failure:
    """Convert an error to a failure.

    Args:
        step: The step, if the error does not name one.
        error: The exception.
        transcript: Last lines of the device's sessions; omitted if the step was only stopped.
    """
    hint = error.hint if isinstance(error, FlashferryError) else None
    return Failure(
        step=(error.step if isinstance(error, FlashferryError) else None) or step,
        reason=sentence_of(error),
        hint=hint,
        kind=kind_of(error),
        transcript=() if isinstance(error, Stopped) else transcript,
        cause=error.cause if isinstance(error, DeviceUnreachable) else None,
    )


def sentence_of(error: BaseException | None) -> str:
    """Return an error as a sentence; an unexpected one only as type and location, because it may quote anything."""
    if isinstance(error, FlashferryError):
        return masked(error.message)
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    place = f" at {PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"internal error {type(error).__name__}{place}"
