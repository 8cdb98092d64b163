"""A service that has been used for a while, made up: people, plans, schedules, images, hooks and an audit of it all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.live_view import SITES as NIGHT_SITES
from flashferry.core.jobs import JobFolder
from flashferry.core.values import replace
from flashferry.images.image import PlannedImage
from flashferry.images.safe_open import FileIdentity
from flashferry.model.fleet_plan import Action, Fit, FleetPlan, PlannedDevice, SiteForecast
from flashferry.model.limits import Limits
from flashferry.model.plan_file import plan_text
from flashferry.model.policy import TuneMode
from flashferry.model.waves import Wave, WavePolicy
from flashferry.service.configuration import load_settings
from flashferry.service.hooks.managing import HookSpec, add_hook
from flashferry.service.images import golden
from flashferry.service.notices import NoticeKind, announce
from flashferry.service.plans.deciding import approve, deny
from flashferry.service.plans.eligibility import offer
from flashferry.service.principal import Actor, Grant, Role, Via
from flashferry.service.schedules.scheduler import ScheduleSpec, Step, make_schedule, step
from flashferry.service.service import Service
from flashferry.store.service import people as rows
from flashferry.store.service.database import ServiceDatabase, moment
from flashferry.store.service.hooks import delivered, not_delivered, notices_of
from flashferry.store.service.images import ImageState, StoredImage, add_image
from flashferry.store.service.jobs import (
    Job,
    JobKind,
    JobState,
    Occasion,
    Outcome,
    ScheduleKind,
    add_job,
    claim_occasion,
    end_occasion,
)
from flashferry.store.service.people import TokenRow, insert_token
from tests.showcase.fleet import IMAGES, SITES, Runs, fleet, hosts, lab_nights
from tests.showcase.sites import centre

CONFIGURATION = """\
[runs]
inventory = "{folder}/inventory"
nights = "{folder}/nights"
[sites]
{sites}
[hooks.ops]
secret_command = ["true"]
[hooks.channel]
secret_command = ["true"]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Showcase:
    """What pages are looked at with.

    Attributes:
        state: The state folder.
        runs: Its runs.
        draft: Digest of a plan that waits for approval; the one before it of its title is `approved`.
        approved: Of one that was approved and begun.
        schedule: Identifier of a schedule with a past.
        hook: Of a hook with a past.
        person: Somebody's name.
        image: Name of an image that is published.
        unknown: Of one that nobody stands for.
        arriving: Of one that has arrived by half.
        job: Identifier of a check that has ended.
    """

    state: Path
    runs: Runs
    draft: str
    approved: str
    schedule: str
    hook: str
    person: str
    image: str
    unknown: str
    arriving: str
    job: str


