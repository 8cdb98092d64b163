"""The demo's lines: the address with both sign-ins, images, the plan, and a run while it runs."""

from __future__ import annotations

import hashlib
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from flashferry.cli.view.layout import names, rate, show
from flashferry.core import units
from flashferry.lab.demo.harness import Broken, models_at, print_checks, print_line, step
from flashferry.lab.demo.main_job import Before
from flashferry.lab.demo.service.environment import IMAGES, SITE_NAMES, Account, Environment, Person, Refused, enter
from flashferry.lab.world import World
from flashferry.model.waves import wave_label

EVERY_S = 5.0
"""A run that goes on says so this often; the end of a wave is said at once."""

_WORDS = {
    "planned": "waiting",
    "checked": "checked",
    "journaled": "checked",
    "tuned": "tuned",
    "copying": "copying",
    "copied": "hashing",
    "verified": "restoring",
    "restored": "restored",
}
"""What a router that is not at its end is called."""

_ACTIONS = {"stage": "to be staged"}
_DONE = frozenset({"done", "already there"})


def print_address(environment: Environment, accounts: Sequence[Account], *, is_end: bool = False) -> None:
    """Print where the service answers, and how both people sign in."""
    if not is_end:
        step(2, "The service answers, with a depot beside it: open it now and watch Tonight")
    print_line(f"{environment.url}/tonight")
    for one in accounts:
        print_line(f"  {one.name:<6} password {one.password}   {' and '.join(one.roles)}")
    if not is_end and environment.moved_from is not None:
        print_line(f"Port {environment.moved_from} is in use here, so another one was taken.")


def print_images(held: Iterable[Mapping[str, Any]]) -> None:
    """Print what is held of images."""
    show(
        {
            "image": str(one["name"]),
            "size": units.size(one["size_bytes"]),
            "state": str(one["state"]),
            "sha-512": f"{one['sha512'][:24]}...",
        }
        for one in held
    )


def print_plan(plan: Mapping[str, Any], digest: str) -> None:
    """Print what a plan says: its devices, its waves, and when it would be over."""
    actions = {_ACTIONS.get(action, action): count for action, count in plan["actions"].items()}
    print_line(f"plan sha256:{digest[:16]}...: {_counted(actions)}")
    for wave in plan["waves"]:
        print_line(
            f"  {_wave_name(wave['number'], wave['name']):<16} {len(wave['hosts']):2} routers: {names(wave['hosts'])}"
        )
    for device in plan["devices"]:
        if device["reason"]:
            print_line(f"  {device['host']}: {device['reason']}")
    print_line(f"forecast: {units.duration(plan['duration_s'])}")


class Progress:
    """Prints how a run goes on, wave by wave: a line when a wave has ended, else one every few seconds.

    `waves`: What waves are called, by number.
    """

    def __init__(self, waves: Mapping[int, str], url: str) -> None:
        self._waves = waves
        self._url = url
        self._began_s = time.monotonic()
        self._said: dict[int, str] = {}
        self._said_s = -EVERY_S
        self._run_id = ""

    def show(self, run_id: str, devices: Sequence[Mapping[str, Any]]) -> None:
        """Take in where the devices of the run are."""
        if not self._run_id:
            self._run_id = run_id
            print_line(f"{self._url}/runs/{run_id}")
        is_time = time.monotonic() - self._said_s >= EVERY_S
        for number in sorted({int(one["wave"]) for one in devices}):
            mine = [one for one in devices if one["wave"] == number]
            found = Counter(str(one["outcome"] or _WORDS.get(one["state"], one["state"])) for one in mine)
            if set(found) == {"waiting"} or found.total() == 0:
                continue
            text = _counted(found)
            is_over = all(one["outcome"] for one in mine)
            if text == self._said.get(number) or not (is_over or is_time):
                continue
            self._said[number] = text
            self._said_s = time.monotonic()
            now_s = time.monotonic() - self._began_s
            print_line(f"{now_s:5.0f} s  {_wave_name(number, self._waves.get(number, '')):<16} {text}")


def _counted(found: Mapping[str, int]) -> str:
    """Return counts in words, what is done first."""
    order = sorted(found, key=lambda one: (one not in _DONE, -found[one], one))
    return ", ".join(f"{found[one]} {one}" for one in order if found[one])


def _wave_name(number: int, name: str) -> str:
    return f"wave {wave_label(number, name)}"


_GOOD = "done"
_RESTORED = "proven equal to the start"


