"""Does the server leak? `python -m benchmarks.soak` runs 10,000 sessions of all kinds; see docs/benchmarks.md."""

import argparse
import contextlib
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import isolation, procfs, report
from flashferry.fileserver import FileServer, Limits, SenderProfile, ServerSettings, TicketRequest
from ftpserver import ftp_listener

_MODULE = "benchmarks.soak"
_ROOT = Path(__file__).parent.parent
_RESULTS = Path(__file__).parent / "results"
_SIZES_BYTES = {"small.bin": 65_536, "large.bin": 8 << 20}
# Parts of a hundred. Those that wait for a limit of the server are few, for they take seconds.
_MIX = {
    "full": 34,
    "pause": 6,
    "abort": 12,
    "reset_data": 12,
    "reset_control": 10,
    "never_read": 4,
    "wrong_password": 10,
    "idle": 4,
    "silent": 4,
    "half_open": 4,
}
_FIRST = 100
_BATCH = 3300
# Sessions whose tickets are good at the same time.
_TOGETHER = 200
_SETTLE_S = 30.0
# Longer than any limit of the server under test.
_CALM_S = 5.0
_SMALL = ("full", "pause")
# What the server under test waits for before it ends a session or a transfer.
_LIMIT_S = 3.0
_GROWTH_ALLOWED = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the server holds when no session is left.

    Attributes:
        sessions: How many there were until now.
        descriptors: Open files of its process.
        sockets: Those that are sockets.
        kernel_sockets: TCP sockets of the namespace, or of the host, that are neither listening nor in TIME_WAIT.
        rss_bytes: Resident memory of its process.
        parent_rss_bytes: The same of the parent, which keeps the records.
    """

    sessions: int
    descriptors: int
    sockets: int
    kernel_sockets: int
    rss_bytes: int
    parent_rss_bytes: int


@dataclass(kw_only=True)
class Soak:
    """A soak under way."""

    server: FileServer
    client: "subprocess.Popen[str]"
    started_s: float = field(default_factory=time.monotonic)
    sessions: int = 0
    done: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    too_late: Counter[str] = field(default_factory=Counter)

    def batch(self, kinds: list[str]) -> None:
        """Run so many sessions, each with a ticket of its own, and wait until the server is at rest again."""
        for first in range(0, len(kinds), _TOGETHER):
            self._with_tickets(kinds[first : first + _TOGETHER])
        self._settle()
        report.print_progress(f"{time.monotonic() - self.started_s:5.0f} s  {self.sessions} sessions")

    def _with_tickets(self, kinds: list[str]) -> None:
        tickets = [
            self.server.issue_ticket(TicketRequest(image_name="small.bin" if kind in _SMALL else "large.bin"))
            for kind in kinds
        ]
        self._run(kinds, [(ticket.username, ticket.password) for ticket in tickets])
        # As at the end of any run: what nobody came for is taken back.
        for ticket in tickets:
            self.server.revoke(ticket.ticket_id)

    def _run(self, kinds: list[str], credentials: list[tuple[str, str]]) -> None:
        order = {
            "host": "127.0.0.1",
            "port": self.server.port,
            "kinds": kinds,
            "credentials": credentials,
            "first": self.sessions,
            "limit_s": _LIMIT_S,
            **{name.removesuffix(".bin"): name for name in _SIZES_BYTES},
            **{name.replace(".bin", "_bytes"): size for name, size in _SIZES_BYTES.items()},
        }
        assert self.client.stdin is not None
        assert self.client.stdout is not None
        self.client.stdin.write(json.dumps(order) + "\n")
        self.client.stdin.flush()
        answer = self.client.stdout.readline()
        if not answer:
            raise RuntimeError("the client process ended; see its traceback above")
        self.sessions += len(kinds)
        for counter, name in ((self.done, "done"), (self.errors, "errors"), (self.too_late, "too_late")):
            counter.update(json.loads(answer)[name])

    def reading(self) -> Reading:
        """Read what the server holds."""
        return Reading(
            sessions=self.sessions,
            descriptors=procfs.descriptors(self.server.pid),
            sockets=procfs.socket_descriptors(self.server.pid),
            kernel_sockets=kernel_sockets(),
            rss_bytes=procfs.rss_bytes(self.server.pid),
            parent_rss_bytes=procfs.rss_bytes(os.getpid()),
        )

    def _settle(self) -> None:
        """Wait until the number of descriptors no longer falls: a session that vanished stays until it is sent away."""
        deadline_s, calm_s = time.monotonic() + _SETTLE_S, time.monotonic()
        least = procfs.descriptors(self.server.pid)
        while time.monotonic() < min(deadline_s, calm_s + _CALM_S):
            time.sleep(0.1)
            if (now := procfs.descriptors(self.server.pid)) < least:
                least, calm_s = now, time.monotonic()


def kernel_sockets() -> int:
    """Count TCP sockets that are neither listening (0A) nor in TIME_WAIT (06): /proc/net/tcp."""
    lines = (Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()).splitlines()
    states = [fields[3] for line in lines if (fields := line.split())[0].rstrip(":").isdigit()]
    return sum(state not in ("06", "0A") for state in states)


def mixed(count: int, leave_out: frozenset[str], seed: int) -> list[str]:
    """Return the kinds of so many sessions, shuffled; the same for the same seed."""
    kinds = [kind for kind, part in _MIX.items() if kind not in leave_out for _ in range(part)]
    kinds = (kinds * (count // len(kinds) + 1))[:count]
    random.Random(seed).shuffle(kinds)
    return kinds


def planned(count: int, *, can_vanish: bool) -> list[str]:
    """Return the kinds of all sessions, those that vanish only where we may."""
    leave_out = frozenset(() if can_vanish else ("half_open",))
    return mixed(_FIRST, leave_out, 0) + mixed(count - _FIRST, leave_out, 1)


def verdicts(first: Reading, last: Reading) -> list[str]:
    """Return a sentence for each thing that is not where it was."""
    found = [
        f"{name.replace('_', ' ')}: expected {getattr(first, name)} as after {first.sessions} sessions, found "
        f"{getattr(last, name)}"
        for name in ("descriptors", "sockets", "kernel_sockets")
        if getattr(last, name) > getattr(first, name)
    ]
    growth_bytes = last.rss_bytes - first.rss_bytes
    if growth_bytes > first.rss_bytes * _GROWTH_ALLOWED:
        per_session = growth_bytes / (last.sessions - first.sessions)
        found.append(
            f"memory: expected at most {_GROWTH_ALLOWED:.0%} more than {first.rss_bytes / 1e6:.1f} MB, found "
            f"{last.rss_bytes / 1e6:.1f} MB, {per_session:,.0f} bytes per session"
        )
    return found


def _growth(readings: list[Reading]) -> int | None:
    """Return by how much memory grew per session in the last batch, where first-time effects are over."""
    if len(readings) < 3:
        return None
    before, after = readings[-2:]
    return round((after.rss_bytes - before.rss_bytes) / (after.sessions - before.sessions))


def _settings(directory: Path) -> ServerSettings:
    """Return settings whose limits end within seconds what takes minutes by default."""
    return ServerSettings(
        image_paths=(directory,),
        listeners=(ftp_listener(listen_address="127.0.0.1"),),
        sample_interval_s=0.5,
        limits=Limits(login_deadline_s=_LIMIT_S, idle_s=_LIMIT_S, data_connect_s=_LIMIT_S, failed_login_delay_s=0.05),
        profile=SenderProfile(stall_after_s=1.0, give_up_after_s=_LIMIT_S),
    )


@contextlib.contextmanager
def _client() -> "Iterator[subprocess.Popen[str]]":
    client = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.soak_client"],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield client
    finally:
        client.kill()
        client.wait()


def _soak(count: int, directory: Path) -> dict[str, Any]:
    for name, size_bytes in _SIZES_BYTES.items():
        (directory / name).write_bytes(random.Random(name).randbytes(size_bytes))
    can_vanish = os.geteuid() == 0
    kinds = planned(count, can_vanish=can_vanish)
    with FileServer(_settings(directory)) as server, _client() as client:
        soak = Soak(server=server, client=client)
        empty = soak.reading()
        readings = []
        for first in (0, *range(_FIRST, count, _BATCH)):
            last = _FIRST if not first else min(first + _BATCH, count)
            soak.batch(kinds[first:last])
            readings.append(soak.reading())
        return {
            "schema": "flashferry.benchmarks.soak/2",
            "kernel": platform.release(),
            "python": platform.python_version(),
            "took_s": round(time.monotonic() - soak.started_s, 1),
            "readings": [asdict(reading) for reading in (empty, *readings)],
            "done": dict(soak.done),
            "errors": dict(soak.errors),
            "too_late": dict(soak.too_late),
            "notices": [*server.notices, *([] if can_vanish else ["half_open left out: it takes root"])],
            "last_batch_bytes_per_session": _growth(readings),
            "verdicts": verdicts(readings[0], readings[-1]),
        }


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    """Run the command; 1 if anything is not where it was or a session ended otherwise than it must."""
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}", description=__doc__)
    parser.add_argument("--sessions", type=int, default=10_000, help="sessions in all (default: 10000)")
    parser.add_argument("--results", type=Path, default=_RESULTS, help="directory for the JSON file")
    options = parser.parse_args(arguments)
    if options.sessions <= _FIRST:
        parser.error(f"expected more than {_FIRST} sessions, found {options.sessions}")
    isolation.enter_namespace(_MODULE, arguments)
    isolation.prepare("host")
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with tempfile.TemporaryDirectory(prefix="ferry-soak-") as directory:
            result = _soak(options.sessions, Path(directory))
    except KeyboardInterrupt:
        report.print_progress("interrupted; server and clients were stopped, nothing was written")
        return 130
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "soak.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    return 1 if result["verdicts"] or result["errors"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
