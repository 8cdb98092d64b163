"""How each route is called so that nothing but the access to it refuses the call.

`CALLS` has an entry for every row of the table of access that changes something or has a name in its path; a route
without one fails `test_roles.py`. Other rows are called as they stand. An entry's `arrange` makes what the path names,
at site AMS and by `maker`, anew for each call that is let in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from flashferry.core.jobs import JobFolder
from flashferry.images.image import PlannedImage
from flashferry.model.fleet_plan import Action, Fit, FleetPlan, PlannedDevice
from flashferry.model.limits import Limits
from flashferry.model.plan_file import plan_text
from flashferry.model.policy import TuneMode
from flashferry.model.waves import Wave, WavePolicy
from flashferry.service.access import ROUTES
from flashferry.service.hooks.managing import HookSpec, add_hook
from flashferry.service.jobs.create import ask
from flashferry.service.jobs.job_spec import JobSpec
from flashferry.service.people.accounts import NewPerson, add_person
from flashferry.service.plans.deciding import approve
from flashferry.service.plans.eligibility import offer
from flashferry.service.principal import Actor, Grant, Role, Via
from flashferry.service.schedules.scheduler import ScheduleSpec, Step, make_schedule, step
from flashferry.service.settings import RunSettings, ServiceSettings
from flashferry.store.journal import Journal
from flashferry.store.service.images import Golden, ImageState, StoredImage, add_image, set_golden
from flashferry.store.service.jobs import JobKind, JobState, ScheduleKind, end_job
from tests.served import ADMIN, Served, serve
from tests.unit.service.plans.conftest import site

PASSWORD = "correct horse battery"
MAKER = Actor(name="maker", via=Via.SESSION, grants=frozenset({Grant(role=Role.OPERATOR)}))
OTHER = Actor(name="other", via=Via.SESSION, grants=frozenset({Grant(role=Role.APPROVER)}))


@dataclass
class World:
    """A service in which objects are made for calls: at site AMS, by `maker`."""

    served: Served
    images: Path
    made: int = 0

    def number(self) -> int:
        """Return another number each time."""
        self.made += 1
        return self.made

    def plan_text(self) -> bytes:
        """Return another plan for AMS each time."""
        image = PlannedImage(
            name="new.bin",
            path=str(self.images / "new.bin"),
            size_bytes=5,
            md5=hashlib.md5(b"image").hexdigest(),
            sha512=hashlib.sha512(b"image").hexdigest(),
        )
        device = PlannedDevice(
            host=f"r{self.number()}",
            address="192.0.2.1",
            site="AMS",
            image="new.bin",
            action=Action.STAGE,
            wave=0,
            rtt_s=0.1,
            total_s=9.0,
        )
        plan = FleetPlan(
            created_at="2026-11-23T19:00:00+00:00",
            starts_at="2026-11-23T19:30:00+00:00",
            ends_at="2026-12-24T05:00:00+00:00",
            images=(image,),
            image_folders=(str(self.images.resolve()),),
            limits=Limits(),
            policy=WavePolicy(),
            tune=TuneMode.AUTO,
            duration_s=3600.0,
            fit=Fit(fits=True, sentence="it fits"),
            sites=(site("AMS"),),
            waves=(Wave(number=0, name="canary", hosts=(device.host,), is_canary=True),),
            devices=(device,),
        )
        return plan_text(plan).encode()

    def plan(self, *, is_approved: bool = False) -> str:
        """Return a plan's digest."""
        digest = offer(self.served.service, MAKER, self.plan_text(), "t")[0].digest
        if is_approved:
            approve(self.served.service, OTHER, digest)
        return digest

    def schedule(self, *, is_held: bool = False) -> str:
        """Return a schedule's id."""
        wish = ScheduleSpec(
            title="",
            kind=ScheduleKind.PLAN,
            subject=self.plan(is_approved=True),
            calendar="daily 22:00",
            time_zone="UTC",
            window_s=7200,
        )
        made = make_schedule(self.served.service, MAKER, wish).schedule_id
        if is_held:
            step(self.served.service, MAKER, made, Step.HOLD, "why")
        return made

    def image(self, name: str = "", **values: Any) -> str:
        """Return the name of an image in a state; one that is published where no state is named."""
        name = name or f"i{self.number()}.bin"
        kept = {"state": ImageState.PUBLISHED, "sha512": "0" * 128, "size_bytes": 5} | values
        if kept["state"] is not ImageState.UPLOADING:
            (self.images / name).write_bytes(b"image")
        with self.served.service.database.writing() as database:
            add_image(database, StoredImage(name=name, uploaded_by="maker", created_at="2026-11-23T20:00:00Z", **kept))
        return name

    def person(self) -> str:
        """Return somebody's name, who has a password."""
        name = f"p{self.number()}"
        add_person(
            self.served.service,
            ADMIN,
            NewPerson(name=name, password=PASSWORD),
            self.served.app.state.password_login.passwords,
        )
        return name

    def token(self, person: str) -> str:
        """Return the id of a token."""
        self.served.token(person)
        return f"t{self.served.made}"


