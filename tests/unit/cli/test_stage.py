"""`flashferry stage --resume` at a terminal: what is refused, and what holds as it did when the run began."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from flashferry.api import recovering
from flashferry.cli import this_host
from flashferry.cli.program import build
from flashferry.core.errors import ConfigInvalid
from flashferry.devices.errors import Interrupted
from flashferry.model.exit_codes import ExitCode
from flashferry.model.record import DeviceRecord, Failure
from flashferry.model.states import Outcome, Restored, RunState
from flashferry.run.recover import RecoveryRecord
from flashferry.run.request import FleetRequest, RunOptions, to_stored
from flashferry.store.journal import Journal
from flashferry.store.stored_run import read_run
from tests.unit.conftest import take
from tests.unit.run.test_resume import offered


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(b"an image")
    return path


@pytest.fixture
def inventory(tmp_path):
    folder = tmp_path / "inventory"
    folder.mkdir()
    (folder / "hosts.yaml").write_text("r2: {hostname: 192.0.2.2, platform: ios, username: u, password: p}\n")
    return folder


@pytest.fixture
def dead_run(tmp_path, image):
    """Return a run of which r1 is done, and r2 was never begun."""
    request = FleetRequest(images=dict.fromkeys(("r1", "r2"), image))
    kept = to_stored(request, RunOptions(), {host: offered(image) for host in ("r1", "r2")})
    with Journal(tmp_path / "state") as journal:
        run_id = journal.begin_run("stage", kept)
        for host in ("r1", "r2"):
            journal.add_device(run_id, host=host, address="192.0.2.1", port=22, platform="ios")
        take(journal, run_id, "r1", "r1")
        record = DeviceRecord(host="r1", outcome=Outcome.DONE, restored=Restored.RESTORED, seconds_by_step={})
        journal.release(run_id, "r1", record)
    return run_id


@pytest.fixture
def call(tmp_path, inventory, monkeypatch):
    """Return what calls `stage` and returns the job that would be run."""
    jobs = []

    def ran(job, *rest, **more):
        jobs.append(job)

    monkeypatch.setattr(this_host, "_run", ran)

    def call(*words):
        line = ["stage", "--inventory", str(inventory), "--state-dir", str(tmp_path / "state"), *words]
        done = CliRunner().invoke(build(), line)
        if isinstance(done.exception, ConfigInvalid):
            raise done.exception
        return jobs[-1] if jobs else done

    return call


@pytest.mark.parametrize(
    "given",
    [
        ("--dry-run",),
        ("--no-tune",),
        ("--tune", "always"),
        ("--window-bytes", "65535"),
        ("--extra", "timestamps"),
        ("--md5", "0" * 32),
        ("--verify-signature",),
    ],
)
def test_what_the_run_settled_when_it_began_is_not_asked_anew(call, dead_run, given):
    """Refused, and least of all is a wish to change nothing left unheeded."""
    with pytest.raises(ConfigInvalid, match=f"{given[0]}.* cannot be combined with --resume"):
        call("--resume", dead_run, *given)


def test_a_device_that_is_done_may_leave_the_inventory(call, dead_run):
    """Nothing is to be done with it any more; what is left is gone on with."""
    assert set(call("--resume", dead_run).request.images) == {"r2"}


def test_the_server_may_be_reached_elsewhere(call, dead_run):
    """Another machine's address and port are heeded; the rest is as the run was begun."""
    options = call("--resume", dead_run, "--address", "192.0.2.9", "--port", "2100").options
    assert (options.server.address, options.server.port) == ("192.0.2.9", 2100)
    assert options.policy.tunes


def test_latest_is_the_latest_that_staged(call, dead_run, tmp_path):
    """A speed test behind it is no run to go on with."""
    with Journal(tmp_path / "state") as journal:
        journal.finish_run(journal.begin_run("probe", {}))
    assert call("--resume", "latest").request.resumed.run_id == dead_run


@pytest.fixture
def held_run(dead_run, tmp_path):
    """Return the run with r2 in its hands, of which recovery is played by `recovering`."""
    with Journal(tmp_path / "state") as journal:
        journal.reopen_run(dead_run)
        take(journal, dead_run, "r2", "r2")
    return dead_run


def recovered(host, *, is_reached):
    """Return what recovery says of a device."""
    why = Failure(step="recover", reason="cannot be reached", hint=None, kind="DeviceUnreachable")
    return RecoveryRecord(
        host=host,
        run_id="x",
        restored=Restored.RESTORED if is_reached else Restored.INCOMPLETE,
        restore=None,
        failure=None if is_reached else why,
        partial_file=None,
    )


def test_where_nothing_can_be_restored_nothing_is_begun(call, held_run, tmp_path, monkeypatch):
    """One sentence asks for place and inventory, the exit code is that of recover, and the run is as it was."""
    monkeypatch.setattr(recovering.recovery, "recover", lambda *given, **more: (recovered("r2", is_reached=False),))
    done = call("--resume", held_run)
    assert done.exit_code == ExitCode.RESTORE_INCOMPLETE
    assert "Check --state-dir and --inventory" in done.output
    assert "cannot be reached" in done.output
    run = read_run(tmp_path / "state", held_run)
    assert (run.state, [one.attempt for one in run.devices if one.host == "r2"]) == (RunState.DIED, [1])


def test_where_a_device_was_restored_or_named_the_run_goes_on(call, held_run, monkeypatch):
    """One answer shows that the place is right; who names a device knows better."""
    monkeypatch.setattr(recovering.recovery, "recover", lambda *given, **more: (recovered("r2", is_reached=False),))
    assert call("--resume", held_run, "--host", "r2").request.resumed.run_id == held_run
    both = (recovered("r2", is_reached=False), recovered("r3", is_reached=True))
    monkeypatch.setattr(recovering.recovery, "recover", lambda *given, **more: both)
    assert call("--resume", held_run).request.resumed.run_id == held_run


def test_a_stop_during_the_recovery_ends_there(call, dead_run, tmp_path, monkeypatch):
    """Nothing is begun behind it; the exit code says that a device is not restored yet."""
    with Journal(tmp_path / "state") as journal:
        journal.reopen_run(dead_run)
        take(journal, dead_run, "r2", "r2")
    monkeypatch.setattr(recovering.recovery, "recover", lambda *given, interrupted, **more: ())

    resume = recovering.job_for_resume

    def stopped(*given, **more):
        raise AssertionError(resume(*given, **(more | {"interrupted": lambda: True})))

    monkeypatch.setattr(this_host.api, "job_for_resume", stopped, raising=False)
    done = call("--resume", dead_run)
    assert done.exit_code == ExitCode.RESTORE_INCOMPLETE
    assert not isinstance(done.exception, Interrupted)
    assert f"stage --resume {dead_run}" in done.output
