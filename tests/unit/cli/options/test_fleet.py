"""The options by which devices are chosen and logged in to."""

from __future__ import annotations

from pathlib import Path

from flashferry.api import FleetOptions
from flashferry.cli.options.fleet import fleet_options
from inventory.selection import Selection


def test_the_verbs_option_reaches_the_fleet(tmp_path):
    """A verb takes `state_dir` itself; the fleet is told too."""
    seen: list[FleetOptions] = []

    @fleet_options
    def verb(which: FleetOptions, state_dir: Path | None = None) -> None:
        assert state_dir == tmp_path
        seen.append(which)

    names = ("host", "group", "filter", "host_keys", "known_hosts", "secrets_command", "transcript")
    verb(
        inventory="sample",
        keyring=False,
        at_depot=False,
        state_dir=tmp_path,
        **dict.fromkeys(names) | {"host": ["r1", "r2"]},
    )
    assert seen[0].state_dir == tmp_path
    assert seen[0].selection == Selection(hosts=("r1", "r2"))
