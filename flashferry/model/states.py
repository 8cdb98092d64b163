"""States and outcomes of a device in a run, and the words for them. The tables are the rule.

"Restored" is a fact of its own, never folded into the outcome: a failed copy on a restored device and a good copy on
an unrestored one are both shown as what they are.

Values are contract: JSON, journal, events and metrics hold them. Labels are for people. Every page, table, report and
count takes label, tone and phase from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How far a device has come."""

    PLANNED = "planned"
    CHECKED = "checked"
    JOURNALED = "journaled"
    TUNED = "tuned"
    COPYING = "copying"
    COPIED = "copied"
    VERIFIED = "verified"
    RESTORED = "restored"
    ACTIVATED = "activated"
    DONE = "done"
    FAILED = "failed"


NEXT: dict[State, frozenset[State]] = {
    State.PLANNED: frozenset({State.CHECKED, State.FAILED}),
    # Done at once: the image is there already, or the device is refused untouched.
    State.CHECKED: frozenset({State.JOURNALED, State.DONE, State.FAILED}),
    # Straight to copying: the device is good enough as it is, or is not to be tuned.
    State.JOURNALED: frozenset({State.TUNED, State.COPYING, State.RESTORED, State.ACTIVATED, State.FAILED}),
    State.TUNED: frozenset({State.COPYING, State.RESTORED, State.FAILED}),
    State.COPYING: frozenset({State.COPIED, State.RESTORED, State.FAILED}),
    # A copy to null: leaves nothing to verify. A probe copies more than once, tuned the second time.
    State.COPIED: frozenset({State.VERIFIED, State.COPYING, State.TUNED, State.RESTORED, State.FAILED}),
    State.VERIFIED: frozenset({State.RESTORED, State.FAILED}),
    State.RESTORED: frozenset({State.DONE, State.FAILED}),
    # Of an activation: the new image runs, and does what the old one did.
    State.ACTIVATED: frozenset({State.DONE, State.FAILED}),
    # A recovery may restore a device of a run that failed or died.
    State.FAILED: frozenset({State.RESTORED}),
    State.DONE: frozenset(),
}


ENDED = frozenset({State.RESTORED, State.DONE, State.FAILED})
"""States without a lease, unless the journal says that it is kept."""


def is_allowed(present: State, following: State) -> bool:
    """Return whether a device may go from one state to another."""
    return following in NEXT[present]


class Tone(StrEnum):
    """How a word is coloured; the word says it, the colour only repeats it."""

    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    QUIET = "quiet"


class Phase(StrEnum):
    """Where a device stands in its run: what live view, pages and metrics count. Values are those of metrics."""

    QUEUED = "queued"
    IN_PROGRESS = "under way"
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    NOT_STARTED = "not begun"

    @property
    def label(self) -> str:
        """The word for people."""
        return _LABELS.get(self, self.value)

    @property
    def tone(self) -> Tone:
        """Its colour."""
        return _TONES[self]

    @property
    def is_over(self) -> bool:
        """Whether nothing follows."""
        return self not in _OPEN


_OPEN = frozenset({Phase.QUEUED, Phase.IN_PROGRESS})
_LABELS = {Phase.NOT_STARTED: "not started"}
_TONES = {
    Phase.QUEUED: Tone.QUIET,
    Phase.IN_PROGRESS: Tone.QUIET,
    Phase.DONE: Tone.GOOD,
    Phase.REFUSED: Tone.WARN,
    Phase.FAILED: Tone.BAD,
    Phase.INTERRUPTED: Tone.WARN,
    Phase.NOT_STARTED: Tone.WARN,
}

NOT_DONE = (Phase.FAILED, Phase.REFUSED, Phase.INTERRUPTED, Phase.NOT_STARTED)
"""How a device ends that has not got what it was to get, the gravest first."""


class Outcome(StrEnum):
    """What became of a device in a run; the value is contract, the label is for people."""

    DONE = "done"
    ALREADY_THERE = "already there"
    REFUSED = "refused"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    NOT_STARTED = "not begun"
    ERROR = "error"

    @property
    def label(self) -> str:
        """The word for people."""
        return OUTCOMES[self].label

    @property
    def tone(self) -> Tone:
        """Its colour."""
        return self.phase.tone

    @property
    def phase(self) -> Phase:
        """What it counts as."""
        return OUTCOMES[self].phase

    @property
    def is_good(self) -> bool:
        """Whether the device has what it was to get."""
        return self.phase is Phase.DONE


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRow:
    """An outcome in words.

    Attributes:
        label: The word for people.
        phase: What it counts as.
        meaning: What happened, in a clause.
        remedy: What to do next, in a clause.
    """

    label: str
    phase: Phase
    meaning: str
    remedy: str


