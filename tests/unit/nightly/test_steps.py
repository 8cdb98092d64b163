"""A night, whatever fails in it: the right fault, the right exit code, and the lab is removed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.nightly.backend import LinkCondition, NodeState
from flashferry.nightly.night import Fault, Judgement, NightFault, NoCapacity, Rating, StepName, StepOutcome
from flashferry.nightly.product import ProductRun
from flashferry.nightly.steps import run_night
from flashferry.store.reader import lock_of
from tests.unit.nightly.fakes import failed, failed_device, lab_fault


def outcomes(night):
    return {step.name.value: step.outcome.value for step in night.steps}


def test_a_good_night_does_all_steps_in_their_order_and_leaves_nothing(rig):
    """All fifteen, each once; the lab is gone, no scratch file and no lock of the night stay."""
    night = run_night(rig.parts)
    assert [step.name for step in night.steps] == list(StepName)
    assert set(outcomes(night).values()) == {"passed"}
    assert (night.exit_code, night.is_comparable, night.fault) == (0, True, None)
    assert rig.backend.labs == {}
    assert not (rig.folder / "nightly" / "scratch").exists()
    assert not lock_of(rig.folder / "nightly", night.night_id).exists()


def test_its_copies_come_from_the_products_reports(rig):
    """Five untuned and five tuned of each router by `probe`, one by `stage`."""
    night = run_night(rig.parts)
    probes = [one for one in night.copies if one.verb == "probe"]
    assert len([one for one in probes if one.is_tuned]) == len([one for one in probes if not one.is_tuned]) == 10
    assert len(night.copies) == 22
    keys = ["cat8000v/-/wan50/ftp/probe as it is", "cat8000v/-/wan50/ftp/probe"]
    assert [str(one.key) for one in probes[:2]] == keys


def test_lines_left_are_counted_behind_the_products_back(rig):
    """None of each router; its logins are timed too."""
    night = run_night(rig.parts)
    assert [one.value for one in night.figures if one.what == "lines left"] == [0.0, 0.0]
    assert [one.value for one in night.figures if one.what == "connect"] == [1.5] * 12


def test_the_product_gets_each_command_as_a_person_gives_it(rig):
    """Two kills: the first run is resumed, the second recovered; passwords stand on no command line."""
    run_night(rig.parts)
    names = [words[0] for words in rig.product.commands]
    assert names == ["check", *(f"probe-{n}" for n in range(1, 6)), "stage", "kill-1", "resume", "recover-1", "recover"]
    by_name = {words[0]: words[1:] for words in rig.product.commands}
    assert by_name["resume"] == ("stage", "--resume", "run-kill-1")
    assert by_name["recover"] == ("recover",)
    assert not any("secret-of-the-lab" in word for words in rig.product.commands for word in words)


def test_what_is_kept_has_the_clean_up_in_it(rig):
    """Artefacts are written while the lab is there, and again when it is gone."""
    night = run_night(rig.parts)
    (first, files), (last, _) = rig.written
    assert "clean" not in outcomes(first)
    assert last == night
    assert set(files) == {"product/stage.json", "lab.yaml", "console/xe1.log", "console/xe2.log"}


LAB_STEPS = [
    ("preflight", "preflight"),
    ("leftovers", "reap"),
    ("up", "import"),
    ("nodes", "start"),
]


@pytest.mark.parametrize(("method", "step"), LAB_STEPS)
@pytest.mark.parametrize("error", [lab_fault(), ValueError("no JSON")], ids=["expected", "unexpected"])
def test_whatever_the_controller_fails_at_is_the_labs_fault(rig, method, step, error):
    """The product is not run, the night is not compared, the lab is gone, and the exit code is 7."""
    if method == "leftovers":
        rig.backend.fail(method, error, for_ever=False)
    else:
        rig.backend.fail(method, error)
    night = run_night(rig.parts)
    assert failed(night) == [(step, Fault.LAB)]
    assert (night.exit_code, night.is_comparable) == (7, False)
    assert night.not_comparable_because.startswith(f"{step}: ")
    assert rig.product.commands == []
    assert rig.backend.labs == {}
    assert [step.name for step in night.steps] == list(StepName)


def test_a_502_now_and_then_ends_no_night(rig):
    """While nodes are polled, errors of two minutes on end are borne with."""
    rig.backend.fail("nodes", *[lab_fault()] * 10, for_ever=False)
    night = run_night(rig.parts)
    assert night.exit_code == 0


def test_an_import_that_was_never_answered_leaves_no_lab(rig):
    """The lab was made all the same: it is found by its title."""
    rig.backend.answers_up = False
    night = run_night(rig.parts)
    assert failed(night) == [("import", Fault.LAB)]
    assert rig.backend.calls[-1] == "down"
    assert rig.backend.labs == {}


@pytest.mark.parametrize("state", [NodeState.QUEUED, NodeState.STARTED, NodeState.DISCONNECTED])
def test_a_node_that_never_boots_is_the_labs_fault(rig, state):
    """The sentence names the node and its state; a disconnected one is not waited for until the end."""
    rig.backend.states["xe2"] = state
    night = run_night(rig.parts)
    assert failed(night) == [("start", Fault.LAB)]
    start = next(step for step in night.steps if step.name is StepName.START)
    assert start.sentence.startswith(f"xe2: expected BOOTED, the node is {state}")
    assert (start.duration_s < 60) is (state is NodeState.DISCONNECTED)
    assert rig.backend.labs == {}


def test_a_router_that_answers_late_is_waited_for(rig):
    rig.routers.silent["xe1"] = 20
    night = run_night(rig.parts)
    assert night.exit_code == 0
    assert next(step.duration_s for step in night.steps if step.name is StepName.REACH) >= 100


def test_a_booted_router_without_ssh_is_a_devices_fault(rig):
    """What its console says about its day-0 configuration is quoted."""
    rig.routers.silent["xe1"] = 10_000
    rig.backend.console = "%CVAC-4-CONFIG_DONE: fine\n*Nov 22 01:03:00: %CVAC-3-X: line 7 was not taken\n"
    night = run_night(rig.parts)
    assert failed(night) == [("reach", Fault.DEVICE)]
    sentence = next(step.sentence for step in night.steps if step.name is StepName.REACH)
    assert sentence.startswith("xe1: BOOTED, but no SSH session")
    assert "line 7 was not taken" in sentence
    assert night.exit_code == 4
    assert rig.backend.labs == {}


def test_a_router_without_an_address_is_the_labs_fault(rig):
    rig.backend.has_addresses = False
    assert failed(run_night(rig.parts)) == [("reach", Fault.LAB)]


@pytest.mark.parametrize(("licence_bps", "code"), [(20e6, 4), (50e6, 0), (None, 0)])
def test_a_licence_below_the_links_rate_is_a_devices_fault(rig, licence_bps, code):
    """Its shaper would hide any gain, so nothing is judged."""
    rig.routers.throughput_bps = licence_bps
    night = run_night(rig.parts)
    assert night.exit_code == code
    assert bool(rig.product.commands) is (code == 0)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"rtt_ms": 230.0}, "expected a round trip of 50 or 100 ms, found 230.0 ms"),
        ({"rtt_ms": 0.4}, "found 0.4 ms"),
        ({"lost": 2}, "expected at most 1 of 20 pings lost"),
        ({"lost": 20}, "none of 20 pings was answered"),
    ],
)
def test_a_link_that_is_off_is_the_labs_fault_and_the_product_is_tried_all_the_same(rig, changes, told):
    """The night is kept, and not compared."""
    for name, value in changes.items():
        setattr(rig.routers, name, value)
    night = run_night(rig.parts)
    assert failed(night) == [("condition", Fault.LAB)]
    assert (night.exit_code, night.is_comparable) == (7, False)
    assert told in night.not_comparable_because
    assert outcomes(night)["recover"] == "passed"


def test_a_condition_that_reads_back_otherwise_is_the_labs_fault(rig):
    rig.backend.applied = LinkCondition(bandwidth_kbps=50_000, latency_ms=5)
    night = run_night(rig.parts)
    assert failed(night) == [("condition", Fault.LAB)]
    assert "read back as 50000 kbit/s, 5 ms" in night.not_comparable_because


@pytest.mark.parametrize("name", ["check", "probe-3", "stage", "kill-1", "resume", "recover"])
@pytest.mark.parametrize("code", [1, 3, 5])
def test_what_the_product_fails_at_is_its_own_fault(rig, name, code):
    """With the exit code 5 where a configuration is not proven, else 3; what follows is not tried."""
    document = {"run": {"devices": [failed_device("xe2")]}}
    rig.product.answers[name] = ProductRun(verb="stage", exit_code=code, document=document)
    night = run_night(rig.parts)
    assert failed(night) == [(name.partition("-")[0], Fault.PRODUCT)]
    assert night.exit_code == (5 if code == 5 else 3)
    assert night.is_comparable
    assert rig.backend.labs == {}


def test_what_a_failed_resume_left_is_recovered(rig):
    """The step behind it is done, with the run that was killed."""
    rig.product.answers["resume"] = ProductRun(verb="stage", exit_code=3)
    night = run_night(rig.parts)
    assert outcomes(night)["recover"] == "passed"
    assert [words[0] for words in rig.product.commands][-2:] == ["resume", "recover"]


def test_a_refusal_is_the_devices_fault(rig):
    refused = failed_device("xe1", outcome="refused", failure={"kind": "DeviceRefused", "reason": "no room"})
    rig.product.answers["check"] = ProductRun(verb="check", exit_code=4, document={"devices": [refused]})
    night = run_night(rig.parts)
    assert failed(night) == [("check", Fault.DEVICE)]
    assert night.exit_code == 4
    assert [step.outcome.value for step in night.steps if step.name is StepName.PROBE] == ["skipped"]


def test_a_product_that_fails_because_its_node_died_is_the_labs_fault(rig):
    """The node is looked at before anybody is blamed."""
    rig.product.answers["stage"] = ProductRun(verb="stage", exit_code=3)
    rig.product.acts["stage"] = lambda: rig.backend.states.update(xe1=NodeState.DISCONNECTED)
    night = run_night(rig.parts)
    assert ("stage", Fault.LAB) in failed(night)
    assert night.exit_code == 7


def test_a_copy_that_was_over_before_the_kill_is_made_larger(rig):
    """Its file grows; after three tries the step says so."""
    rig.product.answers["kill-1"] = ProductRun(verb="stage", exit_code=0)
    night = run_night(rig.parts)
    assert night.exit_code == 0
    names = [words[0] for words in rig.product.commands]
    assert "kill-2" in names


@pytest.mark.parametrize("which", ["changed", "unreadable"])
def test_a_configuration_that_is_not_what_it_was_is_graver_than_what_the_product_says(rig, which):
    """Behind the product's back, compared as a whole: exit code 5."""

    def spoil():
        if which == "changed":
            rig.routers.changed["xe2"] = (
                "version 17.9\nhostname xe2\n!\ninterface GigabitEthernet1\n description WAN\n ip address dhcp\n!\n"
                "ip tcp window-size 1250000\nend"
            )
        else:
            rig.routers.unreadable.add("xe2")

    rig.product.acts["recover"] = spoil
    night = run_night(rig.parts)
    assert failed(night) == [("judge", Fault.PRODUCT)]
    assert night.exit_code == 5
    assert "xe2" in next(step.sentence for step in night.steps if step.name is StepName.JUDGE)


