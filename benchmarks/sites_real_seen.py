"""What is seen of a run by real agents, from outside: processor time, flash, configurations, and the centre's ledger.

What became of routers is not believed to anybody: whole images are counted on the stand-ins' own flash, and their
configurations are held against those of the start. The ledger is held against that.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.fleet_ground import FlashWatch
from benchmarks.fleet_watch import own_cpu_s
from benchmarks.procfs import busy_s, cpu_s, rss_bytes
from benchmarks.sites_real_ground import Ground
from benchmarks.summary import Target
from flashferry.store.sites.database import FILE

BOUND = 0.10
"""Of a core: the centre takes no more while the routers copy."""
_COPYING_SHARE, _LEAST_COPYING = 0.01, 2.0
_STRETCH_S = 30.0
_EVERY_S = 1.0
_GOOD = {("done", "restored"), ("already there", "untouched")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What was seen at a moment.

    Attributes:
        at_s: By the monotonic clock.
        centre_s: Processor time of the centre's command so far.
        redis_s: The same of the broker, since it was started last.
        agents_s: The same of all agents that live, their runs left out.
        busy_s: Of all processors together, with anything.
        copying: Routers that hold a part of the image.
        whole: Routers that hold all of it.
    """

    at_s: float
    centre_s: float
    redis_s: float
    agents_s: float
    busy_s: float
    copying: int
    whole: int


def spent_s(values: Sequence[float]) -> float:
    """Return by how much a counter grew that begins anew where its process does."""
    return sum(max(0.0, later - earlier) for earlier, later in pairwise(values))


def while_copying(samples: Sequence[Sample], routers: int) -> Sequence[Sample]:
    """Return the samples from the first to the last in which a hundredth of the routers, two at least, copied."""
    least = max(_LEAST_COPYING, routers * _COPYING_SHARE)
    places = [place for place, one in enumerate(samples) if one.copying >= least]
    return samples[places[0] : places[-1] + 1] if places else ()


def share(samples: Sequence[Sample], of: Callable[[Sample], float]) -> float:
    """Return how much of a core something took over some samples; 0 over less than two."""
    if len(samples) < 2:
        return 0.0
    return round(spent_s([of(one) for one in samples]) / (samples[-1].at_s - samples[0].at_s), 4)


def most_share(samples: Sequence[Sample], of: Callable[[Sample], float], stretch_s: float = _STRETCH_S) -> float:
    """Return the most that something took of a core over any stretch of so many seconds; of all where that is less."""
    stretches = [_stretch(samples[begin:], stretch_s) for begin in range(len(samples))]
    return max((share(one, of) for one in stretches if one), default=share(samples, of))


