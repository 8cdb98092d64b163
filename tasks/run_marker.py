"""The mark that a run leaves on a device that it stages, for other controllers to see.

A lease in a journal keeps two runs of one state directory off the same device. Another controller has its own journal:
it would take our lines for the device's, we its lines for a colleague's, and neither could restore the device. So while
lines of ours are set there is one more: `alias exec flashferry-RUN OWNER`. It only defines a word that is never typed,
it is journaled and removed like the others, and a reload removes it, since nothing is saved.
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
"""The first words of a mark: the one command that changes nothing, is shown and can be removed, on all platforms so
far."""

SHOW_OUR_LINES = "show running-config | include ip tcp|ip ssh|ip scp|ip tftp|tftp-server|source-interface|flashferry"
"""Shows all lines that a run may leave on a device, including a `no`, and its mark: for a check by hand. A list of ours
is found by its remark; `no access-list NUMBER` removes all of it. The parser accepts an alternation of plain words (as
of `include` everywhere); some lines that it shows are the device's own."""

_MARK_PREFIX = "flashferry-"
MARK = NamedLine.of(MARK_COMMAND, rf"{_MARK_PREFIX}[\w-]+(?= [\w.-]*@[\w.@-]*$|$)", "mark")
"""An owner `user@host` follows the name, and nothing else: a colleague's alias has a command there."""

_NOT_PLAIN = re.compile(r"[^\w.@-]+")
_LONGEST_OWNER = 60
_SHORTEST_NAME = len(f"{_MARK_PREFIX}YYYYMMDD")
"""The part of a mark's name that a device must keep at least, to identify the mark."""


def mark_line(run_id: str, owner: str) -> str:
    """Return the line that marks a device as staged by a run.

    Of the owner, for example `ops@controller1`, letters, digits and `_.@-` are kept. An owner without `@` gets one: it
    identifies a mark.
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
"""Returns whether a configuration line is the mark of a run."""

first_mark = MARK.first
"""Returns the first line that is the mark of a run, or None; the asking run's own marks may be left out."""

mark_of = MARK.name_of
"""Returns the name of a mark, which holds the run: `flashferry-RUN`."""

without_mark = MARK.without
"""Returns the line that removes a mark."""


def is_shown_of(line: str, mark: str) -> bool:
    """Return whether a line is a mark as a device shows it; the device may cut an alias's name."""
    if line == mark or not (is_mark(line) and is_mark(mark)):
        return line == mark
    shown, typed = mark_of(line), mark_of(mark)
    is_cut = len(shown) >= _SHORTEST_NAME and typed.startswith(shown)
    return (shown == typed or is_cut) and MARK.rest_of(mark).startswith(MARK.rest_of(line))


def other_mark(lines: Iterable[str], own: Iterable[str]) -> str | None:
    """Return the first mark that is not one of a run's own, or None."""
    ours = tuple(own)
    return next((one for one in lines if is_mark(one) and not any(is_shown_of(one, mark) for mark in ours)), None)


def owner_of(line: str) -> str:
    """Return the run of a mark and its owner, in words."""
    return f"run {mark_of(line).removeprefix(_MARK_PREFIX)} of {MARK.rest_of(line) or 'an unknown owner'}"


def in_other_hands(host: str, step: str, mark: str) -> DeviceRefused:
    """Return the refusal of a device that has another run's mark."""
    return DeviceRefused(
        f"{owner_of(mark)} holds this device (its mark there is '{mark}')",
        host=host,
        step=step,
        hint="Wait for that run to end. Where it died, run 'flashferry recover' on that controller; where that one is "
        f"gone for good, compare the lines of '{SHOW_OUR_LINES}' by hand, then enter '{without_mark(mark)}'",
    )
