"""Offer a Nornir runner whose tasks are carried out by agents: `nr.run(task=stage_at_site, plan="plan.json")`.

Only allowed tasks are sent: of their arguments, only the plan's digest and the hosts' names leave this host, no
function and no credential. An agent logs in by its own inventory. Other tasks are refused. Processors,
`AggregatedResult` and `failed_hosts` work as usual, but processors see a device's start only just before its end;
`flashferry sites follow` shows progress.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from nornir.core.inventory import Host
from nornir.core.task import AggregatedResult, Result, Task

from flashferry.api.fleet_options import state_folder
from flashferry.core.errors import ConfigInvalid
from flashferry.model.record import DeviceRecord
from flashferry.model.states import GOOD_OUTCOMES, Restored
from flashferry.monitor.events import Event
from flashferry.sites.centre.centre import open_centre
from flashferry.sites.centre.following import Follower
from flashferry.sites.centre.merging import merged, run_report
from flashferry.sites.centre.plans import read_plan_file
from flashferry.sites.centre.settings import load_centre
from flashferry.sites.centre.sharing import shares
from flashferry.store.control_requests import Asker


def stage_at_sites(
    plan: Path, hosts: frozenset[str], *, sites: Path, state: Path, asker: Asker, say: Callable[[str], None]
) -> Mapping[str, DeviceRecord]:
    """Have devices staged by a plan, and return their records after all sites have ended.

    Args:
        plan: The plan's file.
        hosts: The devices.
        sites: The centre's settings, `sites.toml`.
        state: The state folder with the ledger.
        asker: The requester.
        say: Shows sentences.

    Raises:
        ConfigInvalid: A site cannot get its part; nothing was sent.
        BrokerUnreachable: The broker is unreachable; nothing was sent.
    """
    read, settings = read_plan_file(plan), load_centre(sites)
    found = shares(read.plan, settings, only=hosts)
    with open_centre(settings, state) as centre:
        run = centre.run_named(centre.begin(read, found, asker))
        Follower(centre, run, asker).follow(_EventText(say))
        report = run_report(merged(centre.ledger, centre.run_named(run.run)))
    return {record.host: record for record in report.devices}


class _EventText:
    """Show a run's events to a script as sentences."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def __call__(self, event: Event) -> None:
        """Show an event that is not a device's; its record has more."""
        if event.host is None and event.text:
            self._say(f"{event.step}: {event.text}")

    def say(self, text: str) -> None:
        """Show a sentence."""
        self._say(text)


def stage_at_site(task: Task, plan: Path | str) -> Result:
    """Nornir task: have a device staged by the agent of its site; its result is a DeviceRecord.

    Args:
        task: Nornir's.
        plan: The file of an approved plan that stages the device.

    Raises:
        ConfigInvalid: The runner is not `sites`.
    """
    raise ConfigInvalid(
        f"stage_at_site: expected the runner 'sites' to take it with {plan}, found another",
        host=task.host.name,
        hint="Call nr.with_runner(SiteRunner(sites=...)).run(task=stage_at_site, plan=...)",
    )


class SiteRunner:
    """Nornir runner plugin `sites`.

    Args:
        sites: The centre's settings, `sites.toml`.
        state: The state folder with the ledger; None: the command line's default.
        say: Shows sentences; None: they are dropped.
        actor: The requester's name; empty: none.
    """

    def __init__(
        self,
        sites: Path | str,
        state: Path | str | None = None,
        say: Callable[[str], None] | None = None,
        actor: str = "",
    ) -> None:
        self._sites, self._state, self._say = Path(sites), state, say or _nothing
        self._asker = Asker(actor=actor, via="script")

    def run(self, task: Task, hosts: list[Host]) -> AggregatedResult:
        """Have hosts' sites carry out a task, and return the result of each host.

        Raises:
            ConfigInvalid: The task is not allowed, or a site cannot get its part; nothing was sent.
            BrokerUnreachable: The broker is unreachable; nothing was sent.
        """
        if (job := JOBS.get(task.task)) is None:
            name = getattr(task.task, "__name__", "another")
            raise ConfigInvalid(
                f"runner 'sites': expected {' or '.join(one.__name__ for one in JOBS)}, found {name}",
                hint="Tasks of your own run on this host: give them to another runner, such as 'threaded'",
            )
        records = job(self, frozenset(host.name for host in hosts), **task.params)
        found = AggregatedResult(task.name)
        for host in hosts:
            found[host.name] = _returning_record(task, records).start(host)
        return found

    def stage(self, hosts: frozenset[str], plan: Path | str) -> Mapping[str, DeviceRecord]:
        """Have devices staged by a plan, and return their records after all sites have ended; errors as in `run`."""
        state = state_folder(self._state)
        return stage_at_sites(Path(plan), hosts, sites=self._sites, state=state, asker=self._asker, say=self._say)


JOBS: Mapping[Callable[..., Any], Callable[..., Mapping[str, DeviceRecord]]] = {stage_at_site: SiteRunner.stage}
"""Allowed tasks, and the methods that carry them out."""


def _returning_record(task: Task, records: Mapping[str, DeviceRecord]) -> Task:
    """Return a task that returns a host's record, with the name and processors of another task."""
    return Task(
        partial(_record_of, records=records),
        task.nornir,
        global_dry_run=task.global_dry_run,
        processors=task.processors,
        name=task.name,
        severity_level=task.severity_level,
    )


def _record_of(task: Task, records: Mapping[str, DeviceRecord]) -> Result:
    assert task.host is not None
    if (record := records.get(task.host.name)) is None:
        why = f"{task.host.name}: expected it in the plan, found it in none"
        return Result(host=task.host, result=why, failed=True)
    return Result(
        host=task.host,
        result=record,
        changed=record.restored is not Restored.UNTOUCHED,
        failed=record.outcome not in GOOD_OUTCOMES,
    )


def _nothing(text: str) -> None:
    """Drop a sentence."""
