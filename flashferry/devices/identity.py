"""Which device answers: whether it is the one that was meant, and still is at every later login of a run.

Neither serial number nor host name is enough by itself. Virtual routers share serial numbers: copies of one machine
have that of the first. Host names are changed, and kept by the router that takes the place of another. The serial
number of a stack is that of its active member, and another one's after a fail-over. And an SSH host key proves little:
a copy of a virtual machine has it, and both boxes of a pair may.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from nornir.core.task import Task

from flashferry.devices.errors import OtherDevice
from flashferry.devices.session import DeviceSession, Facts
from templates.config_sections import global_lines

_NO_SERIAL = frozenset({"", "unknown", "none", "n/a"})
_VIRTUAL = ("csr1000v", "c8000v", "c8kv", "isrv", "iosv", "vios", "iol", "linux unix", "xrv")
"""What models of virtual routers have in their names, and no other."""

_MEMBER_SERIAL = re.compile(r"(?mi)^\s*system serial number\s*:\s*(\S+)\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a device calls itself.

    Attributes:
        name: `serial number/host name`, as the journal and plans have it.
        members: Serial numbers of the members of a stack; empty where the device is none, or does not show them.
    """

    name: str
    members: frozenset[str] = frozenset()


def identity_of(facts: Facts) -> str:
    """Return what a device calls itself: `serial number/host name`."""
    return f"{facts.serial_number}/{facts.hostname}"


def serial_in(identity: str) -> str | None:
    """Return the serial number in what a device calls itself, or None."""
    serial = identity.rpartition("/")[0]
    return None if serial.casefold() in _NO_SERIAL else serial


def identity_seen(session: DeviceSession) -> Identity:
    """Return what the device at the other end of a session calls itself."""
    return Identity(name=identity_of(session.facts()), members=member_serials(session.show_version()))


def member_serials(version: str) -> frozenset[str]:
    """Return the serial numbers of a stack's members by `show version`; empty where fewer than two are shown."""
    found = frozenset(_MEMBER_SERIAL.findall(version))
    return found if len(found) > 1 else frozenset()


def is_same(
    expected: str,
    found: Facts,
    others: Callable[[], Iterable[str]] = tuple,
    *,
    members: frozenset[str] = frozenset(),
    found_members: frozenset[str] = frozenset(),
) -> bool:
    """Return whether a device is the one that was meant, also where its host name was changed since.

    A serial number decides alone only where it is one device's: that of a virtual router, one that is missing, or one
    that another device is known by, says nothing without the host name. A stack of the same host name is the same where
    it shares a member with what it was: another one is active, or some were exchanged.

    That is enough to compare devices of different runs. Where lines of ours are to be taken back, a device of another
    host name has to prove more: see `is_ours`.

    Args:
        expected: What the device called itself, as `identity_of` gives it.
        found: What the one that answers says.
        others: Returns what other devices call themselves; asked only where the host name does not decide.
        members: Serial numbers of the members that it had.
        found_members: Those of the one that answers.
    """
    if expected == identity_of(found):
        return True
    serial, _, hostname = expected.rpartition("/")
    if hostname == found.hostname and _shares_a_member(serial, members, found.serial_number, found_members):
        return True
    model = found.model.casefold()
    if serial != found.serial_number or serial.casefold() in _NO_SERIAL or any(word in model for word in _VIRTUAL):
        return False
    return not any(other != expected and other.rpartition("/")[0] == serial for other in others())


def is_ours(
    session: DeviceSession, expected: Identity, marks: Iterable[str], others: Callable[[], Iterable[str]] = tuple
) -> bool:
    """Return whether the device that answers is the one of a run.

    A device with another host name than before was renamed meanwhile, or is another one with the same serial number: a
    copy, or the other box of a pair that reports one for both. Only the mark that the run left distinguishes them
    (`tasks.run_marker`).

    Args:
        session: A session on which only `show version` was sent.
        expected: Which device is meant.
        marks: The lines that the run marked its device with; none where it did not come to that.
        others: Returns what other devices call themselves; asked only where the host name does not decide.
    """
    facts, found = session.facts(), member_serials(session.show_version())
    if not is_same(expected.name, facts, others, members=expected.members, found_members=found):
        return False
    if expected.name.rpartition("/")[2] == facts.hostname:
        return True
    return bool(set(marks) & set(global_lines(session.running_config())))


def _shares_a_member(serial: str, members: frozenset[str], found: str, found_members: frozenset[str]) -> bool:
    if not (members or found_members):
        return False
    known = {one for one in (serial, *members) if one.casefold() not in _NO_SERIAL}
    return bool(known & {found, *found_members})


class LoginGuard:
    """Remembers which device answered at the first login of a device's run, and checks every later login.

    Args:
        expected: The device of the first login; None: whichever answers.

    Attributes:
        expected: Which device has to answer; None before the first login.
        marks: The lines that the device was marked with, for a login after its host name was changed.
    """

    def __init__(self, expected: Identity | None = None) -> None:
        self.expected = expected
        self.marks: tuple[str, ...] = ()

    def check(self, session: DeviceSession) -> None:
        """Check which device answers; the first one is remembered.

        Only `show version` is sent, and `show running-config` where the device has another host name by now.

        Raises:
            OtherDevice: It is not the device of this run.
        """
        found = identity_seen(session)
        if self.expected is None:
            self.expected = found
            return
        if not is_ours(session, self.expected, self.marks):
            raise OtherDevice(
                f"expected {self.expected.name} (serial number/host name), found {found.name}: another device answers "
                "at this address; nothing was set on it",
                host=session.name,
                step="connect",
                hint="Find out which device has this address; make the one that the run began with reachable there, "
                "then run 'flashferry recover'",
            )


_guards: WeakKeyDictionary[Task, LoginGuard] = WeakKeyDictionary()
_lock = threading.Lock()


def guard_logins(task: Task, guard: LoginGuard) -> None:
    """Have all logins of a device's run checked by a guard, which may have served earlier attempts."""
    with _lock:
        _guards[run_of(task)] = guard


def guard_of(task: Task) -> LoginGuard:
    """Return the guard of the logins of a device's run; by default the first device that answers is expected."""
    with _lock:
        return _guards.setdefault(run_of(task), LoginGuard())


def run_of(task: Task) -> Task:
    """Return the task that is a device's whole run, of any task below it."""
    while task.parent_task is not None:
        task = task.parent_task
    return task