class _Clock:
    """A clock that is put to where the story is."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


def _actor(name: str, *roles: Role) -> Actor:
    grants = frozenset(Grant(role=role) for role in roles)
    return Actor(name=name, via=Via.SESSION, address="192.0.2.81", grants=grants)


ANNA = _actor("anna", Role.OPERATOR)
JAN = _actor("jan", Role.OPERATOR)
OLGA = _actor("olga", Role.APPROVER)
ROOT = _actor("root", Role.ADMIN, Role.AUDITOR)


@contextmanager
def showcase(state: Path, *, names: Sequence[str] = ()) -> Iterator[Showcase]:
    """Make it in a state folder; its run that waits lives for the time of the block.

    Args:
        state: The folder; it is there and empty.
        names: Hostile texts, which stand wherever people, devices or programs may say something.
    """
    now = datetime.now(UTC).replace(microsecond=0)
    _lay_out(state)
    clock = _Clock(now - timedelta(days=20))
    service = Service(
        state=state, settings=load_settings(state / "service.toml"), database=ServiceDatabase(state), now=clock
    )
    said = names[0] if names else "release notes read, canaries first"
    _people(service, names)
    clock.now = now - timedelta(days=9)
    images = _images(service, said, names)
    clock.now = now - timedelta(days=2)
    hook = _hooks(service)
    clock.now = now - timedelta(days=1)
    approved = offer(service, ANNA, _plan(state, clock.now, now + timedelta(days=8), names), "Campus, December")[0]
    clock.now += timedelta(hours=1)
    approve(service, OLGA, approved.digest, said)
    denied = offer(service, JAN, _plan(state, clock.now, now + timedelta(hours=5), (), 6), "Limerick first")[0]
    deny(service, OLGA, denied.digest, "Limerick has a fair this weekend")
    clock.now = now - timedelta(minutes=35)
    title = names[0][:99].replace("\n", " ") if names else "Campus, December"
    draft = offer(service, ANNA, _plan(state, clock.now, now + timedelta(hours=9), names, 31), title)[0]
    service.note_refusal(ANNA, "plan.approve", f"plan:{draft.digest}", "she made it herself")
    schedule = _schedules(service, approved.digest, clock, now)
    lab_nights(state, now)
    centre(state, now, names=names)
    with fleet(state, now, digest=approved.digest, names=names) as runs:
        clock.now = now
        _notices(service, hook, runs)
        job = _jobs(service, runs, approved.digest, now, names)
        yield Showcase(
            state=state, runs=runs, draft=draft.digest, approved=approved.digest, schedule=schedule, hook=hook,
            person="anna", image=images[0], unknown=images[1], arriving=images[2], job=job,
        )  # fmt: skip


def _lay_out(state: Path) -> None:
    for name in ("images", "nights", "inventory"):
        (state / name).mkdir(mode=0o700)
    (state / "nights" / "lab.yaml").write_text("{}\n")
    listed = {
        name: {"hostname": f"192.0.2.{number}", "platform": "ios", "data": {"site": site}}
        for number, (name, site) in enumerate([*hosts(), ("trn-sw08", "TRN")], 10)
    }
    (state / "inventory" / "hosts.yaml").write_text(json.dumps(listed))
    names = SITES | {name: f"{name.title()}, branches" for name in NIGHT_SITES}
    sites = "\n".join(f'"{name}" = "{called}"' for name, called in names.items())
    (state / "service.toml").write_text(CONFIGURATION.format(folder=state, sites=sites))
    (state / "service.toml").chmod(0o600)


def _people(service: Service, names: Sequence[str]) -> None:
    everybody = (
        ("root", "Rita Root", ("admin", "auditor")),
        ("anna", "Anna de Wit", ("operator", "viewer")),
        ("jan", "Jan Kowalski-Featherstonehaugh", ("operator@LIM", "operator@OSL", "operator@GVA", "viewer")),
        ("olga", "Olga Petrova", ("approver",)),
        ("wall-screen", "The screen in the operations room", ("viewer",)),
        ("nightly-pipeline@ci.example.net", names[0] if names else "Builds", ("viewer", "operator@TRN")),
        ("piet", "Piet, who left", ()),
    )
    with service.database.writing() as database:
        for name, display, grants in everybody:
            made = rows.Person(
                name=name, source="local", display=display, created_at=moment(service.now()),
                email=f"{name.partition('@')[0]}@example.net",
            )  # fmt: skip
            rows.insert_person(database, made, password=None)
            for word in grants:
                role, _, site = word.partition("@")
                given = rows.GivenGrant(role=role, site=site or "*", given_by="root", given_at=moment(service.now()))
                rows.insert_grant(database, name, given)
            service.note(database, ROOT, "user.added", f"user:{name}", after={"grants": list(grants)})
        rows.set_state(database, "piet", "disabled")
        for number, (person, what) in enumerate((("anna", "status on the bus"), ("root", names[0] if names else "CI"))):
            token = TokenRow(
                token_id=f"tok{number}", person=person, name=what, grants='[["viewer", "*"]]',
                created_at=moment(service.now()), expires_at=moment(service.now() + timedelta(days=90)),
            )  # fmt: skip
            insert_token(database, token, hash_=f"{number}")


def _images(service: Service, said: str, names: Sequence[str]) -> tuple[str, str, str]:
    inside = names[0] if names else ""
    for name in names:
        (service.images / name.replace("/", " ")).write_bytes(b"put here by hand")
    unknown, arriving = "c2900-universalk9-mz.SPA.157-3.M8.bin", "c1100-universalk9.17.12.04.SPA.bin"
    made = (
        (IMAGES[0], ImageState.PUBLISHED, "its SHA-512 is the one that the vendor published (Bulk Hash of 2026-11-12)"),
        (IMAGES[1], ImageState.APPROVED, f"root approved it: {said[:90]}"),
        (unknown, ImageState.UNKNOWN, "no published digest is known"),
        ("cat9k_lite_iosxe.17.12.04.SPA.bin", ImageState.MISMATCH, "its SHA-512 is not the one that jan pasted"),
        (arriving, ImageState.UPLOADING, ""),
    )
    with service.database.writing() as database:
        for number, (name, state, told) in enumerate(made):
            is_here, content = state is not ImageState.UPLOADING, f"{name} ".encode() * 4096
            if is_here:
                (service.images / name).write_bytes(content)
            about = (service.images / name).stat() if is_here else None
            image = StoredImage(
                name=name,
                size_bytes=len(content) if is_here else 1_184_391_168,
                received_bytes=len(content) if is_here else 712_000_000,
                md5=hashlib.md5(content).hexdigest() if is_here else None,
                sha512=hashlib.sha512(content).hexdigest() if is_here else None,
                stated_sha512="0123456789abcdef" * 8 if state is ImageState.MISMATCH else None,
                stated_by="jan" if state is ImageState.MISMATCH else None,
                inside=(inside or name) if is_here else None,
                file_state=None if about is None else FileIdentity.of(about).key,
                state=state,
                state_reason=told,
                uploaded_by=("anna", "jan")[number % 2],
                created_at=moment(service.now() + timedelta(minutes=9 * number)),
                completed_at=moment(service.now() + timedelta(minutes=9 * number + 4)) if is_here else None,
                approved_by="root" if state is ImageState.APPROVED else None,
            )
            add_image(database, image)
            service.note(database, ANNA, "image.uploaded", f"image:{name}", after={"state": state.value})
    folder = service.images / ".arriving"
    folder.mkdir(mode=0o700)
    with (folder / f"{arriving}.part").open("wb") as part:
        part.truncate(712_000_000)
    for model, site, image in (
        ("C9300-48P", "*", IMAGES[0]),
        ("ISR4331/K9", "*", IMAGES[1]),
        ("C9300-48P", "TRN", IMAGES[0]),
    ):
        golden.choose(service, ROOT, model, site, image)
    return IMAGES[0], unknown, arriving


def _hooks(service: Service) -> str:
    kinds = ("run.began", "run.ended", "run.dead", "device.not_restored", "approval.wanted", "outside.window")
    first = HookSpec(
        name="operations channel", form="slack", target="#staging-tonight", secret_name="channel", kinds=kinds
    )
    second = HookSpec(
        name="ticket desk, which takes everything that needs a person", form="webhook",
        target="https://tickets.example.net/api/v3/hooks/flashferry/0c7b4a1e-52d1-4f0e-a53e-9b1d1f8f3e77",
        secret_name="ops", kinds=("run.dead", "device.not_restored"),
    )  # fmt: skip
    third = HookSpec(
        name="syslog",
        form="syslog",
        target="udp://192.0.2.200:514",
        secret_name="",
        kinds=("audit.entry",),
        is_paused=True,
    )
    made = [add_hook(service, ROOT, wish).hook_id for wish in (first, second, third)]
    return made[1]


def _schedules(service: Service, digest: str, clock: _Clock, now: datetime) -> str:
    wish = ScheduleSpec(
        title="Campus, second night", kind=ScheduleKind.PLAN, subject=digest,
        calendar="sat,sun 01:30", time_zone="Europe/Amsterdam", window_s=4 * 3600,
    )  # fmt: skip
    made = make_schedule(service, ANNA, wish).schedule_id
    night = replace(
        wish, title="", kind=ScheduleKind.NIGHTLY, subject="lab.yaml", calendar="mon-fri 22:00", time_zone="UTC"
    )
    held = make_schedule(service, ANNA, night).schedule_id
    step(service, ANNA, held, Step.HOLD, "the lab moves to another rack")
    told = (
        (9, Outcome.STARTED, "begun 4 s late"),
        (8, Outcome.MISSED, "nobody was there to begin it: the service was away from 00:58 to 02:14 UTC"),
        (2, Outcome.REFUSED, "the plan was not approved yet"),
    )
    with service.database.writing() as database:
        for days, outcome, sentence in told:
            at = now - timedelta(days=days)
            due = Occasion(schedule_id=made, due_at=moment(at), claimed_at=moment(at), claimed_by="staging 4711")
            claim_occasion(database, due)
            end_occasion(database, due, outcome, job_id=None, sentence=sentence)
    return made


def _notices(service: Service, hook: str, runs: Runs) -> None:
    with service.database.writing() as database:
        announce(service, database, NoticeKind.RUN_DEAD, f"run:{runs.dead}", f"run {runs.dead} died", {"devices": 5})
        announce(
            service, database, NoticeKind.NOT_RESTORED, f"run:{runs.dead}",
            "2 devices are changed and not restored: gva-sw01, gva-sw02", {"devices": ["gva-sw01", "gva-sw02"]},
        )  # fmt: skip
        first, second = notices_of(database, hook, most=2)
        delivered(database, first.notice_id, moment(service.now()))
        not_delivered(database, second.notice_id, next_at=None, sentence="tickets.example.net answered 403")
        service.note(database, OLGA, "run.approve", f"run:{runs.good}", reason="canaries are well", after={"wave": 1})


def _jobs(service: Service, runs: Runs, digest: str, now: datetime, names: Sequence[str]) -> str:
    given = {"words": ("stage",), "requested_by": "anna", "via": "session", "state": JobState.ENDED, "digest": digest}
    at = moment(now - timedelta(hours=9))
    with service.database.writing() as database:
        add_job(database, Job(
            job_id=f"{runs.good[:15]}-job1", kind=JobKind.STAGE, run_id=runs.good, created_at=at, exit_code=0,
            reason="as agreed at 16:00", sentence="36 of 36 devices done, all restored", ended_at=at, **given,
        ))  # fmt: skip
        add_job(database, Job(
            job_id=f"{runs.good[:15]}-dry1", kind=JobKind.DRY_RUN, created_at=at, exit_code=2, ended_at=at,
            sentence="2 of 36 devices are out of reach: osl-sw03, osl-sw04", **given,
        ))  # fmt: skip
        job_id = f"{runs.good[:15]}-chk1"
        add_job(database, Job(
            job_id=job_id, kind=JobKind.CHECK, created_at=at, exit_code=3, started_at=at, ended_at=at,
            sentence="some devices failed", reason=names[0] if names else "new in the inventory",
            **given | {"digest": None},
        ))  # fmt: skip
    folder = JobFolder.of(service.state, job_id)
    folder.make()
    folder.write(folder.stderr, "osl-sw03: no answer within 10 s\n")
    folder.write(folder.result, json.dumps(_checked(names)))
    return job_id


def _checked(names: Sequence[str]) -> dict[str, object]:
    """Return what a check of some devices printed."""
    called = (*names, "osl-sw01", "osl-sw02")
    devices: list[dict[str, object]] = [
        {
            "host": host,
            "outcome": "done",
            "check": {
                "facts": {"model": "C9300-48P"},
                "version": {"release": "17.9.4"},
                "file_system": "flash:",
                "free_bytes": 3_412_000_000,
                "rtt_s": 0.0431,
                "notes": [names[0]] if names else ["the clock is 40 s behind ours"],
                "image": {"fits": "of this platform", "reason": "the image is for Catalyst 9000"},
            },
        }
        for host in called
    ]
    failure = {"step": "connect", "reason": "no answer within 10 s", "hint": "Is the device up, and SSH allowed to it?"}
    refused = {"refusal": "flash: has 200 MB free, the image needs 1.18 GB", "refusal_hint": "Remove old images"}
    devices += [
        {"host": "osl-sw03", "outcome": "failed", "check": None, "failure": failure},
        {"host": "osl-sw04", "outcome": "refused", "check": refused, "failure": None},
    ]
    return {"schema": "flashferry.check/1", "exit_code": 3, "meaning": "some devices failed", "devices": devices}


def _plan(state: Path, now: datetime, ends: datetime, names: Sequence[str], count: int = 36) -> bytes:
    images = tuple(
        PlannedImage(
            name=name,
            path=str(state / "images" / name),
            size_bytes=(content := (state / "images" / name).read_bytes()).__len__(),
            md5=hashlib.md5(content).hexdigest(),
            sha512=hashlib.sha512(content).hexdigest(),
        )
        for name in IMAGES
    )
    had = [*hosts()[:count], *((name, "OSL") for name in names)]
    devices = tuple(_planned(number, host, site) for number, (host, site) in enumerate(had))
    staged = [one for one in devices if one.action is Action.STAGE]
    waves = tuple(
        Wave(
            number=number,
            name=name,
            hosts=tuple(one.host for one in staged if one.wave == number),
            is_canary=number == 0,
        )
        for number, name in enumerate(("canary", "Amsterdam and Limerick", "all others"))
    )
    sites = sorted({one.site or "" for one in staged})
    plan = FleetPlan(
        created_at=now.isoformat(),
        starts_at=(now + timedelta(minutes=10)).isoformat(),
        ends_at=ends.isoformat(),
        images=images,
        image_folders=(str((state / "images").resolve()),),
        limits=Limits(),
        policy=WavePolicy(approve=True),
        tune=TuneMode.AUTO,
        duration_s=3 * 3600.0 + 840,
        fit=Fit(
            fits=True, sentence="ends at 04:22, 38 min before the window does, if links carry what they did before"
        ),
        assumptions=("Devices that were never seen hash 20 MB/s.",),
        sites=tuple(_forecast(site, sum(one.site == site for one in staged)) for site in sites),
        waves=waves,
        devices=devices,
    )
    return plan_text(plan).encode()


def _planned(number: int, host: str, site: str) -> PlannedDevice:
    refused, unreachable, there = number in (5, 17), number == 11, number == 23
    action = (
        Action.REFUSED
        if refused
        else Action.UNREACHABLE
        if unreachable
        else Action.ALREADY_THERE
        if there
        else Action.STAGE
    )
    is_staged = action is Action.STAGE
    return PlannedDevice(
        host=host,
        address=f"192.0.2.{10 + number}",
        site=site,
        image=IMAGES[site in ("LIM", "GVA")] if is_staged or there else None,
        action=action,
        reason="flash: has 212 MB free, the image takes 1.1 GB"
        if refused
        else "no answer on port 22"
        if unreachable
        else "",
        hint="Remove old images with 'install remove inactive'" if refused else None,
        notes=("the boot variable names an image that is not there",) if number % 9 == 4 else (),
        wave=-1 if not is_staged else 0 if number < 3 else 1 if site in ("AMS", "LIM") else 2,
        model="C9300-48P" if site != "LIM" else "ISR4331/K9",
        version="17.09.04a",
        rtt_s=0.0193,
        tune=number % 4 != 1,
        tune_reason="its speed test of 12 days ago gained nothing" if number % 4 == 1 else "",
        expected_bytes_per_s=5.8e6,
        expected_source="its copy of 12 days ago",
        total_s=614.0 if is_staged else None,
    )


def _forecast(site: str, devices: int) -> SiteForecast:
    return SiteForecast(
        site=site, devices=devices, link_rate_bps=50e6, link_source="inventory", cap_share=0.8, cap_bytes_per_s=5e6,
        copies=8, peak_copies=min(8, devices), load_share=0.9, busy_s=5400.0, bytes=devices * 1_184_391_168,
        starts_s=0.0, ends_s=9000.0,
    )  # fmt: skip
