"""What all tests share: tests of the lab skip with the reason where it cannot run, and fail in CI.

A test marked `clocked` holds a rate or a delay against a figure, on links that this machine emulates. Where the
machine's processors were taken away from it meanwhile, a failure says nothing: then, and only then, the test is run
again, at most twice. The other workers of a whole run count as taking them, too.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Self

import pytest
from hypothesis import HealthCheck, settings

from flashferry.core.outside import forget_secrets
from flashferry.lab.authority import Authority
from flashferry.lab.broker import PORT, Broker, broker_tls, missing_broker, running_broker
from flashferry.lab.namespaces import probe
from flashferry.lab.world import World

# Of the processors' time, what the host of a virtual machine took; of all time, that in which somebody waited for one.
# Beside the workers of a whole run the second is reached (0.66 with four on two processors), so that a clocked test has
# its further tries there; by itself on a calm machine it has none.
_STARVED_STOLEN = 0.02
_STARVED_WAITING = 0.5


@dataclass(frozen=True)
class _Lost:
    """What processes of this machine had to do without, since it was started.

    Attributes:
        at_s: When this was read, by the clock that never goes back.
        stolen_s: Time of a processor that the host gave to others, over all processors (proc(5), /proc/stat, steal).
        waiting_s: Time in which some process could run and had no processor (Documentation/accounting/psi.rst).
    """

    at_s: float
    stolen_s: float
    waiting_s: float

    @classmethod
    def now(cls) -> Self:
        ticks = Path("/proc/stat").read_text().splitlines()[0].split()
        try:
            waiting_us = int(Path("/proc/pressure/cpu").read_text().splitlines()[0].rpartition("=")[2])
        except OSError:
            waiting_us = 0  # a kernel without PSI
        return cls(time.monotonic(), int(ticks[8]) / os.sysconf("SC_CLK_TCK"), waiting_us / 1e6)


# How quickly examples are made up and looked at is this machine's affair, and on a busy one says nothing of us.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# Workers have the width of a terminal that is not there, and commands heed it.
os.environ.pop("COLUMNS", None)

# By this text files with long tests are known before they are read.
_SAYS_LONG = "mark.long"

_BEGUN = pytest.StashKey[_Lost]()


def _was_starved(item: pytest.Item) -> bool:
    """Tell whether this machine was kept from its work, since a test began, more than a clocked test allows for."""
    since, now = item.stash[_BEGUN], _Lost.now()
    past_s = now.at_s - since.at_s
    stolen = (now.stolen_s - since.stolen_s) / (past_s * (os.cpu_count() or 1))
    waiting = (now.waiting_s - since.waiting_s) / past_s
    return stolen > _STARVED_STOLEN or waiting > _STARVED_WAITING


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files without a long test unread where only those are asked for: five of six, and each worker reads all."""
    if config.option.markexpr != "long" or collection_path.suffix != ".py":
        return None
    return None if _says_long(collection_path) else True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    hidden = {item.path for item in items if item.get_closest_marker("long") is not None and not _says_long(item.path)}
    if hidden:
        raise pytest.UsageError(f"`{_SAYS_LONG}` must stand in each file with long tests: {sorted(map(str, hidden))}")
    yield
    if "PYTEST_XDIST_WORKER" in os.environ:
        items[:] = _spread(items)
    for item in items:
        if item.get_closest_marker("clocked") is not None:
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=2, condition=partial(_was_starved, item)))


@cache
def _says_long(path: Path) -> bool:
    return _SAYS_LONG in path.read_text(encoding="utf-8")


def _spread(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return tests in an order in which those that mostly wait stand evenly among the others' files.

    Side by side, as their files are, they would have every worker wait at once, behind a time in which no processor was
    free. Each of them has a world of its own, so they may stand anywhere; what a file's tests share stays together, and
    so do those that read all of the product's files: it is one worker that takes them apart.
    """
    waiting = [item for item in items if item.path.parent.name == "e2e" and item.get_closest_marker("long") is None]
    moved = set(waiting)
    others = [item for item in items if item not in moved]
    places = [(number / len(waiting), [item]) for number, item in enumerate(waiting)]
    number = 0
    reading = [item for item in others if _reads_the_product(item)]
    others = [*reading, *(item for item in others if not _reads_the_product(item))]
    for _, one_file in groupby(others, key=lambda item: not _reads_the_product(item) and item.path):
        together = list(one_file)
        places.append((number / len(others), together))
        number += len(together)
    return [item for _, together in sorted(places, key=lambda one: one[0]) for item in together]


def _reads_the_product(item: pytest.Item) -> bool:
    names = vars(getattr(item, "module", None) or object).values()
    return any(str(getattr(one, "__module__", "")).startswith("tests.house.") for one in names)


def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_BEGUN] = _Lost.now()
    if item.get_closest_marker("lab") is None:
        return
    able = probe()
    if not able.may_run:
        if os.environ.get("CI") == "true":
            pytest.fail(f"The lab must run in CI. {able.reason}")
        pytest.skip(able.reason)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close the sockets by which workers count further tries: their plugin leaves them open, and Python warns of it."""
    counting = getattr(getattr(config, "failures_db", None), "sock", None)
    if counting is not None:
        counting.close()


@pytest.fixture
def new_redis_server(tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """Return what starts a real Redis that ends with the test: `world=` in its core, `tls=True` with certificates."""
    if reason := missing_broker():
        if os.environ.get("CI") == "true":
            pytest.fail(f"Redis must run in CI. {reason}")
        pytest.skip(reason)
    with ExitStack() as stack:

        def start(*, world: World | None = None, tls: bool = False, name: str = "redis") -> Broker:
            address = "127.0.0.1" if world is None else world.server_address
            broker = Broker(
                folder=tmp_path / name,
                address=address,
                port=0 if world is None else PORT,
                namespace_pid=None if world is None else world.core_pid,
                tls=broker_tls(Authority("Lab sites"), tmp_path / f"{name}-tls", address) if tls else None,
            )
            return stack.enter_context(running_broker(broker))

        yield start


@pytest.fixture
def redis_server(new_redis_server: Callable[..., Broker]) -> Broker:
    """Return a real Redis on loopback, with a password and an append-only file; `kill9()` it, `start()` it again."""
    return new_redis_server()


@pytest.fixture
def documentation() -> Callable[[str], str]:
    """Return a function that reads a page of docs/; tests away from the checkout have none and skip."""

    def page(name: str) -> str:
        path = Path(__file__).resolve().parent.parent / "docs" / name
        if not path.is_file():
            pytest.skip("the tests run away from the checkout, without docs")
        return path.read_text()

    return page


@pytest.fixture(autouse=True)
def _no_secret_of_another_test() -> Iterator[None]:
    """Forget at the end what a test had masked: in life a process has one command, and its secrets."""
    yield
    forget_secrets()
    # What a command has taken out of the environment.
    if (module := sys.modules.get("flashferry.api.fleet")) is not None:
        module._TAKEN.clear()
    # Which state folder it was given, for the commands that its sentences name.
    if (module := sys.modules.get("flashferry.cli.terminal.output")) is not None:
        module._Given.state_dir = None
