"""What a second reader tried to break: leftovers, duplicates, secrets, and a night that must not look good."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta

import pytest

from flashferry.core.redaction import keep_secret
from flashferry.core.values import replace
from flashferry.model.exit_codes import ExitCode
from flashferry.nightly.backend import Leftover
from flashferry.nightly.lab_notes import LabNotes, is_night_alive, nobodys, read_notes
from flashferry.nightly.night import Fault, Night, NightStep, StepName, StepOutcome
from flashferry.nightly.product import ProductRun
from flashferry.nightly.steps import run_night
from flashferry.nightly.topology.definitions import without_secrets
from tests.unit.nightly.fakes import failed, lab_fault, probe_device

NOW = datetime(2026, 11, 22, 1, 0, tzinfo=UTC)
TITLE = "ff-nightly-20261122T0000-3f2a"
ENDLESS_PID = 2**22 + 1
"""No process has it."""


def lab(notes, title=TITLE, lab_id="1"):
    return Leftover(lab_id=lab_id, title=title, notes=notes, state="STARTED")


def test_a_container_of_the_same_name_does_not_take_a_living_night_for_dead(tmp_path):
    """Process numbers of another container, or of a copy of this machine, say nothing here."""
    own = LabNotes.of_this_process(TITLE, expires=NOW)
    elsewhere = replace(own, pid=ENDLESS_PID, place="another boot pid:[1]")
    assert is_night_alive(tmp_path, elsewhere)
    assert not is_night_alive(tmp_path, replace(own, pid=ENDLESS_PID))
    assert own.is_of_this_process
    assert read_notes(lab(own.text())) == own


def test_notes_of_before_are_read_still(tmp_path):
    """They say nothing of a container: the process decides."""
    text = json.dumps({"run": TITLE, "host": "h", "pid": os.getpid(), "expires": NOW.isoformat()})
    found = read_notes(lab(text))
    assert found is not None
    assert is_night_alive(tmp_path, found)


@pytest.mark.parametrize("quoted", ["'{}'", '"{}"', "|-\n    {}"])
def test_who_imports_a_kept_topology_to_look_into_a_night_keeps_his_lab(quoted):
    """As downloaded it has title and notes of a night that is over: the next reaping would remove it."""
    notes = LabNotes.of_this_process(TITLE, expires=NOW - timedelta(days=1)).text()
    escaped = notes.replace('"', '\\"') if quoted[0] == '"' else notes
    text = nobodys(f"lab:\n  title: {TITLE}\n  notes: {quoted.format(escaped)}\n")
    assert "expires" not in text
    assert read_notes(lab(notes)) is not None
    assert read_notes(lab(nobodys(notes))) is None


def test_a_lab_that_an_import_made_twice_is_removed_twice(rig):
    """An answer that comes too late has the import done again; nobody was told of the first one."""
    plain = rig.backend.up

    def twice(topology, *, notes, deadline):
        rig.backend.labs["lab-0"] = lab(notes, topology.title, "lab-0")
        return plain(topology, notes=notes, deadline=deadline)

    rig.backend.up = twice
    assert run_night(rig.parts).exit_code == 0
    assert rig.backend.labs == {}


def test_another_hosts_lab_of_the_same_title_stays(rig):
    """Two nights that begin in one minute may draw the same four digits."""
    plain = rig.backend.up

    def beside(topology, *, notes, deadline):
        other = LabNotes(run=topology.title, host="elsewhere", pid=1, expires=NOW.isoformat()).text()
        rig.backend.labs["theirs"] = lab(other, topology.title, "theirs")
        rig.backend.labs["annas"] = lab("Anna's, keep", topology.title, "annas")
        return plain(topology, notes=notes, deadline=deadline)

    rig.backend.up, rig.backend.answers_up = beside, False
    run_night(rig.parts)
    assert set(rig.backend.labs) == {"theirs", "annas"}


def test_a_list_that_cannot_be_had_at_the_end_makes_no_removed_lab_a_left_one(rig):
    rig.product.acts["recover"] = lambda: rig.backend.fail("leftovers", lab_fault())
    assert run_night(rig.parts).exit_code == 0
    assert rig.backend.labs == {}


def test_no_half_of_a_password_with_a_quote_in_it_is_kept():
    """The rule for lines of strangers ends at a quote."""
    keep_secret("ab'cdefgh-9")
    assert without_secrets("username u privilege 15 secret ab'cdefgh-9\n") == "username u privilege 15 secret ***\n"


def test_a_speed_test_that_timed_nothing_makes_no_good_night(rig):
    """It ended well, and a router has no copy in its report."""
    answer = ProductRun(verb="probe", exit_code=0, document={"run": {"devices": [probe_device("xe1")]}})
    rig.product.answers |= {f"probe-{number}": answer for number in range(1, 6)}
    night = run_night(rig.parts)
    assert failed(night) == [("probe", Fault.LAB)]
    assert "xe2: no tuned copy of it was timed" in night.not_comparable_because


def test_a_disk_that_is_full_before_the_product_runs_ends_no_night_without_a_trace(rig):
    """It is the lab's fault, the night is written, the lab is gone."""

    def full(folder, inventory):
        raise OSError(28, "No space left on device")

    night = run_night(replace(rig.parts, product=full))
    assert failed(night) == [("check", Fault.LAB)]
    assert [step.name for step in night.steps] == list(StepName)
    assert (night.exit_code, rig.backend.labs, len(rig.written)) == (7, {}, 2)


