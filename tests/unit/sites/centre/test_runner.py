"""The Nornir runner: what crosses, what is refused, and that the rest of Nornir stays as it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from nornir.core import Nornir
from nornir.core.exceptions import NornirExecutionError
from nornir.core.inventory import Defaults, Groups, Host, Hosts, Inventory
from nornir.core.task import Result, Task

from flashferry.core.errors import ConfigInvalid
from flashferry.model.plan_file import save_plan
from flashferry.model.states import Outcome
from flashferry.sites.centre.centre import Centre
from flashferry.sites.runner import JOBS, SiteRunner, stage_at_site
from flashferry.sites.wire import Order, OrderJob
from tests.unit.sites.centre.ground import RELEASE, Ground
from tests.unit.sites.centre.plans import device, plan

DEVICES = [device("ams-r0", "ams"), device("ams-r1", "ams"), device("lim-r0", "lim")]


class Told:
    """A processor that keeps what it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def task_started(self, task: Task) -> None:
        self.heard.append(("started", task.name))

    def task_completed(self, task: Task, result: Any) -> None:
        self.heard.append(("completed", task.name))

    def task_instance_started(self, task: Task, host: Host) -> None:
        self.heard.append(("host started", host.name))

    def task_instance_completed(self, task: Task, host: Host, result: Any) -> None:
        self.heard.append(("host completed", host.name))

    def subtask_instance_started(self, task: Task, host: Host) -> None:
        raise AssertionError("there are no subtasks")

    subtask_instance_completed = subtask_instance_started


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    """A centre whose agents stage what they are ordered as soon as they are; `ams-r1` fails."""
    monkeypatch.setattr("flashferry.sites.centre.centre.our_release", lambda: RELEASE)
    made = Ground(tmp_path, "ams", "lim")
    send = made.broker.send_order

    def staged(site: str, envelope: str, *, is_control: bool = False) -> None:
        send(site, envelope, is_control=is_control)
        order: Order = made.broker.sent[-1]
        if order.job is OrderJob.STAGE:
            for host in order.devices:
                made.record(site, order.run, host, "failed" if host == "ams-r1" else "done")
            made.end(site, order.run)

    made.broker.send_order = staged  # type: ignore[method-assign]

    @contextmanager
    def opened(*_: object) -> Iterator[Centre]:
        yield made.centre

    monkeypatch.setattr("flashferry.sites.runner.open_centre", opened)
    monkeypatch.setattr("flashferry.sites.runner.load_centre", lambda _: made.settings)
    save_plan(plan(DEVICES), tmp_path / "plan.json")
    return made


def nornir(ground: Ground, *names: str, processors: Any = None) -> Nornir:
    hosts = Hosts({name: Host(name=name, defaults=Defaults()) for name in names})
    made = Nornir(
        inventory=Inventory(hosts=hosts, groups=Groups(), defaults=Defaults()),
        runner=SiteRunner(ground.folder / "sites.toml", state=ground.folder / "state"),
    )
    return made.with_processors([processors] if processors is not None else [])


def test_agents_stage_and_nornir_has_a_result_for_each_host(ground: Ground) -> None:
    """Records as results, failures as failed hosts, processors told: as with any other runner."""
    processor = Told()
    found = nornir(ground, "ams-r0", "ams-r1", "lim-r0", processors=processor)
    results = found.run(task=stage_at_site, plan=ground.folder / "plan.json")
    outcomes = {host: result[0].result.outcome for host, result in results.items()}
    assert outcomes == {"ams-r0": Outcome.DONE, "ams-r1": Outcome.FAILED, "lim-r0": Outcome.DONE}
    assert set(results.failed_hosts) == {"ams-r1"}
    assert found.data.failed_hosts == {"ams-r1"}
    assert processor.heard[0] == ("started", "stage_at_site")
    assert processor.heard[-1] == ("completed", "stage_at_site")
    assert processor.heard.count(("host completed", "ams-r0")) == 1
    with pytest.raises(NornirExecutionError):
        results.raise_on_error()


def test_a_filter_of_the_scripts_own_narrows_what_is_ordered(ground: Ground) -> None:
    """Only the hosts that Nornir was given cross; a host that is in no plan fails by itself."""
    results = nornir(ground, "ams-r0", "other").run(task=stage_at_site, plan=ground.folder / "plan.json")
    orders = [order.devices for order in ground.broker.sent if order.job is OrderJob.STAGE]
    assert orders == [("ams-r0",)]
    assert not results["ams-r0"].failed
    assert results["other"].failed
    assert "expected it in the plan" in str(results["other"][0].result)


def test_a_task_that_is_not_of_the_list_is_refused_before_anything_is_sent(ground: Ground) -> None:
    """No function of a script's own crosses to a site."""

    def own(task: Task) -> Result:
        raise AssertionError("it must not be run")

    with pytest.raises(ConfigInvalid, match="expected stage_at_site, found own"):
        nornir(ground, "ams-r0").run(task=own)
    assert ground.broker.sent == []
    assert list(JOBS) == [stage_at_site]


def test_by_another_runner_the_task_does_nothing(ground: Ground) -> None:
    """Given to threads by mistake, it touches nothing and says what to do."""
    from nornir.plugins.runners import SerialRunner

    found = nornir(ground, "ams-r0").with_runner(SerialRunner())
    result = found.run(task=stage_at_site, plan="plan.json")["ams-r0"][0]
    assert isinstance(result.exception, ConfigInvalid)
    assert "with_runner(SiteRunner" in str(result.exception)
