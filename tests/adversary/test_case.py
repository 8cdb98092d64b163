"""The generator: a seed is a case for ever, every behaviour occurs, and turns what there is to be turned."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from flashferry.core.values import field_names
from tests.adversary.behaviours import ARCHIVE, COPIED_JOURNAL, NEEDS_ENABLE, REMOVES, SOURCE_INTERFACE, TWIN
from tests.adversary.case import case_of
from tests.adversary.kinds import BY_NAME, KINDS, STALE_JOURNAL
from tests.adversary.router.knobs import Knobs
from tests.adversary.scenes import SCENES

CASES = tuple(case_of(seed) for seed in range(500))
FIRST_SEEDS = "ff816e8f3474"
ROUTER = Path(__file__).parent / "router"


def test_a_seed_is_a_case():
    """Drawn twice, it is the same; and five hundred seeds are five hundred cases."""
    assert tuple(case_of(seed) for seed in range(500)) == CASES
    assert len({str(case).partition(": ")[2] for case in CASES}) > 480


def test_every_kind_occurs():
    """In five hundred seeds each kind is drawn three times at least, and each with its particulars."""
    drawn = [behaviour for case in CASES for behaviour in case.behaviours]
    counts = {kind.name: sum(one.name == kind.name for one in drawn) for kind in KINDS}
    assert {name: count for name, count in counts.items() if count < 3} == {}
    assert len(BY_NAME) == len(KINDS)


def test_the_weights():
    """Most cases have one to three behaviours, some have none, and every plot is played."""
    counts = [len(case.behaviours) for case in CASES]
    assert sum(1 <= count <= 3 for count in counts) > 400
    assert 10 < counts.count(0) < 60
    verbs = {step.verb for case in CASES for step in case.steps}
    assert verbs == {"stage", "resume", "probe", "check", "recover", "copy"}
    assert any(step.killed_at for case in CASES for step in case.steps)
    assert any(step.interrupted_at for case in CASES for step in case.steps)
    assert any(step.beside_at for case in CASES for step in case.steps)


def test_a_case_has_what_its_behaviours_need():
    """A timer needs an archive, a swap a second device, the secret a `>`."""
    for case in CASES:
        needs = {need for behaviour in case.behaviours for need in behaviour.needs}
        assert case.start.has_archive or ARCHIVE not in needs
        assert case.start.twin or TWIN not in needs
        assert case.start.needs_enable or NEEDS_ENABLE not in needs
        assert case.source_interface or SOURCE_INTERFACE not in needs
        assert any(step.verb == "copy" for step in case.steps) == (COPIED_JOURNAL in needs)
        assert "--remove-partial" in case.options["a"] or REMOVES not in needs


def test_knobs_are_there_to_be_turned():
    """A misspelt knob would be a behaviour that never is; and no two behaviours of a case turn the same one."""
    names = set(field_names(Knobs))
    for case in (*CASES, *SCENES.values()):
        turned = [name for behaviour in case.behaviours for name, _ in behaviour.knobs if name != "keeps_part"]
        assert set(turned) <= names
        assert len(turned) == len(set(turned))


def test_what_strikes_is_a_kind():
    """The router tells by name what came into play: each name is one of the table's."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in ROUTER.glob("*.py"))
    told = set(re.findall(r"strike\(\"([^\"]+)\"\)", code))
    assert told <= set(BY_NAME)
    by_acts = {act.name for case in CASES for behaviour in case.behaviours for act in behaviour.acts}
    questions = {name for name in BY_NAME if name.startswith("question at ")}
    by_stock = {behaviour.name for case in CASES for behaviour in case.behaviours if behaviour.stock}
    assert set(BY_NAME) == told | by_acts | questions | by_stock | {STALE_JOURNAL.name}


def test_the_router_knows_nothing_of_what_it_judges():
    """No line of it imports the lab or the product."""
    imports = re.findall(
        r"(?m)^\s*(?:from|import) (\w+)", "\n".join(path.read_text(encoding="utf-8") for path in ROUTER.glob("*.py"))
    )
    assert not {"lab", "flashferry", "staging", "tasks", "ftpserver", "inventory", "templates", "tcp"} & set(imports)


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_is_told_apart_from_seeds(name: str):
    """Its number is none of a seed's."""
    assert SCENES[name].seed < 0


def test_the_first_seeds():
    """A seed that was written down somewhere is the same case tomorrow: whoever changes this, changes all of them."""
    first = "\n".join(map(str, CASES[:50]))
    assert hashlib.sha256(first.encode()).hexdigest()[:12] == FIRST_SEEDS
