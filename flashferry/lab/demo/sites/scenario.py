"""What the demo of sites shows, in its order, and what came of it; every figure is one of this run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from flashferry.core import units
from flashferry.core.units import counted
from flashferry.lab.demo.harness import Broken, Followed, Said, models_at, print_line, step
from flashferry.lab.demo.sites.environment import IMAGES, SLOW_FLASH_BYTES_PER_S, Environment
from flashferry.lab.demo.sites.verification import (
    Cut,
    LinkSeen,
    Relay,
    RouterSeen,
    Seen,
    judged,
    print_agents,
    print_command,
    print_plan,
)

ASK_S = 120.0
"""As long as a command may take that only looks."""

RUN_S = 900.0
"""A run has to be over by then; on two cores that have little else to do it takes a tenth of it."""

_POLL_S = 0.1


class Scenario:
    """The demo, from the lab to the last table."""

    def __init__(self, environment: Environment) -> None:
        self._environment, self._world, self._programs = environment, environment.world, environment.programs
        self._had = {one.name: bool(self._held(one.name)) for one in environment.world.devices}
        self._image = {
            site.name: next(one.name for start, one in IMAGES.items() if site.devices[0].platform.startswith(start))
            for site in environment.world.sites
        }
        self._records: dict[str, Mapping[str, Any]] = {}
        self._links: dict[str, LinkSeen] = {}
        self._centre = environment.places.centre
        self._files = ("--sites", str(self._centre.settings))

    def play(self) -> tuple[str, ...]:
        """Play it; return what is not as it should be, in sentences. Raises Broken: it cannot go on."""
        self._introduce()
        self._environment.wait_until_ready()
        self._show_agents()
        depots = list(self._environment.places.sites)
        plan = self._plan(3, "The plan: what it says about bytes, and what depots save", depots)
        cut = self._stage_sites(plan)
        self._stage_neighbours(self._environment.lone_site)
        step(7, "Results, inspected by the lab itself")
        return judged(self._seen(cut))

    def _introduce(self) -> None:
        routers, sites = counted(len(self._world.devices), "stand-in router"), counted(len(self._world.sites), "site")
        step(1, f"A lab: {routers} at {sites} ({self._world.rung})")
        for site in self._world.sites:
            host = "a depot host on the LAN" if site.depot is not None else "no host: its routers serve each other"
            print_line(f"{site.name}: {models_at(site)}; {host}; line {site.profile.describe()}")
        slow = units.rate(SLOW_FLASH_BYTES_PER_S)
        print_line(f"Flash at {self._environment.cut_site} takes {slow}, so that its copies last for a while.")

    def _show_agents(self) -> None:
        step(2, "The centre: a depot as source, a Redis that asks for certificates, and an agent at each depot")
        print_line(
            "Each agent has state, inventory and secrets of its own; it connects to the centre; nothing connects to it."
        )
        print_agents(self._agents(is_asked=True))

    def _agents(self, *, is_asked: bool) -> Sequence[Mapping[str, Any]]:
        words = ("sites", "list", *(() if is_asked else ("--no-ask",)), "--json", *self._files)
        print_command(words)
        return list(self._document(self._asked(words))["sites"])

    def _plan(self, number: int, title: str, sites: Sequence[str]) -> Path:
        """Make a plan for the routers of some sites, and print what it says."""
        step(number, title)
        path = self._centre.folder / f"plan-{'-'.join(sites).lower()}.json"
        chosen = [word for name in sites for word in ("--filter", f"site={name}")]
        words = ["plan", "--inventory", str(self._centre.inventory), "--image-dir", str(self._centre.catalogue)]
        words += [*chosen, "--output", str(path)]
        print_command(words)
        said = self._asked([*words, "--json"])
        if said.exit_code:
            raise Broken(f"no plan was made: {said.last_line}")
        print_plan(self._document(said))
        return path

    def _stage_sites(self, plan: Path) -> Cut:
        """Have the agents stage their sites, and cut a line meanwhile."""
        step(4, "Each site is given its part: its depot fetches the image once, its routers copy over the LAN")
        site = self._environment.cut_site
        ask = partial(self._agents, is_asked=False)
        cut = Cut(self._world, site, self._image[site], ask, 5)
        words = ("stage", "--plan", str(plan), *self._files)
        try:
            self._stage(words, list(self._environment.places.sites), " from their depot", cut.check)
            if cut.is_cut:
                raise Broken(f"the run ended while the line of {site} was cut")
        finally:
            cut.end()
        return cut

    def _stage_neighbours(self, site: str) -> None:
        title = f"{site} has no host: one router fetches over the line, proves it, and serves the others"
        plan = self._plan(6, title, [site])
        words = ("stage", "--plan", str(plan), "--inventory", str(self._centre.inventory))
        self._stage(words, [site], "", lambda: None)

    def _stage(self, words: Sequence[str], sites: Sequence[str], source: str, meanwhile: Callable[[], None]) -> None:
        """Follow a run to its end, and keep its records and what lines carried."""
        before = {name: self._carried(name) for name in sites}
        events = self._centre.folder / f"events-{'-'.join(sites).lower()}.jsonl"
        print_command(words)
        followed = Followed.start(
            self._programs, f"stage-{sites[0]}", self._world.core_pid, [*words, "--json", "--events", str(events)],
            state=self._centre.state,
        )  # fmt: skip
        try:
            self._follow(followed, Relay(followed, events, source), meanwhile)
        finally:
            followed.kill()
        said = followed.said()
        document = self._document(said)
        if "run" not in document:
            raise Broken(f"the run did not start: {said.last_line}")
        print_line(f"the run has ended, exit code {said.exit_code}: {document['meaning']}")
        self._records |= {one["host"]: one for one in document["run"]["devices"]}
        for name in sites:
            self._links[name] = self._link(name, before[name])

    def _follow(self, followed: Followed, relay: Relay, meanwhile: Callable[[], None]) -> None:
        left_s = RUN_S
        while not followed.is_over:
            relay.show()
            meanwhile()
            left_s -= _POLL_S
            if left_s < 0:
                raise Broken(f"expected the run's end within {RUN_S:g} s, found it under way")
            self._programs.pause(_POLL_S)
        relay.show()

    def _seen(self, cut: Cut) -> Seen:
        changed = self._environment.before.compared(self._world)
        routers = [
            RouterSeen(
                name=one.name,
                site=one.site,
                image=self._image[one.site],
                held=self._held(one.name),
                had=self._had[one.name],
                usual="its depot" if one.site in self._environment.places.sites else "the centre",
                changed=changed[one.name],
                record=self._records.get(one.name),
            )
            for one in self._world.devices
        ]
        run = self._document(self._asked(("sites", "show", "latest", "--json")))["run"]
        depots = {
            name: (self._image[name], _digest(place.catalogue / self._image[name]))
            for name, place in self._environment.places.sites.items()
        }
        return Seen(
            routers=routers,
            links=list(self._links.values()),
            digests=self._environment.places.digests,
            parts=run["parts"],
            cut=cut.seen,
            depots=depots,
        )

    def _link(self, name: str, before: tuple[int, int]) -> LinkSeen:
        carried_bytes, lan_bytes = (now - was for now, was in zip(self._carried(name), before, strict=True))
        site = next(one for one in self._world.sites if one.name == name)
        size_bytes = next(one.size_bytes for one in IMAGES.values() if one.name == self._image[name])
        return LinkSeen(
            site=name,
            routers=len(site.devices),
            by="a depot" if site.depot is not None else "neighbours",
            image_bytes=size_bytes,
            carried_bytes=carried_bytes,
            lan_bytes=lan_bytes,
        )

    def _carried(self, name: str) -> tuple[int, int]:
        """Return what a site's line has carried towards it so far, and its LAN to its routers, bytes."""
        lan = self._world.lan_traffic(name)
        carried = int(self._world.link_counters(name)["to_site"]["delivered_bytes"])
        return carried, lan.from_depot_bytes + lan.between_devices_bytes

    def _held(self, name: str) -> str:
        """Return the SHA-512 of a router's image on its flash, read behind its back; empty where there is none."""
        images = {one.name for one in IMAGES.values()}
        return next((_digest(file.path) for file in self._world.files(name) if file.name in images), "")

    def _asked(self, words: Sequence[str]) -> Said:
        return self._programs.ask(self._world.core_pid, words, ASK_S, state=self._centre.state)

    def _document(self, said: Said) -> Mapping[str, Any]:
        """Return the JSON document that a command printed. Raises Broken: it printed none."""
        try:
            found: Mapping[str, Any] = json.loads(said.out)
        except ValueError:
            raise Broken(f"a command ended with exit code {said.exit_code}: {said.last_line}") from None
        return found


def _digest(path: Path) -> str:
    return hashlib.sha512(path.read_bytes()).hexdigest() if path.is_file() else ""
