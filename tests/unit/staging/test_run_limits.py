"""What a run asks of the machine before it begins."""

from __future__ import annotations

import resource

import pytest
from nornir.core import Nornir
from nornir.core.inventory import Defaults, Groups, Host, Hosts, Inventory

from staging import run
from staging.run import RunOptions, run_fleet


@pytest.fixture
def few_files():
    """Have this process at a tight limit on open files, as shells have it, and give back what it had."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    yield before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_run_takes_the_open_files_that_it_may(few_files, journal, tmp_path, monkeypatch):
    """A fleet under way needs more than a shell's soft limit; the lack of one would show in the midst of restoring."""
    monkeypatch.setattr(run._Run, "through", lambda *given: resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    image = tmp_path / "x.bin"
    image.write_bytes(b"an image")
    hosts = Hosts({"r1": Host(name="r1", hostname="192.0.2.1", platform="ios")})
    nornir = Nornir(inventory=Inventory(hosts=hosts, groups=Groups(), defaults=Defaults()))
    assert run_fleet(nornir, image, RunOptions(), journal=journal) == few_files
