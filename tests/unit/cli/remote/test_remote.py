"""`flashferry --service URL VERB` against a service that a function plays: what it refuses, shows and ends with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache, partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from flashferry.cli.command_line import service_named, words_from_verb
from flashferry.cli.main import main
from flashferry.cli.program import AT_SERVICE, COMMANDS
from flashferry.cli.terminal.output import remember_service, result_document
from flashferry.core.codec import to_json
from flashferry.model.exit_codes import ExitCode
from flashferry.model.plan_file import plan_text
from flashferry.model.states import RunState
from flashferry.planning.inspection import CheckRecord
from flashferry.reports.as_json import report_document
from flashferry.reports.model import Report
from flashferry.run.dry_run import DryRecord
from flashferry.run.recover import RecoveryRecord
from flashferry.service.client.client import ServiceClient
from flashferry.store.measurements import Measurement
from flashferry.store.status import DeviceStatus, RunStatus, Status
from tests.component.service.calls import World
from tests.unit.cli.hostile import HOSTILE, assert_harmless, known, secrets_in, texts_in
from tests.unit.cli.test_outside import BUILT, EVENTS, fleet_plan, run_report
from tests.unit.service.remote.conftest import Pieces

URL = "http://127.0.0.1:8020"
DIGEST = "ab" * 32
RUN = "20261121-220000-abcd"
HEAD = b'{"schema": "flashferry.check/1", '


class Service:
    """Answers requests as a service would whose every text is `text`; `documents` are what jobs printed, by kind."""

    def __init__(self, text: str = "word", **answers: Any) -> None:
        self.text, self.answers = text, answers
        self.requests: list[httpx.Request] = []
        self.documents: dict[str, str] = {}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        path = request.url.path.removeprefix("/api/v1")
        found = self.answers.get(path, self.answers.get(request.method + path))
        if found is None:
            found = self.answer(request.method, path)
        if isinstance(found, httpx.Response):
            return found
        body = found if isinstance(found, bytes) else json.dumps(found).encode()
        return httpx.Response(200, stream=Pieces(body))

    def answer(self, method: str, path: str) -> Any:
        parts = path.strip("/").split("/")
        match method, parts:
            case "POST", [("checks" | "probes" | "dry-runs") as what]:
                return self.job(what.removesuffix("s"))
            case "POST", ["plans", "make"]:
                return self.job("plan")
            case "POST", ["runs"]:
                return self.job("stage", run_id=RUN)
            case "POST", ["runs", _, "resume"]:
                return self.job("stage", run_id=RUN)
            case "POST", ["runs", _, "recover"]:
                return self.job("recover")
            case "GET", ["jobs", kind]:
                about = {"run_id": RUN if kind == "stage" else None, "digest": DIGEST}
                return self.job(kind, **about, is_open=False, exit_code=3, state="ended")
            case "GET", ["jobs", kind, "result"]:
                return self.documents[kind].encode()
            case "GET", ["plans", _, "file"]:
                return plan_text(fleet_plan()).encode()
            case (("GET" | "POST"), ["plans", *_]):
                return {"digest": DIGEST, "state": "approved", "made_by": self.text, "sites": [self.text]}
            case "GET", ["runs"]:
                return {"runs": [{"run_id": RUN, "verb": "stage", "state": "alive"}]}
            case "GET", ["runs", _, "events"]:
                lines = (json.dumps(to_json(one) | {"at": "x"}) for one in EVENTS)
                return "".join(f"id: m-{number}\ndata: {one}\n\n" for number, one in enumerate(lines)).encode() + (
                    b"event: end\ndata: {}\n\n"
                )
            case "GET", ["runs", _, "devices"]:
                return {"devices": [{"host": self.text, "site": self.text, "image": self.text, "state": self.text}]}
            case "GET", ["runs", _, "report.json"]:
                return report_document(BUILT.one(Report, run_id=RUN))
            case "GET", ["runs", _]:
                wish = {
                    "at": self.text,
                    "what": self.text,
                    "wave": 1,
                    "actor": self.text,
                    "via": "",
                    "reason": self.text,
                }
                told = {"run_id": RUN, "verb": "stage", "state": "alive", "started_at": self.text, "actor": self.text}
                return told | {"wishes": [wish], "damaged": [self.text], "jobs": [self.job("stage", run_id=RUN)]}
            case "POST", ["runs", _, ("pause" | "continue" | "stop")]:
                return {"paused": True, "stopping": False, "approved_wave": -1, "waiting_wave": None}
            case "POST", ["runs", _, "waves", _, "approve"]:
                return {}
            case "GET", ["status"]:
                held = BUILT.one(DeviceStatus, is_held=True)
                died = BUILT.one(RunStatus, run_id=RUN, state=RunState.DIED, devices=(held,))
                return {"status": to_json(BUILT.one(Status, runs=(died,)))}
            case "GET", ["history"]:
                copies = [to_json(BUILT.one(Measurement, host=self.text, at="2026-11-21T22:00:00Z"))]
                series = {"transport": self.text, "copies": 1, "shown_not_to_gain": self.text}
                expected = {"expected_tuned": {"bytes_per_s": 1.0, "source": self.text}, "expected_as_it_is": None}
                device = {
                    "device": self.text,
                    "measurements": copies,
                    "damaged": 2,
                    "by_transport": [series | expected],
                }
                return {"copies": copies, "damaged": 2, "device": device | series | expected}
        raise AssertionError((method, path))

    def job(self, kind: str, **more: Any) -> dict[str, Any]:
        told = {"job_id": kind, "kind": kind, "state": "queued", "is_open": True, "sentence": self.text}
        return told | more


@cache
def hostile_documents() -> dict[str, str]:
    """Return what jobs of a hostile service printed, by their kind; masked by nobody."""

    def document(verb: str, **result: object) -> str:
        return json.dumps({"schema": f"flashferry.{verb}/1", "exit_code": 3, "meaning": HOSTILE} | to_json(result))

    return {
        "check": document("check", devices=[BUILT.one(CheckRecord, host=HOSTILE)]),
        "probe": document("probe", run=run_report("probe")),
        "dry-run": document("dry-run", devices=[BUILT.one(DryRecord, host=HOSTILE)]),
        "plan": json.dumps({"exit_code": 3} | to_json(fleet_plan()) | {"schema": "flashferry.plan/1"}),
        "stage": document("stage", run=run_report("stage")),
        "recover": document("recover", devices=[BUILT.one(RecoveryRecord, host=HOSTILE)]),
    }


def hostile_service() -> Service:
    """Return a service whose every text is hostile."""
    service = Service(HOSTILE)
    service.documents = dict(hostile_documents())
    return service


@pytest.fixture
def at_service(monkeypatch, capsys):
    """Return what runs a command at a service, and returns its exit code and what it wrote."""
    monkeypatch.setenv("FLASHFERRY_PLAIN", "1")
    known()

    def run(service, *words, token="ffy_0123456789"):
        if token:
            monkeypatch.setenv("FLASHFERRY_SERVICE_TOKEN", token)
        made = partial(ServiceClient, transport=httpx.MockTransport(service), pause=lambda _: None, patience_s=0.0)
        monkeypatch.setattr("flashferry.cli.remote.requests.ServiceClient", made)
        monkeypatch.setattr(sys, "argv", ["flashferry", "--service", URL, *words])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        return left.value.code, out, err

    yield run
    remember_service("")


CASES = {
    "check": (("--reach",),),
    "probe": ((),),
    "plan": ((),),
    "stage": (("--plan", DIGEST), ("--plan", DIGEST, "--dry-run"), ("--resume", "latest", "--reason", "x")),
    "recover": (("--reason", "x"), ("--run", "latest")),
    "status": ((),),
    "history": ((), ("r1",)),
    "report": (("latest",), ("latest", "--format", "csv"), ("latest", "--format", "junit")),
    "run list": ((),),
    "run show": (("latest",),),
    "run follow": (("latest",),),
    "run pause": (("latest", "--reason", "x"),),
    "run continue": (("latest", "--reason", "x"),),
    "run stop": (("latest", "--reason", "x"),),
    "run approve": (("latest", "--wave", "0"),),
}
"""Every verb of a remote service, and what is typed behind it."""


def test_no_verb_is_forgotten():
    """Whoever adds one says here how hostile texts come to it."""
    from flashferry.cli.run import app

    commands = {f"run {one.name}" for one in app.registered_commands}
    assert {*(set(AT_SERVICE) - {"run"}), *commands} == set(CASES)


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(("verb", "more"), [(verb, more) for verb, all_ in CASES.items() for more in all_])
def test_a_hostile_service_is_shown_and_never_obeyed(at_service, verb, more, as_json):
    """Tables, lines of events and documents: no secret of ours, no sequence, and JSON that parses."""
    if as_json and "--format" in more:
        more = more[:1]
    service = hostile_service()
    service.answers["/runs/" + RUN + "/devices"] = {
        "devices": [{"host": HOSTILE, "site": HOSTILE, "image": HOSTILE, "state": "planned"}]
    }
    code, out, err = at_service(service, *verb.split(), *more, *(["--json"] if as_json else []))
    assert code in (0, 3), err
    assert_harmless(err)
    assert out.strip()
    if as_json:
        assert out.replace("\n", "").isprintable()
        assert secrets_in("\n".join(texts_in(json.loads(out)))) == []
    else:
        assert_harmless(out.replace("\r\n", "\n"))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"schema": "flashferry.check/2", "exit_code": 0}',
        b'{"exit_code": 0}',
        b'{"a": ' * 9999,
    ]
    + [
        b'{"schema": "flashferry.check/1", "exit_code": %s}' % code
        for code in (b"77", b"true", b'"0"', b"null", b"1e9")
    ]
    + [b'{"schema": "flashferry.check/1", "exit_code": 0, "devices": %s}' % one for one in (b"7", b'[{"host": 1}]')],
)
def test_a_result_that_is_none_is_one_sentence(at_service, body):
    """Broken, of another release, or of another form: exit code 10, and nothing of it passes for a success."""
    service = Service(**{"/jobs/check/result": body})
    code, out, err = at_service(service, "check")
    assert (code, out, err.splitlines()[-1].startswith("flashferry: error: ")) == (10, "", True), err
    assert "Traceback" not in err


def test_what_the_verb_of_the_job_complained_of(at_service):
    """Its own sentence and exit code; as a document it is what the verb printed."""
    service = Service()
    service.documents["check"] = result_document("error", ExitCode.USAGE, {"verb": "check", "error": "no inventory"})
    assert at_service(service, "check")[2].endswith("flashferry: error: at the service: no inventory\n")
    code, out, _ = at_service(service, "check", "--json")
    assert (code, json.loads(out)["error"]) == (2, "no inventory")


@pytest.mark.parametrize("words", [("run", "show"), ("run", "pause", "--reason", "x"), ("report",)])
def test_where_there_is_no_run_it_is_said_how_to_begin_one(at_service, words):
    """The list, which is as empty, is not what leads on."""
    code, _, err = at_service(Service(**{"/runs": {"runs": []}}), *words, "latest")
    assert code == ExitCode.USAGE
    assert f"the service at {URL} has no run that you may see yet" in " ".join(err.split())
    assert f"'flashferry --service {URL} stage --plan FILE' starts one" in " ".join(err.split())


@pytest.mark.parametrize(("words", "what"), [(("status",), "run"), (("run", "list"), "run"), (("history",), "copy")])
def test_what_a_service_has_nothing_of(at_service, words, what):
    """Is told alike by all verbs, and is the service's, not the journal of this host."""
    empty = to_json(Status(directory=Path("x"), has_journal=True))
    service = Service(**{"/status": {"status": empty}, "/history": {"copies": [], "damaged": 0, "device": None}})
    code, out, _ = at_service(service, *words)
    assert code == ExitCode.OK
    assert out.strip() == f"the service at {URL} has no {what} that you may see yet"


