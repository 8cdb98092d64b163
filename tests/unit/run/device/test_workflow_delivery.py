"""What is brought to a device between journal and restore."""

from __future__ import annotations

from types import SimpleNamespace

from flashferry.core.values import replace
from flashferry.model.states import Outcome
from flashferry.run.device import workflow
from flashferry.run.device.device_run import DeviceRun
from tasks.step import Step
from tests.unit.run.device.scripted import Steps, context


def test_a_hash_takes_no_longer_than_what_was_learned_of_the_device_allows():
    """Its speed of earlier runs goes along; of another device nothing is known."""
    given = []
    for host in ("r1", "r2"):
        steps = Steps(verify=lambda task, **arguments: given.append(arguments["known_bytes_per_s"]))
        steps.host.name = host
        workflow.verify(DeviceRun(steps, replace(context(), hash_speeds={"r1": 7e6})), "flash:x.bin")
    assert given == [7e6, None]


def test_a_step_that_needs_nothing_of_the_run_is_done_by_itself(monkeypatch):
    """In its place of the list: it is told, what it returns is kept, and it gets the image and where that went."""
    given, events = [], []
    extra = Step(word="extra", label="extra", record_field="verify", task=lambda task, given: None)
    monkeypatch.setattr(workflow, "DELIVERY", (extra,))
    steps = Steps(extra=lambda task, **arguments: given.append(arguments["given"]) or "report")
    run = DeviceRun(steps, replace(context(), emit=events.append))
    workflow.deliver(run, SimpleNamespace(target="flash:x.bin"), None)
    assert [(one.image.name, one.target) for one in given] == [("x.bin", "flash:x.bin")]
    assert [(event.step, event.status) for event in events] == [("extra", "started"), ("extra", "done")]
    assert (run.record.verify, run.record.outcome) == ("report", Outcome.DONE)