def world(folder: Path) -> World:
    """Return a service with whom and what calls need."""
    images = folder / "images"
    images.mkdir()
    (images / "new.bin").write_bytes(b"image")
    runs = RunSettings(images=images, inventory="/etc/fleet")
    served = serve(folder / "state", ServiceSettings(runs=runs))
    served.person("root", "admin")
    served.person("maker", "operator")
    served.person("other", "approver")
    served.app.state.reader.FRESH_S = 0.0  # the clock stands
    made = World(served, images)
    made.image("new.bin", state=ImageState.PUBLISHED, sha512=hashlib.sha512(b"image").hexdigest())
    return made


@dataclass(frozen=True, kw_only=True)
class Call:
    """How a route is called.

    Attributes:
        arrange: Makes what the path names, given the world and who calls; returns the names in the path.
        query: What stands behind the path.
        json: A body of JSON.
        form: A form.
        content: Another body, made for each call.
        may_answer: Statuses from 400 on that say, too, that somebody was let in.
        why: Why they do, or why nothing is arranged.
    """

    arrange: Callable[[World, str], Mapping[str, str]] = field(default=lambda _world, _name: {})
    query: str = ""
    json: Any = None
    form: Mapping[str, str] | None = None
    content: Callable[[World], tuple[str, bytes]] | None = None
    may_answer: frozenset[int] = frozenset()
    why: str = ""


def _plan(world: World, _name: str) -> Mapping[str, str]:
    return {"digest": world.plan()}


def _approved(world: World, _name: str) -> Mapping[str, str]:
    return {"digest": world.plan(is_approved=True)}


def _run(world: World, _name: str) -> Mapping[str, str]:
    with Journal(world.served.service.state) as journal:
        run_id = journal.begin_run("stage", {"plan": {"digest": world.plan(is_approved=True)}})
        journal.add_device(run_id, host="r1", address="x", port=22, platform="ios", wave=0, image="new.bin", site="AMS")
    return {"run_id": run_id, "wave": "0", "host:path": "r1"}


def _device(world: World, name: str) -> Mapping[str, str]:
    return {"name:path": _run(world, name)["host:path"]}


def _hook_wish(world: World) -> dict[str, Any]:
    return {"name": f"h{world.number()}", "form": "webhook", "target": "http://127.0.0.1:1/", "kinds": ["run.began"]}


def _hook(world: World, _name: str) -> Mapping[str, str]:
    wish = _hook_wish(world) | {"kinds": ("run.began",)}
    return {"hook_id": add_hook(world.served.service, ADMIN, HookSpec(**wish)).hook_id}


def _hook_body(world: World) -> tuple[str, bytes]:
    return "application/json", json.dumps(_hook_wish(world)).encode()


def _hook_form(world: World) -> tuple[str, bytes]:
    return "application/x-www-form-urlencoded", urlencode(_hook_wish(world), doseq=True).encode()


def _schedule(world: World, _name: str) -> Mapping[str, str]:
    return {"schedule_id": world.schedule()}


def _held(world: World, _name: str) -> Mapping[str, str]:
    return {"schedule_id": world.schedule(is_held=True)}


def _person(world: World, _name: str) -> Mapping[str, str]:
    return {"name": world.person()}


def _image(**values: Any) -> Callable[[World, str], Mapping[str, str]]:
    return lambda world, _name: {"name": world.image(**values)}


