"""Hold a finding against the rule; every deviation is a sentence. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from flashferry.nightly.night import Fault
from tests.component.nightly.matrix.ground import Ground
from tests.component.nightly.matrix.player import Cell, Finding
from tests.component.nightly.matrix.rules import expected


def complaints(cell: Cell, found: Finding, ground: Ground) -> list[str]:
    """Return what is not as the rule says; nothing where all is well."""
    return [*_of_the_run(cell, found), *_of_the_labs(cell, found, ground), *found.leaks, *found.harmed, *found.broken]


def _of_the_run(cell: Cell, found: Finding) -> Iterator[str]:
    wanted = expected(cell.fault, cell.step)
    if not found.has_struck:
        yield "expected the fault to strike, found that its step was never begun"
    if wanted.failed != tuple((step, fault) for step, fault, _ in found.failed):
        told = [(str(step), str(fault), sentence) for step, fault, sentence in found.failed]
        yield f"expected to fail: {[(str(step), str(fault)) for step, fault in wanted.failed]}, found {told}"
    if found.exit_code != wanted.exit_code:
        yield f"expected exit code {wanted.exit_code}, found {found.exit_code}"


def _of_the_labs(cell: Cell, found: Finding, ground: Ground) -> Iterator[str]:
    wanted = expected(cell.fault, cell.step)
    is_left = found.title in {title for title, _ in found.labs.values()}
    for name, is_there, must in (
        ("tonight's lab", is_left, wanted.leaves),
        ("the dead night's lab", ground.dead in found.labs, wanted.leaves_dead),
    ):
        if is_there is not must:
            yield f"when the run was over: expected {name} {'there' if must else 'gone'}, found it otherwise"
    ours = {ground.strangers, ground.running}
    if found.labs_later.keys() != ours:
        yield f"behind the next reap: expected a stranger's and a running night's lab, found {found.labs_later}"
    for lab_id in ours & found.labs_later.keys():
        if found.labs_later[lab_id][1] != "STARTED":
            yield f"expected {found.labs_later[lab_id][0]} STARTED, found it {found.labs_later[lab_id][1]}"


LETTERS = {None: "", Fault.LAB: "L", Fault.CLEANUP: "C", Fault.DEVICE: "D", Fault.PRODUCT: "P"}
"""Whose fault a cell's night was."""


def letter(cell: Cell, found: Finding, ground: Ground) -> str:
    """Return what a cell came to in a sign or two: whose fault, and whether tonight's lab was left to the next reap."""
    if complaints(cell, found, ground):
        return "!!"
    wanted = expected(cell.fault, cell.step)
    return (LETTERS[wanted.fault] or "·") + ("r" if wanted.leaves else "")
