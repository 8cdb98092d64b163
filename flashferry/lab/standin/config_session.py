"""Configuration mode: from typed lines to the running configuration, for a vty, a file or another user."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashferry.lab.standin import clock
from flashferry.lab.standin.config_rules import (
    RANGE,
    ConfigAction,
    Found,
    Place,
    Refusal,
    apply,
    beyond_window,
    find,
    on_interface,
    tree_of,
)
from flashferry.lab.standin.configuration import banner_line, banner_start, canonical_interface, interface_range
from flashferry.lab.standin.grammar import AUTHORIZATION_FAILED, Invalid, Node, is_denied
from flashferry.lab.standin.texts_data import printed

if TYPE_CHECKING:
    from flashferry.lab.standin.configuration import Configuration, Line
    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.vty import Vty


class ConfigSession:
    """One user's way through the configuration modes, of the running configuration or of `target`.

    The faults of the device and `denied` (see `flashferry.lab.standin.grammar.is_denied`) decide what is refused.
    `depth_of_last` is how many sections the last line that was taken stands in.
    """

    def __init__(
        self, device: Device, target: Configuration | None = None, denied: tuple[str, ...] = ()
    ) -> None:  # fmt: skip
        self._stack: tuple[Place, ...] = ()
        self._range: tuple[str, ...] = ()
        self.depth_of_last = 0
        self._device = device
        self._target = target
        self._denied = denied
        self._unknown = device.platform.ssh_client.unknown_lines
        self._banner: tuple[str, str, list[str]] | None = None

    @property
    def in_banner(self) -> bool:
        """Whether the next line is text of a banner."""
        return self._banner is not None

    @property
    def target(self) -> Configuration:
        """What is changed."""
        return self._device.running if self._target is None else self._target

    @property
    def mode(self) -> str:
        """The name of the present mode, as the prompt has it."""
        return self._stack[-1].mode if self._stack else "config"

    @property
    def section(self) -> str:
        """The global line that opened the present mode or those around it; empty in the global mode."""
        return self._stack[0].section if self._stack else ""

    @property
    def tree(self) -> Node[ConfigAction]:
        """The commands of the present mode, for help."""
        return tree_of(self.mode, () if self._stack else self._unknown)

    def leave_section(self, *, wholly: bool = False) -> bool:
        """Go up one mode, or to the global one; False when that leaves configuration mode."""
        was_in_section = bool(self._stack)
        self._enter(() if wholly else self._stack[:-1])
        return was_in_section

    def take(self, line: str) -> str | Refusal:
        """Act on a line that is no ``exit``, ``end`` or ``do``; return what is printed, or how it is refused."""
        if self._banner is not None:
            return self._banner_row(line)
        start = banner_start(line)
        if start is not None:
            self._banner = (start[0], start[1], [])
            self._banner_row(start[2])
            prompt = f"Enter TEXT message.  End with the character '{start[1]}'.\n"
            return prompt if self.in_banner else ""
        faults = self._device.faults
        if faults.refuse_config_pattern and re.search(faults.refuse_config_pattern, line):
            self._device.happened.append(f"refused: {line}")
            return AUTHORIZATION_FAILED
        if faults.ignore_config_pattern and re.search(faults.ignore_config_pattern, line):
            return ""
        found = find(self._stack, line, self._unknown)
        if isinstance(found, Refusal):
            return found
        if is_denied(found.matched.text, self._denied):
            return AUTHORIZATION_FAILED
        self.depth_of_last = len(found.place.lines)
        return self._within(found) if found.place.lines else self._globally(found, line)

    def _within(self, found: Found) -> str:
        """Do a line of a section, on each interface of a range."""
        place, text = found.place, ""
        for section in self._range if place.mode == RANGE else (place.section,):
            own = replace(place, lines=(section, *place.lines[1:]))
            is_interface = place.mode in {"config-if", RANGE}
            note, is_taken = on_interface(self.target, found.matched, section) if is_interface else ("", True)
            if is_taken:
                self._set(replace(found, place=own))
            text += note
        self._enter((*self._stack[: len(place.lines)], *filter(None, (found.opened,))))
        return text

    def _set(self, found: Found) -> None:
        """Change the configuration, but by a line that opens a section that is there already."""
        opened = found.opened
        if opened is None or not self.target.has(opened.lines):
            apply(self.target, found.matched, found.place)

    def _globally(self, found: Found, line: str) -> str | Refusal:
        matched, rule = found.matched, found.matched.action.rule
        beyond = beyond_window(matched, line, self._device.faults.largest_window_bytes)
        if beyond is not None:
            return beyond
        if rule.specification.startswith("interface range"):
            return self._enter_range(found, line)
        if rule.specification.startswith("interface "):
            name = canonical_interface("".join(matched.arguments), self.target)
            if name is None:
                return Invalid(offset=line.index(matched.arguments[0]))
            words = (*matched.words[: matched.words.index("interface") + 1], name)
            matched = replace(matched, arguments=(name,), words=words)
            if matched.action.form == "default":
                return self._reset_interface(name)
            found = replace(found, matched=matched)
        self._set(found)
        self._enter(tuple(filter(None, (found.opened,))))
        is_window = matched.words[:3] == ("ip", "ssh", "window-size")  # capture
        return printed("ip ssh window-size") if is_window else ""

    def _enter_range(self, found: Found, line: str) -> str | Refusal:
        names = interface_range(found.matched.arguments[0], self.target)
        if not names:
            return Invalid(offset=line.index(found.matched.arguments[0]))
        self._range = tuple(f"interface {name}" for name in names)
        for section in self._range:
            self.target.put(section, key=section)
        self._enter((Place(mode=RANGE, lines=self._range[:1]),))
        return ""

    def _reset_interface(self, name: str) -> str:
        """`default interface X`: what it is fresh from stock."""
        own = self._device.settings
        stock = self._device.platform.configuration(serial=own.serial, address=own.address)
        section = stock.find(f"interface {name}")
        self.target.put(f"interface {name}", key=f"interface {name}").children = (
            [child.copy() for child in section.children if not child.text.startswith(("ip address ", "description "))]
            if section is not None else []
        )  # fmt: skip
        self._enter(())
        return f"Interface {name} set to default configuration\n"

    def _enter(self, stack: tuple[Place, ...]) -> None:
        """Go to a mode; an applet counts from the moment in which its own is left."""
        was, self._stack = self.mode, stack
        if was == "config-applet" or self.mode == "config-applet":
            self._device.applets.settle(besides=self.section)

    def _banner_row(self, row: str) -> str:
        """Take a row of a banner; the delimiter ends it."""
        assert self._banner is not None
        key, delimiter, rows = self._banner
        text, found, _ = row.partition(delimiter)
        rows.append(text)
        if found:
            self._banner = None
            self.target.put(banner_line(key, "\n".join(rows)), key=key)
        return ""


_PROCESS = 88

TAKEN = (
    "Configuration mode locked exclusively. The lock will be cleared once you exit out of configuration mode "
    "using end/exit\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigLock:
    """Who holds the lock, on which line, and by which command."""

    user: str
    line: int
    command: str


def may_configure(vty: Vty) -> bool:
    """Return whether this session may change the configuration now; if not, say who does."""
    held = lock_of(vty.device)
    if held is None or (held.line == vty.number and vty.device.faults.config_locked_by is None):
        return True
    vty.terminal.write(
        f"Configuration mode locked exclusively by user '{held.user}' process '{_PROCESS}' from terminal "
        f"'{held.line}'. Please try later.\n"
    )
    return False


def take(vty: Vty, *, by_hand: bool) -> None:
    """Take the lock where the configuration or the command says so."""
    mode = vty.device.running.value("configuration mode exclusive")
    if by_hand or mode in {"", "auto"}:
        command = "configure terminal lock" if by_hand else "configure terminal"
        vty.device.config_lock = ConfigLock(user=vty.user, line=vty.number, command=command)


def release(vty: Vty) -> None:
    """Give the lock back if this session has it."""
    held = vty.device.config_lock
    if held is not None and held.line == vty.number:
        vty.device.config_lock = None


def show_lock(vty: Vty, _: tuple[str, ...]) -> str:
    """`show configuration lock`."""
    held = lock_of(vty.device)
    return printed("no configuration lock") if held is None else printed("configuration lock", held=held, pid=_PROCESS)


def lock_of(device: Device) -> ConfigLock | None:
    """Return the lock; another user's, which a fault switches on, comes first."""
    other = device.faults.config_locked_by
    return device.config_lock if other is None else ConfigLock(user=other, line=15, command="configure terminal lock")


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
        """Follow the configuration.

        A new or changed applet starts to count, but that being typed; one that is gone stops.
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
