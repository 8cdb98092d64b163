"""Whose fault a night's failure is decides who is woken: by the exit code."""

from __future__ import annotations

import pytest

from flashferry.model.exit_codes import ExitCode
from flashferry.nightly.night import Fault, NightFault, exit_code, gravest


@pytest.mark.parametrize(
    ("fault", "is_unrestored", "code"),
    [
        (None, False, 0),
        (Fault.PRODUCT, False, 3),
        (Fault.DEVICE, False, 4),
        (Fault.PRODUCT, True, 5),
        (Fault.LAB, False, 7),
        (Fault.CLEANUP, True, 8),
    ],
)
def test_each_fault_has_an_exit_code_of_its_own(fault, is_unrestored, code):
    """What is not restored is graver than the product's other failures, and no fault of a lab or a clean-up."""
    assert exit_code(fault, is_unrestored=is_unrestored) == code


def test_a_lab_left_behind_outweighs_everything_else():
    """And a product's failure is not hidden by a lab's."""
    assert gravest(Fault) is Fault.CLEANUP
    assert gravest([Fault.LAB, None, Fault.PRODUCT, Fault.DEVICE]) is Fault.PRODUCT
    assert gravest([None]) is None


def test_a_fault_is_told_with_its_step_and_what_to_do():
    """The sentence is the house's, and its exit code goes with it."""
    fault = NightFault("no licence", fault=Fault.LAB, step="preflight", hint="Register it")
    assert str(fault) == "preflight: no licence. Register it"
    assert fault.exit_code is ExitCode.LAB
