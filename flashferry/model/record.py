"""The record of one device in a run, and of the run: all that a report may show, without secrets."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, replace
from pathlib import PurePath

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
"""Clocks disagree when they differ by more than both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """How long a copy took, in seconds, by the device's clock, the server's and ours; None where one does not say.

    They measure different things. The device's line counts from its open file to its closed one, flash writing
    included; the server's from the first byte to the last acknowledgement; ours from the command to the prompt, the
    dialogue included. A difference that the dialogue does not explain is reported, with its direction.

    Attributes:
        device_s: By the device's `bytes copied` line.
        server_s: First byte to last acknowledgement, by our server.
        wall_s: Command to prompt, by our own clock.
        disagreement: What differs and what that means, in a sentence; empty where they agree.
    """

    device_s: float | None
    server_s: float | None
    wall_s: float | None
    disagreement: str = ""


def compare_clocks(*, device_s: float | None, server_s: float | None, wall_s: float | None) -> Clocks:
    """Return the three clocks and what they disagree about."""
    said = []
    if device_s is not None and server_s is not None and _differ(device_s, server_s):
        meaning = (
            "the device went on behind the last byte, writing flash or checking"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a device failed or was refused.

    Attributes:
        step: At which step.
        reason: What was expected and what was seen.
        hint: What to do, or None.
        kind: Of which kind it is, such as `LoginRefused`.
        transcript: The last of what was sent to the device and came from it, masked: an entry each, with its time and
            the way it went; empty where no session was open, or nothing went wrong in one.
        cause: Of a device out of reach: `name not resolved`, `refused`, `timeout`, `no route`, `no ssh`, `closed` or
            `unknown`; else None.
    """

    step: str
    reason: str
    hint: str | None
    kind: str
    transcript: tuple[str, ...] = ()
    cause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportTried:
    """A transport by which no byte came, so that the next one was taken.

    Attributes:
        transport: Its name.
        reason: Why no byte came.
        hint: What to do about it, or None.
        kind: Of which kind the failure is, such as `TransferStalled`.
    """

    transport: str
    reason: str
    hint: str | None
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRecord:
    """What became of one device.

    Attributes:
        host: Inventory name.
        state: Where it ended.
        outcome: What became of it.
        restored: Whether its configuration is what it was.
        failure: Why it failed or was refused; the first failure where there were several.
        restore_failure: Why restoring failed, or None.
        check: What the device is and has.
        window: The window chosen and why, or None where nothing was tuned.
        link_rate: What its link carries and who says so, or None where it is unknown.
        changes: What was to be set, with the lines before.
        dead_man: The applet that removes our lines by itself, or None where none was asked for.
        tune: What the lines were after tuning, or None where they were not set.
        pull: The copy by the device's own account.
        transfer: The copy by the server's account: SYN options, rates, verdict.
        reconciled: What became of a copy whose session was lost, one entry for each time.
        clocks: The copy's duration by three clocks, and what they disagree about.
        verify: The hash that the device computed.
        restore: What restoring did and its proof.
        distribution: The image on the other members, or None for a device that is alone.
        added: What became of `install add`, or None where that was not asked for.
        readiness: Whether it is ready to boot the image, or None where that was not asked.
        activation: What became of its activation, or None where the run was none.
        partial_file: What a failed copy left on flash, or None.
        partial_advice: What to do about it, or None.
        partial_removed: Whether it was removed, which the operator had allowed.
        probe: What a speed test found, or None where it was none.
        ssh_sweep: What a sweep over SSH's ciphers found, or None where it was none.
        image: Name of the image that it was to have.
        transport: By what it fetched, or was to.
        transports_tried: By what it was tried before, without a byte.
        source: Where the image came from where that was not our server: `neighbour r1`; else None.
        attempt: Number of this attempt in the run, from 1.
        earlier: Why the attempts before it failed, in their order.
        notes: What a reader should know besides, such as why the device was not tuned.
        seconds_by_step: Wall time of each step.
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
        """Return whether it has the image, proven, and is as it was before."""
        is_there = self.outcome.is_good and self.failure is None
        return is_there and self.restore_failure is None and self.restored is not Restored.INCOMPLETE

    @property
    def is_left_by_plan(self) -> bool:
        """Return whether its plan leaves it as it is by rule: it was to get nothing, so nothing of it is open."""
        return self.outcome is Outcome.NOT_STARTED and self.state is State.DONE

    def after_serving(self, found: DeviceRecord) -> DeviceRecord:
        """Return the record of a device that was taken in hand once more, only to serve others of its site.

        Args:
            found: What became of it then. That it was not reached, or did not serve, takes nothing from what it has.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What became of a run.

    Attributes:
        run_id: Identifier in the journal.
        verb: `stage`, `probe`, `activate` or `recover`.
        image: Name of the image; of several the first.
        image_bytes: Its size.
        md5: Its MD5.
        devices: One record per device, in the order of the inventory.
        interrupted: Whether the operator stopped the run.
        images: All images of the run.
        stopped: Why the run began nothing new from some moment on, or None where it went through.
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
    """Return an error as a failure at a step; the error knows best at which.

    Args:
        step: The step, should the error not know it.
        error: What was raised.
        transcript: The last part of the device's sessions; left out where the step was only stopped.
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
    """Return an error as a sentence. An unexpected one may quote anything, so only its kind and place are given."""
    if isinstance(error, FlashferryError):
        return masked(error.message)
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    place = f" at {PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"internal error {type(error).__name__}{place}"
