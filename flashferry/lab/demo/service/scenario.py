"""What the two people of the demo do, in their order, and what came of it; every figure is one of this run."""

from __future__ import annotations

import hashlib
import os
import time
from typing import TYPE_CHECKING, Any

from flashferry.lab.demo.harness import models_at, print_line, step
from flashferry.lab.demo.programs import Broken
from flashferry.lab.demo.service.environment import IMAGES, SITE_NAMES, Environment
from flashferry.lab.demo.service.output import Progress, print_address, print_images, print_plan
from flashferry.lab.demo.service.users import Account, Person, Refused, enter
from flashferry.lab.demo.table import Before

if TYPE_CHECKING:
    from collections.abc import Callable

ANNA = Account(name="anna", display="Anna, network operations", roles=("operator", "approver"))
BEN = Account(name="ben", display="Ben, her colleague", roles=("approver", "auditor"))
TITLE = "all sites, summer release"

PLAN_S = 120.0
"""A plan has to be there by then: twenty routers are looked at."""

RUN_S = 600.0
"""The run has to be over by then; on two cores that have little else to do it takes a tenth of it."""

_POLL_S = 1.0


class Scenario:
    """The demo, from the sign-in to the end of the run.

    Args:
        environment: What it stands on.
    """

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
        step(4, f"{anna.name} has the service plan it: every router is looked at, nothing is changed")
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
        step(6, f"{anna.name} begins the run: a process of its own, whose routers fetch from the depot")
        waves = {one["number"]: one["name"] for one in anna.get(f"/plans/{digest}")["plan"]["waves"]}
        job = anna.post("/runs", {"plan": digest, "reason": "the summer release"})
        progress = Progress(waves, self._environment.url)

        def follow(now: dict[str, Any]) -> None:
            if now["run_id"] is not None:
                progress.show(now["run_id"], anna.get(f"/runs/{now['run_id']}/devices")["devices"])

        job = self._until_ended(anna, job["job_id"], RUN_S, follow)
        if job["run_id"] is None:
            raise Broken(f"the run did not begin: {job['sentence']}")
        follow(job)
        print_line(f"the run has ended, exit code {job['exit_code']}: {job['sentence']}")
        return str(job["run_id"])

    def _judge(self, anna: Person, ben: Person, run_id: str) -> tuple[str, ...]:
        from flashferry.lab.demo.service.verification import judged, print_run

        step(7, "What came of it")
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
        print_line("It stays up until Ctrl-C, and then nothing is left.")
        while not programs.stop.wait(_POLL_S):
            programs.check()

    def _pause(self) -> None:
        self._environment.programs.pause(_POLL_S)
