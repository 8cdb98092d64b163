"""A device's way through a run. Everything that affects it lives in this file: the table is the rule.

"Restored" is a fact of its own, never folded into the outcome: a failed copy on a restored device and a good copy on
an unrestored one are both shown as what they are.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a device stands."""

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
"""Where a device is in nobody's hands any more, unless the journal says that its lease is kept."""


def is_allowed(present: State, following: State) -> bool:
    """Return whether a device may go from one state to another."""
    return following in NEXT[present]


class Outcome(StrEnum):
    """What became of a device in a run.

    *Failed*: the device or the network is wrong. *Error*: we could not tell, the fault may be ours. *Not begun*: the
    run stopped, or the time was over, before the device was touched.
    """

    DONE = "done"
    ALREADY_THERE = "already there"
    REFUSED = "refused"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    NOT_BEGUN = "not begun"
    ERROR = "error"


class Restored(StrEnum):
    """Whether the device's configuration is what it was."""

    UNTOUCHED = "untouched"
    RESTORED = "restored"
    FOREIGN_CHANGE = "restored but for somebody else's change"
    INCOMPLETE = "incomplete"
