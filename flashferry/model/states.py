"""States and outcomes of a device in a run, and their display names.

"Restored" is separate from the outcome: a failed copy on a restored device and a good copy on an unrestored one are
both shown as such.

Values are in JSON, journals, events and metrics, and must not change. All pages, tables, reports and counters take
label, tone and phase from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct


class State(StrEnum):
    """Progress of a device."""

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
    # Directly to the end: the image is in place, or the device is refused.
    State.CHECKED: frozenset({State.JOURNALED, State.DONE, State.FAILED}),
    # Directly to copying: the device needs no tuning, or must not be tuned.
    State.JOURNALED: frozenset({State.TUNED, State.COPYING, State.RESTORED, State.ACTIVATED, State.FAILED}),
    State.TUNED: frozenset({State.COPYING, State.RESTORED, State.FAILED}),
    State.COPYING: frozenset({State.COPIED, State.RESTORED, State.FAILED}),
    # A copy to null: leaves nothing to verify. A probe copies several times, then tuned.
    State.COPIED: frozenset({State.VERIFIED, State.COPYING, State.TUNED, State.RESTORED, State.FAILED}),
    State.VERIFIED: frozenset({State.RESTORED, State.FAILED}),
    State.RESTORED: frozenset({State.DONE, State.FAILED}),
    # In an activation: the new image runs in the former operational state.
    State.ACTIVATED: frozenset({State.DONE, State.FAILED}),
    # A recovery can restore a device of a run that failed or died.
    State.FAILED: frozenset({State.RESTORED}),
    State.DONE: frozenset(),
}


ENDED = frozenset({State.RESTORED, State.DONE, State.FAILED})
"""States without a lease, unless the journal has one."""


def is_allowed(present: State, following: State) -> bool:
    """Return whether a device can go from one state to another."""
    return following in NEXT[present]


class RunState(StrEnum):
    """State of a run."""

    ALIVE = "alive"
    FINISHED = "finished"
    DIED = "died"


class Tone(StrEnum):
    """Colour of a word; the colour only repeats what the word means."""

    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    QUIET = "quiet"


class Phase(StrEnum):
    """Phase of a device as live views, pages and metrics count it; the values are those of metrics."""

    QUEUED = "queued"
    IN_PROGRESS = "under way"
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    NOT_STARTED = "not begun"

    @property
    def label(self) -> str:
        """Display name."""
        return _LABELS.get(self, self.value)

    @property
    def tone(self) -> Tone:
        """Its colour."""
        return _TONES[self]

    @property
    def is_over(self) -> bool:
        """Whether it is final."""
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
"""Final phases without success, the most severe first."""


class Outcome(StrEnum):
    """Result of a device in a run."""

    DONE = "done"
    ALREADY_THERE = "already there"
    REFUSED = "refused"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    NOT_STARTED = "not begun"
    ERROR = "error"

    @property
    def label(self) -> str:
        """Display name."""
        return OUTCOMES[self].label

    @property
    def tone(self) -> Tone:
        """Its colour."""
        return self.phase.tone

    @property
    def phase(self) -> Phase:
        """The phase as which it counts."""
        return OUTCOMES[self].phase

    @property
    def is_good(self) -> bool:
        """Whether the device has what it should get."""
        return self.phase is Phase.DONE


class OutcomeRow(Struct, frozen=True, kw_only=True):
    """Texts of an outcome.

    Attributes:
        label: Display name.
        phase: The phase as which it counts.
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
"""The table of outcomes, from which documentation and all outputs are generated."""

GOOD_OUTCOMES = frozenset(one for one in Outcome if one.is_good)

_PHASES = frozenset(Phase)

LEFT = "left by the dead run"
"""In place of an outcome in a report's JSON, if a run was killed while it held the device."""


def label_of(outcome: str) -> str:
    """Return the display name of an outcome, a phase or LEFT; other texts unchanged."""
    if outcome == LEFT:
        return Phase.INTERRUPTED.label
    if outcome in OUTCOMES:
        return Outcome(outcome).label
    return Phase(outcome).label if outcome in _PHASES else outcome


def phase_of(outcome: str | None, state: str, *, is_alive: bool) -> Phase:
    """Return the phase of a device from its journal row.

    Args:
        outcome: None if not recorded.
        state: Its state.
        is_alive: Whether its run is alive.
    """
    if outcome is not None and outcome in OUTCOMES:
        return Outcome(outcome).phase
    if state == State.PLANNED:
        return Phase.QUEUED if is_alive else Phase.NOT_STARTED
    if is_alive:
        return Phase.IN_PROGRESS
    return Phase.DONE if state == State.DONE else Phase.INTERRUPTED


class Restored(StrEnum):
    """Whether the device's configuration is restored."""

    UNTOUCHED = "untouched"
    RESTORED = "restored"
    FOREIGN_CHANGE = "restored but for somebody else's change"
    INCOMPLETE = "incomplete"

    @property
    def label(self) -> str:
        """Display name."""
        return FOREIGN_LABEL if self is Restored.FOREIGN_CHANGE else self.value

    @property
    def tone(self) -> Tone:
        """Its colour."""
        return Tone.GOOD if self in {Restored.UNTOUCHED, Restored.RESTORED} else Tone.BAD


FOREIGN_LABEL = "restored except for a change by others"
NOT_RESTORED = "NOT RESTORED"
"""Shown beside the outcome if a run has ended and a device's configuration is not proven restored."""

ACCEPTED_LABEL = "accepted as it is"
"""Shown for a configuration that `flashferry recover --accept` accepted as it is."""