def test_a_plan_that_nobody_approved(at_service):
    """Says who decides and where, exits with a code of its own, and begins nothing."""
    plan = {"digest": DIGEST, "state": "draft", "made_by": "anna", "sites": ["AMS", "LIM"]}
    service = Service(**{f"/plans/{DIGEST}": plan})
    code, _, err = at_service(service, "stage", "--plan", DIGEST)
    assert code == ExitCode.APPROVAL
    assert f"An approver for AMS, LIM other than anna decides at {URL}/plans/{DIGEST}" in err
    assert f"'flashferry --service {URL} stage --plan {DIGEST}' starts it" in err
    assert [one.method for one in service.requests] == ["GET"]


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        ({"state": "denied", "decided_by": "bob", "comment": "not tonight"}, "it was denied by bob: not tonight"),
        ({"state": "withdrawn", "withdrawn_by": "bob", "withdrawn_because": "old"}, "it was withdrawn by bob: old"),
        ({"state": "approved", "why_not": "its window has passed"}, "its window has passed"),
    ],
)
def test_a_plan_that_cannot_be_begun(at_service, plan, told):
    """Is told with the reason, and nothing is begun."""
    service = Service(**{f"/plans/{DIGEST}": {"digest": DIGEST, "made_by": "anna"} | plan})
    code, _, err = at_service(service, "stage", "--plan", DIGEST, "--wait")
    assert (code, told in err) == (2, True), err


