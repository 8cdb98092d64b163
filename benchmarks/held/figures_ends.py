"""Figures of what hangs: how soon it is noticed, that others answer beside it, and that an end does not wait for it."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import asyncssh

from benchmarks.held.figure import figure
from flashferry.core.values import replace
from flashferry.service.jobs.create import request_job
from flashferry.service.jobs.job_spec import JobSpec
from flashferry.service.notices import NoticeKind, announce
from flashferry.service.principal import Actor, Grant, Role, Via
from flashferry.service.service import Service
from flashferry.service.settings import RunSettings, ServiceSettings
from flashferry.store.service.database import ServiceDatabase, moment
from flashferry.store.service.hooks import HookRow, add_hook
from flashferry.store.service.jobs import IN_PROGRESS, JobKind, JobState, add_job, job_of, jobs_in
from tests.component.service.processes import Running, running
from tests.component.sshserver.conftest import running as ssh_bench
from tests.patience import PATIENCE_S, until
from tests.unit.service.hooks.receivers import hostile_receiver

_FERRY = (sys.executable, "-P", "-m", "flashferry")
_STRANGERS = 60
_ROUNDS = 5
_ROUTES = ("/healthz", "/readyz", "/login", "/api/v1/openapi.json")
_PROBES = 400
_BANNERS = 20


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="held-") as folder:
        yield Path(folder)


class _Command:
    """A command that serves; its events are read as they come."""

    def __init__(self, state: Path, *words: str) -> None:
        self.events: list[dict[str, str]] = []
        self._stopped = 0
        self.process = subprocess.Popen(
            [*_FERRY, *words, "--json", "--listen", "127.0.0.1", "--port", "0", "--state-dir", str(state)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def until_event(self, name: str, text: str = "") -> None:
        until(lambda: any(one["event"] == name and text in one.get("text", "") for one in self.events), name)

    def stop_child(self) -> None:
        """Stop its serving process by a signal."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="ascii")
        self._stopped = int(children.split()[0])
        os.kill(self._stopped, signal.SIGSTOP)

    def close(self) -> None:
        # While its parent lives, which has not fetched it: a process that is stopped does not notice the end of that.
        if self._stopped and self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self._stopped, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def _serving(kind: str) -> Iterator[_Command]:
    """Yield `serve` or `depot`, which takes clients."""
    with _folder() as folder:
        (folder / "images").mkdir()
        (folder / "images" / "a.bin").write_bytes(os.urandom(10_000))
        words = ("serve", "--image-dir", str(folder / "images")) if kind == "serve" else ("depot",)
        command = _Command(folder / "state", *words)
        try:
            command.until_event("offer" if kind == "serve" else "ready")
            yield command
        finally:
            command.close()


def _noticed_s(kind: str) -> float:
    with _serving(kind) as command:
        start_s = time.monotonic()
        command.stop_child()
        command.until_event("notice", "has not answered")
        return time.monotonic() - start_s


def _ended_s(kind: str) -> float:
    with _serving(kind) as command:
        command.stop_child()
        start_s = time.monotonic()
        command.process.send_signal(signal.SIGTERM)
        command.process.wait(PATIENCE_S)
        return time.monotonic() - start_s


@figure("s")
def hung_process_of_serve_noticed_s() -> float:
    """Measure how long after SIGSTOP of its serving process `serve` reports it."""
    return _noticed_s("serve")


@figure("s")
def hung_process_of_depot_noticed_s() -> float:
    """Measure how long after SIGSTOP of its serving process a depot reports it."""
    return _noticed_s("depot")


@figure("s")
def serve_with_hung_process_ends_s() -> float:
    """Measure how long after SIGTERM `serve` has ended whose serving process was stopped just before."""
    return _ended_s("serve")


@figure("s")
def depot_with_hung_process_ends_s() -> float:
    """Measure how long after SIGTERM a depot has ended whose serving process was stopped just before."""
    return _ended_s("depot")


@cache
def _bomb() -> Iterable[bytes]:
    """Return an answer of 600 MB of zeros, compressed."""
    packing = zlib.compressobj(wbits=31)
    body = b"".join(packing.compress(bytes(10**6)) for _ in range(600)) + packing.flush()
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head.encode(), body)


