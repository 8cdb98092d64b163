"""`flashferry nightly reap` and `record` as a person, a timer and a program call them."""

from __future__ import annotations

import json

import pytest

from tests.component.nightly.cml.standing import as_stranger, state, up, write_night

NOBODY = 2**22 + 1


@pytest.fixture
def says(standin, tmp_path, monkeypatch, nightly, log_in):
    """Return what a command's exit code, output and error are, by a description of the stand-in."""
    log_in(standin)
    monkeypatch.chdir(tmp_path)
    write_night(tmp_path, standin)
    return nightly


def test_reap_tells_what_went_and_what_stays(standin, backend, says, tmp_path):
    """In lines, with 0 where nothing of dead nights is left."""
    dead, running, strangers = up(backend, pid=NOBODY), up(backend), as_stranger(standin)
    code, out, err = says("reap", "--state-dir", str(tmp_path / "state"))
    assert code == 0, err
    assert f"{dead.title}: removed: its night on this host, process {NOBODY}, is dead" in out
    assert f"{running.title}: left alone: " in out
    assert [state(standin, one) for one in (dead.lab_id, running.lab_id, strangers)] == [None, "STARTED", "STARTED"]
    code, out, _ = says("reap", "--state-dir", str(tmp_path / "state"), "--json")
    document = json.loads(out)
    assert (code, document["schema"]) == (0, "flashferry.nightly-reap/1")
    assert [(one["title"], one["is_removed"]) for one in document["labs"]] == [(running.title, False)]


def test_a_controller_that_cannot_be_asked_is_the_labs_fault(standin, says, monkeypatch):
    """Exit code 7, one sentence, no password."""
    monkeypatch.setenv("FLASHFERRY_CML_PASSWORD", "not-the-password")
    code, _, err = says("reap")
    assert code == 7, err
    assert "could not log in to the controller: it refused the login" in err, err
    assert "not-the-password" not in err


def test_record_writes_a_file_and_tells_of_it(standin, says, tmp_path):
    """As it is known, there is no difference; what differs is told line by line."""
    code, out, _ = says("record")
    assert (code, "0 differences from what is known" in out) == (0, True)
    assert json.loads((tmp_path / "cml-record.json").read_text())["differences"] == []
    standin.faults.set(forbidden={"path": "^licensing$"})
    _, out, _ = says("record", "--output", "other.json")
    assert "  look: GET licensing: expected 200, found 403" in out.splitlines()


def test_a_node_without_a_lab_is_refused(says):
    """Before anybody is asked."""
    code, _, err = says("record", "--node", "alpine")
    assert (code, "--with-lab" in err) == (2, True)
