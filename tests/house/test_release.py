"""A release is built from what is committed and described, and the same commit gives the same bytes."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from tests.house.modules import ROOT


@pytest.fixture(scope="module")
def release():
    """The script that builds a release, as a module; tests away from the checkout have none and skip."""
    path = ROOT / ".ci" / "release.py"
    if not path.is_file():
        pytest.skip("the tests run away from the checkout, without .ci")
    spec = importlib.util.spec_from_file_location("release", path)
    module = sys.modules["release"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("changelog", "uncommitted", "words"),
    [
        ("# Changelog\n\n## 0.2.0 (2026-12-01)\n\n- x\n", "", []),
        ("# Changelog\n\n## 0.2.0 (unreleased)\n\n- x\n", "", ["YYYY-MM-DD"]),
        ("# Changelog\n\n## 10.2.0 (2026-12-01)\n\n- x\n", "", ["YYYY-MM-DD"]),
        ("# Changelog\n\n## 0.2.0 (2026-12-01)\n\n- x\n", " M tasks/tune.py", ["tasks/tune.py"]),
    ],
)
def test_a_release_is_committed_and_described(release, changelog, uncommitted, words):
    found = release.obstacles(changelog, "0.2.0", uncommitted=uncommitted)
    assert len(found) == len(words)
    assert all(word in one for word, one in zip(words, found, strict=True))


def test_builds_that_differ_are_named(release):
    """A file with other bytes, and one that only one build has."""
    assert release.differences({"a": b"1", "b": b"2"}, {"a": b"1", "b": b"2"}) == []
    assert release.differences({"a": b"1", "b": b"2"}, {"a": b"3", "c": b"4"}) == ["a", "b", "c"]


@pytest.mark.soak
def test_two_builds_of_a_commit_have_the_same_bytes(release, tmp_path):
    """In two folders, at two times; a wheel and an sdist come of each."""
    first, second = (release.build(tmp_path / name, commit="HEAD") for name in ("one", "another"))
    assert {name.rpartition(".")[2] for name in first} == {"whl", "gz"}
    assert release.differences(first, second) == []
