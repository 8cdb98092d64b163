"""What stands above the question of `activate`, what its dry run says, and what is told of each device behind it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from flashferry.api.activating import ActivationOptions, ActivationPlan
from flashferry.cli.view import device_tables
from flashferry.cli.view.activation_table import print_activation_plan, print_activations, to_be_restarted
from flashferry.model.activation import ActivationOutcome
from flashferry.model.record import DeviceRecord, RunReport
from flashferry.model.states import Outcome, Restored
from flashferry.model.waves import Wave

OLD, NEW = "17.15.1a", "c8000v-universalk9.17.18.02.SPA.bin"
DIGEST = "3f2a91bc" * 8


@pytest.fixture
def plan():
    hosts = tuple(f"router-{number}" for number in range(1, 13))
    rounds = (Wave(number=0, name="canary", hosts=hosts[:1]), Wave(number=1, name="round 2", hosts=hosts[1:]))
    image = SimpleNamespace(image=SimpleNamespace(name=NEW))
    return ActivationPlan(
        path=Path("night.json"),
        digest=DIGEST,
        nornir=None,
        rounds=rounds,
        images=dict.fromkeys(hosts, image),
        identities={},
        sites=dict.fromkeys(hosts),
        options=ActivationOptions(),
    )


def reported(capsys, **fields):
    device = DeviceRecord(host="xe1", image=NEW, seconds_by_step={"ready": 1.0}, **fields)
    report = RunReport(
        run_id="r", verb="activate", image=NEW, image_bytes=1, md5="0" * 32, devices=(device,), interrupted=False
    )
    print_activations(report)
    return capsys.readouterr().out


def test_what_is_asked_about_fits_the_terminal(monkeypatch, plan):
    """Names are not cut, the digest has a line of its own, and a round is not called by its number twice."""
    monkeypatch.setenv("COLUMNS", "80")
    path, digest, first, canary, second, *others, last = to_be_restarted(plan)
    assert (path, digest) == ("plan night.json", f"SHA-256 {DIGEST}")
    assert (first, canary, second) == ("round 1 of 2, canary", f"  {NEW}: router-1", "round 2 of 2")
    assert len(others) > 1
    assert all(len(text) <= 80 for text in others)
    assert " ".join(text.strip() for text in others) == f"{NEW}: {', '.join(plan.rounds[1].hosts)}"
    assert len(last) <= 80


def test_a_dry_run_has_what_an_approval_names(capsys, plan):
    """Whoever is told to look at the plan with --dry-run finds its digest there."""
    print_activation_plan(plan)
    assert capsys.readouterr().out.splitlines()[-2:] == [f"SHA-256 {DIGEST}", "'--approve 3f2a91bc' approves it"]


@pytest.mark.parametrize(
    ("outcome", "restored", "runs"),
    [
        (Outcome.REFUSED, Restored.UNTOUCHED, OLD),
        (Outcome.FAILED, Restored.INCOMPLETE, "not known"),
    ],
)
def test_what_a_device_runs_is_told_where_it_is_known(capsys, outcome, restored, runs):
    """One that was not ready was not restarted; of one that did not come back nobody can tell."""
    readiness = SimpleNamespace(running=OLD)
    row = reported(capsys, outcome=outcome, restored=restored, readiness=readiness).splitlines()[1]
    assert row.split(NEW)[0].split() == ["xe1", outcome.value, OLD, *runs.split()]


def test_a_narrow_terminal_gets_no_image_that_is_folded(monkeypatch, capsys):
    """The releases say it, and the image stood above the question."""
    monkeypatch.setenv("COLUMNS", "80")
    out = reported(capsys, outcome=Outcome.DONE, readiness=SimpleNamespace(running=OLD))
    assert "c8000v" not in out


def test_a_recovery_says_what_became_of_an_activation():
    """That the configuration is untouched is not what is asked of a device that was committed."""
    ended = SimpleNamespace(outcome=ActivationOutcome.COMMITTED)
    one = SimpleNamespace(host="xe1", run_id="r", restored=Restored.UNTOUCHED, activation=ended, is_accepted=False)
    row = device_tables._recovery_row(one, has_activation=True)
    assert [str(cell) for cell in row.values()] == ["xe1", "r", "committed", "untouched"]
    assert "activation" not in device_tables._recovery_row(one, has_activation=False)
