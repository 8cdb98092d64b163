"""What a run asks of the machine before it begins."""

from __future__ import annotations

import resource

import pytest
from nornir.core import Nornir
from nornir.core.inventory import Defaults, Groups, Host, Hosts, Inventory

from flashferry.run import run
from flashferry.run.request import RunOptions
from flashferry.run.run import run_fleet


@pytest.fixture
def few_files():
    """Have this process at a tight limit on open files, as shells have it, and give back what it had."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    yield before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def routers(count):
    hosts = Hosts({f"r{n}": Host(name=f"r{n}", hostname=f"192.0.2.{n}", platform="ios") for n in range(1, count + 1)})
    return Nornir(inventory=Inventory(hosts=hosts, groups=Groups(), defaults=Defaults()))


def image(folder):
    path = folder / "x.bin"
    path.write_bytes(b"an image")
    return path


def test_a_run_takes_the_open_files_that_it_may(few_files, journal, tmp_path, monkeypatch):
    """A fleet under way needs more than a shell's soft limit; the lack of one would show in the midst of restoring."""
    monkeypatch.setattr(run._Run, "execute", lambda *given: resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    assert run_fleet(routers(1), image(tmp_path), RunOptions(), journal=journal) == few_files


def test_a_run_s_size_decides_on_shared_memory(journal, tmp_path, monkeypatch):
    """Before the first thread of a run allocates, the number of devices decides whether threads share memory."""
    counts = []
    monkeypatch.setattr(run, "share_arenas", counts.append)
    monkeypatch.setattr(run._Run, "execute", lambda *given: list(counts))
    assert run_fleet(routers(3), image(tmp_path), RunOptions(), journal=journal) == [3]
