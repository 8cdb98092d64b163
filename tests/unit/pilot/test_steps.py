"""The steps of a pilot: none without consent, none after a failure; what is incomplete ends with a command."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashferry.api.fleet_options import FleetOptions
from flashferry.core.errors import ConfigInvalid
from flashferry.devices.errors import DeviceUnreachable
from flashferry.model.exit_codes import ExitCode
from flashferry.model.record import DeviceRecord, Failure
from flashferry.model.states import Outcome, Restored
from flashferry.pilot import steps
from flashferry.pilot.step_results import PilotOptions, Status, Step
from flashferry.pilot.steps import pilot

HOSTS = "r1:\n  hostname: 192.0.2.1\n  platform: ios\n  username: u\n  password: longpassword\n"
FAILURE = Failure(
    step="restore", reason="the device still needs 'no ip tcp window-size'", hint=None, kind="RestoreIncomplete"
)


class Bench:
    """An inventory of one router, and stand-ins for the functions that talk to it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.held: list[str] = []
        self.restored = Restored.RESTORED
        self.failing: dict[str, Exception] = {}
        inventory = folder / "inventory"
        inventory.mkdir()
        (inventory / "hosts.yaml").write_text(HOSTS)
        fleet = FleetOptions(inventory=inventory, state_dir=folder / "state")
        self.options = PilotOptions(fleet=fleet, host="r1", folder=folder / "out")
        for name in ("check", "probe", "stage", "recover"):
            monkeypatch.setattr(steps, name, self._standing_in(name))
        monkeypatch.setattr(steps, "status", self._status)

    def _standing_in(self, name: str) -> Any:
        def call(*_given: Any, **more: Any) -> Any:
            self.done.append(name)
            if name in self.failing:
                raise self.failing[name]
            if name == "check":
                return self._checked()
            failure = FAILURE if self.restored is Restored.INCOMPLETE else None
            record = DeviceRecord(
                host="r1",
                outcome=Outcome.DONE,
                restored=self.restored,
                restore_failure=failure,
                seconds_by_step={},
            )
            return SimpleNamespace(devices=(record,), interrupted=False)

        return call

    @staticmethod
    def _checked() -> Any:
        facts, version = SimpleNamespace(model="C8000V"), SimpleNamespace(release="17.15.1a")
        report = SimpleNamespace(facts=facts, version=version, free_bytes=1_000_000, file_system="bootflash:")
        record = SimpleNamespace(host="r1", check=report, reach=None, failure=None)
        return SimpleNamespace(devices=(record,), exit_code=ExitCode.OK)

    def _status(self, *_given: Any, **_more: Any) -> Any:
        held = tuple((SimpleNamespace(run_id=one), SimpleNamespace(host="r1")) for one in self.held)
        return SimpleNamespace(to_recover=held, lost=())

    def take(self, *consented: Step) -> dict[Step, Status]:
        """Take the steps that are consented to; return what became of each."""
        self.result = pilot(self.options, lambda step: step in consented)
        return {one.step: one.status for one in self.result.steps}

    def sentence(self, step: Step) -> str:
        return next(one.sentence for one in self.result.steps if one.step is step)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_without_consent_nothing_is_done(bench):
    """Six refusals: no function that talks to the router is called, and the result is not OK."""
    assert set(bench.take().values()) == {Status.DECLINED}
    assert (bench.done, bench.result.exit_code) == ([], ExitCode.UNFINISHED)


def test_only_consented_steps_are_taken(bench):
    """A step that is declined is left out, the others are done."""
    found = bench.take(Step.CHECK, Step.COPY)
    assert bench.done == ["check", "stage"]
    assert [step for step, status in found.items() if status is Status.DONE] == [Step.CHECK, Step.COPY]


def test_a_failed_step_is_the_last(bench):
    """Nothing is sent after a failure; its sentence is in the result."""
    bench.failing["check"] = DeviceUnreachable("no route", host="r1", step="connect")
    found = bench.take(*Step)
    assert bench.done == ["check"]
    assert found == dict.fromkeys(Step, Status.NOT_STARTED) | {Step.CHECK: Status.FAILED}
    assert "no route" in bench.sentence(Step.CHECK)
    assert bench.result.exit_code is ExitCode.DEVICES_FAILED


