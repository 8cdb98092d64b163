"""Metrics as a scraper sees them: parsed by the library's own parser, from a real port."""

from __future__ import annotations

import re
import socket
import threading
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from flashferry.core.errors import ConfigInvalid
from flashferry.fileserver import EventKind, ServerEvent, TransferProgress, TransferState
from flashferry.monitor.events import Event, Progress, TransferEnd
from flashferry.monitor.metrics import RunMetrics, ServeMetrics, parsed_address, run_metrics
from flashferry.monitor.progress import Expected, Roster
from tests.patience import PATIENCE_S
from tests.some import some

ROSTER = Roster(
    devices=(
        Expected(host="r1", site="berlin", size_bytes=1000),
        Expected(host="r2", site="berlin", size_bytes=1000),
        Expected(host="r3", site="jena", size_bytes=1000),
    ),
    caps_bytes_per_s={"berlin": 6e6},
)
END = TransferEnd(
    is_delivered=True, verdict="cap", bytes_acked=1000, retransmitted_bytes=7, duration_s=90.0, rate_bytes_per_s=11.0
)


def told(host: str | None, step: str, status: str, at_s: float = 0.0, text: str = "", **more: object) -> Event:
    return Event(host=host, step=step, status=status, text=text, at_s=at_s, **more)  # type: ignore[arg-type]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(text: str) -> Samples:
    """Return the samples of a scrape by name and labels; two of the same would be an error of ours."""
    found: Samples = {}
    for family in some(text_string_to_metric_families(text)):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found
            found[key] = sample.value
    return found


def value(found: Samples, name: str, **labels: str) -> float:
    return found[f"flashferry_{name}", tuple(sorted(labels.items()))]


def a_run(metrics: RunMetrics) -> None:
    """One device done, one copying, one that failed and could not be restored."""
    metrics(told(None, "run", "started", text="run-1", run_id="run-1"))
    metrics(told("r1", "pull", "queued", 1.0, "waits for one of 8 copies of berlin"))
    metrics(told("r1", "pull", "started", 21.0))
    metrics(told("r1", "pull", "progress", 22.0, progress=Progress(acked_bytes=1000, size_bytes=1000)))
    metrics(told("r1", "transfer", "done", 111.0, transfer=END))
    metrics(told("r1", "verify", "started", 112.0))
    metrics(told("r1", "verify", "done", 142.0))
    metrics(told("r1", "device", "done", 150.0, outcome="done", restored="restored"))
    seen = Progress(acked_bytes=400, size_bytes=1000, rate_bytes_per_s=50.0)
    metrics(told("r2", "pull", "started", 21.0))
    metrics(told("r2", "pull", "progress", 22.0, progress=seen))
    metrics(told("r3", "device", "failed", 5.0, outcome="failed", restored="incomplete", failure="LoginRefused"))


def test_a_scrape_tells_where_a_run_stands():
    """Fetched from the port while it runs; nobody listens there, and no thread is left, when it has ended."""
    port, threads = free_port(), threading.active_count()
    with run_metrics(str(port), ROSTER, "restore") as metrics:
        a_run(metrics)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
            found = parsed(answer.read().decode())
    assert value(found, "devices", site="berlin", state="done") == 1
    assert value(found, "devices", site="berlin", state="copying") == 1
    assert value(found, "devices", site="jena", state="failed") == 1
    assert value(found, "copies_running", site="berlin") == 1
    assert value(found, "acknowledged_bytes_total", site="berlin") == 1400
    assert value(found, "acknowledged_bytes_per_second", site="berlin") == 50
    assert value(found, "remaining_bytes", site="berlin") == 600
    assert value(found, "site_cap_bytes_per_second", site="berlin") == 6e6
    assert value(found, "transfers_total", site="berlin", outcome="delivered", verdict="cap") == 1
    assert value(found, "retransmitted_bytes_total", site="berlin") == 7
    assert value(found, "copy_seconds_sum", site="berlin") == 90
    assert value(found, "hash_seconds_sum") == 30
    assert value(found, "wait_seconds_sum", step="pull") == 20
    assert value(found, "login_failures_total", side="device") == 1
    assert value(found, "device_failures_total", kind="LoginRefused") == 1
    assert value(found, "restores_incomplete_total", site="jena") == 1
    assert value(found, "run_info", run_id="run-1") == 1
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S)
    assert threading.active_count() == threads


def test_a_counter_that_alerts_begins_at_zero():
    """A series that first shows as one has not increased for any rule."""
    found = parsed(generate_latest(RunMetrics(ROSTER, "restore").registry).decode())
    for site in ("berlin", "jena"):
        assert value(found, "restores_incomplete_total", site=site) == 0