def _golden(world: World, _name: str) -> Mapping[str, str]:
    model = f"M{world.number()}"
    with world.served.service.database.writing() as database:
        set_golden(database, Golden(model=model, site="*", image="new.bin", by="root", at="2026"))
    return {"model:path": model}


def _image_body(world: World) -> tuple[str, bytes]:
    return "application/json", json.dumps({"name": f"n{world.number()}.bin", "size_bytes": 5}).encode()


def _image_form(world: World) -> tuple[str, bytes]:
    part = b'--x\r\nContent-Disposition: form-data; name="file"; filename="f%d.bin"\r\n\r\nimage\r\n--x--\r\n'
    return "multipart/form-data; boundary=x", part % world.number()


def _published_form(_world: World) -> tuple[str, bytes]:
    part = b'--x\r\nContent-Disposition: form-data; name="file"; filename="BulkHash.zip"\r\n\r\nx\r\n--x--\r\n'
    return "multipart/form-data; boundary=x", part


def _own_token(world: World, name: str) -> Mapping[str, str]:
    return {"token_id": world.token(name) if name else "t0"}


def _plan_body(world: World) -> tuple[str, bytes]:
    return "application/json", world.plan_text()


def _plan_file(world: World) -> tuple[str, bytes]:
    part = b'--x\r\nContent-Disposition: form-data; name="file"; filename="p.json"\r\n\r\n%s\r\n--x--\r\n'
    return "multipart/form-data; boundary=x", part % world.plan_text()


def _schedule_body(world: World) -> tuple[str, bytes]:
    subject = world.plan(is_approved=True)
    body = {"subject": subject, "calendar": "daily 22:00", "time_zone": "UTC", "window_s": 7200}
    return "application/json", json.dumps(body).encode()


def _schedule_form(world: World) -> tuple[str, bytes]:
    text = f"plan={world.plan(is_approved=True)}&calendar=daily+22:00&time_zone=UTC&hours=2"
    return "application/x-www-form-urlencoded", text.encode()


def _run_body(world: World) -> tuple[str, bytes]:
    return "application/json", json.dumps({"plan": world.plan(is_approved=True)}).encode()


def _job(world: World, _name: str) -> Mapping[str, str]:
    service = world.served.service
    return {"job_id": ask(service, MAKER, JobSpec(kind=JobKind.CHECK, sites=("AMS",))).job_id}


def _ended_job(world: World, name: str) -> Mapping[str, str]:
    made, service = _job(world, name), world.served.service
    folder = JobFolder.of(service.state, made["job_id"])
    folder.make()
    folder.write(folder.result, "{}")
    with service.database.writing() as database:
        end_job(database, made["job_id"], at="", state=JobState.ENDED, exit_code=0, sentence="")
    return made


def _report(world: World, name: str) -> Mapping[str, str]:
    return {**_run(world, name), "form": "json"}


_REASON = {"reason": "why"}
_DEAD = "the run is not under way"