def _stretch(samples: Sequence[Sample], stretch_s: float) -> Sequence[Sample]:
    """Return the first samples, as far as they span so many seconds; none where they do not."""
    ends = (place for place, one in enumerate(samples) if one.at_s - samples[0].at_s >= stretch_s)
    return samples[: next(ends, -1) + 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the centre's ledger says at the end.

    Attributes:
        devices: Devices of its run.
        bad: Those whose record is missing, or is not that of a router that was staged and restored.
        held: Those that it takes for not restored.
        words: Words that it took, repeats left out.
        events: Lines of events.
        size_bytes: The file.
    """

    devices: int
    bad: tuple[str, ...]
    held: tuple[str, ...]
    words: int
    events: int
    size_bytes: int


def told(state: Path) -> Told:
    """Read the centre's ledger of its only run."""
    path = state / FILE
    with closing(sqlite3.connect(path, timeout=30)) as ledger:
        rows = ledger.execute("SELECT host, record, is_held FROM devices").fetchall()
        (words,) = ledger.execute("SELECT SUM(whole) FROM parts").fetchone()
        (events,) = ledger.execute("SELECT COUNT(*) FROM events").fetchone()
    return Told(
        devices=len(rows),
        bad=tuple(host for host, record, _ in rows if not is_good(record)),
        held=tuple(host for host, _, is_held in rows if is_held),
        words=words or 0,
        events=events,
        size_bytes=path.stat().st_size,
    )


def is_good(record: str | None) -> bool:
    """Tell whether a record is that of a router that was staged and is as it was."""
    values = json.loads(record or "{}")
    return (values.get("outcome"), values.get("restored")) in _GOOD


@dataclass(frozen=True, slots=True, kw_only=True)
class Routers:
    """What the stand-ins themselves show at the end.

    Attributes:
        left_out: Those that do not hold the image, byte for byte.
        twice: Those whose file became whole more than once.
        changed: Those whose configuration, running or startup, is another one than at the start.
        begun: Copies that began, those that broke included.
    """

    left_out: tuple[str, ...]
    twice: tuple[str, ...]
    changed: tuple[str, ...]
    begun: int


def looked_at(
    flash: FlashWatch, before: Mapping[str, tuple[str, ...]], after: Mapping[str, tuple[str, ...]]
) -> Routers:  # fmt: skip
    """Hold flash and configurations against what they must be."""
    return Routers(
        left_out=tuple(flash.wrong()),
        twice=tuple(host for host, count in flash.whole().items() if count > 1),
        changed=differing(before, after),
        begun=flash.begun(),
    )


def differing(before: Mapping[str, tuple[str, ...]], after: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the routers whose configuration is another one."""
    return tuple(name for name, lines in before.items() if after.get(name) != lines)


class Watch:
    """Looks at a run once a second until its command ends.

    Args:
        ground: What runs.
        flash: The routers' flash.
        centre: The centre's command.
    """

    def __init__(self, ground: Ground, flash: FlashWatch, centre: subprocess.Popen[bytes]) -> None:
        self._ground, self._flash, self._centre = ground, flash, centre
        self._cpus = frozenset(range(os.cpu_count() or 1))
        self.samples: list[Sample] = []
        self.centre_rss_bytes = 0

    def look(self, also: Callable[[Sample], None]) -> float:
        """Look until the command has ended, and do something else each time; return how long that was, in seconds."""
        began_s = time.monotonic()
        while self._centre.poll() is None:
            with suppress(FileNotFoundError, ProcessLookupError):
                self.samples.append(self._sample())
                self.centre_rss_bytes = max(self.centre_rss_bytes, rss_bytes(self._centre.pid))
                also(self.samples[-1])
            time.sleep(_EVERY_S)
        return time.monotonic() - began_s

    def _sample(self) -> Sample:
        copying, whole = self._flash.stand()
        agents = [host.process.pid for host in self._ground.hosts if host.process is not None]
        return Sample(
            at_s=time.monotonic(),
            centre_s=cpu_s(self._centre.pid),
            redis_s=_own_s(self._ground.redis.pid),
            agents_s=sum(map(_own_s, agents)),
            busy_s=busy_s(self._cpus),
            copying=copying,
            whole=whole,
        )


def _own_s(pid: int) -> float:
    """Return a process's own processor time; 0 of one that is gone."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return own_cpu_s(pid)
    return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was seen of a run.

    Attributes:
        agents_are: What the agents were.
        routers: Stand-ins.
        sites: Sites of the inventory.
        agents: Agents.
        image_bytes: Of the image.
        run_s: Of the centre's command, from start to end.
        copying_s: From the first to the last moment at which a hundredth of the routers, two at least, copied.
        most_copying: Routers that copied at the same time at most.
        centre_share: What the centre took of a core meanwhile.
        centre_share_run: The same over the whole command.
        centre_most_share: The same over the worst half a minute.
        centre_rss_bytes: Its most memory.
        redis_share: What the broker took of a core, while routers copied.
        agent_share: What an agent took, the mean of all, without its runs, while routers copied.
        busy_cores: Processors that were busy with anything, stand-ins and runs included, while routers copied.
        told: The ledger at the end.
        seen: The routers at the end.
        hardships: What was done to it, with the second of the run.
        exit_code: Of the centre's command.
    """

    agents_are: str
    routers: int
    sites: int
    agents: int
    image_bytes: int
    run_s: float
    copying_s: float
    most_copying: int
    centre_share: float
    centre_share_run: float
    centre_most_share: float
    centre_rss_bytes: int
    redis_share: float
    agent_share: float
    busy_cores: float
    told: Told
    seen: Routers
    hardships: tuple[str, ...]
    exit_code: int


def targets(found: Figures) -> list[Target]:
    """Return what has to hold of a run."""
    seen, ledger = found.seen, found.told
    rows = [
        (f"centre at most {BOUND:.0%} of a core while they copy", f"{found.centre_share:.1%}", None),
        ("routers left out, by their flash", names(seen.left_out), seen.left_out),
        ("routers staged twice, by their flash", names(seen.twice), seen.twice),
        ("routers with another configuration than at the start", names(seen.changed), seen.changed),
        ("records missing, or of a router that is not staged and restored", names(ledger.bad), ledger.bad),
        ("routers that the centre takes for not restored", names(ledger.held), ledger.held),
    ]
    held = [Target(text=text, found=shown, met=not bad if bad is not None else None) for text, shown, bad in rows]
    held[0] = Target(text=held[0].text, found=held[0].found, met=found.centre_share <= BOUND)
    records = f"{ledger.devices - len(ledger.bad):,} of {found.routers:,}"
    whole = Target(text="records at the centre", found=records, met=ledger.devices == found.routers and not ledger.bad)
    code = Target(text="exit code of the centre's command", found=str(found.exit_code), met=found.exit_code == 0)
    return [*held, whole, code]


def names(those: Sequence[str], most: int = 5) -> str:
    """Return how many there are, and the first of them."""
    if not those:
        return "0"
    shown = ", ".join(those[:most]) + (", ..." if len(those) > most else "")
    return f"{len(those)} ({shown})"
