"""Embedded Event Manager: applets with a countdown, which type configuration lines by themselves.

A countdown fires once, so many seconds behind leaving the applet's mode; actions run in the order of their labels as
text; a command line begins in user EXEC; two vty lines must be free; where commands are authorized, an applet without
`authorization bypass` needs a session user. An applet may remove itself while it runs. It begins anew when the device
boots with it. No capture has the listing or the refusals: they are counted as guesses.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from flashferry.lab.standin import clock
from flashferry.lab.standin.config_lock import lock_of
from flashferry.lab.standin.config_session import ConfigSession

if TYPE_CHECKING:
    from flashferry.lab.standin.configuration import Line
    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.vty import Vty

_HEAD = "event manager applet "
_TIMER = re.compile(r"event timer countdown time (\d+)")
_CLI = re.compile(r'action (\S+) cli command "(.*)"')
_SYSLOG = re.compile(r'action (\S+) syslog (?:priority (\w+) )?msg "(.*)"')
_AUTHORIZES = ("aaa authorization commands", "aaa authorization config-commands")
_PRIORITIES = ("emergencies", "alerts", "critical", "errors", "warnings", "notifications", "informational", "debugging")
_VTYS_NEEDED = 2


class Applets:
    """The applets of a device, and the countdowns that run."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._counting: dict[str, tuple[tuple[str, ...], asyncio.TimerHandle]] = {}

    def settle(self, *, besides: str = "") -> None:
        """Take in what was typed: a new or changed applet begins to count, one that is gone stops.

        Args:
            besides: Beginning of the one that is being typed; it does not count yet.
        """
        lines = [line for line in self._device.running.lines() if line.text.startswith(_HEAD)]
        present = {line.text: line for line in lines if not besides or not f"{line.text} ".startswith(f"{besides} ")}
        for head, (body, handle) in list(self._counting.items()):
            if head not in present or _body(present[head]) != body:
                handle.cancel()
                del self._counting[head]
        for head, line in present.items():
            line.children.sort(key=lambda child: (not child.text.startswith("event "), child.text))
            if head not in self._counting:
                self._begin(head, line)

    def restart(self) -> None:
        """Begin to count anew, as a device that boots does."""
        for _, handle in self._counting.values():
            handle.cancel()
        self._counting.clear()
        self.settle()

    def fire(self) -> None:
        """Have all countdowns be over now."""
        for head in list(self._counting):
            self._counting[head][1].cancel()
            self._run(head)

    def listing(self) -> str:
        """Return what `show event manager policy registered` prints; the form is Cisco's, no capture has it."""
        self._device.note_guess("event manager: the list of policies")
        out = "No.  Class     Type    Event Type          Trap  Time Registered           Secu  Name\n"
        for number, (head, (body, _)) in enumerate(self._counting.items(), start=1):
            found = _TIMER.search(body[0])
            seconds = found[1] if found else "0"
            moment = clock.now()
            at = f"{moment:%a %b} {moment.day:2d} {moment:%H:%M:%S %Y}"
            name = head.split()[3]
            out += f"{number:<5}applet    user    timer countdown     Off   {at}  none  {name}\n"
            out += f" countdown: time {seconds}.000\n" + "".join(f" {row}\n" for row in body[1:]) + "\n"
        return out

    def _begin(self, head: str, line: Line) -> None:
        body = _body(line)
        found = next((found for row in body if (found := _TIMER.match(row))), None)
        if found is None or self._device.faults.eem_never_counts:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # the world is being built, and not booted yet
        seconds = int(found[1]) * self._device.faults.seconds_per_minute / 60
        self._counting[head] = (body, loop.call_later(seconds, self._run, head))

    def _run(self, head: str) -> None:
        body, _ = self._counting[head]
        device, name = self._device, head.split()[3]
        free = [number for number in range(device.platform.vty_lines) if number not in device.vtys]
        if len(free) < _VTYS_NEEDED or not self._is_authorized(head):
            device.note_guess("event manager: an applet that fails")
            words = "No TTY lines available, minimum of two required by EEM" if len(free) < _VTYS_NEEDED else "Denied"
            device.syslog(f"%HA_EM-3-FMPD_ERROR: Error executing applet {name} statement 010: {words}")
            return
        _Session(device, name).run(sorted(row for row in body if row.startswith("action ")))

    def _is_authorized(self, head: str) -> bool:
        lines = [line.text for line in self._device.running.lines()]
        asks = any(line.startswith(_AUTHORIZES) for line in lines)
        has_user = any(line.startswith("event manager session cli username ") for line in lines)
        return not asks or has_user or head.endswith(" authorization bypass")


class _Session:
    """The command line of one applet that runs."""

    def __init__(self, device: Device, name: str) -> None:
        self._device, self._name = device, name
        self._is_privileged = False
        self._config: ConfigSession | None = None
        self._has_configured = False

    def run(self, actions: list[str]) -> None:
        for action in actions:
            if (typed := _CLI.fullmatch(action)) is not None:
                self._take(typed[2])
            elif (logged := _SYSLOG.fullmatch(action)) is not None:
                level = _PRIORITIES.index(logged[2] or "informational")
                self._device.syslog(f"%HA_EM-{level}-LOG: {self._name}: {logged[3]}")
        self._leave()

    def _take(self, line: str) -> None:
        if line == "enable":
            self._is_privileged = True
        elif line == "configure terminal":
            if self._is_privileged and lock_of(self._device) is None:
                self._config, self._has_configured = ConfigSession(self._device), True
        elif line == "end":
            self._leave()
        elif self._config is not None:
            self._config.take(line)

    def _leave(self) -> None:
        self._config = None
        if self._has_configured:
            self._has_configured = False
            self._device.touch("")
            self._device.syslog(f"%SYS-5-CONFIG_I: Configured from console by  on vty0 (EEM:{self._name})")


def _body(line: Line) -> tuple[str, ...]:
    return tuple(child.text for child in line.children)


def show_policies(vty: Vty, _: tuple[str, ...]) -> str:
    """`show event manager policy registered`."""
    return vty.device.applets.listing()
