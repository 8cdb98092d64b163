"""The mutable state of one device's run, and how its steps and events are recorded."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from msgspec import Struct
from nornir.core.exceptions import NornirSubTaskError
from nornir.core.task import Result, Task

from flashferry.core.errors import FlashferryError, Kind
from flashferry.devices.connection import recent_of, remark, session_of
from flashferry.devices.errors import Interrupted, Stopped
from flashferry.devices.identity import guard_logins
from flashferry.devices.session import DeviceSession
from flashferry.fileserver import ImageFile, SshOffer, Ticket
from flashferry.model.lease import JournalUnusable
from flashferry.model.record import DeviceRecord, Failure, compare_clocks, failure_of, sentence_of
from flashferry.model.states import Outcome, State
from flashferry.reports.facts import fact_of
from flashferry.reports.facts import sentence_of as fact_sentence
from flashferry.run.context import RunContext
from flashferry.run.device_plan import DevicePlan
from flashferry.run.device_recorder import DeviceRecorder
from flashferry.run.neighbours.board import ServedBy
from flashferry.store.transfer_row import STAGE
from flashferry.transports.transport import Transport
from inventory.host_view import HostView, view
from tasks.check import CheckReport
from tasks.step import Step
from tasks.steps import CONNECT
from tasks.tcp_config import Change


class SlotState(Enum):
    """State of a device's copy slot.

    ANNOUNCED: the next device was asked to log in again. RELEASED_EARLY: the next device has the slot, although this
    copy is not complete.
    """

    NOT_HELD = auto()
    HELD = auto()
    ANNOUNCED = auto()
    RELEASED_EARLY = auto()


class CopyOrder(Struct, frozen=True, kw_only=True):
    """What a device is to copy.

    Attributes:
        target: The destination, for example `bootflash:image.bin` or `null:`.
        kind: Kind of the copy in the store.
        kind_tuned: The same while lines are in force that change its speed.
        ssh: SSH algorithms to offer; None: those of the device's release.
        is_history: Whether forecasts use its rate; not if a cipher is only tried.
    """

    image: ImageFile
    target: str
    kind: str = STAGE
    kind_tuned: str = STAGE
    ssh: SshOffer | None = None
    is_history: bool = True


@dataclass(slots=True, kw_only=True)
class CopyTraces:
    """What is known of the copies of one device, over all tickets.

    Attributes:
        order: The current or last copy; None before the first.
        ticket: Its ticket; earlier ones are revoked. None before the first.
        began: Whether a transfer started: a file at the target is then ours until it is proven gone.
        may_be_writing: Whether the device may still write to the target.
        sent_bytes: The most that one copy received from us; a larger file at the target is not ours.
        is_theirs: Whether the file at the target is not ours.
        is_from_neighbour: Whether the last copy came from a neighbour, so that our server has no account of it.
    """

    order: CopyOrder | None = None
    ticket: Ticket | None = None
    began: bool = False
    may_be_writing: bool = False
    sent_bytes: int = 0
    is_theirs: bool = False
    is_from_neighbour: bool = False


class DeviceRun(DeviceRecorder):
    """The mutable state of one device in a run. Steps are functions that take it.

    Attributes:
        host: The inventory's values, read once.
        is_logged_out: Whether the device was logged out while it waited; what was read before may have changed.
        slot: State of its copy slot.
        transport: Transport of the current copy.
        next_transports: Transports to try if this one fails before the first byte.
        served_by: The neighbour that serves the image; None: our server.
        own_interface: The interface that reaches the neighbour.
        plan: The last plan and its inputs; None before the first.
        in_force: Our lines that were sent, in the order of the plan.
        applets: Dead-man applets that are, or may be, on the device.
        applet_undo: Lines that the armed applet sends.
        arms_applet: Whether an applet is still to be armed: it was asked for, and the device did not refuse it.
    """

    def __init__(self, task: Task, context: RunContext) -> None:
        self.context = context
        self.host: HostView = view(task.host)
        record = DeviceRecord(
            host=task.host.name,
            image=context.image.name,
            transport=context.transports[0].name,
            attempt=context.attempt,
            earlier=context.earlier,
            seconds_by_step={},
        )
        super().__init__(
            task,
            record,
            emit=context.emit,
            started_s=context.started_s,
            site=self.host.site or None,
            wave=context.wave,
        )
        self.traces = CopyTraces()
        self.is_logged_out = False
        self.slot = SlotState.NOT_HELD
        self.transport: Transport = context.transports[0]
        self.next_transports: tuple[Transport, ...] = context.transports[1:]
        self.served_by: ServedBy | None = None
        self.own_interface: str | None = None
        self.plan: tuple[tuple[object, ...], DevicePlan] | None = None
        self.in_force: tuple[Change, ...] = ()
        self.applets: tuple[Change, ...] = ()
        self.applet_undo: tuple[str, ...] = ()
        self.arms_applet = bool(context.policy.dead_man)
        guard_logins(task, context.guard)

    # -- record ------------------------------------------------------------------------------------------------------

    @property
    def checked(self) -> CheckReport:
        """Return the check's report; the check must have been done."""
        assert self.record.check is not None
        return self.record.check

    @property
    def image_path(self) -> str:
        """Return the image's path on the device, for example `bootflash:image.bin`."""
        return f"{self.checked.file_system}{self.context.image.name}"

    def keep(self, step: Step, report: object) -> None:
        """Store a step's report in the record, if the step has a field there."""
        if step.record_field is not None:
            self.update(**{step.record_field: report})

    def passed(self, step: Step) -> None:
        """Enter the state that follows a step, if it has one; see `move`."""
        if step.state is not None:
            self.move(State(step.state))

    def note(self, text: str) -> None:
        """Add a note to the record."""
        self.update(notes=(*self.record.notes, text))

    def move(self, state: State) -> None:
        """Change the device's state, in the journal first.

        Raises:
            JournalUnusable: The journal could not be written; the record is unchanged.
        """
        self.context.journal.move(self.context.run_id, self.record.host, state)
        self.update(state=state)

    def move_to_failed(self) -> None:
        """Change the state to FAILED, once."""
        if self.record.state is not State.FAILED:
            self.move(State.FAILED)

    def compare_clocks(self) -> None:
        """Record how the clocks of device, server and this process measured the copy, as far as known."""
        done, seen = self.record.pull, self.record.transfer
        clocks = compare_clocks(
            device_s=done.device.duration_s if done else None,
            server_s=seen.duration_s if seen else None,
            wall_s=done.wall_s if done else None,
        )
        self.update(clocks=clocks)

    def take_failure(self, error: BaseException) -> None:
        """Record the first failure; later ones are ignored.

        Only a step that the stop ended counts as interrupted: a wrong hash after Ctrl-C keeps its kind.
        """
        if self.record.failure is not None:
            return
        failure = failure_of("stage", error, recent_of(self.task).lines())
        if isinstance(error, Stopped):
            self.update(outcome=Outcome.INTERRUPTED, failure=self._with_closed_window(failure))
        else:
            known = isinstance(error, FlashferryError)
            self.update(outcome=Outcome.FAILED if known else Outcome.ERROR, failure=failure)
        if self.record.state in {State.PLANNED, State.CHECKED}:
            # The device is unchanged: a journal that cannot be written must not make it count as not restored.
            with suppress(JournalUnusable):
                self.move(State.FAILED)

    def _with_closed_window(self, failure: Failure) -> Failure:
        """Return the failure as a closed window if the clock, not the operator, stopped the device."""
        reason = self.context.closing()
        if reason is None:
            return failure
        hint = f"Go on with 'flashferry stage --resume {self.context.run_id}' when its window is open again"
        return Failure(step=failure.step, reason=reason, hint=hint, kind=Kind.WINDOW_CLOSED)

    # -- events ------------------------------------------------------------------------------------------------------

    def note_event(self, step: str, text: str) -> None:
        """Emit a note."""
        self.event(step, "note", f"note: {text}")

    def note_fact(self, step: str, name: str, value: object, *, prefix: str = "") -> None:
        """Emit a record field in the words of the reports."""
        self.event(step, "note", f"{prefix}{fact_sentence(fact_of(name, value))}")

    def queued(self, step: str) -> Callable[[str], None]:
        """Return a function that emits why the device waits before a step."""
        return lambda text: self.event(step, "queued", text)

    # -- steps -------------------------------------------------------------------------------------------------------

    def run_step(self, step: Step, task: Callable[..., Result], **arguments: Any) -> Any:
        """Run a step as a Nornir subtask and return its typed result; the caller stores it.

        Raises:
            Interrupted: The run stops, and the step is not one that runs nevertheless.
        """
        if not step.runs_when_stopping:
            self.check_stop(step)
        with self.timed(step.word):
            try:
                return self.task.run(task=task, name=step.word, **arguments)[0].result
            except NornirSubTaskError as wrapped:
                cause = wrapped.result[0].exception
                if isinstance(cause, FlashferryError):
                    cause.at(host=self.task.host.name, step=step.word)
                raise cause from None

    def check_stop(self, step: Step) -> None:
        """Raise before a step if the run stops.

        Raises:
            Interrupted: The run stops.
        """
        if self.context.interrupted():
            raise Interrupted("stopped by the operator before this step", host=self.task.host.name, step=step.word)

    # -- session -----------------------------------------------------------------------------------------------------

    def session(self) -> DeviceSession:
        """Return the open session, or a new one if it was lost. Raises as `session_of`."""
        return session_of(self.task)

    def connect(self) -> None:
        """Log in; the number of concurrent logins is limited."""
        context = self.context
        self.check_stop(CONNECT)
        with (
            context.slots.logins.slot(interrupted=context.interrupted, on_wait=self.queued(CONNECT.word)),
            self.timed(CONNECT.word),
        ):
            session_of(self.task)
            remark(self.task, f"run {context.run_id}, {context.verb}, attempt {context.attempt}")
        self.is_logged_out = False

    def connect_again(self) -> None:
        """Log in if the device was logged out while it waited."""
        if self.is_logged_out:
            self.connect()

    def log_out(self) -> None:
        """Free the vty line while the device waits."""
        self.is_logged_out = True
        self._close("note", "note: logging out: ")

    def end_session(self) -> None:
        """Log out at the end of the run; an error there is only an event."""
        self._close("failed", "")

    def _close(self, status: str, prefix: str) -> None:
        try:
            self.task.host.close_connections()
        except Exception as error:  # noqa: BLE001 -- a session that cannot be closed is not used any more either
            self.event(CONNECT.word, status, f"{prefix}{sentence_of(error)}")