def print_run(report: Mapping[str, Any]) -> None:
    """Print what the run's report says: devices, sites, and how fast tuned copies were."""
    summary = report["summary"]
    took = units.duration(summary["wall_s"]) if summary["wall_s"] is not None else "an unknown time"
    outcomes, proofs = (
        ", ".join(f"{one['devices']} {one['word']}" for one in summary[key]) for key in ("outcomes", "proofs")
    )
    print_line(f"{summary['devices']} routers in {took}: {outcomes}; configurations: {proofs}")
    sent = f"{units.size(summary['acked_bytes'])} sent and acknowledged"
    print_line(f"{summary['hashes_proven']} images proven by their hash; {sent}")
    show(_site_row(site) for site in report["sites"])
    print_line()
    print_line("each tuned copy to flash, beside the others on its line:")
    show(_model_rows(report["devices"]))


def judged(
    world: World,
    report: Mapping[str, Any],
    audit: Mapping[str, Any],
    *,
    changed: Mapping[str, str],
    digests: Mapping[str, str],
) -> tuple[str, ...]:
    """Print what the lab and the audit say; return what is not as it should be, in sentences.

    `world`: The routers, asked behind SSH's back. `audit`: What the look at the audit found. `changed`: By router, what
    of its configuration is not what it was before the demo; empty texts for nothing. `digests`: SHA-256 of the images,
    by name.
    """
    print_line()
    return print_checks((
        ("", _unwell(world, report)),
        (
            "inspected without SSH, all configurations are what they were",
            (f"{host}: {found}" for host, found in changed.items() if found),
        ),
        ("the images on their flash are right, byte for byte", _unlike(world, report, digests)),
        (
            f"the audit is whole: {audit['entries']} entries, each holds the one before it",
            (f"audit: {fault}" for fault in audit["faults"]),
        ),
    ))  # fmt: skip


def _unwell(world: World, report: Mapping[str, Any]) -> Iterator[str]:
    found = {one["host"]: one for one in report["devices"]}
    for name in (one.name for one in world.devices):
        device = found.get(name)
        if device is None:
            yield f"{name}: it is not in the run"
        elif device["outcome"] != _GOOD:
            yield f"{name}: {device['outcome']}: {device['reason']}"
        elif device["restore"]["proof"] != _RESTORED:
            yield f"{name}: its configuration is {device['restore']['proof']}"


def _unlike(world: World, report: Mapping[str, Any], digests: Mapping[str, str]) -> Iterator[str]:
    """Yield which routers have another image on flash than they should."""
    for device in report["devices"]:
        paths = [file.path for file in world.files(device["host"]) if file.name == device["image"]]
        held = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
        if held != [digests.get(device["image"])]:
            yield f"{device['host']}: {device['image']} on its flash is not the image"


def _site_row(site: Mapping[str, Any]) -> dict[str, str | Text]:
    share = site["cap_share"]
    return {
        "site": SITE_NAMES.get(site["name"], str(site["name"])),
        "done": f"{site['good']} of {site['devices']}",
        "sent": units.size(site["acked_bytes"]),
        "while copying": rate(site["rate_bytes_per_s"]),
        "cap": rate(site["cap_bytes_per_s"]),
        "of it": f"{share:.0%}" if share is not None else "-",
    }


def _model_rows(devices: list[Mapping[str, Any]]) -> list[dict[str, str | Text]]:
    """Return a row for each model and site: how fast its tuned copies to flash were, beside each other."""
    rates: dict[tuple[str, str], list[float]] = {}
    for one in devices:
        if one["tuned"] is not None and one["tuned"]["to_flash"]:
            rates.setdefault((str(one["site"]), str(one["model"])), []).append(one["tuned"]["bytes_per_s"])
    return [
        {
            "model": model,
            "at": SITE_NAMES.get(site, site),
            "tuned copies": str(len(found)),
            "slowest": rate(min(found)),
            "median": rate(statistics.median(found)),
            "fastest": rate(max(found)),
        }
        for (site, model), found in rates.items()
    ]


ANNA = Account(name="anna", display="Anna, network operations", roles=("operator", "approver"))
BEN = Account(name="ben", display="Ben, her colleague", roles=("approver", "auditor"))
TITLE = "all sites, summer release"
PLAN_S = 120.0
"""A plan has to be there by then: twenty routers are looked at."""

RUN_S = 600.0
"""The run has to be over by then; on two cores that have little else to do it takes a tenth of it."""

_POLL_S = 1.0


