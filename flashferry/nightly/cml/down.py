"""Taking a lab down until it is gone: look, do the next thing, look again, within a clock of its own.

Facts
-----
* "The lab must be stopped before it can be wiped", and wiped before it can be removed; what the controller answers to
  another order is unknown, and does not matter here: whatever an order came to, the next look decides.
* Labs are STARTED, STOPPED or DEFINED_ON_CORE. Whether a wiped lab is reported as the last: unknown, so after a wipe
  that was taken a removal is tried anyway.
* Gone is what a question is answered 404 to, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

from flashferry.core.json_access import Node
from flashferry.core.outside import sanitize
from flashferry.nightly.backend import RunningLab
from flashferry.nightly.cml.controller import Call, Controller, below
from flashferry.nightly.cml.labs import lab_details, node_states
from flashferry.nightly.deadline import Deadline
from flashferry.nightly.faults import Fault, NightFault
from flashferry.nightly.lab_notes import PREFIX

STEP = "clean"
_DOWN_POLL_S = 1.0
_STOP_AGAIN_S = 30.0
"""A stop that has not come to its end by then is given again, also to each node by itself."""

_REFUSALS = (400, 403, 404, 409, 423, 500)
"""What orders in the wrong moment may be answered with: the real codes are unknown."""
_RESTING = frozenset({"STOPPED", "DEFINED_ON_CORE"})


class _Descent:
    """One lab on its way down.

    Attributes:
        said: What the last order that failed was answered with, or why the last look failed.
        state: The lab's state when last seen; empty where it was not.
    """

    def __init__(self, controller: Controller, lab: RunningLab, deadline: Deadline) -> None:
        self._controller, self._lab, self._deadline = controller, lab, deadline
        self._is_wiped = False
        self._stop_again: Deadline | None = None
        self.said = ""
        self.state = ""

    def is_gone(self) -> bool:
        """Look, and do the next thing; return whether the lab is gone.

        Raises:
            NightFault: With `Fault.LAB`: the controller does not answer. With `Fault.CLEANUP`: it is not our lab.
        """
        answer = lab_details(self._controller, self._lab.lab_id, step=STEP, deadline=self._deadline)
        if answer.is_gone:
            return True
        node = Node(answer.value)
        title = node.text("lab_title") or ""
        if title != self._lab.title or not title.startswith(PREFIX):
            raise left(f"lab {sanitize(self._lab.lab_id)} is now called {sanitize(title)!r} and is left alone", said="")
        self.state = node.text("state") or "in no state"
        next_step: dict[str, Callable[[], None]] = {"STARTED": self._stop, "STOPPED": self._wipe}
        next_step.get(self.state, self._remove)()
        return False

    def last_seen(self) -> str:
        """Return where it stood when the time was over."""
        title = sanitize(self._lab.title)
        return f"lab {title} is still there, {self.state}" if self.state else f"lab {title} may still be there"

    def _stop(self) -> None:
        self._is_wiped = False
        if self._stop_again is not None and not self._stop_again.is_over:
            return
        is_again = self._stop_again is not None
        self._order("PUT", "stop")
        if is_again:
            states = node_states(self._controller, self._lab.lab_id, step=STEP, deadline=self._deadline)
            for node_id in (one for one, state in states.items() if state not in _RESTING):
                self._order("PUT", "nodes", node_id, "state", "stop")
        self._stop_again = Deadline.after(_STOP_AGAIN_S, self._deadline.clock)

    def _wipe(self) -> None:
        if self._is_wiped:
            self._remove()
        else:
            self._is_wiped = self._order("PUT", "wipe")

    def _remove(self) -> None:
        # Refused: from the beginning, for something in it still runs.
        if not self._order("DELETE"):
            self._is_wiped, self._stop_again = False, None
            self._order("PUT", "stop")
            self._order("PUT", "wipe")

    def _order(self, method: str, *parts: str) -> bool:
        path = below("labs", self._lab.lab_id, *parts)
        what = f"{parts[-1] if parts else 'remove'} the lab"
        call = Call(method=method, path=path, what=what, step=STEP, expects="nothing", allows=_REFUSALS)
        answer = self._controller.ask(call, deadline=self._deadline)
        if answer.said and not answer.is_gone:
            self.said = f"could not {what}: {answer.said}"
        return not answer.said


def take_down(controller: Controller, lab: RunningLab, *, deadline: Deadline, poll_s: float = _DOWN_POLL_S) -> None:
    """Stop, wipe and remove a lab, and return once the controller knows it no more.

    One that is gone already is no error, one that has another title by now is left alone.

    Raises:
        NightFault: With `Fault.CLEANUP`: it is still there.
    """
    descent = _Descent(controller, lab, deadline)
    while True:
        try:
            if descent.is_gone():
                return
        except NightFault as error:
            if error.fault is Fault.CLEANUP:
                raise
            descent.said = error.message
        if not deadline.pause(poll_s):
            raise left(descent.last_seen(), said=descent.said)


def left(message: str, *, said: str) -> NightFault:
    """Return the fault of a lab that is still there, or may be; with the last answer."""
    return NightFault(
        f"{message}; {said}" if said else message,
        fault=Fault.CLEANUP,
        step=STEP,
        hint="'flashferry nightly reap' tries again; or stop, wipe and delete it on the controller's page",
    )
