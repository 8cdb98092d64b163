"""Where known host keys are kept where a state folder is given."""

from __future__ import annotations

from pathlib import Path

from flashferry.fleet import FleetOptions, fleet_options, opened
from inventory.access import key_rules


def test_known_hosts_are_in_the_given_state_folder(tmp_path):
    """`--state-dir` moves them with all other state; what --known-hosts or the inventory says goes before."""
    (tmp_path / "hosts.yaml").write_text("r1: {hostname: 192.0.2.1}\nr2: {data: {known_hosts: /own/file}}\n")
    state = tmp_path / "state"

    def files(**more: Path) -> list[Path]:
        nornir = opened(FleetOptions(inventory=str(tmp_path), state_dir=state, **more))
        return [key_rules(host).known_hosts for host in nornir.inventory.hosts.values()]

    assert files() == [state / "known_hosts", Path("/own/file")]
    assert files(known_hosts=tmp_path / "given") == [tmp_path / "given"] * 2


def test_the_verbs_option_reaches_the_fleet(tmp_path):
    """A verb takes `state_dir` itself; the fleet is told too."""
    seen: list[FleetOptions] = []

    @fleet_options
    def verb(which: FleetOptions, state_dir: Path | None = None) -> None:
        assert state_dir == tmp_path
        seen.append(which)

    names = ("host", "group", "filter", "host_keys", "known_hosts", "secrets_command")
    verb(inventory="sample", keyring=False, state_dir=tmp_path, **dict.fromkeys(names))
    assert seen[0].state_dir == tmp_path