class Scenario:
    """The demo, from the sign-in to the end of the run."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._before = Before.of(environment.world)
        self._images = {one.name: os.urandom(one.size_bytes) for one in IMAGES}

    def play(self) -> tuple[str, ...]:
        """Play it; return what is not as it should be, in sentences. Raises Broken: it cannot go on."""
        self._introduce()
        enter(self._environment.state, (ANNA, BEN))
        self._environment.wait_until_ready()
        print_address(self._environment, (ANNA, BEN))
        anna, ben = Person(self._environment.url, ANNA), Person(self._environment.url, BEN)
        try:
            self._send(anna)
            digest = self._have_planned(anna)
            self._have_approved(anna, ben, digest)
            run_id = self._run(anna, digest)
            return self._judge(anna, ben, run_id)
        finally:
            anna.close()
            ben.close()

    def _introduce(self) -> None:
        world = self._environment.world
        step(1, f"A lab: {len(world.devices)} stand-in routers at {len(world.sites)} sites ({world.rung})")
        for site in world.sites:
            print_line(f"{SITE_NAMES.get(site.name, site.name)}: {models_at(site)}; {site.profile.describe()}")

    def _send(self, anna: Person) -> None:
        step(3, f"{anna.name} sends {len(IMAGES)} made-up images, with the SHA-512 that a vendor would have published")
        held = []
        for name, content in self._images.items():
            held.append(anna.send_image(name, content))
            self._environment.programs.check()
        print_images(held)

    def _have_planned(self, anna: Person) -> str:
        step(4, f"{anna.name} has the service make a plan: every router is checked, nothing is changed")
        job = self._until_ended(anna, anna.post("/plans/make", {"title": TITLE})["job"], PLAN_S)
        until_s = time.monotonic() + PLAN_S
        while job["digest"] is None:
            # What the job wrote is offered a moment later; what cannot be is shown there, too.
            if job["exit_code"] or "not taken" in (job["sentence"] or "") or time.monotonic() > until_s:
                raise Broken(f"no plan was made: {job['sentence']}")
            self._pause()
            job = anna.get(f"/jobs/{job['job_id']}")
        digest = str(job["digest"])
        print_plan(anna.get(f"/plans/{digest}")["plan"], digest)
        return digest

    def _have_approved(self, anna: Person, ben: Person, digest: str) -> None:
        step(5, f"{ben.name} reads it and approves; {anna.name}, who may approve others' plans, cannot")
        try:
            anna.post(f"/plans/{digest}/approve", {"comment": "my own"})
        except Refused as refused:
            print_line(f"{anna.name} tries: {refused}")
        else:
            raise Broken(f"{anna.name} approved her own plan")
        decided = ben.post(f"/plans/{digest}/approve", {"comment": "read it; canaries first, as agreed"})
        print_line(f"{ben.name}: {decided['state']}, sha256:{digest[:16]}..., this text and no other")

    def _run(self, anna: Person, digest: str) -> str:
        step(6, f"{anna.name} starts the run: a process of its own, whose routers fetch from the depot")
        waves = {one["number"]: one["name"] for one in anna.get(f"/plans/{digest}")["plan"]["waves"]}
        job = anna.post("/runs", {"plan": digest, "reason": "the summer release"})
        progress = Progress(waves, self._environment.url)

        def follow(now: dict[str, Any]) -> None:
            if now["run_id"] is not None:
                progress.show(now["run_id"], anna.get(f"/runs/{now['run_id']}/devices")["devices"])

        job = self._until_ended(anna, job["job_id"], RUN_S, follow)
        if job["run_id"] is None:
            raise Broken(f"the run did not start: {job['sentence']}")
        follow(job)
        print_line(f"the run has ended, exit code {job['exit_code']}: {job['sentence']}")
        return str(job["run_id"])

    def _judge(self, anna: Person, ben: Person, run_id: str) -> tuple[str, ...]:

        step(7, "Results")
        report = anna.get(f"/runs/{run_id}/report.json")
        print_run(report)
        audit = ben.get("/audit/verify")
        changed = self._before.compared(self._environment.world)
        digests = {name: hashlib.sha256(content).hexdigest() for name, content in self._images.items()}
        return judged(self._environment.world, report, audit, changed=changed, digests=digests)

    def _until_ended(
        self, who: Person, job_id: str, most_s: float, follow: Callable[[dict[str, Any]], None] | None = None
    ) -> dict[str, Any]:  # fmt: skip
        """Return a job that has ended."""
        until_s = time.monotonic() + most_s
        while (job := who.get(f"/jobs/{job_id}"))["is_open"]:
            if follow is not None:
                follow(job)
            if time.monotonic() > until_s:
                raise Broken(f"{job['kind']}: expected its end within {most_s:g} s, found it {job['state']}")
            self._pause()
        return job

    def stay(self) -> None:
        """Keep all of it up until it is to end. Raises Broken: depot or service are gone."""
        programs = self._environment.programs
        if programs.stop.is_set():
            return
        print_line()
        print_address(self._environment, (ANNA, BEN), is_end=True)
        print_line("It stays up until Ctrl-C; then everything is removed.")
        while not programs.stop.wait(_POLL_S):
            programs.check()

    def _pause(self) -> None:
        self._environment.programs.pause(_POLL_S)
