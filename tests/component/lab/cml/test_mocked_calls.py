"""Every call that the test-suite of Cisco's client mocks gets an answer of the right shape from the stand-in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flashferry.lab.cml.standin import Identity, standin_controller
from tests.component.lab.cml.conftest import Plain
from tests.patience import until
from tests.unit.lab.cml.topologies import ONE_ROUTER

MOCKED = json.loads(Path(__file__).with_name("virl2_client_calls.json").read_text(encoding="utf-8"))
TYPES: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool, "null": type(None)}


def _objections(value: Any, shape: Any, at: str = "answer") -> list[str]:
    """Return where a value is not of a shape."""
    if shape == "text":
        return []
    if isinstance(shape, str):
        return [] if type(value) in {TYPES[name] for name in shape.split("|")} else [f"{at}: {value!r} is no {shape}"]
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{at} is no list"]
        return [each for index, item in enumerate(value) for each in _objections(item, shape[0], f"{at}[{index}]")]
    if not isinstance(value, dict):
        return [f"{at} is no object"]
    if "*" in shape:
        return [each for key, item in value.items() for each in _objections(item, shape["*"], f"{at}.{key}")]
    missing = [f"{at} has no {key}" for key in shape if key not in value]
    return missing + [
        each for key, inner in shape.items() if key in value for each in _objections(value[key], inner, f"{at}.{key}")
    ]


def _spares(plain: Plain, lab: str) -> dict[str, str]:
    """Add to a running lab what the calls remove and link."""
    made: dict[str, str] = {}
    for name in ("spare_node", "one", "two", "three", "four"):
        body = {"label": name, "node_definition": "server"}
        made[name] = plain.ask("POST", f"labs/{lab}/nodes", body).json["id"]
        body = {"node": made[name]}
        made[f"{name}_port"] = plain.ask("POST", f"labs/{lab}/interfaces", body).json["id"]
    made["spare_interface"] = plain.ask("POST", f"labs/{lab}/interfaces", {"node": made["one"]}).json["id"]
    ends = {"src_int": made["three_port"], "dst_int": made["four_port"]}
    made["spare_link"] = plain.ask("POST", f"labs/{lab}/links", ends).json["id"]
    return {**made, "free_one": made["one_port"], "free_two": made["two_port"]}


@pytest.fixture(scope="module")
def called(identity: Identity) -> dict[int, tuple[int, Any]]:
    """All calls, made once and in their order: status and answer by place."""
    with standin_controller(version="2.9.1", identity=identity) as running:
        plain = Plain(running)
        plain.log_in()
        lab = plain.take()
        plain.ask("PUT", f"labs/{lab}/start")
        until(lambda: plain.ask("GET", f"labs/{lab}/check_if_converged").json is True, "a lab that has converged")
        nodes = plain.ask("GET", f"labs/{lab}/nodes?data=true").json
        node = next(each["id"] for each in nodes if each["label"] == "xe1")
        names = {"lab": lab, "node": node}
        running.faults.set(tiles_lag_s=0.0)
        answers = {}
        for place, call in enumerate(MOCKED["calls"]):
            if call["where"] == "test_client_library_labs.py" and "free_one" not in names:
                names |= _spares(plain, lab)
            answers[place] = _ask(plain, call, names)
        return answers


def _ask(plain: Plain, call: dict[str, Any], names: dict[str, str]) -> tuple[int, Any]:
    body: Any = call.get("body")
    headers = {"X-Original-File-Name": "file.qcow"} if call.get("is_image") else {}
    if call.get("is_image") or "text" in call:
        body = call.get("text", "image").encode()
    elif call.get("is_topology"):
        body = ONE_ROUTER.encode()
    elif body is not None:
        body = {key: value.format(**names) if isinstance(value, str) else value for key, value in body.items()}
    said = plain.ask(call["method"], call["path"].format(**names), body, headers=headers)
    return said.status, said.json if said.body else None


@pytest.mark.parametrize(
    "place", range(len(MOCKED["calls"])), ids=[f"{each['method']} {each['path']}" for each in MOCKED["calls"]]
)
def test_a_mocked_call_gets_an_answer_of_its_shape(called: dict[int, tuple[int, Any]], place: int) -> None:
    """Types and keys are those of what the client's tests answer themselves."""
    call, (status, value) = MOCKED["calls"][place], called[place]
    if call["shape"] is None:
        assert (status, value) == (204, None)
        return
    assert status == 200, value
    if "{lab}/nodes" in call["path"] and call["method"] == "GET":
        value = [each for each in value if each["label"] == "xe1"] if isinstance(value, list) else value
    assert _objections(value, call["shape"]) == []


def test_a_wrong_shape_is_seen() -> None:
    """What judges the answers: a type, a missing key, a list that is none, deep inside."""
    shape = {"a": {"*": ["int"]}, "b": "str|null"}
    assert _objections({"a": {"x": [1]}, "b": None}, shape) == []
    assert _objections({"a": {"x": [True]}, "b": 1}, shape) == [
        "answer.a.x[0]: True is no int",
        "answer.b: 1 is no str|null",
    ]
    assert _objections({"a": {"x": 1}}, shape) == ["answer has no b", "answer.a.x is no list"]
