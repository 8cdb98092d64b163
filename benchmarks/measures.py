"""The measurements themselves: one server, one point, one repeat at a time."""

import contextlib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import procfs
from benchmarks.isolation import Ground, seen_congestion_control
from benchmarks.subjects import HOST, Subject
from benchmarks.workers import MeasureFailed, Worker, start_together

_RUN_S = 60.0
_SETTLE_S = 0.6
_LOGIN_CLIENTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured value.

    Attributes:
        subject: The server.
        measure: What was measured, with its unit, such as `throughput_bytes_per_s`.
        point: Under which load: clients or sessions.
        repeat: Which repeat, from 0.
        value: The figure.
    """

    subject: str
    measure: str
    point: int
    repeat: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What every measurement needs.

    Attributes:
        ground: Processors and congestion control.
        directory: What the servers serve.
        figures: Where results go.
    """

    ground: Ground
    directory: "Path"
    figures: list[Figure] = field(default_factory=list)

    def note(self, subject: str, measure: str, point: int, repeat: int, value: float) -> None:
        """Keep a value."""
        self.figures.append(Figure(subject=subject, measure=measure, point=point, repeat=repeat, value=value))

    def worker(self, op: str, subject: Subject, credentials: list[tuple[str, str]], **more: Any) -> Worker:
        """Start a client process."""
        order = {"op": op, "host": HOST, "port": subject.port, "credentials": credentials, **more}
        return Worker(order, self.ground.client_cpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One load of fetches.

    Attributes:
        clients: How many fetch at once.
        path: The file each of them fetches.
        copying: Whether clients copy what they receive, as real ones do, or let the kernel drop it.
    """

    clients: int
    path: str
    copying: bool = False


def throughput(bench: Bench, subject: Subject, load: Load, repeat: int) -> None:
    """Fetch a file with some clients at once; note throughput and processor time.

    The clock runs from the first RETR to the last client's last byte. Processor time is that of the server and all
    it started, from just before the RETR, logins done, until its sessions have ended.
    """
    with contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(bench.worker("fetch", subject, [credential], path=load.path, copying=load.copying))
            for credential in subject.credentials(load.path, load.clients)
        ]
        for worker in workers:
            worker.hear(_RUN_S)
        before_s = (procfs.cpu_s(subject.pid), procfs.busy_s(bench.ground.server_cpus), time.process_time())
        for worker in workers:
            worker.say({"go": True})
        results = [worker.hear(_RUN_S) for worker in workers]
    busy_s, parent_s = procfs.busy_s(bench.ground.server_cpus) - before_s[1], time.process_time() - before_s[2]
    _await_end_of_sessions(subject)
    server_s = procfs.cpu_s(subject.pid) - before_s[0]
    total_bytes = _checked_total(bench, load, results)
    elapsed_s = max(r["last_byte_s"] for r in results) - min(r["started_s"] for r in results)
    values = {
        "throughput_bytes_per_s": total_bytes / elapsed_s,
        "cpu_s_per_gb": server_s / total_bytes * 1e9,
        "server_processor_s_per_gb": busy_s / total_bytes * 1e9,
        "driver_cpu_s_per_gb": parent_s / total_bytes * 1e9,
        "client_cpu_share": sum(r["cpu_s"] for r in results) / elapsed_s,
    }
    for measure, value in values.items():
        bench.note(subject.name, f"{'copying_' if load.copying else ''}{measure}", load.clients, repeat, value)


def _checked_total(bench: Bench, load: Load, results: list[dict[str, Any]]) -> int:
    size_bytes = (bench.directory / load.path).stat().st_size
    if any(result["bytes"] != size_bytes for result in results):
        raise MeasureFailed(f"expected {size_bytes} bytes per client, found {sorted({r['bytes'] for r in results})}")
    return size_bytes * load.clients


def logins(bench: Bench, subject: Subject, count: int, repeat: int, path: str) -> None:
    """Log in and out `count` times by four clients at once; note logins per second."""
    credentials = subject.credentials(path, count)
    with contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(bench.worker("login", subject, credentials[first::_LOGIN_CLIENTS]))
            for first in range(_LOGIN_CLIENTS)
        ]
        start_together(workers, _RUN_S)
        results = [worker.hear(_RUN_S) for worker in workers]
    elapsed_s = max(r["ended_s"] for r in results) - min(r["started_s"] for r in results)
    bench.note(subject.name, "logins_per_s", _LOGIN_CLIENTS, repeat, count / elapsed_s)
    _await_end_of_sessions(subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Sessions that stay.

    Attributes:
        counts: How many, growing.
        path: The file they may fetch.
        transfer: Whether they are in the middle of a transfer to a client that no longer reads.
        hold_s: How long to keep the last of them and read once more, for what grows with time; 0 for not at all.
    """

    counts: tuple[int, ...]
    path: str
    transfer: bool
    hold_s: float = 0.0

    @property
    def kind(self) -> str:
        """In a word."""
        return "transferring" if self.transfer else "idle"


def memory(bench: Bench, subject: Subject, crowd: Crowd, repeat: int) -> None:
    """Note the memory of a fresh server with growing numbers of sessions.

    A session of each kind is opened and closed before the first reading, so that what a server makes once is not
    put down to the first session.
    """
    _warm_up(bench, subject, crowd.path)
    _note_memory(bench, subject, f"{crowd.kind}", 0, repeat)
    with bench.worker("hold", subject, [], path=crowd.path, transfer=crowd.transfer) as worker:
        worker.hear(_RUN_S)
        held = 0
        for count in crowd.counts:
            worker.say({"credentials": subject.credentials(crowd.path, count - held)})
            held = int(worker.hear(_RUN_S)["open"])
            time.sleep(_SETTLE_S)
            _note_memory(bench, subject, crowd.kind, count, repeat)
        if crowd.hold_s:
            before_s, parent_before_s = procfs.cpu_s(subject.pid), time.process_time()
            time.sleep(crowd.hold_s)
            server_s, parent_s = procfs.cpu_s(subject.pid) - before_s, time.process_time() - parent_before_s
            _note_memory(bench, subject, f"{crowd.kind}_held", held, repeat)
            bench.note(subject.name, "cpu_share_held", held, repeat, server_s / crowd.hold_s)
            bench.note(subject.name, "driver_cpu_share_held", held, repeat, parent_s / crowd.hold_s)


def _note_memory(bench: Bench, subject: Subject, kind: str, count: int, repeat: int) -> None:
    bench.note(subject.name, f"pss_{kind}_bytes", count, repeat, subject.memory_bytes(anonymous=False))
    bench.note(subject.name, f"pss_anonymous_{kind}_bytes", count, repeat, subject.memory_bytes(anonymous=True))


def congestion_control(bench: Bench, subject: Subject, path: str) -> str:
    """Return the congestion control a server sends with, read from the kernel while it sends."""
    with bench.worker("hold", subject, [], path=path, transfer=True) as worker:
        worker.hear(_RUN_S)
        worker.say({"credentials": subject.credentials(path, 1)})
        opened = worker.hear(_RUN_S)
        return seen_congestion_control(opened["server_port"], opened["local_port"])


def pin(bench: Bench, subject: Subject) -> None:
    """Keep a server, and what it will start, to its processors."""
    if bench.ground.server_cpus:
        for pid in (subject.pid, *procfs.descendants(subject.pid)):
            os.sched_setaffinity(pid, bench.ground.server_cpus)


def _warm_up(bench: Bench, subject: Subject, path: str) -> None:
    for transfer in (False, True):
        with bench.worker("hold", subject, [], path=path, transfer=transfer) as worker:
            worker.hear(_RUN_S)
            worker.say({"credentials": subject.credentials(path, 1)})
            worker.hear(_RUN_S)
    _await_end_of_sessions(subject)
    time.sleep(0.2)


def _await_end_of_sessions(subject: Subject) -> None:
    deadline_s = time.monotonic() + 3.0
    while len(procfs.descendants(subject.pid)) > subject.resting_descendants and time.monotonic() < deadline_s:
        time.sleep(0.02)
