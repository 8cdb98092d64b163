"""The result of a run for people: a few devices whole, of many those that need attention."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.cli.view.device_tables import MOST_DETAILED, print_checks, print_recovery, print_run, print_run_details
from flashferry.cli.view.probe_table import print_probe
from flashferry.core.values import replace
from flashferry.images.image import Image
from flashferry.model.probe_result import ProbeResult, TransportArm
from flashferry.model.record import DeviceRecord, Failure, RunReport
from flashferry.model.states import Outcome, Restored
from flashferry.planning.inspection import CheckRecord
from tests.unit.run.test_device_plan import CHECK

IMAGE = Image(name="x.bin", size_bytes=2_000_000, md5="m", sha512="s")
LOST = Failure(step="connect", reason="no answer", hint="Look at the line", kind="Unreachable")


def device(host, outcome=Outcome.DONE, **values):
    return DeviceRecord(host=host, outcome=outcome, seconds_by_step={}, **values)


def proven(host):
    """Return a device that was changed and restored."""
    restore = SimpleNamespace(running_difference=None, foreign=(), startup_changed=False)
    return device(host, restored=Restored.RESTORED, restore=restore)


def run(*devices, **values):
    given = {"image": "x.bin", "image_bytes": 2_000_000, "md5": "m", "images": (IMAGE,)} | values
    return RunReport(run_id="20261122-000000-abcd", verb="stage", devices=devices, **given)


@pytest.fixture
def told(capsys):
    """Return what a run's result says."""

    def call(report, table=print_run_details, **options):
        table(report, **options)
        return capsys.readouterr().out

    return call


def test_of_few_devices_everything_is_told(told):
    """Proof by proof, and at the end where there is more."""
    found = told(run(*(proven(f"r{number}") for number in range(5))))
    assert found.count("proof: running configuration equal to the start") == 5
    assert found.endswith("report: flashferry report 20261122-000000-abcd\n")


def test_of_many_devices_those_that_need_attention_come_first(told):
    """The others have a row each and no more."""
    found = told(run(*(proven(f"r{number}") for number in range(39)), device("bad", Outcome.FAILED, failure=LOST)))
    rows = found.splitlines()
    assert rows[2].split()[:2] == ["bad", "failed"]
    assert "proof:" not in found
    assert "bad: connect: no answer. Look at the line" in found
    assert "40 devices: 39 done, 1 failed" in found
    assert len(rows) < 50


def test_alike_failures_are_told_once(told):
    """With the devices that they are about; the evidence of ten of them at the most."""
    found = told(run(*(device(f"r{number}", Outcome.FAILED, failure=LOST) for number in range(30))))
    assert found.count("no answer") == 1
    assert "30 devices: connect: no answer" in found
    assert f"and {30 - MOST_DETAILED} devices more that need attention" in found


def test_of_very_many_devices_not_all_have_a_row(told):
    """All that need attention have one, wherever they stand."""
    found = told(run(*(device(f"r{number}") for number in range(499)), device("last", Outcome.REFUSED)))
    assert "last" in found
    assert "r100" not in found
    assert "500 devices: 499 done, 1 refused" in found
    assert "440 devices more" in found


def test_a_run_that_stopped_says_why_and_how_it_goes_on(told):
    """Devices without a turn are no failures, and their reason stands once."""
    waiting = Failure(step="wave", reason="1 of 1 devices failed in wave 0", hint=None, kind="Stopped")
    left = [device(f"r{number}", Outcome.NOT_STARTED, failure=waiting) for number in range(7)]
    found = told(run(*left, device("bad", Outcome.FAILED, failure=LOST), stopped="1 of 1 devices failed in wave 0"))
    assert "the run started nothing new: 1 of 1 devices failed in wave 0" in found
    assert "resume with: flashferry stage --resume 20261122-000000-abcd" in found
    assert found.count("7 devices: wave: 1 of 1 devices failed") == 1


def test_all_images_of_a_run_are_named(told):
    """And a run that was resumed with nothing left to do names none, nor a size of 0."""
    other = Image(name="y.bin", size_bytes=3, md5="n", sha512="s")
    assert "y.bin, 3 bytes, MD5 n" in told(run(device("r1"), images=(IMAGE, other)))
    assert "0 bytes" not in told(run(device("r1"), images=(), image="nothing left to copy", image_bytes=0, md5=""))


