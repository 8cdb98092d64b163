"""What a night with a fault must end in, by rule: a function of fault and step, never taken from an output. Pure.

The rule in sentences. A fault that passes disturbs nothing, but a refusal (403) of what must be done. One that stays
ends the step that asks the controller and is the lab's fault: the night ends there, but for a link that is off (it goes
on, and is not compared) and for what is only kept. Steps of the product do not ask the controller. A lab that was made,
or may have been, and cannot be removed is a fault of the clean-up, which outweighs all others; the next reap removes
it.
"""

from __future__ import annotations

from dataclasses import dataclass

from flashferry.nightly.night import Fault, StepName
from tests.component.nightly.matrix.faults import ControllerFault, Span

STEPS = tuple(StepName)
PRODUCT = (StepName.CHECK, StepName.PROBE, StepName.STAGE, StepName.KILL, StepName.RESUME, StepName.RECOVER)
_BEFORE_A_LAB = (StepName.PREFLIGHT, StepName.REAP)
_CODES = {None: 0, Fault.LAB: 7, Fault.CLEANUP: 8}

_ASKED_ONCE = frozenset({StepName.PREFLIGHT, StepName.REAP, StepName.IMPORT, StepName.CONDITION})
"""What must not be refused even once; nodes are polled again, and what cannot be kept is told to be missing."""
_NOT_NEEDED = frozenset({"forbidden", "plain_text"})
"""What keeps no console's log from being kept: none is there, or it is a text anyway."""
_DONE_ALL_THE_SAME = frozenset({"slow", "slow_answer", "lost_answer", "plain_text"})
"""What makes the lab though the import does not hear of it."""

_LOOKED_AT: dict[str, tuple[StepName, ...]] = {
    # An import starts the lab, too.
    **dict.fromkeys(("is_ready", "is_licensed", "quota", "others_started"), (StepName.PREFLIGHT, StepName.IMPORT)),
    **dict.fromkeys(("memory_used_percent", "version"), (StepName.PREFLIGHT,)),
    "no_boot": (StepName.START,),
    # Of a node that is QUEUED no address is known either.
    "stuck": (StepName.START, StepName.REACH),
    **dict.fromkeys(("no_address", "is_snooping"), (StepName.REACH,)),
    **dict.fromkeys(
        ("wrong_condition", "wrong_operational", "wrong_on_link", "condition_refused"), (StepName.CONDITION,)
    ),
}
"""At which steps that is looked at which a fault makes wrong; it is found at the first one from where it strikes."""

_ROOM = frozenset({"quota", "others_started", "memory_used_percent"})
"""What a dead night's lab may take: looked at once more behind the reaping, where a night ends that lacks it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What must be found.

    Attributes:
        failed: Steps that fail, each with whose fault it is.
        leaves: Whether tonight's lab is still there when the run is over, for the next reap.
        leaves_dead: Whether the lab that a dead night left is.
    """

    failed: tuple[tuple[StepName, Fault], ...]
    leaves: bool
    leaves_dead: bool

    @property
    def fault(self) -> Fault | None:
        """The gravest fault."""
        faults = {fault for _, fault in self.failed}
        return Fault.CLEANUP if Fault.CLEANUP in faults else Fault.LAB if faults else None

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        return _CODES[self.fault]


def expected(fault: ControllerFault, step: StepName) -> Expectation:
    """Return what a night must end in that a fault strikes from the beginning of a step."""
    if fault.is_answer:
        failed = _of_answers(fault, step)
    elif fault.what.startswith("refuse_"):
        failed = _of_refusals(fault, step)
    elif fault.what == "disconnected":
        failed = _of_a_node_that_goes(step)
    else:
        looked_at = (one for one in _LOOKED_AT.get(fault.what, ()) if _is_from(one, step))
        failed = [(one, Fault.LAB) for one in looked_at][:1]
    leaves_dead = any(one in _BEFORE_A_LAB for one, _ in failed)
    if fault.what in _ROOM and step is StepName.PREFLIGHT:
        failed, leaves_dead = [(StepName.REAP, Fault.LAB)], False
    is_made = not (fault.is_answer and step is StepName.IMPORT) or fault.what in _DONE_ALL_THE_SAME
    leaves = is_made and (StepName.CLEAN, Fault.CLEANUP) in failed
    return Expectation(failed=tuple(failed), leaves=leaves, leaves_dead=leaves_dead)


def _is_from(step: StepName, first: StepName) -> bool:
    return STEPS.index(step) >= STEPS.index(first)


def _of_answers(fault: ControllerFault, step: StepName) -> list[tuple[StepName, Fault]]:
    if fault.span is Span.ONCE:
        is_refused = fault.what == "forbidden" and step in _ASKED_ONCE
        # A night's first question needs no login, so that none can be renewed.
        is_refused |= fault.what == "expired_token" and step is StepName.PREFLIGHT
        return [(step, Fault.LAB)] if is_refused else []
    if step is StepName.CLEAN:
        return [(step, Fault.CLEANUP)]
    failed = []
    if step not in (*PRODUCT, StepName.JUDGE, StepName.ARTEFACTS):
        failed.append((step, Fault.LAB))
    is_kept = fault.what in _NOT_NEEDED
    if fault.span is Span.STEP:
        return [(step, Fault.LAB)] if step is StepName.ARTEFACTS and not is_kept else failed
    # Consoles are read of nodes that are known: those of a lab that started.
    if not is_kept and _is_from(step, StepName.REACH):
        failed.append((StepName.ARTEFACTS, Fault.LAB))
    if step not in _BEFORE_A_LAB:
        failed.append((StepName.CLEAN, Fault.CLEANUP))
    return failed


def _of_refusals(fault: ControllerFault, step: StepName) -> list[tuple[StepName, Fault]]:
    if "for ever" not in fault.name:
        return []
    # A leftover that stays does not keep tonight's lab from its work.
    first = [(StepName.REAP, Fault.CLEANUP)] if step in _BEFORE_A_LAB else []
    return [*first, (StepName.CLEAN, Fault.CLEANUP)]


def _of_a_node_that_goes(step: StepName) -> list[tuple[StepName, Fault]]:
    """Return what fails with a router: the product, for the lab's sake, and the proof of configurations."""
    if not _is_from(step, StepName.REACH):
        return [(StepName.START, Fault.LAB)]
    if step in (StepName.ARTEFACTS, StepName.CLEAN):
        return []
    failed = {
        StepName.CONDITION: (StepName.CONDITION, StepName.CHECK),
        # A run that was killed is recovered, if it can be.
        StepName.RESUME: (StepName.RESUME, StepName.RECOVER),
    }.get(step, (step,))
    # Where configurations were read before the product began, they are read again.
    if _is_from(step, StepName.PROBE) and step is not StepName.JUDGE:
        failed = (*failed, StepName.JUDGE)
    return [(one, Fault.LAB) for one in failed]
