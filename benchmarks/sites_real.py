"""Sites by REAL agents: 1,000 stand-in routers at 50 sites under 5 agents, by a real Redis; needs root and TUN.

    python -m benchmarks.sites_real                                  # the calm run
    python -m benchmarks.sites_real --hardships                      # and what is done to it in its middle
    python -m benchmarks.sites_real --deaths 5 --routers 40 --sites 4 --agents 2
    python -m benchmarks.sites_real --update-docs                    # puts the tables into docs/sites.md

All is the product as it is typed: `flashferry sites agent` on five hosts of the lab, each with state folder, inventory
and catalogue of its own, in a network namespace of its own; the centre's `depot`, `plan` and `stage --plan --sites`
in the core. Routers are the lab's stand-ins (SSH by asyncssh, a process for each agent's). Copies wait for the sites'
lines, which are slow by the inventory.

With `--hardships` one agent is killed -9 and started again, another one with its run, the broker is away for 15 s, and
one agent's line is cut for three minutes. `--deaths N` has N times an agent killed -9 for good with its run, at a
random moment, and recovers at its host. The exit code is 1 where anything is not as it must be.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.fleet_ground import FlashWatch, configurations
from benchmarks.report import conditions, print_progress
from benchmarks.sites_broker import redis_is_here
from benchmarks.sites_real_deaths import Death, deaths
from benchmarks.sites_real_ground import Ground, Size, ended, lab, opened
from benchmarks.sites_real_hardships import Hardships, steps_of
from benchmarks.sites_real_seen import Figures, Watch, looked_at, most_share, share, targets, told, while_copying
from benchmarks.sites_real_tables import to_markdown
from flashferry.lab.experiment.harness import put

RESULTS = Path(__file__).with_name("results") / "sites_real.json"
DOCUMENT = Path(__file__).parents[1] / "docs" / "sites.md"
_LOOK_S = 0.5


def measured(size: Size, folder: Path, *, hardships: bool) -> Figures:
    """Play a run, and return what was seen of it."""
    with lab(size) as world:
        print_progress(f"{len(world.devices)} stand-ins are up")
        before = configurations(world)
        with opened(world, folder, size) as ground, FlashWatch(world, ground.image, look_s=_LOOK_S) as flash:
            return _watched(ground, flash, before, hardships=hardships)


def _watched(
    ground: Ground, flash: FlashWatch, before: Mapping[str, tuple[str, ...]], *, hardships: bool
) -> Figures:  # fmt: skip
    plan = ground.plan()
    print_progress("agents are started, the plan is made")
    troubles = Hardships(routers=ground.size.routers, left=steps_of(ground) if hardships else [])
    with ended(ground.stage(plan)) as centre:
        watch = Watch(ground, flash, centre)
        run_s = watch.look(troubles.look)
    time.sleep(2 * _LOOK_S)
    if centre.returncode:
        print_progress((ground.centre / "out.log").read_text()[-3000:])
    samples, size = while_copying(watch.samples, ground.size.routers), ground.size
    return Figures(
        agents_are="real: flashferry sites agent, on stand-in routers",
        routers=size.routers,
        sites=size.sites,
        agents=size.agents,
        image_bytes=size.image_bytes,
        run_s=round(run_s, 1),
        copying_s=round(samples[-1].at_s - samples[0].at_s, 1) if samples else 0.0,
        most_copying=max(one.copying for one in watch.samples),
        centre_share=share(samples, lambda one: one.centre_s),
        centre_share_run=share(watch.samples, lambda one: one.centre_s),
        centre_most_share=most_share(samples, lambda one: one.centre_s),
        centre_rss_bytes=watch.centre_rss_bytes,
        redis_share=share(samples, lambda one: one.redis_s),
        agent_share=round(share(samples, lambda one: one.agents_s) / size.agents, 4),
        busy_cores=share(samples, lambda one: one.busy_s),
        told=told(ground.state),
        seen=looked_at(flash, before, configurations(ground.world)),
        hardships=tuple(troubles.done),
        exit_code=centre.returncode,
    )


def _options() -> argparse.Namespace:
    usual = Size()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--routers", type=int, default=usual.routers)
    parser.add_argument("--sites", type=int, default=usual.sites, help="of the inventory")
    parser.add_argument("--agents", type=int, default=usual.agents)
    parser.add_argument("--image-kb", type=int, default=usual.image_bytes // 1000)
    parser.add_argument("--logins", type=int, default=usual.logins, help="logins at once at each agent")
    parser.add_argument("--hardships", action="store_true")
    parser.add_argument("--deaths", type=int, default=0, help="in place of a run: so many agents that die for good")
    parser.add_argument("--seed", type=int, default=1, help="of the first death; each has the next")
    parser.add_argument("--folder", type=Path, help="a new folder for all hosts' folders, kept (default: none is)")
    parser.add_argument("--keep", action="store_true", help=f"keep the figures in {RESULTS.name}")
    parser.add_argument("--update-docs", action="store_true", help=f"the same, and put the tables into {DOCUMENT.name}")
    return parser.parse_args()


def _size(given: argparse.Namespace) -> Size:
    return Size(
        routers=given.routers,
        sites=given.sites,
        agents=given.agents,
        image_bytes=given.image_kb * 1000,
        logins=given.logins,
    )


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        kept.mkdir()
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="flashferry-") as name:
        yield Path(name)


def played(given: argparse.Namespace, folder: Path) -> tuple[str, dict[str, Any], bool]:
    """Play what was asked for; return its name, its figures, and whether all is as it must be."""
    size = _size(given)
    if given.deaths:
        rounds: list[Death] = deaths(size, folder, given.deaths, given.seed)
        figures = {"size": asdict(size), "rounds": [asdict(one) for one in rounds]}
        return "deaths", figures, all(one.is_good for one in rounds)
    found = measured(size, folder / "run", hardships=given.hardships)
    held = targets(found)
    for one in held:
        print(f"{'ok' if one.met else 'MISSED'}: {one.text}: {one.found}")
    return "hardships" if given.hardships else "calm", asdict(found), all(one.met for one in held)


def main() -> int:
    """Play, print, keep where that is asked for, and judge."""
    given = _options()
    if not redis_is_here():
        print("expected redis-server, found none: it is in the distribution's package of that name")
        return 1
    started_s, before = time.monotonic(), conditions(" ".join(sys.orig_argv[1:]))
    with _folder(given.folder) as folder:
        name, figures, is_good = played(given, folder)
    part = figures | before | {"took_s": round(time.monotonic() - started_s)}
    print(json.dumps(part, indent=1))
    if given.keep or given.update_docs:
        kept: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        kept |= {"schema": "flashferry.benchmarks.sites_real/1", name: part}
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
        if given.update_docs:
            put(DOCUMENT, "sites_real", to_markdown(kept))
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