def test_a_red_series_is_the_products_fault(rig):
    """Its sentence is the step's."""

    def judged(night):
        key = night.copies[0].key
        red = Judgement(key=key, tonight=1e6, colour=Rating.RED, sentence="red for two nights")
        return replace(night, judgements=(red,))

    night = run_night(replace(rig.parts, judge=judged))
    assert failed(night) == [("judge", Fault.PRODUCT)]
    assert night.exit_code == 3
    assert [one.sentence for one in night.judgements] == ["red for two nights"]


@pytest.mark.parametrize("method", ["artefacts", "console_log"])
def test_artefacts_that_cannot_be_had_keep_no_lab_alive(rig, method):
    """What there is, is written."""
    rig.backend.fail(method, lab_fault())
    night = run_night(rig.parts)
    assert failed(night) == [("artefacts", Fault.LAB)]
    assert rig.backend.labs == {}
    assert len(rig.written) == 2


def test_a_disk_that_is_full_keeps_no_lab_alive(rig):
    def full(night, files):
        raise OSError(28, "No space left on device")

    night = run_night(replace(rig.parts, write=full))
    assert failed(night) == [("artefacts", Fault.LAB)]
    assert rig.backend.labs == {}


@pytest.mark.parametrize("error", [lab_fault(fault=Fault.CLEANUP), ValueError("html")])
def test_a_lab_that_cannot_be_removed_outweighs_everything(rig, error):
    """It is tried for the clean-up's own five minutes, whatever the night took, and the exit code is 8."""
    rig.backend.fail("down", error)
    rig.product.answers["stage"] = ProductRun(verb="stage", exit_code=5)
    night = run_night(rig.parts)
    assert night.exit_code == 8
    clean = night.steps[-1]
    assert (clean.name, clean.fault) == (StepName.CLEAN, Fault.CLEANUP)
    assert 280 <= clean.duration_s <= 300
    assert rig.backend.calls.count("down") > 5


