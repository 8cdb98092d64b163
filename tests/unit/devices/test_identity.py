"""Who answers: serial number and host name, of which either may deceive."""

from __future__ import annotations

import pytest

from flashferry.devices.errors import OtherDevice
from flashferry.devices.identity import Identity, LoginGuard, identity_of, is_ours, is_same
from flashferry.devices.session import Facts


def facts(identity, model="ISR4321/K9"):
    serial, hostname = identity.split("/")
    return Facts(hostname=hostname, vendor="Cisco", model=model, os_version="16.11", serial_number=serial)


def test_it_is_written_as_serial_number_and_host_name():
    """As the journal and plans have it."""
    assert identity_of(facts("FGL1/r1")) == "FGL1/r1"


@pytest.mark.parametrize(
    ("expected", "found", "model", "same"),
    [
        ("FGL1/r1", "FGL1/r1", "ISR4321/K9", True),
        ("FGL1/r1", "FGL1/renamed", "ISR4321/K9", True),
        ("FGL1/r1", "FGL2/r1", "ISR4321/K9", False),
        ("FGL1/r1", "FGL2/r2", "ISR4321/K9", False),
        ("9XA/r1", "9XA/r2", "CSR1000V", False),
        ("9XA/r1", "9XA/r2", "IOSv", False),
        ("Unknown/r1", "Unknown/r2", "ISR4321/K9", False),
        ("Unknown/r1", "Unknown/r1", "CSR1000V", True),
        ("/r1", "/r2", "ISR4321/K9", False),
    ],
)
def test_a_serial_number_decides_alone_only_where_it_is_one_devices(expected, found, model, same):
    """A rename is none's business; an exchanged router, and a copy of a virtual one, are other devices."""
    assert is_same(expected, facts(found, model)) is same


class Caller:
    """Who answers: facts and a running configuration."""

    name = "r1"

    def __init__(self, identity, *lines):
        self._facts, self.lines, self.asked = facts(identity), lines, 0

    def facts(self):
        return self._facts

    def show_version(self):
        return ""

    def running_config(self):
        self.asked += 1
        return "\n".join(("hostname x", *self.lines, "end"))


MARK = "alias exec flashferry-20261122-101112-abcd ops@controller"


@pytest.mark.parametrize(
    ("caller", "ours"),
    [
        (Caller("FGL1/r1"), True),
        (Caller("FGL1/renamed", MARK), True),
        (Caller("FGL1/twin"), False),
        (Caller("FGL1/twin", "alias exec flashferry-other ops@elsewhere"), False),
        (Caller("FGL2/r1", MARK), False),
    ],
    ids=["same", "renamed", "twin", "marked by another run", "other serial"],
)
def test_a_device_of_another_name_proves_by_our_mark_that_it_is_ours(caller, ours):
    """A copy, or the other box of a pair, has the same serial number; what the run left on its device it has not."""
    assert is_ours(caller, Identity(name="FGL1/r1"), (MARK,)) is ours


def test_a_login_to_a_twin_is_refused_before_anything_was_marked():
    """Nothing is left there that would tell it from the first."""
    guard = LoginGuard(Identity(name="FGL1/r1"))
    guard.check(Caller("FGL1/r1"))
    with pytest.raises(OtherDevice, match="found FGL1/twin"):
        guard.check(Caller("FGL1/twin", MARK))
    guard.marks = (MARK,)
    guard.check(Caller("FGL1/renamed", MARK))


def test_a_serial_number_that_others_have_says_nothing():
    """Known by another host name under it: one more of that number may be any of them. Its own name is no other."""
    assert not is_same("FGL1/r1", facts("FGL1/r9"), lambda: ["FGL1/r2"])
    assert is_same("FGL1/r1", facts("FGL1/r9"), lambda: ["FGL1/r1", "FGL2/r2"])