def test_a_plan_is_waited_for(at_service):
    """With --wait until somebody decides; then its run begins."""
    drafts = 3

    def plan(request):
        nonlocal drafts
        drafts -= 1
        return {"digest": DIGEST, "state": "draft" if drafts > 0 else "approved", "made_by": "a", "decided_by": "bob"}

    service = hostile_service()
    before = service.answer
    service.answer = lambda method, path: plan(None) if path == f"/plans/{DIGEST}" else before(method, path)
    code, _, err = at_service(service, "stage", "--plan", DIGEST, "--wait")
    assert (code, "is approved, by bob" in err) == (3, True)


def test_a_plans_file_is_offered(at_service, tmp_path):
    """The text as it is, under its file's name; a file that is none is refused before anything is sent."""
    file = tmp_path / "night.json"
    file.write_bytes(World(served=None, images=tmp_path).plan_text())
    service = hostile_service()
    at_service(service, "stage", "--plan", str(file))
    offered = service.requests[0]
    assert (offered.method, offered.url.params["title"]) == ("POST", "night")
    assert offered.content == file.read_bytes()
    file.write_text("{}")
    service = hostile_service()
    code, _, err = at_service(service, "stage", "--plan", str(file))
    assert (code, service.requests) == (2, []), err


def test_what_is_begun_has_a_key(at_service):
    """Whatever begins something can be asked for twice and be done once."""
    service = hostile_service()
    for verb in ("check", "probe", "plan", "stage", "recover"):
        for more in CASES[verb]:
            at_service(service, verb, *more)
    begun = [one for one in service.requests if one.method == "POST"]
    assert len(begun) == 8
    assert len({one.headers.get("idempotency-key") for one in begun}) == 8


