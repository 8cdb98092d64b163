"""What live pages cost: `python -m benchmarks.service_live [--browsers N] [--devices N] [--update-docs]`.

A made-up run of 500 devices writes some fifty events a second and keeps its journal, in a process of its own. The
service is a process of its own, too, as it is installed. Two hundred clients read the stream of the wall screen; then
as many that show the run's devices besides; then a real browser shows both pages. Processor time as a share of one core
over half a minute each, memory of the service at its end, how long after a look its message arrives, and the longest
time without one. The exit code is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from benchmarks import procfs
from benchmarks.report import conditions, print_progress
from benchmarks.subjects import free_port
from flashferry.lab.experiment.harness import put
from flashferry.service.principal import Role
from tests.browsing import Serving, browsing, cookie_of, serving, signed_in

DOCUMENT = Path(__file__).parents[1] / "docs" / "service.md"
MOST_SHARE, MOST_BYTES, MOST_DELAY_S, MOST_BROWSER_SHARE = 0.20, 150e6, 2.0, 0.05
_SETTLE_S = 5.0
_SKIP_S = 60
"""So much of the night is over at the start: all devices copy, each tells every ten seconds."""


@dataclass(slots=True)
class Client:
    """A browser's stream, read as fast as it comes.

    Attributes:
        stream: Its socket.
        begun: What came of a message that is not whole yet.
        messages: How many messages came.
        bytes: How many bytes.
        at_s: When the last one came.
        gap_s: The longest time without one.
        delays_s: From a look to its message, of those read whole.
    """

    stream: socket.socket
    begun: bytes = b""
    messages: int = 0
    bytes: int = 0
    at_s: float = 0.0
    gap_s: float = 0.0
    delays_s: list[float] = field(default_factory=list)

    def read(self, now_s: float) -> None:
        """Take in what is there."""
        data = self.stream.recv(1 << 20)
        if not data:
            raise ConnectionError("a stream has ended before its time")
        self.bytes += len(data)
        *whole, self.begun = (self.begun + data).split(b"\n\n")
        for one in whole:
            if b"event: " not in one:
                continue
            self.gap_s = max(self.gap_s, now_s - self.at_s) if self.at_s else 0.0
            self.at_s = now_s
            self.messages += 1
            if b'"at":"' in one:
                at = one.split(b'"at":"', 1)[1].split(b'"', 1)[0].decode()
                self.delays_s.append((datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds())

    def forget(self) -> None:
        """Begin to count anew."""
        self.messages = self.bytes = 0
        self.at_s = self.gap_s = 0.0
        self.delays_s.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a crowd of clients cost, and what it got.

    Attributes:
        what: Who they were.
        share: Processor time of the service, of one core.
        resident_bytes: Its memory at the end.
        messages_per_s: To each client.
        bytes_per_s: To all of them.
        delay_s: From a look to its message, the worst of a hundred.
        gap_s: The longest time that any client was without a message.
    """

    what: str
    share: float
    resident_bytes: int
    messages_per_s: float
    bytes_per_s: float
    delay_s: float
    gap_s: float


def crowd(served: Serving, cookie: tuple[str, str], what: str, query: str, count: int, seconds: float) -> Cost:
    """Let so many clients listen; return what that cost."""
    with selectors.DefaultSelector() as waiting:
        clients = [_listening(served.port, cookie, query) for _ in range(count)]
        for one in clients:
            waiting.register(one.stream, selectors.EVENT_READ, one)
        _read(waiting, _SETTLE_S)
        for one in clients:
            one.forget()
        assert served.process is not None
        pid = served.process.pid
        before_s, began_s = procfs.cpu_s(pid), time.monotonic()
        _read(waiting, seconds)
        took_s, spent_s = time.monotonic() - began_s, procfs.cpu_s(pid) - before_s
        resident = procfs.pss_bytes(pid)
        for one in clients:
            one.stream.close()
    delays = sorted(delay for one in clients for delay in one.delays_s)
    return Cost(
        what=what,
        share=spent_s / took_s,
        resident_bytes=resident,
        messages_per_s=statistics.mean(one.messages for one in clients) / took_s,
        bytes_per_s=sum(one.bytes for one in clients) / took_s,
        delay_s=delays[int(0.99 * (len(delays) - 1))],
        gap_s=max(one.gap_s for one in clients),
    )


