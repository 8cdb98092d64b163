"""What all tests share: tests of the lab skip with the reason where it cannot run, and fail in CI.

Each test notes whether its file used a process or a thread, which `.ci/again.py` asks: only such a test can be turned
red by a busy machine. docs/testing.md has the stages, the one limit on waiting, and the quarantine.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from flashferry.core.redaction import forget_secrets
from flashferry.lab.authority import Authority
from flashferry.lab.broker import PORT, Broker, broker_tls, missing_broker, running_broker
from flashferry.lab.namespaces import probe
from flashferry.lab.world import World
from tests.house.quarantine import quarantine
from tests.needs import lacking, need_root, skip_lines

# How quickly examples are made up and looked at is this machine's affair, and on a busy one says nothing of us.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# Workers have the width of a terminal that is not there, and commands heed it.
os.environ.pop("COLUMNS", None)

# Started in the background by a shell, a run ignores Ctrl-C, and so would each process that a test starts. A handler of
# Python's is not handed on, so they have the system's default again.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# By this text files with tests of `make soak` are known before they are read.
_MARK = "mark.soak"

_CONCURRENT_EVENTS = frozenset(
    {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "_thread.start_new_thread"}
)
"""Audit events of Python by which a process or a thread is started."""

_ALWAYS_CONCURRENT = ("tests/component/", "tests/e2e/", "tests/adversary/", "tests/contract/")
"""Where tests talk to processes of their own, some of which a fixture of a whole run may have started."""

_concurrent: set[Path] = set()
_running: list[Path] = []


def _audit(event: str, _arguments: tuple[object, ...]) -> None:
    if event in _CONCURRENT_EVENTS and _running:
        _concurrent.add(_running[-1])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--red-list", metavar="FILE", help="write the names of the tests that failed into this file")


def pytest_configure(config: pytest.Config) -> None:
    sys.addaudithook(_audit)
    if "PYTEST_XDIST_WORKER" not in os.environ and config.option.red_list:
        config.pluginmanager.register(_RedList(Path(config.option.red_list)))


class _RedList:
    """Keep the names of failed tests in a file as they fail, so that a run that is ended early leaves them, too."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: set[str] = set()
        path.write_text("", encoding="utf-8")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.nodeid not in self._names:
            self._names.add(report.nodeid)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\n")


@cache
def _quarantined() -> frozenset[str]:
    return frozenset(one.node_id for one in quarantine())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files unread that have nothing for `make soak`: five of six, and each worker reads all."""
    if config.option.markexpr != "soak or quarantined" or collection_path.suffix != ".py":
        return None
    name = collection_path.relative_to(config.rootpath).as_posix()
    is_asked_for = _is_marked(collection_path) or any(one.startswith(f"{name}::") for one in _quarantined())
    return None if is_asked_for else True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    hidden = {item.path for item in items if item.get_closest_marker("soak") is not None and not _is_marked(item.path)}
    if hidden:
        raise pytest.UsageError(f"`{_MARK}` must stand in each file with tests of soak: {sorted(map(str, hidden))}")
    for item in items:
        if item.nodeid in _quarantined():
            item.add_marker(pytest.mark.quarantined)
    yield
    if "PYTEST_XDIST_WORKER" in os.environ:
        items[:] = _spread(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _running.append(item.path)
    try:
        return (yield)
    finally:
        _running.pop()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    is_concurrent = item.path in _concurrent or item.nodeid.startswith(_ALWAYS_CONCURRENT)
    if is_concurrent and ("concurrent", "yes") not in item.user_properties:
        item.user_properties.append(("concurrent", "yes"))


@cache
def _is_marked(path: Path) -> bool:
    return _MARK in path.read_text(encoding="utf-8")


def _spread(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return tests in an order in which those that mostly wait stand evenly among the others' files.

    Side by side, as their files are, they would have every worker wait at once, behind a time in which no processor was
    free. Each of them has a world of its own, so they may stand anywhere; what a file's tests share stays together, and
    so do those that read all of the product's files: it is one worker that takes them apart.
    """
    waiting = [item for item in items if item.path.parent.name == "e2e" and item.get_closest_marker("soak") is None]
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
    if item.get_closest_marker("lab") is None:
        return
    need_root("the lab's network namespaces")
    able = probe()
    if not able.may_run:
        lacking(able.reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in skip_lines(terminalreporter.stats.get("skipped", ())):
        terminalreporter.write_line(line)


@pytest.fixture
def new_redis_server(tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """Return what starts a real Redis that ends with the test: `world=` in its core, `tls=True` with certificates."""
    if reason := missing_broker():
        lacking(reason)
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
        module._CliState.state_dir = None