def test_sites_are_said_as_sites(at_service):
    """A filter by site is the API's own word for it; others stay filters."""
    service = hostile_service()
    at_service(service, "check", "--filter", "site=AMS", "--filter", "platform=ios", "-H", "r1", "-g", "core")
    wanted = json.loads(service.requests[0].content)
    chosen = {key: wanted[key] for key in ("sites", "filters", "hosts", "groups")}
    assert chosen == {"sites": ["AMS"], "filters": ["platform=ios"], "hosts": ["r1"], "groups": ["core"]}


@pytest.mark.parametrize("verb", sorted({name for names in COMMANDS.values() for name in names} - set(AT_SERVICE)))
def test_a_verb_for_this_host_is_refused(at_service, verb):
    """Whatever it would do here is not what was meant; it is said how it is meant."""
    code, _, err = at_service(Service(), verb)
    assert (code, f"'flashferry --service= {verb} ...' is for this host" in err) == (2, True), err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("check --inventory x", "--inventory cannot be given with --service: the service has its own inventory"),
        ("check -i x", "-i cannot be given with --service"),
        ("stage --keyring", "--keyring cannot be given with --service"),
        ("stage --resume x --until 05:00", "are for the run of a plan"),
        (
            "stage --plan x --canary 2",
            "--canary cannot be given with --service: a run at the service",
        ),
        ("stage --plan x --no-tune", "--no-tune cannot be given with --service"),
        ("stage --plan x --state-dir /x", "--state-dir cannot be given with --service: its API does not carry it"),
        ("check --port 21", "--port cannot be given with --service: the service's host serves the images"),
        ("recover --forget r1", "--forget cannot be given with --service"),
        ("run list --state-dir /x", "--state-dir cannot be given with --service"),
        ("check --nothing", "No such option: --nothing"),
        ("check --image /tmp/x.bin", "expected the name of an image at the service, found the path"),
        ("stage --image x.bin", "a service stages by plans"),
        ("stage", "expected one of --plan and --resume, found none of them"),
        ("stage --plan x --resume y", "found --plan and --resume"),
        ("plan --filter platform=ios", "a service plans by site"),
        ("check --filter site", "expected KEY=VALUE"),
        ("run pause latest", "--reason: expected a few words, found none"),
        ("stage --plan nothing-here", "cannot be read"),
        ("run show nix", "no run 'nix' at the service: the newest that you may see is"),
    ],
)
def test_what_a_service_cannot_be_given_is_refused_by_name(at_service, words, told):
    """Never passed over; nothing is begun."""
    service = Service()
    code, _, err = at_service(service, *words.split())
    assert (code, told in err) == (2, True), err
    assert [one.method for one in service.requests if one.method != "GET"] == []