def _listening(port: int, cookie: tuple[str, str], query: str) -> Client:
    stream = socket.create_connection(("127.0.0.1", port))
    stream.sendall(
        f"GET /api/v1/live{query} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/event-stream\r\n"
        f"Cookie: {cookie[0]}={cookie[1]}\r\n\r\n".encode()
    )
    stream.setblocking(False)
    return Client(stream)


def _read(waiting: selectors.BaseSelector, seconds: float) -> None:
    until_s = time.monotonic() + seconds
    while (now_s := time.monotonic()) < until_s:
        for key, _ in waiting.select(min(0.2, until_s - now_s)):
            with suppress(BlockingIOError):
                key.data.read(time.monotonic())


def browser_share(served: Serving, cookie: tuple[str, str], path: str, seconds: float) -> float:
    """Return what a real browser spends on a page, as a share of one core: all its processes, drawing included."""
    with browsing() as browser:
        page = signed_in(browser, served.url, cookie, viewport={"width": 1400, "height": 900}).new_page()
        page.goto(path)
        time.sleep(_SETTLE_S)
        pids = [one for one in procfs.descendants(os.getpid()) if "chrom" in _name(one)]
        before_s, began_s = sum(map(_own_s, pids)), time.monotonic()
        time.sleep(seconds)
        return (sum(map(_own_s, pids)) - before_s) / (time.monotonic() - began_s)


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text()
    return ""


def _own_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def night(state: Path, devices: int) -> Iterator[str]:
    """Have a made-up night for the time of a block; yield its run."""
    command = [sys.executable, "-m", "benchmarks.service_night", str(state), "--devices", str(devices)]
    with subprocess.Popen([*command, "--skip", str(_SKIP_S), "--site-copies", "50"], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["run_id"]
        finally:
            process.kill()


def to_markdown(costs: list[Cost], shares: dict[str, float], about: str) -> str:
    """Return the figures as they stand in the document."""
    lines = [f"{about}.", ""]
    lines += [
        f"- {one.what}: {one.share:.1%} of a core, {one.resident_bytes / 1e6:.0f} MB, {one.messages_per_s:.2f} "
        f"messages/s each, {one.bytes_per_s / 1e6:.2f} MB/s in all; an event is shown after {one.delay_s:.2f} s, "
        f"longest gap {one.gap_s:.2f} s"
        for one in costs
    ]
    lines += [f"- a browser that shows {what}: {share:.1%} of a core" for what, share in shares.items()]
    return "\n".join(lines)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browsers", type=int, default=200)
    parser.add_argument("--devices", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--update-docs", action="store_true")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    with tempfile.TemporaryDirectory() as name:
        state = Path(name)
        with night(state, given.devices) as run_id, serving(state, free_port()) as served:
            cookie = cookie_of(state, Role.VIEWER)
            costs, shares = [], {}
            for where, query in (("Tonight", ""), ("the run's page", f"?run={quote(run_id)}")):
                what = f"{given.browsers} on {where}"
                costs.append(crowd(served, cookie, what, query, given.browsers, given.seconds))
                print_progress(str(costs[-1]))
            for what, path in (("Tonight", "/tonight"), (f"a run with {given.devices} devices", f"/runs/{run_id}")):
                shares[what] = browser_share(served, cookie, path, given.seconds)
                print_progress(f"{what}: {shares[what]:.1%} of a core")
    about = conditions("python -m benchmarks.service_live")
    told = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in about.items())
    text = to_markdown(costs, shares, f"{given.devices} devices in one run, some fifty events a second ({told})")
    print(text)
    if given.update_docs:
        put(DOCUMENT, "service_live", text)
    missed = [
        one for one in costs if one.share > MOST_SHARE or one.resident_bytes > MOST_BYTES or one.gap_s > MOST_DELAY_S
    ]
    sys.exit(1 if missed or max(shares.values()) > MOST_BROWSER_SHARE else 0)


if __name__ == "__main__":
    main()
