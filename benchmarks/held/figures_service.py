"""Figures of the service, its pages, its backups, and of the transcripts of sessions."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

from benchmarks.held.figure import figure
from benchmarks.procfs import peak_rss_bytes, rss_bytes
from benchmarks.subjects import free_port
from flashferry.api import back_up, put_back
from flashferry.devices.transcript import Recent, Recorder, Transcripts
from flashferry.service.access import MOST_PLAN_BYTES
from flashferry.service.api.limits import BYTES_PER_VALUE
from flashferry.service.principal import Role
from flashferry.store.journal import Journal
from tests.browsing import Serving, browsing, cookie_of, serving, signed_in
from tests.component.service.processes import STREAMING, Running, running
from tests.component.service.tokens import token_of
from tests.patience import PATIENCE_S, until
from tests.unit.service.hooks.receivers import hostile_receiver
from tests.unit.store.test_status import touch

if TYPE_CHECKING:
    from playwright.sync_api import Page


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="held-") as folder:
        yield Path(folder)


@figure("s")
def service_stream_end_s() -> float:
    """Measure how long after SIGTERM a client's stream of events is ended."""
    ended: list[float] = []
    with (
        _folder() as state,
        running(state, command=(sys.executable, "-c", STREAMING, "service")) as service,
        urlopen(f"{service.url}/stream", timeout=PATIENCE_S) as stream,
    ):
        stream.readline()

        def read_on() -> None:
            with suppress(OSError, HTTPException):
                while stream.readline():
                    pass
            ended.append(time.monotonic())

        reading = threading.Thread(target=read_on)
        reading.start()
        start_s = time.monotonic()
        service.process.send_signal(signal.SIGTERM)
        reading.join()
    return ended[0] - start_s


@contextmanager
def _page(state: Path, path: str) -> Iterator[tuple[Serving, Page]]:
    """Show a page of the service in a browser, and wait until it is live."""
    with browsing() as browser, serving(state, free_port()) as served:
        page = signed_in(browser, served.url, cookie_of(state, Role.VIEWER)).new_page()
        page.goto(path)
        until(lambda: page.locator("#age").inner_text().startswith("live"), "a live page")
        yield served, page


@figure("s")
def page_marked_stale_s() -> float:
    """Measure how long after its stream stops without an error a page states that there is no news."""
    with _folder() as state, _page(state, "/tonight") as (served, page):
        assert served.process is not None
        served.process.send_signal(signal.SIGSTOP)
        start_s = time.monotonic()
        until(lambda: page.locator("#age").inner_text().startswith("No news for"), "the mark of a stale page")
        return time.monotonic() - start_s


@figure("s")
def event_on_page_s() -> float:
    """Measure how long after its row is in the journal a device's state is on the page; the quickest of three."""
    hosts = ("r1", "r2", "r3")
    took_s = []
    with _folder() as state, Journal(state) as journal:
        run_id = journal.begin_run("stage")
        for number, host in enumerate(hosts, 1):
            journal.add_device(run_id, host=host, address=f"192.0.2.{number}", port=22, platform="ios", site="AMS")
        with _page(state, f"/runs/{run_id}") as (_, page):
            cells = page.locator("[data-table=devices] [data-cell=state]")
            for number, host in enumerate(hosts, 1):
                start_s = time.monotonic()
                touch(journal, run_id, host)
                _until_count(lambda: cells.all_inner_texts().count("under way"), number)
                took_s.append(time.monotonic() - start_s)
    return min(took_s)


def _until_count(count: Callable[[], int], wanted: int) -> None:
    until(lambda: count() == wanted, f"{wanted} devices under way")


@figure("MiB")
def backup_peak_mib() -> float:
    """Measure the most memory that a backup with 64 MiB of events, and putting it back, have at any moment."""
    with _folder() as folder:
        state = folder / "state"
        with Journal(state) as journal:
            journal.begin_run("stage")
        (state / "events").mkdir(mode=0o700)
        with (state / "events" / "r1.jsonl").open("wb") as events:
            events.truncate(64 << 20)
        tracemalloc.start()
        try:
            put_back(back_up(folder / "backups", state=state).path, state=folder / "other")
            return tracemalloc.get_traced_memory()[1] / (1 << 20)
        finally:
            tracemalloc.stop()