def test_no_label_names_a_device():
    """Five hundred devices make no more series than three: what grows with a fleet does not belong into labels."""
    sizes = []
    for count in (3, 500):
        devices = tuple(Expected(host=f"r{number}", site="berlin", size_bytes=1) for number in range(count))
        metrics = RunMetrics(Roster(devices=devices), "restore")
        for one in devices:
            metrics(told(one.host, "verify", "started"))
            metrics(told(one.host, "verify", "done"))
            metrics(told(one.host, "transfer", "done", transfer=END))
        sizes.append(len(parsed(generate_latest(metrics.registry).decode())))
    assert sizes[0] == sizes[1]


def test_a_port_in_use_is_told_before_anything_begins():
    """One sentence with the address, the port and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = f"127.0.0.1 port {port}: Address already in use"
        with pytest.raises(ConfigInvalid, match=words) as caught, run_metrics(str(port), ROSTER, "restore"):
            pass
    assert caught.value.hint is not None
    assert "another port" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "found"),
    [("9912", ("127.0.0.1", 9912)), ("0.0.0.0:80", ("0.0.0.0", 80)), ("[::1]:9912", ("::1", 9912))],
)
def test_an_address_is_loopback_unless_given(text: str, found: tuple[str, int]):
    """Metrics name sites and rates: nobody but this host reads them unless asked for."""
    assert parsed_address(text) == found


@pytest.mark.parametrize("text", ["", "0", "65536", "http", "host.example:9912", "1.2.3.4:", "9912:", "-1"])
def test_what_is_no_address_is_refused(text: str):
    """The sentence shows what was given and what is expected."""
    with pytest.raises(ConfigInvalid, match=r"expected \[ADDRESS:\]PORT"):
        parsed_address(text)


def served(kind: EventKind, state: TransferState, acked_bytes: int, rate_bytes_per_s: float = 0.0) -> ServerEvent:
    seen = TransferProgress(
        ticket_id="t1",
        state=state,
        sequence=1,
        size_bytes=1000,
        tries_left=1,
        bytes_acked=acked_bytes,
        rate_bytes_per_s=rate_bytes_per_s,
    )
    return ServerEvent(kind=kind, at=0.0, text="", progress=seen)


def test_the_server_by_itself_counts_what_it_sends():
    """A resumed transfer counts from where it began; one that ended is no longer running."""
    metrics = ServeMetrics(6e6)
    metrics(served(EventKind.START, TransferState.TRANSFERRING, 300))
    metrics(served(EventKind.PROGRESS, TransferState.TRANSFERRING, 500, 20.0))
    found = parsed(generate_latest(metrics.registry).decode())
    assert value(found, "copies_running", site="serve") == 1
    assert value(found, "acknowledged_bytes_per_second", site="serve") == 20
    assert value(found, "acknowledged_bytes_total", site="serve") == 200
    metrics(served(EventKind.STALLED, TransferState.STALLED, 500))
    assert value(parsed(generate_latest(metrics.registry).decode()), "copies_stalled", site="serve") == 1
    metrics(served(EventKind.DONE, TransferState.DELIVERED, 1000))
    metrics(ServerEvent(kind=EventKind.LOGIN_FAILED, at=0.0, text="unknown user"))
    found = parsed(generate_latest(metrics.registry).decode())
    assert value(found, "copies_running", site="serve") == 0
    assert value(found, "acknowledged_bytes_total", site="serve") == 700
    assert value(found, "login_failures_total", side="ftp") == 1


def test_every_metric_is_explained(documentation):
    """docs/metrics.md names each of them; its rules name none that is not there."""
    text = documentation("metrics.md")
    run, serve = RunMetrics(ROSTER, "restore"), ServeMetrics(1.0)
    a_run(run)
    names = set()
    for registry in (run.registry, serve.registry):
        for family in text_string_to_metric_families(generate_latest(registry).decode()):
            if not family.name.endswith("_created"):
                names.add(f"{family.name}_total" if family.type == "counter" else family.name)
    assert {"copies_running", "login_failures_total"} <= {name.partition("flashferry_")[2] for name in names}
    assert [name for name in sorted(names) if f"`{name}`" not in text] == []


PAGE = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"


@pytest.mark.skipif(not PAGE.is_file(), reason="the tests run away from the checkout, without docs")
def test_the_page_has_all_metrics_of_runs_and_no_other():
    """What a run and `serve` tell is in docs/metrics.md, each by the name that rules ask for."""
    run, server = RunMetrics(ROSTER, "restore"), ServeMetrics(1e6)
    a_run(run)
    suffixes = {"counter": "_total"}
    told_names = {
        family.name + suffixes.get(family.type, "")
        for metrics in (run, server)
        for family in metrics.registry.collect()
        if family.name.startswith("flashferry_")
    }
    part = PAGE.read_text(encoding="utf-8").split("# Of a run, while it lives")[1].split("# Of the service")[0]
    assert set(re.findall(r"flashferry_[a-z_]+", part.split("## What there is")[1])) == told_names
    rules = PAGE.with_name("examples").joinpath("prometheus", "flashferry-run.rules.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"flashferry_[a-z_]+", rules)) < told_names