def test_a_clean_up_that_fails_for_a_minute_is_no_failure(rig):
    rig.backend.fail("down", *[lab_fault(fault=Fault.CLEANUP)] * 4, for_ever=False)
    assert run_night(rig.parts).exit_code == 0
    assert rig.backend.labs == {}


@pytest.mark.parametrize("after_s", [1, 30, 70, 90, 115])
def test_a_night_that_is_stopped_removes_its_lab_first(rig, after_s):
    """SIGTERM in any step: nothing more is tried, the lab is gone, the exit code is 130."""
    rig.routers.silent["xe1"] = 2
    rig.clock.at_second[after_s] = lambda: setattr(rig, "is_stopped", True)
    night = run_night(rig.parts)
    assert night.is_interrupted
    assert night.exit_code == 130
    assert night.steps[-1].name is StepName.CLEAN
    assert night.steps[-1].outcome is StepOutcome.PASSED
    assert rig.backend.labs == {}
    assert not night.is_comparable
    assert len(rig.written) == 1


def test_a_lab_left_by_a_stopped_night_is_told(rig):
    """A night that somebody ended may leave no lab either."""
    rig.backend.fail("down", lab_fault(fault=Fault.CLEANUP))
    rig.clock.at_second[30.0] = lambda: setattr(rig, "is_stopped", True)
    assert run_night(rig.parts).exit_code == 8


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)])
def test_not_even_what_ends_the_process_leaves_a_lab(rig, error):
    rig.backend.fail("condition", error)
    with pytest.raises(type(error)):
        run_night(rig.parts)
    assert rig.backend.labs == {}