OUTCOMES: Mapping[Outcome, OutcomeRow] = {
    Outcome.DONE: OutcomeRow(
        label=Phase.DONE.label,
        phase=Phase.DONE,
        meaning="the device got what it was to get, proven",
        remedy="nothing",
    ),
    Outcome.ALREADY_THERE: OutcomeRow(
        label="already there",
        phase=Phase.DONE,
        meaning="the device had it before, proven; nothing was changed",
        remedy="nothing",
    ),
    Outcome.REFUSED: OutcomeRow(
        label=Phase.REFUSED.label,
        phase=Phase.REFUSED,
        meaning="a check found a reason not to touch the device; nothing was changed",
        remedy="remove the reason that the report gives, then stage the device again",
    ),
    Outcome.FAILED: OutcomeRow(
        label=Phase.FAILED.label,
        phase=Phase.FAILED,
        meaning="a step failed: the device or the network is at fault",
        remedy="follow the hint in the report, then 'flashferry stage --resume RUN'",
    ),
    Outcome.INTERRUPTED: OutcomeRow(
        label=Phase.INTERRUPTED.label,
        phase=Phase.INTERRUPTED,
        meaning="the run was stopped or killed while the device was being staged",
        remedy="'flashferry stage --resume RUN', which restores first what a killed run left",
    ),
    Outcome.NOT_STARTED: OutcomeRow(
        label=Phase.NOT_STARTED.label,
        phase=Phase.NOT_STARTED,
        meaning="the run did not touch the device: it ended before, or a rule of its plan leaves the device as it is",
        remedy="'flashferry stage --resume RUN' where the run ended before; else nothing",
    ),
    Outcome.ERROR: OutcomeRow(
        label=Phase.FAILED.label,
        phase=Phase.FAILED,
        meaning="a step failed for a reason that flashferry cannot name; the fault may be its own",
        remedy="send the report and the log to who maintains flashferry, then 'flashferry stage --resume RUN'",
    ),
}
"""The one table of outcomes; documentation and every form of output are made from it."""

GOOD_OUTCOMES = frozenset(one for one in Outcome if one.is_good)

LEFT = "left by the dead run"
"""Stands for an outcome in a report's JSON where a run was killed with the device in its hands."""


def label_of(outcome: str) -> str:
    """Return the word for people for an outcome, a phase or LEFT; what is none of them comes back as it is."""
    if outcome == LEFT:
        return Phase.INTERRUPTED.label
    if outcome in set(Outcome):
        return Outcome(outcome).label
    return Phase(outcome).label if outcome in set(Phase) else outcome


def phase_of(outcome: str | None, state: str, *, is_alive: bool) -> Phase:
    """Return where a device stands by what the journal has of it.

    Args:
        outcome: What became of it, or None where the run did not say.
        state: How far it came.
        is_alive: Whether its run is alive.
    """
    if outcome is not None and outcome in set(Outcome):
        return Outcome(outcome).phase
    if state == State.PLANNED:
        return Phase.QUEUED if is_alive else Phase.NOT_STARTED
    if is_alive:
        return Phase.IN_PROGRESS
    return Phase.DONE if state == State.DONE else Phase.INTERRUPTED


class Restored(StrEnum):
    """Whether the device's configuration is what it was."""

    UNTOUCHED = "untouched"
    RESTORED = "restored"
    FOREIGN_CHANGE = "restored but for somebody else's change"
    INCOMPLETE = "incomplete"

    @property
    def label(self) -> str:
        """The word for people."""
        return FOREIGN_LABEL if self is Restored.FOREIGN_CHANGE else self.value

    @property
    def tone(self) -> Tone:
        """Its colour."""
        return Tone.GOOD if self in {Restored.UNTOUCHED, Restored.RESTORED} else Tone.BAD


FOREIGN_LABEL = "restored except for a change by others"
NOT_RESTORED = "NOT RESTORED"
"""Stands beside the outcome's word where a device is changed, its run is over, and its configuration is not proven."""

ACCEPTED_LABEL = "accepted as it is"
"""Of a configuration that `flashferry recover --accept` took as it is: nothing of it is open any more."""
