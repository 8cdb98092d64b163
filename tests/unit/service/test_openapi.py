"""The API's description: served to who is signed in, whole, with who may call what and how errors look."""

from __future__ import annotations

import json

import pytest

from flashferry.service.access import ROUTES
from flashferry.service.api.health import written
from tests.served import serve
from tests.some import some


@pytest.fixture
def document(tmp_path):
    served = serve(tmp_path)
    served.person("vera", "viewer")
    assert served.call("GET", "/api/v1/openapi.json").status_code == 401
    return json.loads(served.call("GET", "/api/v1/openapi.json", served.token("vera")).text)


def operations(document):
    return {
        (method.upper(), path): operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    }


def test_all_calls_of_the_api_are_in_it(document):
    """Each route below /api/v1 that the table of access has, but for the description itself."""
    ours = {(method, written(path)) for method, path in ROUTES if path.startswith("/api/v1/")}
    ours -= {("GET", "/api/v1/openapi.json")}
    assert ours - operations(document).keys() == set()


def test_it_says_who_may_call(document):
    """As the table of access does."""
    rows = {(method, written(path)): access for (method, path), access in ROUTES.items()}
    for row, operation in some(operations(document).items()):
        access = rows[row]
        assert operation["x-access"]["roles"] == sorted(access.roles)
        assert bool(operation["security"]) is not access.is_public


def test_errors_are_problems(document):
    """Of every call; the form that the framework would have is nowhere."""
    assert "HTTPValidationError" not in json.dumps(document)
    for _, operation in some(operations(document).items()):
        assert "application/problem+json" in operation["responses"]["default"]["content"]


def test_every_call_says_what_it_does(document):
    """In a sentence, and each has a name of its own for programs that are made of it."""
    found = operations(document)
    assert [row for row, operation in found.items() if not operation.get("description", "").endswith(".")] == []
    assert len({operation["operationId"] for operation in found.values()}) == len(found)
