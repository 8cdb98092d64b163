"""The gate itself: what is quarantined and what needed a second look stay small and are looked after."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.house.quarantine import MOST, MOST_DAYS, quarantine
from tests.needs import need_root, skip_lines

ROOT = Path(__file__).parents[2]
SECOND_LOOK = ROOT / ".ci" / "second_look.jsonl"

CASE = """<testsuites><testsuite><testcase classname="{classname}" name="{name}" {file}>
<{kind} message="no">trace</{kind}><properties>{properties}</properties></testcase>
<testcase classname="tests.unit.test_b" name="test_fine" file="tests/unit/test_b.py"/></testsuite></testsuites>"""
CONCURRENT = '<property name="concurrent" value="yes" />'


@pytest.fixture(scope="module")
def again():
    """The script of CI as a module; tests away from the checkout have none and skip."""
    path = ROOT / ".ci" / "again.py"
    if not path.is_file():
        pytest.skip("the tests run away from the checkout, without .ci")
    spec = importlib.util.spec_from_file_location("again", path)
    module = sys.modules["again"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def report(folder, *, classname="tests.e2e.test_a", file='file="tests/e2e/test_a.py"', kind="failure", concurrent=True):
    path = folder / "report.xml"
    properties = CONCURRENT if concurrent else ""
    path.write_text(CASE.format(classname=classname, name="test_x[a-b]", file=file, kind=kind, properties=properties))
    return path


def test_a_failure_is_named_as_pytest_names_it(again, tmp_path):
    """Also one inside a class, and one in its fixture."""
    (one,) = again.failures(report(tmp_path))
    assert (one.node_id, one.is_concurrent) == ("tests/e2e/test_a.py::test_x[a-b]", True)
    (one,) = again.failures(report(tmp_path, classname="tests.e2e.test_a.TestKind", kind="error"))
    assert one.node_id == "tests/e2e/test_a.py::TestKind::test_x[a-b]"


def test_what_load_cannot_have_done_is_red_at_once(again, tmp_path):
    """A test without process and thread, a file that cannot be imported, more than ten failures, no failure at all."""
    assert again.verdict(again.failures(report(tmp_path))) == ""
    assert "neither a process nor a thread" in again.verdict(again.failures(report(tmp_path, concurrent=False)))
    assert again.verdict(again.failures(report(tmp_path, file="", classname="")))
    many = [again.Failure(node_id=f"a.py::test_{n}", name="", is_concurrent=True) for n in range(11)]
    assert again.verdict(many[:10]) == ""
    assert "11 tests failed" in again.verdict(many)
    assert "no test did" in again.verdict([])


def test_a_test_that_fails_again_is_red_and_one_that_passes_is_kept(again, tmp_path, monkeypatch, capsys):
    """The list has name, commit and pressure of what passed; what failed twice is named."""
    monkeypatch.setattr(again, "LIST", tmp_path / "list.jsonl")
    monkeypatch.setattr("sys.argv", ["again.py", str(report(tmp_path)), "--pressure", "40 %"])
    monkeypatch.setattr(again, "passes_alone", lambda _: False)
    assert again.main() == 1
    assert "red again: tests/e2e/test_a.py::test_x[a-b]" in capsys.readouterr().out
    assert (tmp_path / "list.jsonl").read_text() == ""
    monkeypatch.setattr(again, "passes_alone", lambda _: True)
    assert again.main() == 0
    (kept,) = map(json.loads, (tmp_path / "list.jsonl").read_text().splitlines())
    assert (kept["id"], kept["pressure"]) == ("tests/e2e/test_a.py::test_x[a-b]", "40 %")


def test_a_run_without_a_whole_report_is_red(again, tmp_path, monkeypatch):
    """A pytest that was killed leaves none, or a part of one."""
    for content in (None, "<testsuites><testsuite>"):
        path = tmp_path / "cut.xml"
        if content:
            path.write_text(content)
        monkeypatch.setattr("sys.argv", ["again.py", str(path)])
        assert again.main() == 1


def test_the_second_look_runs_a_test_by_itself(again, tmp_path, monkeypatch):
    """It passes or fails by what the test does."""
    monkeypatch.setattr(again, "CHECKOUT", tmp_path)
    (tmp_path / "test_one.py").write_text("def test_good(): pass\ndef test_bad(): assert False\n")
    assert again.passes_alone("test_one.py::test_good")
    assert not again.passes_alone("test_one.py::test_bad")
    assert not again.passes_alone("test_one.py::test_missing")


def test_each_reason_for_skipping_is_one_line_with_its_number(request):
    """Wherever the tests stand; and pytest itself, which has a line for each file and line, prints none."""
    here = [("tests/a.py", line, "Skipped: needs root: an sshd") for line in (3, 9)]
    there = [["tests/b.py", 3, "Skipped: needs root: an sshd"], ["tests/b.py", 4, "Skipped: no docs"]]
    reports = [SimpleNamespace(longrepr=one) for one in (*here, *there)]
    assert skip_lines(reports) == ["SKIPPED [3] needs root: an sshd", "SKIPPED [1] no docs"]
    ours = next(option for option in request.config.getini("addopts") if option.startswith("-r"))
    assert not {"a", "A", "s"} & set(ours.removeprefix("-r"))


def test_what_is_lacking_fails_in_ci_alone(monkeypatch):
    """There, everything has to be there; elsewhere the test is skipped, and root is asked for by name."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="needs root: an sshd"):
        need_root("an sshd")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="needs root: an sshd"):
        need_root("an sshd")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    need_root("an sshd")


def test_the_quarantine_is_small_and_names_tests_that_are_there():
    """At most 15, each with a reason, each a function of its file."""
    kept = quarantine()
    assert len(kept) <= MOST
    for one in kept:
        file, _, name = one.node_id.partition("::")
        function = name.split("::")[-1].partition("[")[0]
        assert re.search(rf"^\s*(async )?def {function}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), (
            one
        )


@pytest.mark.soak
def test_nothing_is_quarantined_for_more_than_two_weeks():
    """What stands there longer is mended or deleted."""
    today = datetime.now(UTC).date()
    assert [one for one in quarantine() if (today - one.since).days > MOST_DAYS] == []


def test_what_needed_a_second_look_twice_is_mended_or_quarantined():
    """A mended test's lines are removed from the list."""
    if not SECOND_LOOK.is_file():
        pytest.skip("the tests run away from the checkout, without .ci")
    counted = Counter(json.loads(line)["id"] for line in SECOND_LOOK.read_text(encoding="utf-8").splitlines())
    known = {one.node_id for one in quarantine()}
    assert [name for name, count in counted.items() if count > 1 and name not in known] == []