def test_what_was_done_before_a_run_was_resumed_is_proven(told):
    """A device is not done without its hash, whichever part of the run computed it."""
    assert "proven" in told(run(device("r1", notes=("done before the run was resumed",))))
    assert "done before the run was resumed" in told(run(device("r1", notes=("done before the run was resumed",))))


def test_the_mark_in_a_comparison_of_transports_is_explained(told):
    """Where there is one."""
    ftp, http = TransportArm(transport="ftp"), TransportArm(transport="http", is_best=True)
    found, unmarked = (
        told(run(device("r1", probe=ProbeResult(image_bytes=1, by_transport=rows))), print_probe)
        for rows in ((ftp, http), (ftp,))
    )
    assert "http *" in found
    assert "\n* what --transport auto takes from now on\n" in found
    assert "*" not in unmarked


def test_a_speed_test_of_many_devices_is_told_likewise(told):
    """And one that leaves no journal points to no report."""
    found = told(run(*(proven(f"r{number}") for number in range(40))), print_probe, is_kept=False)
    assert "40 devices: 40 done" in found
    assert "proof:" not in found
    assert "flashferry report" not in found


@pytest.mark.parametrize("was_gone", [True, False])
def test_recovery_tells_of_an_applet_that_is_gone(told, was_gone):
    """It types without a look: equal to the start does not prove that nothing of a colleague's went."""
    restore = SimpleNamespace(
        commands=(), running_difference=None, foreign=(), startup_changed=False, applet_was_gone=was_gone
    )
    record = SimpleNamespace(
        host="r1",
        run_id="20261122-000000-abcd",
        restored=Restored.RESTORED,
        restore=restore,
        partial_file=None,
        is_accepted=False,
        activation=None,
        failure=None,
    )
    assert ("r1: its applet is not there" in told((record,), print_recovery)) == was_gone


def checked(host, *notes, fits="of this platform", outcome=Outcome.DONE):
    """Return what a check for an image found of a device."""
    found = replace(CHECK, notes=notes, image=SimpleNamespace(fits=fits))
    return CheckRecord(host=host, outcome=outcome, check=found, failure=None)


def test_a_check_ends_with_its_sum_and_what_comes_next(told):
    """A note stands once with its devices; the last lines count them, and name the command that follows."""
    note = "configuration differs from what is saved"
    found = told((*(checked(f"r{number}", note) for number in range(40)), checked("x", fits="not told")), print_checks)
    assert found.count(f"note: {note}") == 1
    assert "40 devices: note:" in found
    assert "41 devices: 40 fit, 1 image unsure" in found
    assert "image unsure: staging is not refused" in found
    assert "next: 'flashferry stage' or 'flashferry plan'" in found
    lost = CheckRecord(host="r1", outcome=Outcome.FAILED, check=None, failure=LOST)
    assert "next: mend what is reported above" in told((lost,), print_checks)


COPY = SimpleNamespace(rate_bytes_per_s=4_280_000.0)


def test_stage_ends_with_one_line_per_device(told, monkeypatch):
    """Outcome, time, and the copy's rate or why there is none; the hint of many stands once, and what is more after."""
    monkeypatch.setenv("COLUMNS", "100")
    good = replace(proven("r1"), seconds_by_step={"pull": 100.0, "verify": 23.0}, transfer=COPY)
    there = device("r2", Outcome.ALREADY_THERE)
    lost = [device(name, Outcome.FAILED, failure=LOST) for name in ("r3", "r4")]
    found = told(run(good, there, *lost), print_run)
    assert [line.rstrip() for line in found.splitlines()] == [
        "run 20261122-000000-abcd: x.bin, 2,000,000 bytes, MD5 m",
        "device  result         took        copied at, or why not",
        "r1      done           2 min 03 s  4.28 MB/s",
        "r2      already there  -           hash proven",
        "r3      failed         -           connect: no answer",
        "r4      failed         -           connect: no answer",
        "2 devices: Look at the line (r3, r4)",
        "4 devices: 2 done, 2 failed",
        "report: flashferry report 20261122-000000-abcd",
    ]


def test_what_is_left_on_a_device_is_said_with_the_command_that_ends_it(told):
    """A partial file and a configuration that is not proven are never a detail."""
    left = replace(device("r1", Outcome.FAILED, failure=LOST, restored=Restored.INCOMPLETE), partial_file="flash:x.bin")
    found = told(run(replace(left, partial_advice="remove it with 'flashferry stage --resume R'")), print_run)
    assert "configuration" in found
    assert "flash:x.bin" in found
    assert "flashferry recover" in found
    assert "'flashferry stage --resume R'" in " ".join(found.split())
