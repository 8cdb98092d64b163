"""Check of a device's identity: whether it is the expected one, at every login of a run.

Neither serial number nor host name suffices by itself. Copies of a virtual router have the serial number of the
original. Host names are changed, and a replacement router gets the name of the old one. The serial number of a stack is
that of its active member, which changes by a fail-over. An SSH host key proves little: a copy of a virtual machine has
the same, and so may both routers of a redundant pair.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from weakref import WeakKeyDictionary

from msgspec import Struct
from nornir.core.task import Task

from flashferry.devices.errors import OtherDevice
from flashferry.devices.session import DeviceSession, Facts
from templates.config_sections import global_lines

_NO_SERIAL = frozenset({"", "unknown", "none", "n/a"})
_VIRTUAL = ("csr1000v", "c8000v", "c8kv", "isrv", "iosv", "vios", "iol", "linux unix", "xrv")
"""Parts of the model names of virtual routers."""

_MEMBER_SERIAL = re.compile(r"(?mi)^\s*system serial number\s*:\s*(\S+)\s*$")


class Identity(Struct, frozen=True, kw_only=True):
    """Identity of a device by its own output.

    Attributes:
        name: `serial number/host name`, as in journal and plans.
        members: Serial numbers of the members of a stack; empty if it is no stack, or does not show them.
    """

    name: str
    members: frozenset[str] = frozenset()


def identity_of(facts: Facts) -> str:
    """Return a device's identity: `serial number/host name`."""
    return f"{facts.serial_number}/{facts.hostname}"


def serial_in(identity: str) -> str | None:
    """Return the serial number in an identity, or None."""
    serial = identity.rpartition("/")[0]
    return None if serial.casefold() in _NO_SERIAL else serial


def identity_seen(session: DeviceSession) -> Identity:
    """Return the identity of a session's device."""
    return Identity(name=identity_of(session.facts()), members=member_serials(session.show_version()))


def member_serials(version: str) -> frozenset[str]:
    """Return the serial numbers of a stack's members in `show version`; empty if there are fewer than two."""
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
    """Return whether a device is the expected one, even if its host name was changed since.

    A serial number decides alone only if it is unique: that of a virtual router, a missing one, or one that another
    device has too, also needs the host name. A stack of the same host name is the same if it shares a member with the
    expected one: its active member may have changed, or some members may have been replaced.

    This suffices to compare devices of different runs. Before our configuration lines are removed from a device with
    another host name, `is_ours` requires more.

    Args:
        expected: Identity of the expected device, by `identity_of`.
        found: Facts of the present device.
        others: Returns the identities of other devices; called only if the host name does not decide.
        members: Serial numbers of the expected device's stack members.
        found_members: Those of the present device.
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
    """Return whether a session's device is the one of a run.

    A device with another host name than before was renamed, or is another one with the same serial number: a copy, or
    the other router of a pair that reports one number for both. Only the marker line that the run left in the
    configuration distinguishes them (`tasks.run_marker`).

    Args:
        session: A session on which only `show version` was sent.
        expected: Identity of the run's device.
        marks: Marker lines of the run; empty if it set none yet.
        others: Returns the identities of other devices; called only if the host name does not decide.
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
    """Remembers the device's identity at the first login of a run, and checks it at every later login.

    Args:
        expected: Identity at the first login; None accepts any.

    Attributes:
        expected: Expected identity; None before the first login.
        marks: Marker lines of the run on the device, for a login after its host name was changed.
    """

    def __init__(self, expected: Identity | None = None) -> None:
        self.expected = expected
        self.marks: tuple[str, ...] = ()

    def check(self, session: DeviceSession) -> None:
        """Check a session's device; at the first login remember it.

        Sends only `show version`, and `show running-config` if the host name has changed.

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
    """Set the guard that checks all logins of a device's run; it may come from an earlier attempt."""
    with _lock:
        _guards[run_of(task)] = guard


def guard_of(task: Task) -> LoginGuard:
    """Return the guard of a device's run; a new one accepts any device at the first login."""
    with _lock:
        return _guards.setdefault(run_of(task), LoginGuard())


def run_of(task: Task) -> Task:
    """Return the topmost task above a task, which is the device's whole run."""
    while task.parent_task is not None:
        task = task.parent_task
    return task
