"""Sentences about a device that its report, the result of a run and pages share: each is written here, once. Pure.

They take plain values, for a run has its record at hand and a report what the journal kept of it. A sentence has no
full stop at its end: it may stand in a list, behind the device's name, or be followed by another.
"""

from __future__ import annotations


def failure_sentence(step: str | None, reason: str, hint: str | None = None) -> str:
    """Return why a device failed, at which step where that is known, and what to do."""
    return _advised(f"{step}: {reason}" if step else reason, hint)


def transport_tried_sentence(transport: str, reason: str, hint: str | None = None) -> str:
    """Return why a transport was given up before the next one was taken."""
    return _advised(f"no byte came by {transport}: {reason}", hint)


def lost_copy_sentence(reason: str, decision: str | None = None) -> str:
    """Return what was found, and decided, after a copy's session was lost."""
    lost = f"session lost in mid-copy: {reason}"
    return f"{lost}; {decision}" if decision else lost


def refused_window_sentence(line: str) -> str:
    """Return that the device refused a window line."""
    return f"refused, so a smaller window was tried: {line}"


def partial_file_sentence(path: str, advice: str | None = None, *, is_removed: bool = False) -> str:
    """Return what a broken copy left on the device, and what to do about it."""
    return f"what the copy left, {path}, was removed" if is_removed else _advised(f"left on the device: {path}", advice)


def running_sentence(difference: str) -> str:
    """Return how the running configuration compares with the start; an empty difference is equality."""
    return f"running configuration {f'differs: {difference}' if difference else 'equal to the start, line by line'}"


def startup_sentence(families: str, *, is_equal: bool) -> str:
    """Return how the startup configuration's lines of the kinds that a run sets compare with the start.

    Args:
        families: Which kinds, as `flashferry.reports.words.line_families` names them.
        is_equal: Whether they are what they were.
    """
    if is_equal:
        return f"startup configuration's {families} lines equal to the start"
    return (
        f"the startup configuration's {families} lines changed while the device was tuned. "
        "Look at them and, if they are ours, save again: copy running-config startup-config"
    )


def unproven_sentence(verb: str) -> str:
    """Return what is to be assumed of a device whose configuration is not proven, and what to do.

    Args:
        verb: The run's: after an activation it is the boot order that is open.
    """
    what = "what it runs and will boot is not proven" if verb == "activate" else "still tuned as far as we know"
    return f"{what}: run 'flashferry recover'"


def _advised(sentence: str, advice: str | None) -> str:
    return f"{sentence}. {advice}" if advice else sentence