def test_the_whole_nights_limit_ends_it_and_the_clean_up_has_its_own_time(rig):
    rig.limit(whole_s=100.0)
    night = run_night(rig.parts)
    assert night.exit_code in {3, 7}
    assert rig.backend.labs == {}
    assert sum(step.duration_s for step in night.steps) < 130


def test_a_dead_nights_lab_is_removed_and_strangers_are_not(rig):
    """A run of this host whose process is dead; a lab of that title with somebody's own notes stays."""
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    run_night(rig.parts)
    first = rig.backend.topology.title
    import json
    from socket import gethostname

    from flashferry.nightly.backend import Leftover

    expires = "2027-01-01T00:00:00+00:00"
    for lab_id, host, pid in (("dead", gethostname(), dead.pid), ("mine", "", 0)):
        notes = json.dumps({"run": first, "host": host, "pid": pid, "expires": expires}) if host else "Anna's, keep"
        rig.backend.labs[lab_id] = Leftover(lab_id=lab_id, title=first, notes=notes, state="STARTED")
    night = run_night(rig.parts)
    assert night.exit_code == 0
    assert set(rig.backend.labs) == {"mine"}
    reaped = next(step for step in night.steps if step.name is StepName.REAP)
    assert reaped.sentence == f"removed {first}; 1 lab left alone"