def test_what_is_not_restored_ends_with_the_command(bench):
    """A router that is not proven to be what it was: exit code 5, no further step, and the command that finishes."""
    bench.restored = Restored.INCOMPLETE
    fleet = bench.options.fleet
    found = bench.take(Step.CHECK, Step.TUNE, Step.COPY, Step.KILL)
    assert bench.done == ["check", "probe"]
    assert (found[Step.TUNE], found[Step.COPY], found[Step.KILL]) == (
        Status.INCOMPLETE,
        Status.NOT_STARTED,
        Status.NOT_STARTED,
    )
    assert bench.sentence(Step.TUNE) == (
        f"{FAILURE.reason}. 'flashferry recover --inventory {fleet.inventory} --state-dir {fleet.state_dir}' finishes"
    )
    assert bench.result.exit_code is ExitCode.RESTORE_INCOMPLETE


def test_an_error_that_leaves_the_router_tuned_is_no_mere_failure(bench, monkeypatch):
    """Whatever the error was: where the journal still holds the router, the command that finishes is shown."""

    def breaks(*_given: Any, **_more: Any) -> Any:
        bench.held = ["20261129-1"]
        raise DeviceUnreachable("session lost", host="r1", step="restore")

    monkeypatch.setattr(steps, "probe", breaks)
    assert bench.take(Step.TUNE, Step.COPY)[Step.TUNE] is Status.INCOMPLETE
    assert "flashferry recover --inventory" in bench.sentence(Step.TUNE)
    assert bench.result.exit_code is ExitCode.RESTORE_INCOMPLETE


@pytest.mark.parametrize(
    ("restored", "status"), [(Restored.RESTORED, Status.DONE), (Restored.INCOMPLETE, Status.INCOMPLETE)]
)
def test_a_killed_run_is_recovered(bench, monkeypatch, restored, status):
    """The run that was killed, and no other, is recovered; the step is done where that is proven."""
    asked: list[Any] = []

    def killed(*_given: Any) -> str:
        bench.held = ["20261129-1"]
        return "20261129-1"

    def recovered(*_given: Any, run: str, **_more: Any) -> Any:
        asked.append(run)
        bench.held = [] if restored is Restored.RESTORED else bench.held
        record = SimpleNamespace(host="r1", run_id=run, restored=restored, failure=None)
        return SimpleNamespace(devices=(record,))

    monkeypatch.setattr(steps, "killed_run", killed)
    monkeypatch.setattr(steps, "recover", recovered)
    assert bench.take(Step.KILL)[Step.KILL] is status
    assert asked == ["20261129-1"]


def test_a_run_that_ended_by_itself_recovers_nothing(bench, monkeypatch):
    """Where nothing was killed, 'recover' is not called: other runs' devices are none of a pilot's."""
    monkeypatch.setattr(steps, "killed_run", lambda *_: "")
    assert bench.take(Step.KILL)[Step.KILL] is Status.FAILED
    assert bench.done == []


def test_a_router_that_a_killed_run_holds_is_refused(bench):
    """Recovery comes first; nothing is asked and nothing done."""
    bench.held = ["20261128-9"]
    with pytest.raises(ConfigInvalid, match="20261128-9 was killed and has not restored it yet"):
        bench.take(*Step)
    assert bench.done == []


def test_a_folder_with_files_is_refused(bench):
    """A pilot overwrites nothing."""
    bench.options.folder.mkdir()
    (bench.options.folder / "notes.txt").write_text("mine")
    with pytest.raises(ConfigInvalid, match="expected an empty folder"):
        bench.take(*Step)
    assert bench.done == []
    assert (bench.options.folder / "notes.txt").read_text() == "mine"


def test_a_device_that_the_inventory_lacks_is_refused(bench, tmp_path):
    """A name that is no device's is a wrong input."""
    options = PilotOptions(fleet=bench.options.fleet, host="r2", folder=tmp_path / "other")
    with pytest.raises(ConfigInvalid, match="r2"):
        pilot(options, lambda _step: True)
    assert bench.done == []


def test_the_login_of_the_killed_run_is_in_no_list_of_processes(bench, monkeypatch):
    """Its password goes by the environment, and a service that the operator's environment names is not asked."""
    started: list[tuple[list[str], dict[str, str]]] = []

    class Process:
        pid = 2**22 + 1

        def __init__(self, words: list[str], *, env: dict[str, str], **_more: Any) -> None:
            started.append((words, env))

        def poll(self) -> int:
            return 0

        def wait(self) -> int:
            return 0

    monkeypatch.setenv("FLASHFERRY_SERVICE", "https://service.example")
    monkeypatch.setattr(steps.subprocess, "Popen", Process)
    bench.take(Step.KILL)
    ((words, environment),) = started
    assert "longpassword" not in " ".join(words)
    assert environment["FLASHFERRY_PASSWORD"] == "longpassword"
    assert "FLASHFERRY_SERVICE" not in environment
    assert words[words.index("--host") + 1] == "r1"
