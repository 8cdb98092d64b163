"""Worlds come and go without a trace."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import pytest

from flashferry.lab.enter import inside
from flashferry.lab.errors import LabError
from flashferry.lab.namespaces import in_namespace, open_namespace
from flashferry.lab.world import DeviceSpec, SiteSpec, WorldSpec, in_core, start_world
from tests.patience import killed_at_end, until

pytestmark = [pytest.mark.lab, pytest.mark.soak]

LAN = WorldSpec(profile="lan")


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _gone(*pids: int) -> bool:
    return until(lambda: not any(map(_is_alive, pids)), "the end of the processes")


def _namespace() -> Path:
    return Path("/proc/thread-self/ns/net").readlink()


def _namespaces_in_use() -> set[str]:
    """Return the network namespaces that a process is in; one without any, and without a file, is gone."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/ns/net"):
        with contextlib.suppress(OSError):
            found.add(str(path.readlink()))
    return found


def _descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_stopped_world_leaves_nothing() -> None:
    """After the with block its processes, namespace and directory are gone, and no descriptor stays open."""
    descriptors, others = _descriptors(), set(_children(os.getpid()))
    with start_world(LAN) as world:
        helpers = set(_children(os.getpid())) - others
        directory = world.directory
        assert len(helpers) == 2
    assert _gone(*helpers)
    assert not directory.exists()
    assert _descriptors() == descriptors


def test_a_killed_owner_takes_its_world_along() -> None:
    """After kill -9 of the owner its helpers and namespaces end and its directory goes, without anybody's help."""
    script = textwrap.dedent("""
        import time
        from flashferry.lab.world import WorldSpec, start_world
        with start_world(WorldSpec(profile="lan")) as world:
            print(world.core_pid, world.directory, flush=True)
            time.sleep(600)
    """)
    with killed_at_end(subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)) as owner:
        core_pid, directory = owner.stdout.readline().split()
        helpers = _children(owner.pid)
        namespaces = {str(Path(f"/proc/{pid}/ns/net").readlink()) for pid in helpers}
        owner.send_signal(signal.SIGKILL)
    assert int(core_pid) in helpers
    assert len(helpers) == 2
    assert len(namespaces) == 2
    assert _gone(*helpers)
    assert not namespaces & _namespaces_in_use()
    until(lambda: not Path(directory).exists(), "the end of its files")


def test_a_world_outlives_the_thread_that_started_it() -> None:
    """A world started in a passing thread lives as long as its process: no signal at the thread's end."""
    import threading

    with contextlib.ExitStack() as stack:
        worlds: list[Any] = []
        thread = threading.Thread(target=lambda: worlds.append(stack.enter_context(start_world(LAN))))
        thread.start()
        thread.join()
        assert "hostname r1" in worlds[0].running_config("r1")
        assert worlds[0].link_counters()["refused_packets"] == 0


def test_leftovers_of_the_dead_are_swept() -> None:
    """The next start removes a directory whose owner is gone, and no other."""
    dead = Path(tempfile.mkdtemp(prefix="flashferry-lab-4194999-1-"))
    foreign = Path(tempfile.mkdtemp(prefix="flashferry-lab-notes"))
    try:
        with start_world(LAN):
            assert not dead.exists()
            assert foreign.exists()
    finally:
        foreign.rmdir()


def test_the_core_is_apart_and_leaks_nothing() -> None:
    """The core has no way out but the link; the calling thread is back home afterwards."""
    home = _namespace()
    with start_world(LAN) as world:
        with in_core(world):
            assert _namespace() != home
            with socket.socket() as client, pytest.raises(OSError, match="unreachable"):
                client.connect(("192.0.2.1", 80))
        assert _namespace() == home


def test_devices_are_apart() -> None:
    """Two devices have configurations, names and files of their own, and their own first lines."""
    spec = WorldSpec(
        profile="lan",
        devices=(DeviceSpec(name="east", config_lines=("ip tcp window-size 65535",)), DeviceSpec(name="west")),
    )
    with start_world(spec) as world:
        assert [device.address for device in world.devices] == ["198.18.1.11", "198.18.1.12"]
        assert "ip tcp window-size 65535" in world.startup_config("east")
        assert "ip tcp" not in world.running_config("west")
        with pytest.raises(LabError, match=r"'north'.*east, west"):
            world.running_config("north")
        with pytest.raises(LabError, match=r"'typo'.*flip_byte"):
            world.fault("east", typo=True)


def test_enter_runs_a_command_in_the_core() -> None:
    """`python -m flashferry.lab.enter PID -- CMD` runs CMD where the server is, and hands its exit code on."""
    code = "import socket; socket.create_server(('198.18.0.1', 0)); raise SystemExit(7)"
    with start_world(LAN) as world:
        command = [*inside(world.core_pid), sys.executable, "-c", code]
        assert subprocess.run(command, check=False).returncode == 7
    gone = subprocess.run(command, check=False, capture_output=True, text=True)
    assert gone.returncode == 1
    assert "is gone" in gone.stderr


def test_a_bad_world_is_refused_in_a_sentence() -> None:
    """Unknown profiles, platforms and lines are named, and nothing keeps running."""
    others = set(_children(os.getpid()))
    for spec, message in (
        (WorldSpec(profile="moon"), r"'moon'.*lan, .*published"),
        (WorldSpec(profile="lan", devices=(DeviceSpec(name="r1", platform="c64"),)), r"'c64'.*csr1000v"),
        (WorldSpec(profile="lan", devices=(DeviceSpec(name="r1", config_lines=("ip tcp nonsense",)),)), "r1"),
        (WorldSpec(profile="lan", devices=(DeviceSpec(name="a"), DeviceSpec(name="a"))), "name 'a'"),
    ):
        with pytest.raises(LabError, match=message), start_world(spec):
            pass
    assert set(_children(os.getpid())) <= others


def test_namespaces_of_gone_processes_are_named() -> None:
    """Entering the namespace of a process that ended says so."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    with pytest.raises(LabError, match=str(ended.pid)), in_namespace(ended.pid):
        pass
    with pytest.raises(LabError):
        open_namespace(ended.pid)


def test_a_stand_in_that_refuses_its_settings_says_why_however_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only the stand-in finds out arrives in its words, although it was done long before the other sites."""
    monkeypatch.setattr("flashferry.lab.world.check_devices", list)
    bad = DeviceSpec(name="r0", config_lines=("frobnicate everything",))
    sites = [SiteSpec(name=f"s{at}", profile="lan", devices=(DeviceSpec(name=f"r{at}"),)) for at in range(1, 6)]
    spec = WorldSpec(sites=(SiteSpec(name="s0", profile="lan", devices=(bad,)), *sites))
    with pytest.raises(LabError, match="r0: the stand-in does not know the configuration line"), start_world(spec):
        pass