def test_a_leftover_that_stays_does_not_keep_tonights_lab_from_its_work(rig):
    """It is told with the exit code 8 all the same."""
    import json

    from flashferry.nightly.backend import Leftover

    title = "ff-nightly-20261120T0100-0001"
    notes = json.dumps({"run": title, "host": "elsewhere", "pid": 1, "expires": "2026-11-21T00:00:00+00:00"})
    rig.backend.labs["old"] = Leftover(lab_id="old", title=title, notes=notes, state="STARTED")
    rig.backend.fail("down", lab_fault(fault=Fault.CLEANUP), for_ever=False)
    night = run_night(rig.parts)
    assert failed(night) == [("reap", Fault.CLEANUP)]
    assert night.exit_code == 8
    assert outcomes(night)["recover"] == "passed"
    assert set(rig.backend.labs) == {"old"}


DEAD = "ff-nightly-20261120T0100-0001"


def left_by_a_dead_night(rig):
    """Have an expired lab of another host's night on the controller."""
    import json

    from flashferry.nightly.backend import Leftover

    notes = json.dumps({"run": DEAD, "host": "elsewhere", "pid": 1, "expires": "2026-11-21T00:00:00+00:00"})
    rig.backend.labs["old"] = Leftover(lab_id="old", title=DEAD, notes=notes, state="STARTED")


def full(rig):
    """Have the controller's licence filled by any lab that is there."""
    plain = rig.backend.preflight

    def preflight(topology):
        if rig.backend.labs:
            raise NoCapacity("expected room for 2 nodes, found 0", step="preflight", hint="Stop other labs")
        return plain(topology)

    rig.backend.preflight = preflight


def test_leftovers_that_fill_the_licence_end_no_night(rig):
    """They are removed, then the controller is looked at again."""
    left_by_a_dead_night(rig)
    full(rig)
    night = run_night(rig.parts)
    said = {step.name: step.sentence for step in night.steps}
    assert night.exit_code == 0
    assert said[StepName.PREFLIGHT] == (
        "expected room for 2 nodes, found 0; checked again once 1 lab of dead nights went"
    )
    assert said[StepName.REAP] == f"removed {DEAD}; cml.example 2.9.0"
    assert night.controller_version == "2.9.0"


def test_a_licence_that_others_fill_is_told_by_the_first_look(rig):
    """Nothing of ours is there to be removed: the night ends with the lab's fault."""
    from flashferry.nightly.backend import Leftover

    rig.backend.labs["anna"] = Leftover(lab_id="anna", title=DEAD, notes="Anna's, keep", state="STARTED")
    full(rig)
    night = run_night(rig.parts)
    assert (failed(night), night.exit_code) == ([("preflight", Fault.LAB)], 7)
    assert set(rig.backend.labs) == {"anna"}


def test_a_licence_that_is_full_still_ends_the_night_behind_reap(rig):
    """What was removed was not enough: no lab is made."""
    from flashferry.nightly.backend import Leftover

    left_by_a_dead_night(rig)
    rig.backend.labs["anna"] = Leftover(lab_id="anna", title=DEAD, notes="Anna's, keep", state="STARTED")
    full(rig)
    night = run_night(rig.parts)
    assert (failed(night), night.exit_code) == ([("reap", Fault.LAB)], 7)
    assert set(rig.backend.labs) == {"anna"}
    assert "up" not in rig.backend.calls