@figure("s")
def transcript_disk_hangs_s() -> float:
    """Measure how long a session is held up in which 700 kB come while the disk of its transcript hangs."""
    hangs, back, write = threading.Event(), threading.Event(), os.write

    def slow(number: int, data: bytes) -> int:
        hangs.set()
        back.wait(PATIENCE_S)
        return write(number, data)

    with _folder() as folder, mock.patch.object(os, "write", slow):
        made = Transcripts(folder, notify=lambda _: None)
        recorder = Recorder(Recent(), made.of("r1"))
        recorder.came("first\r\n")
        hangs.wait(PATIENCE_S)
        start_s = time.monotonic()
        for number in range(7000):
            recorder.came(f"{number:098}\r\n")
        took_s = time.monotonic() - start_s
        back.set()
        made.close()
    return took_s


_BODY_BYTES = 1_500_000_000
_PIECE = b'"router-0001.ams.example.net",' * 2**11
_TYPES = (
    "application/json",
    "application/octet-stream",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "image/png",
)


def _send(url: str, token: str, size_bytes: int, content_type: str) -> int:
    """Send a body in chunks to a route that any person may call; return the status, 0 where it was cut before."""
    pieces = (_PIECE for _ in range(size_bytes // len(_PIECE)))
    headers = {"Authorization": f"Bearer {token}", "Content-Type": content_type}
    address = urlsplit(url)
    line = HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE_S)
    with closing(line):
        with suppress(BrokenPipeError, ConnectionResetError):
            line.request("PUT", "/api/v1/me/password", pieces, headers, encode_chunked=True)
        with suppress(OSError, HTTPException):
            return line.getresponse().status
        return 0


@contextmanager
def _growing(state: Path, *words: str | Path) -> Iterator[tuple[Running, list[float]]]:
    """Start a service that has answered; afterwards the list has by how many MiB its memory grew at most."""
    grew: list[float] = []
    with running(state, *words) as service:
        urlopen(f"{service.url}/login", timeout=PATIENCE_S).close()
        before = rss_bytes(service.process.pid)
        yield service, grew
        grew.append((peak_rss_bytes(service.process.pid) - before) / 2**20)


@figure("MiB")
def service_large_body_growth_mib() -> float:
    """Measure by how much the service grows under a body of 1.5 GB of each content type, by a person without a role."""
    with _folder() as state:
        token = token_of(state, "ada")
        with _growing(state) as (service, grew):
            for one in _TYPES:
                assert _send(service.url, token, _BODY_BYTES, one) in (0, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        return grew[0]


@figure("MiB")
def service_ten_bodies_growth_mib() -> float:
    """Measure by how much the service grows under ten JSON bodies of 60 MB at once, by a person without a role."""
    with _folder() as state:
        token = token_of(state, "ada")
        with _growing(state) as (service, grew), ThreadPoolExecutor(10) as senders:
            jobs = [senders.submit(_send, service.url, token, 60_000_000, "application/json") for _ in range(10)]
            assert {job.result() for job in jobs} <= {0, HTTPStatus.REQUEST_ENTITY_TOO_LARGE}
        return grew[0]


@figure("MiB")
def service_provider_bomb_growth_mib() -> float:
    """Measure by how much the service grows where its OpenID provider answers by a gzip that unpacks to 600 MB."""
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join([*(packer.compress(bytes(10**6)) for _ in range(600)), packer.flush()])
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n\r\n"
    with _folder() as state, hostile_receiver(lambda: [head, bomb]) as provider:
        config = state / "service.toml"
        config.write_text(f'[oidc]\nissuer = "{provider.url}"\nclient_id = "c"\n')
        with _growing(state, "--config", config) as (service, grew):
            with suppress(HTTPError):
                urlopen(f"{service.url}/login/oidc", timeout=PATIENCE_S).close()
            assert provider.opened
        return grew[0]


@figure("MiB")
def service_ten_plans_growth_mib() -> float:
    """Measure by how much the service grows under ten plans at once, as large and of as many values as any may be."""
    unit = b'{"k%d":1},'
    count = MOST_PLAN_BYTES // BYTES_PER_VALUE // 5 - 10
    plan = b'{"devices":[' + b"".join(unit % number for number in range(count)) + b"0]}"
    plan += b" " * (MOST_PLAN_BYTES - len(plan))

    def offered(token: str) -> int:
        address = urlsplit(service.url)
        with closing(HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE_S)) as line:
            with suppress(BrokenPipeError, ConnectionResetError):
                line.request("POST", "/api/v1/plans", plan, {"Authorization": f"Bearer {token}"})
            with suppress(OSError, HTTPException):
                return line.getresponse().status
            return 0

    with _folder() as state:
        tokens = [token_of(state, f"p{number}", Role.OPERATOR.value) for number in range(10)]
        with _growing(state) as (service, grew), ThreadPoolExecutor(10) as senders:
            found = set(senders.map(offered, tokens))
            assert HTTPStatus.UNPROCESSABLE_ENTITY in found, found
        return grew[0]
