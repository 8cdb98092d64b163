"""Each fault of a controller in each step of a night: whose fault, which exit code, what is left, what is touched.

A choice of cells; all of them: `python -m tests.component.nightly.matrix`.
"""

from __future__ import annotations

import pytest

from flashferry.lab.cml.faults import TABLE
from flashferry.lab.cml.standin import Exchange
from flashferry.nightly.night import Fault, StepName
from tests.component.nightly.matrix.faults import FAULTS, Span
from tests.component.nightly.matrix.judge import complaints
from tests.component.nightly.matrix.player import Cell, harmed, leaks, play
from tests.component.nightly.matrix.report import table
from tests.component.nightly.matrix.rules import expected

_BY_NAME = {fault.name: fault for fault in FAULTS}
QUICK = (
    (StepName.PREFLIGHT, f"forbidden, {Span.ONCE}"),
    (StepName.PREFLIGHT, "quota"),
    (StepName.IMPORT, f"lost_answer, {Span.ONCE}"),
    (StepName.IMPORT, f"lost_answer, {Span.REST}"),
    (StepName.START, f"bad_gateway, {Span.STEP}"),
    (StepName.START, "disconnected"),
    (StepName.REACH, "no_address"),
    (StepName.CONDITION, "wrong_on_link"),
    (StepName.RESUME, "disconnected"),
    (StepName.CLEAN, "refuse_delete, for ever"),
    (StepName.CLEAN, "refuse_stop, twice"),
)


@pytest.mark.parametrize(("step", "name"), QUICK)
def test_a_night_with_a_fault_ends_as_the_rule_says(ground, tmp_path, step, name):
    """Right class and exit code; the lab is gone, by the run or the next reap; no secret anywhere, nobody touched."""
    cell = Cell(fault=_BY_NAME[name], step=step)
    assert complaints(cell, play(ground, cell, tmp_path), ground) == []


def test_what_is_not_as_the_rule_says_is_found(ground, tmp_path):
    """A night held against the rule of another cell, a secret in a file, an order to a stranger's lab."""
    cell = Cell(fault=_BY_NAME["is_ready"], step=StepName.PREFLIGHT)
    found = play(ground, cell, tmp_path)
    other = Cell(fault=_BY_NAME["refuse_delete, for ever"], step=StepName.CLEAN)
    assert len(complaints(other, found, ground)) == 4
    assert list(leaks(ground, tmp_path)) == []
    (tmp_path / "kept.json").write_text(ground.access.tokens[-1])
    assert len(list(leaks(ground, tmp_path, ground.password))) == 2
    order = Exchange(method="PUT", path=f"labs/{ground.strangers}/stop", status=204)
    assert list(harmed(ground, (order,))) == [f"PUT labs/{ground.strangers}/stop"]


def test_every_switch_of_the_stand_in_is_in_the_matrix():
    """A new fault of the controller cannot be forgotten here."""
    assert {switch for fault in FAULTS for switch in fault.switches} == set(TABLE)


def test_no_fault_of_a_controller_is_the_products():
    """By the rule: a night that fails for the lab wakes nobody who owns the product."""
    found = {expected(fault, step).fault for fault in FAULTS for step in StepName}
    assert found == {None, Fault.LAB, Fault.CLEANUP}


def test_a_lab_is_left_only_where_the_clean_up_says_so():
    """By the rule: no night ends well, or with the lab's fault alone, and leaves its lab."""
    cells = [expected(fault, step) for fault in FAULTS for step in StepName]
    assert {one.exit_code for one in cells if one.leaves} == {8}


def test_the_page_names_the_steps_in_which_a_fault_had_an_effect() -> None:
    """Switches that are alike share a row; steps that follow each other are a span; what had no effect says so."""
    letters = {Cell(fault=fault, step=step).name: "·" for fault in FAULTS for step in StepName}
    for step in (StepName.PREFLIGHT, StepName.REAP, StepName.CLEAN):
        letters[Cell(fault=_BY_NAME["quota"], step=step).name] = "L"
    rows = table(letters, [], 1.0).splitlines()
    assert f"| `quota` | {Span.REST} | L: preflight to reap, clean |" in rows
    assert sum("no effect in any" in row for row in rows) == len(Span)
    assert all(sum(f"`{fault.what}`" in row for row in rows) for fault in FAULTS)