def test_another_hosts_night_on_the_same_controller_is_not_disturbed(rig):
    """One at a time: they would measure each other."""
    import json

    from flashferry.nightly.backend import Leftover

    title = "ff-nightly-20261122T0055-0001"
    notes = json.dumps({"run": title, "host": "elsewhere", "pid": 1, "expires": "2026-11-22T03:00:00+00:00"})
    rig.backend.labs["other"] = Leftover(lab_id="other", title=title, notes=notes, state="STARTED")
    night = run_night(rig.parts)
    assert failed(night) == [("reap", Fault.LAB)]
    assert set(rig.backend.labs) == {"other"}
    assert "up" not in rig.backend.calls


def test_one_night_at_a_time_on_a_host(rig):
    """The second is refused before it touches anything; when the first is dead, its lock is free."""

    def second():
        with pytest.raises(NightFault, match="another night runs on this host"):
            run_night(rig.parts)

    rig.product.acts["check"] = second
    assert run_night(rig.parts).exit_code == 0


def test_a_killed_nights_lock_is_free(rig):
    """The kernel lets go of it: the next night begins."""
    code = (
        "import os, sys; from pathlib import Path; from flashferry.store.reader import taken_lock\n"
        "folder = Path(sys.argv[1]); (folder / 'runs').mkdir(parents=True, mode=0o700); folder.chmod(0o700)\n"
        "held = taken_lock(folder, 'night'); print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(rig.folder / "nightly")], stdout=subprocess.PIPE, stdin=subprocess.PIPE
    )
    assert process.stdout.readline() == b"held\n"
    with pytest.raises(NightFault):
        run_night(rig.parts)
    process.kill()
    process.communicate()
    assert run_night(rig.parts).exit_code == 0


def test_steps_that_the_description_leaves_out_are_skipped(rig):
    rig.settings = replace(rig.settings, does=(StepName.CHECK, StepName.PROBE), copies=1)
    night = run_night(rig.parts)
    assert night.exit_code == 0
    skipped = [step for step in night.steps if step.outcome is StepOutcome.SKIPPED]
    assert [step.name.value for step in skipped] == ["stage", "kill", "resume", "recover"]


def test_a_wrong_image_is_told_before_anything_is_begun(rig):
    rig.settings.image.unlink()
    with pytest.raises(ConfigInvalid):
        run_night(rig.parts)
    assert rig.backend.calls == []


def test_relative_folders_and_images_are_made_whole(rig, monkeypatch):
    """The product's processes have another working folder than whoever starts the night."""
    monkeypatch.chdir(rig.folder)
    seen = []
    parts = replace(
        rig.parts,
        folder=Path("nightly"),
        settings=replace(rig.settings, image=Path("image.bin")),
        product=lambda folder, inventory: seen.extend((folder, inventory)) or rig.product,
    )
    assert run_night(parts).exit_code == 0
    assert all(path.is_absolute() for path in seen)
    images = {words[words.index("--image") + 1] for words in rig.product.commands if "--image" in words}
    assert all(Path(one).is_absolute() for one in images)


def test_one_image_for_routers_of_several_kinds(rig):
    """In a mixed lab each stage insists on the one image that the description has; else none does."""

    def mixed(title):
        made = rig.parts.topology(title)
        return replace(made, nodes=(replace(made.nodes[0], node_definition="iosv"), *made.nodes[1:]))

    def insisting(parts):
        rig.product.commands.clear()
        assert run_night(parts).exit_code == 0
        return [words[0] for words in rig.product.commands if "--any-image" in words]

    assert insisting(rig.parts) == []
    assert insisting(replace(rig.parts, topology=mixed)) == ["stage", "kill-1", "recover-1"]


def test_the_lab_says_whose_it_is(rig):
    """Run, host, process, and when anybody may remove it: behind all limits of the night."""
    import json
    from datetime import datetime

    rig.product.acts["check"] = lambda: notes.append(json.loads(rig.backend.labs["lab-1"].notes))
    notes = []
    night = run_night(rig.parts)
    assert (notes[0]["run"], notes[0]["pid"]) == (night.night_id, os.getpid())
    left_s = (datetime.fromisoformat(notes[0]["expires"]) - night.started_at).total_seconds()
    assert left_s == pytest.approx(5400 + 300 + 900, abs=2)
