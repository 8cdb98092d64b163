"""Every field that the API's description has is given what no client means: it is refused in a sentence, never by 500.

What is sent is made from the description itself, so a new field is tried without a line here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import anyio
import httpx
import pytest

from flashferry.service.access import ROUTES
from flashferry.service.api.health import document, written
from flashferry.service.principal import Role
from flashferry.store.service.jobs import Job, JobKind, add_job, latest_jobs
from tests.component.service.calls import STREAMS, World, call_of, world
from tests.served import ADMIN, URL, Token
from tests.some import some

DEEP = "@deep@"
HALF = "\ud800"
TEXTS = (HALF, "a\0b", "\u202egpj.exe", "a\r\nb\u2028c", "x" * 100_000, "", " ")
FIGURES = (2**63, -(2**63) - 1, 10**400, 1e308, float("inf"), float("nan"), -1, 0)
LISTS = ([HALF, "a\0b", 2**64], ["x"] * 20_000, [])
WRONG: Mapping[str, tuple[Any, ...]] = {
    "string": (*TEXTS, 2**63, [HALF], None),
    "integer": (*FIGURES, HALF, [], None),
    "number": (*FIGURES, HALF, [], None),
    "boolean": (HALF, 2**63, None),
    "array": (*LISTS, HALF, None),
    "object": (HALF, 2**63, None, [HALF], {HALF: HALF}, {"a": DEEP}, DEEP),
}
"""What is given in place of each type: what that type may hold and no client means, and another type."""
BOUNDS = {"string": {"maxLength", "enum", "const", "format"}, "integer": {"maximum"}}
IN_A_LINE = ("a%00b", "%ED%A0%80%E2%80%AE", "x" * 5000, str(2**63), "-" + str(2**64), "nan")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> World:
    made = world(tmp_path_factory.mktemp("service"))
    made.served.is_loud = False
    made.served.person("all", *(role.value for role in Role))
    return made


class Fuzz:
    """Calls of one service by one person who may do everything, in one event loop."""

    def __init__(self, made: World) -> None:
        self.made = made
        self.token: Token = made.served.token("all")
        self.sent = 0
        self.failed: list[str] = []
        self.statuses: dict[int, int] = {}

    async def call(self, method: str, path: str, what: str, body: str | None = None, **headers: str) -> httpx.Response:
        known = {"Authorization": f"Bearer {self.token.text}", "Content-Type": "application/json"} | headers
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in known.items()]
        request = httpx.Request(method, URL + path, content=None if body is None else body.encode(), headers=pairs)
        answer = await self.made.served._answer(request, "192.0.2.9")
        self.sent += 1
        self.statuses[answer.status_code] = self.statuses.get(answer.status_code, 0) + 1
        if answer.status_code >= 500:
            self.failed.append(f"{method} {path[:80]} {what}: {answer.status_code} {answer.text[:200]}")
        elif answer.status_code >= 400 and not answer.json()["detail"]:
            self.failed.append(f"{method} {path[:80]} {what}: {answer.status_code} without a sentence")
        return answer


def meant(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without references and without null."""
    if "$ref" in schema:
        return meant(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "anyOf" in schema:
        return meant(next(one for one in schema["anyOf"] if one.get("type") != "null"), schemas)
    return dict(schema)


def sample(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Any:
    """Return something that a schema takes."""
    found = meant(schema, schemas)
    if "enum" in found:
        return found["enum"][0]
    match found.get("type"):
        case "object":
            return {name: sample(one, schemas) for name, one in found.get("properties", {}).items()}
        case "array":
            return [sample(found["items"], schemas)]
        case "integer" | "number":
            return found.get("minimum", 3600)
        case "boolean":
            return False
    return "2026-11-24T05:00:00Z" if found.get("format") == "date-time" else "AMS"


def spoiled(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield bodies that a schema takes but for one place, each with where that is."""
    found, good = meant(schema, schemas), sample(schema, schemas)
    for hostile in WRONG[found.get("type", "object")]:
        yield f" {str(hostile)[:20]!a}", hostile
    if found.get("type") == "object":
        for name, one in found.get("properties", {}).items():
            for where, value in spoiled(one, schemas):
                yield f".{name}{where}", good | {name: value}
        yield ".more", good | {"more": HALF}
    elif found.get("type") == "array":
        for where, value in spoiled(found["items"], schemas):
            yield f"[]{where}", [value]


def text_of(body: Any) -> str:
    return json.dumps(body).replace(f'"{DEEP}"', "[" * 100_000 + "]" * 100_000)


def filled(path: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        path = path.replace(f"{{{name.removesuffix(':path')}}}", quote(value, safe=""))
    return path


async def fuzz_operation(fuzz: Fuzz, route: tuple[str, str], operation: Mapping[str, Any], schemas: Any) -> None:
    method, path = route[0], written(route[1])
    call = call_of(route)
    names = dict(call.arrange(fuzz.made, "all")) if call is not None else {}
    for parameter in operation.get("parameters", []):
        name = parameter["name"]
        for word in IN_A_LINE:
            where = f"{parameter['in']} {name}={word[:20]}"
            if parameter["in"] == "path":
                others = {key: value for key, value in names.items() if key.removesuffix(":path") != name}
                await fuzz.call(method, filled(path, others).replace(f"{{{name}}}", word), where, "{}")
            elif parameter["in"] == "query":
                await fuzz.call(method, f"{filled(path, names)}?{name}={word}", where, "{}")
            else:
                await fuzz.call(method, filled(path, names), where, "{}", **{name: word})
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = content.get("schema", {})
        for where, body in spoiled(schema, schemas):
            await fuzz.call(method, filled(path, names), f"{kind} {where}", text_of(body))
        await fuzz.call(method, filled(path, names), "10 MB", json.dumps("x" * 10_000_000))
        await fuzz.call(method, filled(path, names), "half of JSON", '{"a": ')


def test_no_field_of_the_api_answers_500(made):
    """Nor is anything kept of it that spoils a list or a page afterwards."""
    described = document(made.served.app.routes)
    routes = {(method, written(path)): (method, path) for method, path in ROUTES}
    fuzz = Fuzz(made)

    async def run() -> None:
        operations = [
            (routes[method.upper(), path], operation)
            for path, item in described["paths"].items()
            for method, operation in item.items()
            if (method.upper(), path) in routes
        ]
        for route, operation in some(operations):
            if route not in STREAMS:
                await fuzz_operation(fuzz, route, operation, described["components"]["schemas"])
        made.served.service.stopping.set()
        for route, operation in operations:
            if route in STREAMS:
                await fuzz_operation(fuzz, route, operation, described["components"]["schemas"])
        for method, path in sorted(ROUTES):
            if method == "GET" and "{" not in path and not path.startswith("/login"):
                await fuzz.call("GET", path, "afterwards")

    anyio.run(run)
    assert fuzz.failed == []
    assert fuzz.statuses[422] > fuzz.sent / 4


def test_every_field_of_a_body_is_bounded(made):
    """A text has a length or a form, a list a length, an integer at most 63 bits: also one that is added some day."""
    described = document(made.served.app.routes)
    schemas = described["components"]["schemas"]

    def unbounded(schema: Mapping[str, Any], where: str) -> Iterator[str]:
        found = meant(schema, schemas)
        kind = found.get("type")
        if kind == "object":
            for name, one in found.get("properties", {}).items():
                yield from unbounded(one, f"{where}.{name}")
        elif kind == "array":
            if "maxItems" not in found:
                yield where
            yield from unbounded(found["items"], f"{where}[]")
        elif kind in BOUNDS and not BOUNDS[kind] & found.keys():
            yield where

    bodies = {
        f"{method} {path}": content["schema"]
        for path, item in described["paths"].items()
        for method, operation in item.items()
        for content in operation.get("requestBody", {}).get("content", {}).values()
        if "schema" in content
    }
    assert [found for where, schema in some(bodies.items()) for found in unbounded(schema, where)] == []


@pytest.mark.parametrize("text", [HALF, "a\0b", "\u202eSMA", "A\nB", "x" * 501])
def test_a_name_that_cannot_be_one_is_refused_in_a_sentence(made, text):
    """As a site of a check: it would be kept, and spoil the list of jobs for all."""
    body, kind = json.dumps({"sites": [text]}).encode(), {"Content-Type": "application/json"}
    answer = made.served.call("POST", "/api/v1/checks", made.served.token("all"), content=body, headers=kind)
    assert answer.status_code == 422
    assert "body.sites.0: " in answer.json()["detail"]
    with made.served.service.database.reading() as database:
        assert all(job.sites != (text,) for job in latest_jobs(database, 200))


def test_what_was_kept_before_spoils_no_list(made):
    """A site with half a character, kept when that was taken in: it is shown as it can be, and so is all else."""
    service = made.served.service
    job = Job(
        job_id="jold",
        kind=JobKind.CHECK,
        words=(),
        sites=(f"A{HALF}",),
        requested_by="all",
        via="token",
        reason="",
        created_at="2026-11-23T20:00:00Z",
    )
    with service.database.writing() as database:
        add_job(database, job)
        service.note(database, ADMIN, "check.start", "job:jold", after={"sites": [HALF]})
    token = made.served.token("all")
    told = made.served.call("GET", "/api/v1/jobs?last=200", token).json()["jobs"]
    assert [one["sites"] for one in told if one["job_id"] == "jold"] == [["A\\ud800"]]
    for path in ("/api/v1/jobs/jold", "/audit", "/api/v1/audit", "/api/v1/audit/export?form=csv"):
        assert made.served.call("GET", path, token).status_code == 200
    assert made.served.call("GET", "/tonight", token).status_code == 200