def _lie() -> Iterable[bytes]:
    return (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n" + b"[" * 200_000,)


_HOSTILE: dict[str, Callable[[], Iterable[bytes]]] = {
    "hangs": lambda: itertools.repeat(b""),
    "drips": lambda: itertools.chain([b"HTTP/1.1 200 OK\r\n"], itertools.repeat(b"a")),
    "bombs": _bomb,
    "lies": _lie,
}


@contextmanager
def _beside(pieces: Callable[[], Iterable[bytes]]) -> Iterator[Running]:
    """Yield a service whose provider and receivers of hooks answer so, while sixty strangers ask for the provider."""
    with _folder() as folder, hostile_receiver(pieces, every_s=0.2) as hostile:
        state = folder / "state"
        service = Service(state=state, settings=ServiceSettings(), database=ServiceDatabase(state))
        with service.database.writing() as database:
            for number in range(3):
                row = HookRow(
                    hook_id=f"h{number}",
                    name=f"h{number}",
                    form="webhook",
                    target=hostile.url,
                    secret_name=None,
                    kinds=(NoticeKind.RUN_ENDED,),
                )
                add_hook(database, row)
            announce(service, database, NoticeKind.RUN_ENDED, "run:1", "a run has ended")
        config = folder / "service.toml"
        config.write_text(f'[oidc]\nissuer = "{hostile.url}"\nclient_id = "c"\n', encoding="utf-8")
        with running(state, "--config", config) as served:
            for _ in range(_STRANGERS):
                threading.Thread(target=_answered_s, args=(f"{served.url}/login/oidc",), daemon=True).start()
            until(lambda: hostile.opened >= 3, "the provider and receivers are asked")
            yield served


def _answered_s(url: str) -> float:
    """Return how long an answer took, whatever it is."""
    start_s = time.monotonic()
    with suppress(HTTPError, OSError), urlopen(url, timeout=PATIENCE_S) as answer:
        answer.read()
    return time.monotonic() - start_s


@figure("s")
def route_beside_hostile_servers_s() -> float:
    """Measure the slowest answer of other routes beside a provider and receivers that hang, drip, bomb or lie."""
    worst_s = 0.0
    for pieces in _HOSTILE.values():
        with _beside(pieces) as served:
            for path in _ROUTES * _ROUNDS:
                worst_s = max(worst_s, _answered_s(served.url + path))
    return worst_s


@figure("s")
def service_with_hostile_servers_ends_s() -> float:
    """Measure the slowest end after SIGTERM beside a provider and receivers that hang, drip, bomb or lie."""
    worst_s = 0.0
    for pieces in _HOSTILE.values():
        with _beside(pieces) as served:
            start_s = time.monotonic()
            served.end()
            worst_s = max(worst_s, time.monotonic() - start_s)
    return worst_s


def _with_probes(state: Path, settings: ServiceSettings) -> tuple[Service, str, Actor]:
    """Return tables with an approved plan of a site and 400 speed tests of another; its digest, who may start it."""
    service = Service(state=state, settings=settings, database=ServiceDatabase(state))
    anna = Actor(name="anna", via=Via.SESSION, address="192.0.2.9", grants=frozenset({Grant(role=Role.OPERATOR)}))
    carl = replace(anna, name="carl")
    digest, at = "ab" * 32, moment(service.now())
    with service.database.writing() as database:
        for name, role in (("anna", "operator"), ("ben", "approver"), ("carl", "operator")):
            database.execute("INSERT INTO people (name, source, created_at) VALUES (?, 'local', ?)", (name, at))
            database.execute(
                "INSERT INTO grants (person, role, given_by, given_at) VALUES (?, ?, 'ben', ?)", (name, role, at)
            )
        database.execute(
            "INSERT INTO plans (digest, text, sites, devices, made_by, made_at, state, decided_by, decided_at) "
            "VALUES (?, '{}', '[\"AMS\"]', 1, 'anna', ?, 'approved', 'ben', ?)",
            (digest, at, at),
        )
        first = request_job(service, database, carl, JobSpec(kind=JobKind.PROBE, sites=("LIM",)))
        for number in range(1, _PROBES):
            add_job(database, replace(first, job_id=f"{first.job_id}-{number}"))
    return service, digest, anna


@figure("s")
def run_of_other_site_begins_s() -> float:
    """Measure when an approved run is under way that is asked for while 400 speed tests of another person wait."""
    with _folder() as folder, socket.create_server(("127.0.0.1", 0)) as silent:
        state, inventory = folder / "state", folder / "inventory"
        inventory.mkdir()
        router = {"hostname": "127.0.0.1", "port": silent.getsockname()[1], "platform": "ios", "username": "u"}
        router |= {"password": "p", "data": {"site": "LIM"}}
        (inventory / "hosts.yaml").write_text(json.dumps({"r1": router}), encoding="utf-8")
        config = folder / "service.toml"
        config.write_text(f'[runs]\ninventory = "{inventory}"\n', encoding="utf-8")
        settings = ServiceSettings(runs=RunSettings(inventory=str(inventory)))
        service, digest, anna = _with_probes(state, settings)
        depot = _Command(state, "depot")
        try:
            depot.until_event("ready")
            with running(state, "--config", config):
                until(lambda: len(_under_way(service)) >= 4, "speed tests that are under way")
                start_s = time.monotonic()
                with service.database.writing() as database:
                    job_id = request_job(service, database, anna, JobSpec(kind=JobKind.STAGE, digest=digest)).job_id
                until(lambda: _has_started(service, job_id), "the run is under way")
                took_s = time.monotonic() - start_s
        finally:
            depot.close()
            _end_jobs(service)
        return took_s


def _under_way(service: Service) -> list[int]:
    with service.database.reading() as database:
        return [job.pid for job in jobs_in(database, IN_PROGRESS) if job.pid is not None]


def _has_started(service: Service, job_id: str) -> bool:
    with service.database.reading() as database:
        job = job_of(database, job_id)
    return job is not None and job.state not in (JobState.QUEUED, JobState.STARTING)


def _end_jobs(service: Service) -> None:
    for pid in _under_way(service):
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


@figure("s")
def ssh_banner_beside_small_packets_s() -> float:
    """Measure the slowest banner of 20 beside a client that asks for packets of 1 byte, then of 1 KiB."""
    with _folder() as folder, ssh_bench(folder, folder / "keys") as bench:
        is_over = threading.Event()

        async def copy_on() -> None:
            while not is_over.is_set():
                async with await bench.connect(bench.ticket()) as connection:
                    with suppress(asyncssh.ChannelOpenError):
                        await connection.create_process(f"scp -f {bench.image_name}", encoding=None, max_pktsize=1)
                    sink = await bench.sink(connection, max_pktsize=1024)
                    await sink.header()
                    await sink.body(len(bench.content))
                    sink.say()

        copying = threading.Thread(target=lambda: asyncio.run(copy_on()))
        copying.start()
        try:
            return max(_banner_s(bench.port) for _ in range(_BANNERS))
        finally:
            is_over.set()
            copying.join()


def _banner_s(port: int) -> float:
    start_s = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as line:
        assert line.recv(4) == b"SSH-"
        return time.monotonic() - start_s
