"""The list of steps: what it says of each fits the records, the states and the list of files."""

from __future__ import annotations

from pathlib import Path

import pytest

import tasks
from flashferry.core.values import field_names
from flashferry.model.record import DeviceRecord
from flashferry.model.states import State
from tasks.step import FATAL_STEPS, CostPhase
from tasks.steps import DELIVERY, STEPS, cost


def test_each_word_is_one_step():
    """Events and records know a step by nothing else."""
    words = [step.word for step in STEPS]
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.word)
def test_a_step_names_a_state_and_a_field_that_are_there(step):
    """What it leaves is kept in the record, and the journal knows where the device is."""
    assert step.state is None or step.state in {state.value for state in State}
    assert step.record_field is None or step.record_field in set(field_names(DeviceRecord))
    assert (step.stretch is None) == (step.seconds == 0 and step.round_trips == 0)


def test_every_file_that_describes_a_step_is_in_the_list():
    """One that is forgotten there would be run by nobody and told by nobody."""
    files = [path for path in Path(tasks.__file__).parent.rglob("*.py") if " = Step(" in path.read_text("utf-8")]
    described = sum(path.read_text("utf-8").count(" = Step(") for path in files)
    assert described == len(STEPS)


def test_words_that_are_written_out_are_those_of_the_steps():
    """Who follows a run knows without the steps which of them end a device's way."""
    assert {step.word for step in STEPS if step.is_fatal} == FATAL_STEPS


def test_the_order_of_a_delivery():
    """Tuned before it copies, proven behind."""
    words = [step.word for step in DELIVERY]
    assert words.index("tune") < words.index("pull") < words.index("verify")


@pytest.mark.parametrize(
    ("stretch", "costs"),
    [(CostPhase.CHECK, (0.85, 20)), (CostPhase.SET_UP, (0.3, 26)), (CostPhase.RESTORE, (0.03, 9.4))],
)
def test_what_the_steps_cost_is_what_was_measured(stretch, costs):
    """docs/benchmarks.md has the figures that these are straight lines through."""
    assert cost(stretch) == costs
