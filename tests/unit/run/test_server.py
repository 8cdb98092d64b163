"""What a run's server listens for, and where, by what its devices fetch."""

from __future__ import annotations

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.model.policy import ServerPlace, StagePolicy
from flashferry.run import server as module
from flashferry.run.request import RunOptions
from flashferry.run.server import served_for, transports_of
from flashferry.transports import transport_selection
from inventory.transport_policy import ORDER
from tests.unit.run.test_device_plan import HOST
from tests.unit.transports.some_transports import named

ALL = named(*ORDER)


@pytest.fixture(autouse=True)
def all_five(monkeypatch):
    for one in (transport_selection, module):
        monkeypatch.setattr(one, "TRANSPORTS", ALL)


def names(choices):
    return {host: [one.name for one in tried] for host, tried in choices.items()}


DEVICES = (
    HOST,
    replace(HOST, name="r2", transports=("http", "scp")),
    replace(HOST, name="r3", clear_text=False),
)


def test_each_device_goes_by_its_own_policy():
    """And the server listens for those that any of them needs, in the usual order."""
    choices = transports_of(DEVICES, RunOptions())
    assert names(choices) == {"r1": ["ftp"], "r2": ["http"], "r3": ["scp"]}
    assert [one.name for one in served_for(choices)] == ["ftp", "http", "scp"]


def test_a_fleet_without_a_word_on_transports_is_served_as_ever():
    """One listener, as before there was a choice."""
    assert [one.name for one in served_for(transports_of(DEVICES[:1], RunOptions()))] == ["ftp"]


def test_auto_begins_with_what_is_known_to_be_the_fastest():
    """Planned, measured, or used before the run was taken up again."""
    options = RunOptions(policy=StagePolicy(transport="auto"))
    found = names(transports_of(DEVICES, options, first={"r1": "scp", "r3": "ftp"}))
    assert found == {"r1": ["scp", "ftp", "http", "sftp"], "r2": ["http", "scp"], "r3": ["scp", "sftp"]}


def test_the_device_is_named_whose_policy_leaves_none():
    """Before any device is touched."""
    with pytest.raises(ConfigInvalid, match="r2: --transport ftp is not among"):
        transports_of(DEVICES, RunOptions(policy=StagePolicy(transport="ftp")))


def test_a_port_is_that_of_the_listener():
    """SCP and SFTP come to one; the usual port stays FTP's."""
    server = ServerPlace(port=2100, other_ports={"http": 8000, "ssh": 2200})
    assert [server.port_of(one.listener_name) for one in ALL] == [2100, 8000, 2200, None, 2200]
