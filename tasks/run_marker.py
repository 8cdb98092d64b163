"""The mark that a run leaves on a device that it stages, for other controllers to see.

A lease in a journal keeps two runs of one state directory off the same device. Another controller has a journal of its
own: it would take our lines for the device's, we its lines for a colleague's, and neither could put the device back.
So while lines of ours are set there is one more: `alias exec flashferry-RUN OWNER`. It only gives a meaning to a word
that is never typed, it is journaled and taken back like the others, and a reload removes it, for nothing is saved.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Iterable

from flashferry.devices.errors import DeviceRefused
from flashferry.devices.platforms.platform import NamedLine

MARK_COMMAND = "alias exec"
"""How a mark begins: the one command that changes nothing, is shown and can be taken back, on all platforms so far."""

SHOW_OUR_LINES = "show running-config | include ip tcp|ip ssh|ip scp|ip tftp|tftp-server|source-interface|flashferry"
"""What shows all lines that a run may leave on a device, a `no` as well, and its mark: for a check by hand.

A list of ours shows by its remark, owner_of number takes all of it back. The parser takes an alternation of plain words
(as of `include` everywhere); some lines that it shows are the device's own.
"""

_MARK_PREFIX = "flashferry-"
MARK = NamedLine.of(MARK_COMMAND, rf"{_MARK_PREFIX}[\w-]+(?= [\w.-]*@[\w.@-]*$|$)", "mark")
"""An owner `user@host` follows the name, and nothing else: an alias of a colleague's stands for a command."""

_NOT_PLAIN = re.compile(r"[^\w.@-]+")
_LONGEST_OWNER = 60
_SHORTEST_NAME = len(f"{_MARK_PREFIX}YYYYMMDD")
"""What a device has to keep of a mark's name at least, to be known as that mark."""


def mark_line(run_id: str, owner: str) -> str:
    """Return the line that marks a device as staged by a run.

    Of the owner, for example `ops@controller1`, letters, digits and `_.@-` are kept; one without `@` gets one: a mark
    is
    known by it.
    """
    plain = _NOT_PLAIN.sub("-", owner).strip("-")[:_LONGEST_OWNER]
    plain = plain if "@" in plain else f"{plain}@unknown"
    return f"{MARK_COMMAND} {_MARK_PREFIX}{run_id} {plain}"


def local_owner() -> str:
    """Return the user of this controller, as `user@host`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


is_mark = MARK.is_one
"""Returns whether a line of a configuration is the mark of a run."""

first_mark = MARK.first
"""Returns the first line that is the mark of a run, or None; marks of the run that asks may be left out."""

mark_of = MARK.name_of
"""Returns the name of a mark, which holds the run: `flashferry-RUN`."""

without_mark = MARK.without
"""Returns the line that takes a mark back."""


def is_shown_of(line: str, mark: str) -> bool:
    """Return whether a line is a mark as a device shows it, which may cut an alias's name."""
    if line == mark or not (is_mark(line) and is_mark(mark)):
        return line == mark
    shown, typed = mark_of(line), mark_of(mark)
    is_cut = len(shown) >= _SHORTEST_NAME and typed.startswith(shown)
    return (shown == typed or is_cut) and MARK.rest_of(mark).startswith(MARK.rest_of(line))


def other_mark(lines: Iterable[str], own: Iterable[str]) -> str | None:
    """Return the first mark that is none of a run's own, or None."""
    ours = tuple(own)
    return next((one for one in lines if is_mark(one) and not any(is_shown_of(one, mark) for mark in ours)), None)


def owner_of(line: str) -> str:
    """Return the run of a mark and its owner, in words."""
    return f"run {mark_of(line).removeprefix(_MARK_PREFIX)} of {MARK.rest_of(line) or 'an unknown owner'}"


def in_other_hands(host: str, step: str, mark: str) -> DeviceRefused:
    """Return the refusal of a device that carries another run's mark."""
    return DeviceRefused(
        f"{owner_of(mark)} has this device in its hands (its mark there is '{mark}')",
        host=host,
        step=step,
        hint="Wait for that run to end. Where it died, run 'flashferry recover' on that controller; where that one is "
        f"gone for good, compare the lines of '{SHOW_OUR_LINES}' by hand, then enter '{without_mark(mark)}'",
    )
