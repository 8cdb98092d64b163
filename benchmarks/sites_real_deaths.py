"""An agent that is dead for good: killed -9 with its runs at a random moment, then `flashferry recover` at its host.

Every router of it is to be what it was at the start, whatever was going on with it; the stand-ins are asked themselves.
What the other agents have in hand is restored by them when they end in order, which is looked at, too.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fleet_ground import configurations
from benchmarks.report import print_progress
from benchmarks.sites_real_ground import AgentHost, Ground, Size, ended, lab, opened, until
from benchmarks.sites_real_seen import differing
from flashferry.core.errors import FlashferryError
from flashferry.core.values import replace
from flashferry.lab.world import World
from flashferry.store.reader import reading
from flashferry.store.stored_run import read_run
from flashferry.store.tables import held_devices

_WITHIN_S = 600.0
_WAITS_MOST_S = 75.0
"""An agent is killed within so long behind the first step of one of its routers: logins, lines of ours that are set,
copies, hashes and lines that are taken back go on beside one another then."""

Configurations = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """An agent's death and what was made good behind it.

    Attributes:
        seed: Repeats it.
        agent: Whose.
        waited_s: Seconds from the first step of one of its routers.
        killed: Processes.
        states: How far its routers were in its journal: how many at each state.
        tuned: Routers that had another configuration than at the start when it was dead.
        changed: Routers of it that have one behind the recovery: none.
        held: Routers that its journal takes for not restored then: none.
        recover_s: What the recovery took.
        exit_code: Of the recovery.
        changed_elsewhere: Routers of the other agents that have another configuration once these have ended: none.
    """

    seed: int
    agent: str
    waited_s: float
    killed: int
    states: dict[str, int]
    tuned: int
    changed: tuple[str, ...]
    held: tuple[str, ...]
    recover_s: float
    exit_code: int
    changed_elsewhere: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether every router is as it was."""
        return not (self.changed or self.held or self.exit_code or self.changed_elsewhere)


def died(ground: Ground, before: Configurations, seed: int) -> Death:
    """Have a run, kill an agent for good in its middle, recover, and return what was seen."""
    dice = random.Random(seed)
    host = dice.choice(ground.hosts)
    waits_s = dice.uniform(0.0, _WAITS_MOST_S)
    plan = ground.plan()
    with ended(ground.stage(plan)) as centre:
        until(lambda: _has_begun(host), f"the part of {host.name} has begun", _WITHIN_S)
        time.sleep(waits_s)
        killed = host.kill(with_runs=True)
        centre.kill()
    return _made_good(host, ground.world, before, Death(
        seed=seed, agent=host.name, waited_s=round(waits_s, 1), killed=killed, states=_states(host), tuned=0,
        changed=(), held=(), recover_s=0.0, exit_code=0,
    ))  # fmt: skip


def _made_good(host: AgentHost, world: World, before: Configurations, death: Death) -> Death:
    """Recover at an agent's host, and return what was found before and behind it."""
    tuned = len(_changed_of(host, world, before))
    began_s = time.monotonic()
    exit_code = host.recover()
    took_s = time.monotonic() - began_s
    with reading(host.state) as journal:
        held = tuple(one.host for one in held_devices(journal)) if journal is not None else ()
    changed = _changed_of(host, world, before)
    return replace(death, tuned=tuned, changed=changed, held=held, recover_s=round(took_s, 1), exit_code=exit_code)


def _changed_of(host: AgentHost, world: World, before: Configurations) -> tuple[str, ...]:
    own = {name: before[name] for name in host.devices}
    return differing(own, configurations(world))


def _has_begun(host: AgentHost) -> bool:
    """Tell whether an agent's run over all its routers, but for a canary, is at work with one of them."""
    with suppress(FlashferryError):
        devices = read_run(host.state, "latest", with_transfers=False).devices
        return len(devices) >= len(host.devices) - 1 and any(one.state != "planned" for one in devices)
    return False


def _states(host: AgentHost) -> dict[str, int]:
    return dict(Counter(one.state for one in read_run(host.state, "latest").devices))


def deaths(size: Size, folder: Path, rounds: int, seed: int) -> list[Death]:
    """Play so many deaths, each with agents, folders and an image of its own, in one lab."""
    found = []
    with lab(size) as world:
        before = configurations(world)
        for number in range(seed, seed + rounds):
            with opened(world, folder / f"death{number}", size) as ground:
                death = died(ground, before, number)
            found.append(replace(death, changed_elsewhere=differing(before, configurations(world))))
            print_progress(f"{found[-1]}")
            for device in world.devices:
                _emptied(world, device.name, ground.image.name)
    return found


def _emptied(world: World, name: str, image: str) -> None:
    """Take an image off a router's flash, for the next round."""
    for file in world.files(name):
        if file.name == image:
            file.path.unlink()