CALLS: dict[tuple[str, str], Call] = {
    # Signing in and out.
    ("GET", "/assets/{name}"): Call(arrange=lambda *_: {"name": "service.css"}),
    ("POST", "/login"): Call(
        form={"name": "x", "password": "y"}, may_answer=frozenset({401, 429}), why="wrong password"
    ),
    ("POST", "/api/v1/login"): Call(
        json={"name": "x", "password": "y"}, may_answer=frozenset({401, 429}), why="wrong password"
    ),
    ("GET", "/login/oidc"): Call(may_answer=frozenset({404}), why="no provider is set here"),
    ("GET", "/login/oidc/callback"): Call(may_answer=frozenset({404}), why="no provider is set here"),
    ("POST", "/logout"): Call(form={}),
    ("POST", "/api/v1/logout"): Call(),
    ("POST", "/me/tokens"): Call(form={"name": "x", "days": "3"}),
    ("POST", "/me/tokens/{token_id}/revoke"): Call(arrange=_own_token, form={}),
    ("POST", "/me/password"): Call(
        form={"old": "x", "new": PASSWORD}, may_answer=frozenset({403, 429}), why="wrong password"
    ),
    ("PUT", "/api/v1/me/password"): Call(
        json={"old": "x", "new": PASSWORD}, may_answer=frozenset({403, 429}), why="wrong password"
    ),
    ("POST", "/me/time-zone"): Call(form={"time_zone": "Europe/Oslo"}),
    ("POST", "/me/sessions/end"): Call(form={}),
    ("POST", "/api/v1/tokens"): Call(json={"name": "x"}),
    ("DELETE", "/api/v1/tokens/{token_id}"): Call(arrange=_own_token),
    # People.
    ("POST", "/admin/people"): Call(
        form={"name": "ben"}, may_answer=frozenset({409}), why="there is one already, from the call before"
    ),
    ("GET", "/admin/people/{name}"): Call(arrange=_person),
    ("POST", "/admin/people/{name}/grants"): Call(arrange=_person, form={"grants": "viewer@AMS"}),
    ("POST", "/admin/people/{name}/password"): Call(arrange=_person, form={"password": PASSWORD}),
    ("POST", "/admin/people/{name}/disable"): Call(arrange=_person, form=_REASON),
    ("POST", "/admin/people/{name}/enable"): Call(arrange=_person, form=_REASON),
    ("POST", "/admin/tokens/{token_id}/revoke"): Call(
        arrange=lambda world, _: {"token_id": world.token("maker")}, form={}
    ),
    ("POST", "/api/v1/users"): Call(
        json={"name": "ben"}, may_answer=frozenset({409}), why="there is one already, from the call before"
    ),
    ("GET", "/api/v1/users/{name}"): Call(arrange=_person),
    ("PUT", "/api/v1/users/{name}/grants"): Call(arrange=_person, json=[{"role": "viewer"}]),
    ("PUT", "/api/v1/users/{name}/password"): Call(arrange=_person, json={"password": PASSWORD}),
    ("POST", "/api/v1/users/{name}/disable"): Call(arrange=_person, json=_REASON),
    ("POST", "/api/v1/users/{name}/enable"): Call(arrange=_person, json=_REASON),
    # Plans.
    ("POST", "/api/v1/plans"): Call(content=_plan_body),
    ("POST", "/api/v1/plans/make"): Call(json={"sites": ["AMS"]}),
    ("POST", "/plans/make"): Call(form={"sites": "AMS", "title": "t"}),
    ("POST", "/api/v1/runs/{run_id}/waves/{wave}/approve"): Call(
        arrange=_run, json={}, may_answer=frozenset({409}), why="the run is not under way, and another plan was read"
    ),
    ("POST", "/runs/{run_id}/waves/{wave}/approve"): Call(
        arrange=_run, form={}, may_answer=frozenset({409}), why="the run is not under way, and another plan was read"
    ),
    ("GET", "/api/v1/plans/{digest}"): Call(arrange=_plan),
    ("GET", "/api/v1/plans/{digest}/file"): Call(arrange=_plan),
    ("GET", "/api/v1/plans/{digest}/diff"): Call(arrange=lambda world, _: (world.plan(), _plan(world, ""))[1]),
    ("POST", "/api/v1/plans/{digest}/approve"): Call(arrange=_plan, json={}),
    ("POST", "/api/v1/plans/{digest}/deny"): Call(arrange=_plan, json={"comment": "why"}),
    ("POST", "/api/v1/plans/{digest}/withdraw"): Call(arrange=_plan, json={"comment": "why"}),
    ("POST", "/plans"): Call(content=_plan_file),
    ("GET", "/plans/{digest}"): Call(arrange=_plan),
    ("GET", "/plans/{digest}/diff"): Call(arrange=_plan),
    ("POST", "/plans/{digest}/approve"): Call(arrange=_plan, form={}),
    ("POST", "/plans/{digest}/deny"): Call(arrange=_plan, form={"comment": "why"}),
    ("POST", "/plans/{digest}/withdraw"): Call(arrange=_plan, form={"comment": "why"}),
    ("POST", "/plans/{digest}/start"): Call(arrange=_approved, form=_REASON),
    ("POST", "/plans/{digest}/rehearse"): Call(arrange=_plan, form={}),
    # Schedules.
    ("POST", "/api/v1/schedules"): Call(content=_schedule_body),
    ("GET", "/api/v1/schedules/{schedule_id}"): Call(arrange=_schedule),
    ("POST", "/api/v1/schedules/{schedule_id}/own"): Call(arrange=_schedule, json=_REASON),
    ("POST", "/api/v1/schedules/{schedule_id}/hold"): Call(arrange=_schedule, json=_REASON),
    ("POST", "/api/v1/schedules/{schedule_id}/release"): Call(arrange=_held, json=_REASON),
    ("DELETE", "/api/v1/schedules/{schedule_id}"): Call(arrange=_schedule, query="?reason=why"),
    ("POST", "/schedules"): Call(content=_schedule_form),
    ("GET", "/schedules/{schedule_id}"): Call(arrange=_schedule),
    ("POST", "/schedules/{schedule_id}/own"): Call(arrange=_schedule, form=_REASON),
    ("POST", "/schedules/{schedule_id}/hold"): Call(arrange=_schedule, form=_REASON),
    ("POST", "/schedules/{schedule_id}/release"): Call(arrange=_held, form=_REASON),
    ("POST", "/schedules/{schedule_id}/remove"): Call(arrange=_schedule, form=_REASON),
    # Jobs and runs.
    ("POST", "/api/v1/checks"): Call(json={"sites": ["AMS"]}),
    ("POST", "/api/v1/probes"): Call(json={"sites": ["AMS"]}),
    ("POST", "/api/v1/dry-runs"): Call(json={"sites": ["AMS"], "image": "new.bin"}),
    ("GET", "/api/v1/jobs/{job_id}"): Call(arrange=_job),
    ("GET", "/api/v1/jobs/{job_id}/result"): Call(arrange=_ended_job),
    ("POST", "/api/v1/jobs/{job_id}/cancel"): Call(arrange=_job, json=_REASON),
    ("GET", "/jobs/{job_id}"): Call(arrange=_ended_job),
    ("POST", "/jobs/{job_id}/cancel"): Call(arrange=_job, form=_REASON),
    ("POST", "/api/v1/runs"): Call(content=_run_body),
    ("GET", "/api/v1/runs/{run_id}"): Call(arrange=_run),
    ("GET", "/api/v1/runs/{run_id}/devices"): Call(arrange=_run),
    ("GET", "/api/v1/runs/{run_id}/report.{form}"): Call(arrange=_report),
    **{
        ("POST", f"/api/v1/runs/{{run_id}}/{what}"): Call(
            arrange=_run, json=_REASON, may_answer=frozenset({409}), why=_DEAD
        )
        for what in ("pause", "continue", "stop")
    },
    ("POST", "/api/v1/runs/{run_id}/resume"): Call(arrange=_run, json=_REASON),
    ("POST", "/api/v1/runs/{run_id}/recover"): Call(
        arrange=_run, json=_REASON, may_answer=frozenset({409}), why="the run left nothing to restore"
    ),
    # Images.
    ("POST", "/api/v1/images"): Call(content=_image_body),
    ("GET", "/api/v1/images/{name}"): Call(arrange=_image()),
    ("PATCH", "/api/v1/images/{name}"): Call(
        arrange=_image(state=ImageState.UPLOADING), may_answer=frozenset({422}), why="it does not tell an offset"
    ),
    ("DELETE", "/api/v1/images/{name}"): Call(arrange=_image(state=ImageState.UPLOADING), query="?reason=why"),
    ("POST", "/api/v1/images/{name}/verify"): Call(arrange=_image(), json={}),
    ("POST", "/api/v1/images/{name}/vouch"): Call(arrange=_image(state=ImageState.UNKNOWN), json=_REASON),
    ("POST", "/api/v1/images/{name}/restore"): Call(
        arrange=_image(), json=_REASON, may_answer=frozenset({409}), why="nobody took it away"
    ),
    ("POST", "/api/v1/published"): Call(
        content=lambda _: ("application/octet-stream", b"x"),
        may_answer=frozenset({409}),
        why="no certificates are named",
    ),
    ("GET", "/api/v1/golden/{model:path}"): Call(arrange=_golden),
    ("PUT", "/api/v1/golden/{model:path}"): Call(arrange=_golden, json={"image": "new.bin"}),
    ("DELETE", "/api/v1/golden/{model:path}"): Call(arrange=_golden),
    ("POST", "/images"): Call(content=_image_form),
    ("POST", "/images/published"): Call(
        content=_published_form, may_answer=frozenset({409}), why="no certificates are named"
    ),
    ("GET", "/images/{name}"): Call(arrange=_image()),
    ("POST", "/images/golden"): Call(form={"model": "M1", "image": "new.bin"}),
    ("POST", "/images/golden/remove"): Call(
        arrange=_golden, form={"model": "M1"}, may_answer=frozenset({404}), why="the call before removed it"
    ),
    ("POST", "/images/{name}/verify"): Call(arrange=_image(), form={}),
    ("POST", "/images/{name}/vouch"): Call(arrange=_image(state=ImageState.UNKNOWN), form=_REASON),
    ("POST", "/images/{name}/remove"): Call(arrange=_image(state=ImageState.UPLOADING), form=_REASON),
    ("POST", "/images/{name}/restore"): Call(
        arrange=_image(), form=_REASON, may_answer=frozenset({409}), why="nobody took it away"
    ),
    # What goes on.
    ("GET", "/api/v1/runs/{run_id}/events"): Call(
        arrange=_run, may_answer=frozenset({409}), why="the run writes no events"
    ),
    ("GET", "/runs/{run_id}"): Call(arrange=_run),
    ("GET", "/runs/{run_id}/devices/{host:path}"): Call(arrange=_run),
    ("GET", "/devices/{name:path}"): Call(arrange=_device),
    ("POST", "/devices/{name:path}"): Call(arrange=_device, form={"what": "check"}),
    ("POST", "/devices"): Call(arrange=_device, form={"what": "check", "hosts": "r1"}),
    **{
        ("POST", f"/runs/{{run_id}}/{what}"): Call(arrange=_run, form=_REASON, may_answer=frozenset({409}), why=_DEAD)
        for what in ("pause", "continue", "stop")
    },
    ("POST", "/runs/{run_id}/resume"): Call(arrange=_run, form=_REASON),
    ("POST", "/runs/{run_id}/recover"): Call(
        arrange=_run, form=_REASON, may_answer=frozenset({409}), why="the run left nothing to restore"
    ),
    ("POST", "/runs/{run_id}/approve"): Call(
        arrange=_run,
        form={"wave": "0"},
        may_answer=frozenset({409}),
        why="the run is not under way, and another plan was read",
    ),
    # Hooks.
    ("POST", "/api/v1/hooks"): Call(content=_hook_body),
    ("GET", "/api/v1/hooks/{hook_id}"): Call(arrange=_hook),
    ("PUT", "/api/v1/hooks/{hook_id}"): Call(arrange=_hook, content=_hook_body),
    ("DELETE", "/api/v1/hooks/{hook_id}"): Call(arrange=_hook),
    ("POST", "/api/v1/hooks/{hook_id}/test"): Call(arrange=_hook),
    ("POST", "/api/v1/hooks/{hook_id}/again"): Call(arrange=_hook),
    ("POST", "/admin/hooks"): Call(content=_hook_form),
    ("GET", "/admin/hooks/{hook_id}"): Call(arrange=_hook),
    ("POST", "/admin/hooks/{hook_id}"): Call(arrange=_hook, content=_hook_form),
    ("POST", "/admin/hooks/{hook_id}/test"): Call(arrange=_hook, form={}),
    ("POST", "/admin/hooks/{hook_id}/again"): Call(arrange=_hook, form={}),
    ("POST", "/admin/hooks/{hook_id}/pause"): Call(arrange=_hook, form={}),
    ("POST", "/admin/hooks/{hook_id}/continue"): Call(arrange=_hook, form={}),
    ("POST", "/admin/hooks/{hook_id}/remove"): Call(arrange=_hook, form={}),
}

STREAMS = frozenset({("GET", "/api/v1/live")})
"""Of these only refusals are tried."""


def call_of(route: tuple[str, str]) -> Call | None:
    """Return how a route is called, or None where it has no entry and needs one."""
    method, path = route
    needs_one = method != "GET" or "{" in path
    return CALLS.get(route, None if needs_one else Call())


def lacking() -> list[tuple[str, str]]:
    """Return the rows that need an entry and have none, and entries that have no row."""
    return sorted(
        [route for route in ROUTES if call_of(route) is None] + [route for route in CALLS if route not in ROUTES]
    )
