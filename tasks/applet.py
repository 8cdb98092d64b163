"""The EEM applet that undoes our lines on the device if no controller does: its name and its lines. Pure.

Facts
-----

* `event manager applet NAME [authorization bypass]` opens a mode of its own; a countdown fires once, that many seconds
  after leaving it, and an applet's actions may remove the applet itself (a published applet does, pnp guide).
* Actions run in the order of their labels as text, so that 10.0 comes before 9.0: ours have leading zeros.
* An applet's command line starts in user EXEC, so that `enable` comes first (debug of the same).
* It has 20 seconds to run unless `maxrun` sets another limit (Cisco EEM command reference).
* A quoted text in an action cannot hold a quote itself.
* It is a global line with lines below it. In the journal it is a change like any other, with nothing before it: removed
  by `no`, proven gone with the whole configuration, and found where it was saved.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence

from flashferry.devices.errors import DeviceRefused
from flashferry.devices.platforms.platform import NamedLine
from tasks.run_marker import first_mark, in_other_hands

APPLET_COMMAND = "event manager applet"
"""The first words of an applet's line; the same on all platforms so far."""

BYPASS = " authorization bypass"
"""Follows its name: its commands are not authorized by an AAA server (Cisco 216091)."""

SESSION_USER = "event manager session cli username "
"""A global line: the user as whom applets' commands are authorized."""

MAXRUN_S = 60
_APPLET_PREFIX = "FLASHFERRY-"
_COUNTDOWN = re.compile(r"event timer countdown time (\d+)\b")
_TYPES = re.compile(r'action \d+ cli command "([^"]*)"')
APPLET = NamedLine.of(APPLET_COMMAND, rf"{_APPLET_PREFIX}[0-9A-F]{{4}}", "applet")


def applet_line(name: str) -> str:
    """Return the first line of an applet of ours; the device may show it with more words."""
    return f"{APPLET_COMMAND} {name}"


_MOST_ACTIONS = 99


def new_name(lines: Iterable[str]) -> str:
    """Return an applet name that does not occur in a configuration's global lines."""
    text = "\n".join(lines)
    while (name := f"{_APPLET_PREFIX}{secrets.token_hex(2).upper()}") in text:
        continue
    return name


is_applet = APPLET.is_one
"""Returns whether a configuration line starts an applet of a run."""

first_applet = APPLET.first
"""Returns the first line that starts an applet of a run, or None."""

applet_of = APPLET.name_of
"""Returns the name of an applet of ours."""

without_applet = APPLET.without
"""Returns the line that removes an applet."""


def may_be_carried(undo: Iterable[str]) -> bool:
    """Return whether an applet can hold these lines: no quotes, and not too many."""
    lines = tuple(undo)
    return len(lines) <= _MOST_ACTIONS - 5 and not any('"' in line or "'" in line for line in lines)


def applet_body(name: str, undo: Sequence[str], countdown_s: int, *, configure: str) -> tuple[str, ...]:
    """Return the lines of an applet that sends configuration lines after a countdown, then removes itself."""
    typed = ("enable", configure, *undo, f"no {APPLET_COMMAND} {name}", "end")
    actions = [f'cli command "{line}"' for line in typed]
    actions.append('syslog priority warnings msg "flashferry: controller silent, lines restored"')
    return (
        f"event timer countdown time {countdown_s} maxrun {MAXRUN_S}",
        *(f"action {number:02}0 {action}" for number, action in enumerate(actions, start=1)),
    )


def undo_carried(name: str, body: Iterable[str], *, configure: str) -> tuple[str, ...]:
    """Return the configuration lines that a shown applet sends; none if it is cut, changed or not ours."""
    shown = tuple(map(_plain, body))
    timer = next((found for line in shown if (found := _COUNTDOWN.match(line))), None)
    if timer is None:
        return ()
    typed = [found[1] for line in sorted(shown) if (found := _TYPES.fullmatch(line))]
    # The lines before and after are the same in every applet of ours.
    undo = tuple(typed[2:-2])
    return undo if is_as_typed(shown, applet_body(name, undo, int(timer[1]), configure=configure)) else ()


def is_as_typed(body: Iterable[str], typed: Iterable[str]) -> bool:
    """Return whether the lines below an applet are those that were sent, in any order.

    A device may print a number with decimals, or one more word after the timer; actions run in the order of their
    labels.
    """
    return sorted(map(_plain, body)) == sorted(map(_plain, typed))


def _plain(line: str) -> str:
    return re.sub(r"(\d)\.0+\b", r"\1", " ".join(line.split()))


def leftover_applet(host: str, step: str, line: str) -> DeviceRefused:
    """Return the refusal of a device with an applet of another run."""
    return DeviceRefused(
        f"an earlier run left '{line}' there, which changes the configuration when its time is over",
        host=host,
        step=step,
        hint="Run 'flashferry recover' on the controller of that run; where that one is gone for good, look at the "
        f"applet's actions, then enter '{without_applet(line)}'",
    )


def of_another_run(host: str, step: str, lines: Iterable[str]) -> DeviceRefused | None:
    """Return the refusal of a device that has another run's mark or applet; None for any other."""
    there = tuple(lines)
    mark, applet = first_mark(there), first_applet(there)
    if mark is not None:
        return in_other_hands(host, step, mark)
    return leftover_applet(host, step, applet) if applet is not None else None
