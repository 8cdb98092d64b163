"""The session with a device over its run: logged in, logged out while it waits, logged in anew where it is lost."""

from __future__ import annotations

from nornir.core.task import Task

from flashferry.devices.connection import NAME as CONNECTION
from flashferry.devices.connection import remark, session_of
from flashferry.devices.session import DeviceSession
from flashferry.model.record import sentence_of
from flashferry.run.context import RunContext
from flashferry.run.device.record_keeper import DeviceEvents
from flashferry.run.device.step_runner import StepRunner
from tasks.steps import CONNECT


class DeviceLogin:
    """Logs in at a device and out again.

    Attributes:
        is_logged_out: Whether it was logged out while it waited: what was seen before need not hold any more.
    """

    def __init__(self, task: Task, context: RunContext, events: DeviceEvents, steps: StepRunner) -> None:
        self._task, self._context = task, context
        self._events, self._steps = events, steps
        self.is_logged_out = False

    def session(self) -> DeviceSession:
        """Return the open session; open it anew where it was lost. See `session_of` for what it raises."""
        return session_of(self._task)

    def connect(self) -> None:
        """Open the session, with not too many others at the same time."""
        context = self._context
        self._steps.check_stop(CONNECT)
        with (
            context.slots.logins.slot(interrupted=context.interrupted, on_wait=self._events.queued(CONNECT.word)),
            self._steps.telling(CONNECT),
        ):
            session_of(self._task)
            remark(self._task, f"run {context.run_id}, {context.verb}, attempt {context.attempt}")
        self.is_logged_out = False

    def log_out(self) -> None:
        """Free the vty line of a device that waits long."""
        self.is_logged_out = True
        try:
            self._task.host.close_connections()
        except Exception as error:  # noqa: BLE001 -- a session that cannot be ended is not used any more either
            self._events.tell(CONNECT.word, "note", f"note: logging out: {sentence_of(error)}")

    def forget(self) -> None:
        """Hang up, so that the next attempt logs in anew: whatever state the session was in is not to be trusted."""
        found = self._task.host.connections.pop(CONNECTION, None)
        if found is not None and found.connection is not None:
            found.connection.abandon()

    def end(self) -> None:
        """Log out for good, which may not cost the record of what happened."""
        try:
            self._task.host.close_connections()
        except Exception as error:  # noqa: BLE001 -- the session goes with the process at the latest
            self._events.tell(CONNECT.word, "failed", sentence_of(error))
