"""The mark that a run leaves on a device it has in hand, for other controllers to see.

A lease in a journal keeps two runs of one state directory off the same device. Another controller has a journal of its
own: it would take our lines for the device's, we its lines for a colleague's, and neither could put the device back.
So while lines of ours are set there is one more: `alias exec flashferry-RUN WHO`. It does nothing but give a meaning to
a word that nobody types, it is journaled and taken back like the others, and a reload takes it away, for nothing is
saved.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Iterable

from flashferry.devices.errors import DeviceRefused

COMMAND = "alias exec"
"""How a mark begins: the one command that changes nothing, is shown and can be taken back, on all platforms so far."""

LOOK = "show running-config | include ip tcp|ip ssh|ip scp|source-interface|flashferry"
"""What shows all lines that a run may leave on a device, a `no` as well, and its mark: for who has to look by hand.

The parser takes an alternation of plain words (as of `include` everywhere); some lines that it shows are nobody's work
but the device's own.
"""

_MARK = re.compile(rf"{COMMAND} (flashferry-[\w-]+) ?(.*)")
_PREFIX = "flashferry-"
_NOT_PLAIN = re.compile(r"[^\w.@-]+")
_LONGEST_OWNER = 60


def mark_line(run_id: str, owner: str) -> str:
    """Return the line that marks a device as in a run's hands.

    Args:
        run_id: The run.
        owner: Who has it, for example `ops@controller1`; only letters, digits and `_.@-` are kept of it.
    """
    plain = _NOT_PLAIN.sub("-", owner).strip("-")[:_LONGEST_OWNER] or "unknown"
    return f"{COMMAND} {_PREFIX}{run_id} {plain}"


def local_owner() -> str:
    """Return who works on this controller, as `user@host`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def is_mark(line: str) -> bool:
    """Tell whether a line of a configuration is the mark of a run."""
    return _MARK.fullmatch(line) is not None


def first_mark(lines: Iterable[str], *, besides: Iterable[str] = ()) -> str | None:
    """Return the first line that is the mark of a run, or None.

    Args:
        lines: Global lines of a configuration.
        besides: Marks that do not count: those of the run that asks.
    """
    own = frozenset(besides)
    return next((line for line in lines if is_mark(line) and line not in own), None)


def mark_of(line: str) -> str:
    """Return the name of a mark, which holds the run: `flashferry-RUN`."""
    found = _MARK.fullmatch(line)
    if found is None:
        raise ValueError(f"no mark of a run: {line!r}")
    return found[1]


def without(line: str) -> str:
    """Return the line that takes a mark back."""
    return f"no {COMMAND} {mark_of(line)}"


def whose(line: str) -> str:
    """Return whose a mark is, in words: the run, and who began it."""
    found = _MARK.fullmatch(line)
    owner = found[2] if found is not None and found[2] else "somebody unknown"
    return f"run {mark_of(line).removeprefix(_PREFIX)} of {owner}"


def in_other_hands(host: str, step: str, mark: str) -> DeviceRefused:
    """Return the refusal of a device that carries another run's mark."""
    return DeviceRefused(
        f"{whose(mark)} has this device in its hands (its mark there is '{mark}')",
        host=host,
        step=step,
        hint="Wait for that run to end. Where it died, run 'flashferry recover' on that controller; where that one is "
        f"gone for good, compare the lines of '{LOOK}' by hand, then enter '{without(mark)}'",
    )
