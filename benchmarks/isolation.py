"""A fair ground: a network namespace of our own with one congestion control for all, and processors apart.

Facts
-----

- The kernel's default congestion control differs between hosts and decides loopback throughput (BBR paces, CUBIC does
  not). Comparing servers under different ones would compare the kernels' settings.
- A route may name one (`congctl`, ip-route(8)); in a namespace of our own that changes nothing on the host.
- On loopback the sender's processor also does the receiver's protocol work; clients on another processor take only
  what is left, the hand-over.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_MARK = "FERRY_BENCH_NAMESPACE"
_SETTINGS = Path("/proc/sys/net/ipv4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where the measurements take place.

    Attributes:
        congestion_control: What loopback connections start with.
        namespace: Whether they run in a network namespace of their own.
        server_cpus: Processors of the servers; empty for any.
        client_cpus: Processors of the clients; empty for any.
        notices: What could not be arranged, in sentences.
    """

    congestion_control: str
    namespace: bool
    server_cpus: frozenset[int]
    client_cpus: frozenset[int]
    notices: tuple[str, ...] = ()


def enter_namespace(module: str, arguments: list[str]) -> None:
    """Start this program anew in a network namespace of its own, if we may; return if we may not or are in it."""
    if os.environ.get(_MARK) or not all(shutil.which(tool) for tool in ("unshare", "ip")):
        return
    probe = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    if probe.returncode == 0:
        os.environ[_MARK] = "1"
        os.environ["PYTHONPATH"] = str(Path(__file__).parent.parent)
        os.execvp("unshare", ["unshare", "--net", sys.executable, "-m", module, *arguments])


def prepare(congestion_control: str) -> Ground:
    """Set up what can be set up.

    Args:
        congestion_control: For all loopback connections; `host` leaves the kernel's default.
    """
    inside = bool(os.environ.get(_MARK))
    in_force, notices = (_SETTINGS / "tcp_congestion_control").read_text().strip(), []
    if inside:
        _ip("link", "set", "lo", "up")
    if congestion_control not in ("host", in_force):
        if inside and all(_route(destination, congestion_control) for destination in ("127.0.0.0/8", "127.0.0.1")):
            in_force = congestion_control
        else:
            notices.append(
                f"congestion control: {congestion_control} could not be set without root and unshare; servers start "
                f"with {in_force}, ours chooses its own, so the comparison is not like with like"
            )
    cpus = sorted(os.sched_getaffinity(0))
    apart = len(cpus) > 1
    if not apart:
        notices.append("one processor only: clients and servers share it")
    return Ground(
        congestion_control=in_force,
        namespace=inside,
        server_cpus=frozenset(cpus[:1] if apart else ()),
        client_cpus=frozenset(cpus[1:] if apart else ()),
        notices=tuple(notices),
    )


def seen_congestion_control(server_port: int, local_port: int) -> str:
    """Return what a server's end of a connection uses, by ss(8); empty if that cannot be told."""
    try:
        shown = subprocess.run(
            ["ss", "-tinH", f"sport = :{server_port} and dport = :{local_port}"],
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        ).stdout.split()
    except (OSError, subprocess.TimeoutExpired):
        return ""
    known = (_SETTINGS / "tcp_available_congestion_control").read_text().split()
    return next((word for word in shown if word in known), "")


def _route(destination: str, congestion_control: str) -> bool:
    return _ip(
        "route", "replace", "local", destination, "dev", "lo", "proto", "kernel", "scope", "host",
        "src", "127.0.0.1", "table", "local", "congctl", congestion_control,
    )  # fmt: skip


def _ip(*arguments: str) -> bool:
    return subprocess.run(["ip", *arguments], capture_output=True, check=False).returncode == 0
