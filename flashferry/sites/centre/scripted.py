"""Stage devices at their sites for a script, and wait for the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from flashferry.model.record import DeviceRecord
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
