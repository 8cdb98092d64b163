"""By what a run begins to fetch: history for `auto`, the plan's word, and nothing where nobody asked."""

from __future__ import annotations

import pytest
from nornir.core import Nornir
from nornir.core.inventory import Defaults, Groups, Host, Hosts, Inventory

from flashferry.core.values import replace
from flashferry.model.limits import RetryPolicy
from flashferry.model.policy import StagePolicy
from flashferry.run.make_request import request_for_image
from flashferry.store.history import Expectation, History

POLICY = StagePolicy(retry=RetryPolicy(times=0))


@pytest.fixture
def made(tmp_path, monkeypatch):
    image = tmp_path / "x.bin"
    image.write_bytes(b"an image")
    known = {"r1": "scp", "r2": "http"}

    def fastest(self, host, transports, *, size_bytes):
        names = tuple(transports)
        name = known.get(host)
        return (name, Expectation(bytes_per_s=1e6, source="measured")) if name in names else None

    monkeypatch.setattr(History, "fastest", fastest)

    def make(asked, **data):
        hosts = Hosts()
        for name in ("r1", "r2", "r3"):
            hosts[name] = Host(name=name, hostname=f"192.0.2.{name[1]}", platform="ios", data=dict(data))
        nornir = Nornir(inventory=Inventory(hosts=hosts, groups=Groups(), defaults=Defaults()))
        policy = replace(POLICY, transport=asked)
        return dict(request_for_image(nornir, image, policy, state_directory=tmp_path).transports)

    return make


@pytest.mark.parametrize(
    ("asked", "data", "begins_with"),
    [
        ("usual", {}, {}),
        ("scp", {}, {}),
        ("auto", {}, {"r1": "scp", "r2": "http", "r3": "ftp"}),
        ("auto", {"clear_text": False}, {"r1": "scp", "r2": "scp", "r3": "scp"}),
        ("auto", {"transports": ["sftp", "http"]}, {"r1": "sftp", "r2": "http", "r3": "sftp"}),
    ],
)
def test_auto_begins_with_what_history_knows_to_be_the_fastest(made, asked, data, begins_with):
    """Where it is allowed; else with the first that is."""
    assert made(asked, **data) == begins_with
