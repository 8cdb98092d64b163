"""Who answers: serial number and host name, of which either may deceive."""

from __future__ import annotations

import pytest

from tasks.identity import identity_of, is_same
from tasks.session import Facts


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


def test_a_serial_number_that_others_have_says_nothing():
    """Known by another host name under it: one more of that number may be any of them. Its own name is no other."""
    assert not is_same("FGL1/r1", facts("FGL1/r9"), lambda: ["FGL1/r2"])
    assert is_same("FGL1/r1", facts("FGL1/r9"), lambda: ["FGL1/r1", "FGL2/r2"])