def test_a_history_that_cannot_be_read_hides_no_change_of_a_router(rig):
    """Judging fails; the configuration that is not what it was is told all the same."""

    def unreadable(night):
        raise lab_fault("the nights cannot be used")

    rig.product.acts["recover"] = lambda: rig.routers.changed.update(xe2="hostname xe2\nend")
    night = run_night(replace(rig.parts, judge=unreadable))
    assert failed(night) == [("judge", Fault.PRODUCT)]
    assert night.exit_code == 5


@pytest.mark.parametrize(
    ("fault", "is_unrestored", "code"),
    [(Fault.PRODUCT, True, 5), (Fault.PRODUCT, False, 130), (Fault.CLEANUP, False, 8)],
)
def test_an_interruption_hides_no_router_that_is_not_what_it_was(fault, is_unrestored, code):
    """As of the product's own runs: what is not restored outweighs it."""
    words = {"name": StepName.STAGE, "started_at": NOW, "duration_s": 1.0, "outcome": StepOutcome.FAILED}
    step = NightStep(**words, fault=fault, is_unrestored=is_unrestored)
    words = {"night_id": TITLE, "started_at": NOW, "ended_at": NOW, "backend": "cml", "kernel": "", "tool_version": ""}
    assert Night(**words, steps=(step,), is_interrupted=True).exit_code is ExitCode(code)


@pytest.mark.parametrize(
    "line",
    [
        "crypto isakmp key hUsh-7 address 192.0.2.1",
        "tacacs-server key 7 hUsh-7",
        "tacacs server t\n address ipv4 192.0.2.1\n key hUsh-7",
        " pre-shared-key local hUsh-7",
        " pre-shared-key address 0.0.0.0 0.0.0.0 key hUsh-7",
        "ntp authentication-key 1 md5 hUsh-7 7",
        " ip ospf message-digest-key 1 md5 7 hUsh-7",
        " ip ospf authentication-key hUsh-7",
    ],
)
def test_keys_of_a_users_own_topology_are_kept_by_no_artefact(line):
    """Those of tunnels, servers and protocols, too."""
    assert "hUsh-7" not in without_secrets(f"{line}\nend\n")


def test_lines_that_are_no_secrets_stay():
    text = "crypto key generate rsa modulus 2048\nhostname r\n key chain c\nip ssh version 2\n"
    assert without_secrets(text).replace("***", "chain") == text