def test_it_takes_a_token(at_service, monkeypatch):
    """From the environment, which does not keep it, or from a file; never a word of it on the way out."""
    monkeypatch.setattr("sys.stdin", None)
    code, _, err = at_service(Service(), "status", token="")
    assert (code, "needs a token, found none" in err) == (2, True)
    refused = httpx.Response(401, stream=Pieces(b'{"detail": "no ffy_veryhidden0"}'))
    refused.headers["content-type"] = "application/problem+json"
    code, _, err = at_service(Service(**{"/status": refused}), "status", token="ffy_veryhidden0")
    assert (code, "veryhidden" in err, "FLASHFERRY_SERVICE_TOKEN" in os.environ) == (2, False, False)


def test_where_a_service_is_named():
    """Before the verb alone; the last one counts, and an empty one means this host."""
    assert words_from_verb(["--service", "https://x", "--service-ca", "f", "stage", "--plan"]) == ["stage", "--plan"]
    assert words_from_verb(["--service=https://x", "status"]) == ["status"]
    assert words_from_verb(["--service", "stage"]) == []
    assert service_named(["--service", "a", "--service=b", "status", "--service", "c"], {}) == "b"
    assert service_named(["status"], {"FLASHFERRY_SERVICE": "a"}) == "a"
    assert service_named(["--service=", "status"], {"FLASHFERRY_SERVICE": "a"}) == ""


LOOK = """
import sys
from contextlib import suppress
from flashferry.cli.main import main
sys.argv.append("--help")
printed, sys.stdout = sys.stdout, sys.stderr
with suppress(SystemExit): main()
sys.stdout = printed
print(*sorted({"fastapi", "starlette", "uvicorn", "httpx", "netmiko", "paramiko"} & set(sys.modules)))
"""


@pytest.mark.parametrize(("words", "found"), [(("status",), ""), (("--service", URL, "stage"), "")])
def test_what_a_command_imports(words, found):
    """Who asks a service needs nothing of what serves, or of what talks to devices; who does not needs no HTTP."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("FLASHFERRY_")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOOK, *words], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == found
