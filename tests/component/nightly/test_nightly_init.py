"""`flashferry nightly init --check` asks a stand-in controller over HTTPS whether it could take the lab up."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flashferry.lab.cml.standin import RunningController, standin_controller
from tests.component.nightly.cml.standing import write_night
from tests.component.nightly.conftest import Call, Called


@pytest.fixture(scope="module")
def running() -> Iterator[RunningController]:
    pytest.importorskip("virl2_client", reason="needs the extra 'cml'")
    with standin_controller() as controller:
        yield controller


@pytest.fixture
def call(
    running: RunningController,
    tmp_path: Path,
    nightly: Call,
    log_in: Callable[[RunningController], None],
) -> Call:
    """Return what checks a description with changes; the password is in no output."""
    log_in(running)

    def call(*words: str, node: dict[str, Any] | None = None, **controller: Any) -> Called:
        file = write_night(tmp_path, running, node=node, controller=controller)
        code, out, err = nightly("init", "--check", str(file), *words)
        assert running.password not in out + err
        return code, out, err

    return call


def test_a_controller_that_can_says_so(call: Call) -> None:
    """Its version and what is free are told, for people and for programs; no lab is made."""
    code, out, _ = call()
    assert code == 0
    assert "it could take this lab up" in out
    assert json.loads(call("--json")[1])["controller"]["version"]


@pytest.mark.parametrize(
    ("node", "controller", "code", "said"),
    [
        ({"image_definition": "csr1000v-99"}, {}, 7, "csr1000v-99"),
        ({"count": 31}, {}, 7, "nodes"),
        ({}, {"url": "https://127.0.0.1:1"}, 7, "127.0.0.1"),
        ({}, {"ca_file": None}, 7, "certificate"),
    ],
    ids=["an unknown image", "more nodes than the licence", "a wrong address", "an unproven certificate"],
)
def test_a_controller_that_cannot_is_the_labs_fault(
    call: Call, node: dict[str, Any], controller: dict[str, Any], code: int, said: str
) -> None:
    """In one sentence, with the exit code of the lab."""
    found, out, err = call(node=node, **controller)
    assert (found, out) == (code, ""), err
    assert said in err, err
    assert err.count("\n") == 1


def test_a_wrong_password_is_said(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """And never shown."""
    monkeypatch.setenv("FLASHFERRY_CML_PASSWORD", "wrong-word")
    code, _, err = call()
    assert code in (2, 7)
    assert "wrong-word" not in err
    assert err.count("\n") == 1


def test_offline_asks_nobody(call: Call) -> None:
    """A controller that is not there is no matter."""
    code, out, _ = call("--offline", url="https://127.0.0.1:1")
    assert code == 0
    assert "Its controller was not asked" in out
