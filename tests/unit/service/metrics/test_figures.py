"""Figures as a scraper sees them: valid, bounded, of who may, and there when the run and the service are not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_network

import pytest
from prometheus_client.parser import text_string_to_metric_families

from flashferry.api.state import back_up
from flashferry.core.redaction import forget_secrets, keep_secret
from flashferry.core.values import replace
from flashferry.model.states import Phase, RunState
from flashferry.monitor.metrics import MetricKind
from flashferry.service.background import BackgroundTasks, PeriodicTask
from flashferry.service.live.collect import SnapshotReader
from flashferry.service.live.snapshot import DeviceActivity, EventView, Forecast
from flashferry.service.metrics.collector import FRESH_S, Figures
from flashferry.service.metrics.counting import METRICS, MOST_NAMED
from flashferry.service.metrics.exposition import Sheet
from flashferry.service.metrics.scrape import put_snapshot, state_of
from flashferry.service.settings import MetricsSettings, ProxySettings, ServiceSettings
from flashferry.store.journal import Journal
from flashferry.store.service.hooks import HookRow, OutboxRow, add_hook, put_out
from flashferry.store.status import LostDevice
from flashferry.store.upkeep import remove_runs
from tests.patience import PATIENCE_S, until
from tests.served import serve
from tests.some import some
from tests.unit.conftest import take
from tests.unit.service.live.made import NOW, device, run, scene
from tests.unit.store.conftest import TRANSFER, kept  # noqa: F401 -- a fixture

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(text: str) -> Samples:
    """Return the samples of an answer by name and labels; two of the same would be an error of ours."""
    found: Samples = {}
    for family in some(text_string_to_metric_families(text)):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found
            found[key] = sample.value
    return found


def value(found: Samples, name: str, **labels: str) -> float | None:
    return found.get((f"flashferry_{name}", tuple(sorted(labels.items()))))


def told(served) -> Samples:
    return parsed(served.call("GET", "/metrics", served.browser("vera")).text)


def told_of(found) -> Samples:
    """Return the figures of a scene."""
    sheet = Sheet()
    put_snapshot(sheet, found)
    return parsed(sheet.text().decode())


@pytest.fixture
def served(tmp_path):
    made = serve(tmp_path)
    made.person("vera", "viewer")
    return made


def a_run(journal: Journal, *hosts: str, site: str = "AMS") -> str:
    run_id = journal.begin_run("stage")
    for number, host in enumerate(hosts):
        journal.add_device(run_id, host=host, address=f"192.0.2.{number}", port=22, platform="ios", site=site)
    return run_id


def test_every_metric_is_there_and_no_other(served):
    """Those of the table, with their kinds, whether or not there is anything to tell; besides them the process' own."""
    text = served.call("GET", "/metrics", served.token("vera")).text
    kinds = dict(line.split(" ")[2:4] for line in text.splitlines() if line.startswith("# TYPE "))
    ours = {name: kind for name, kind in kinds.items() if not name.startswith("process_")}
    assert ours == {one.shown: str(one.kind) for one in METRICS.values()}
    assert {"process_start_time_seconds", "process_cpu_seconds_total"} <= kinds.keys()
    parsed(text)


def test_names_are_as_prometheus_wants_them():
    """Base units, seconds since 1970 for times, and no label that anybody could fill at will."""
    for one in METRICS.values():
        assert not one.name.endswith(("_total", "_ms", "_mb", "_age_seconds")), one.name
        assert one.kind is not MetricKind.HISTOGRAM or one.name.endswith(("_seconds", "_bytes_per_second"))
    assert [one.name for one in METRICS.values() if "device" in one.labels] == ["unrestored_device"]


def test_who_may_scrape(served):
    """A role for all sites, by a token; some sites are not enough, and nobody is not either."""
    for name, grants in (("ann", ["viewer@AMS"]), ("otto", ["operator"]), ("nobody", [])):
        served.person(name, *grants)
    answers = {name: served.call("GET", "/metrics", served.token(name)) for name in ("vera", "ann", "otto", "nobody")}
    assert {name: one.status_code for name, one in answers.items()} == {
        "vera": 200, "ann": 403, "otto": 200, "nobody": 403,
    }  # fmt: skip
    assert served.call("GET", "/metrics").status_code == 401
    assert answers["vera"].headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answers["vera"].headers["cache-control"] == "no-store"


NETWORKS = MetricsSettings(networks=(ip_network("198.51.100.0/24"), ip_network("127.0.0.0/8")))


@pytest.mark.parametrize(
    ("address", "headers", "status"),
    [
        ("198.51.100.7", {}, 200),
        ("127.0.0.1", {}, 200),
        ("::ffff:127.0.0.1", {}, 200),
        ("203.0.113.1", {}, 401),
        ("", {}, 401),
        # A proxy that nobody named, on this host: whoever is behind it is not this host.
        ("127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}, 401),
        ("127.0.0.1", {"Forwarded": "for=203.0.113.1"}, 401),
        # A proxy that is believed says from where it comes.
        ("192.0.2.10", {"X-Forwarded-For": "198.51.100.7"}, 200),
        ("192.0.2.10", {"X-Forwarded-For": "203.0.113.1"}, 401),
        ("192.0.2.10", {"X-Forwarded-For": "198.51.100.7, 203.0.113.1"}, 401),
        ("192.0.2.10", {"X-Forwarded-For": "nonsense"}, 401),
        ("192.0.2.10", {}, 401),
        # Who says who he is is held to it.
        ("127.0.0.1", {"Authorization": "Bearer ffy_worthless"}, 401),
    ],
)
def test_networks_that_need_no_token(tmp_path, address, headers, status):
    """Only those that are named, by the address that the kernel or a proxy that is believed tells."""
    proxy = ProxySettings(networks=(ip_network("192.0.2.10/32"),))
    served = serve(tmp_path, ServiceSettings(metrics=NETWORKS, proxy=proxy))
    assert served.call("GET", "/metrics", address=address or None, headers=headers).status_code == status
    assert served.call("GET", "/tonight", address=address or None, headers=headers).status_code == 401


def test_figures_outlive_a_run_and_the_service(tmp_path, kept):  # noqa: F811
    """A run died with a device in its hands; a service that begins afterwards, twice, tells so and what was copied."""
    with Journal(tmp_path) as journal:
        run_id = a_run(journal, "r1", "r2")
        take(journal, run_id, "r1", "SN1")
        journal.add_transfer(run_id, "r1", kept())
        journal.add_transfer(run_id, "r2", kept(ticket_id="t2", outcome="failed", bytes_acked=5, verdict="window"))
    serve(tmp_path).person("vera", "viewer")
    for _ in range(2):
        served = serve(tmp_path)
        served.app.state.figures.count()
        found = told(served)
        assert value(found, "unrestored_devices", site="AMS") == 1
        assert value(found, "unrestored_device", site="AMS", device="r1", run_id=run_id) == 1
        assert value(found, "runs", state="died") == 1
        assert value(found, "devices", site="AMS", state="interrupted") == 1
        assert value(found, "devices", site="AMS", state="not_begun") == 1
        assert value(found, "copied_bytes_total", site="AMS", transport="ftp") == 20_000_005
        by_transport = {"site": "AMS", "transport": "ftp", "tuned": "true"}
        assert value(found, "transport_transfers_total", outcome="delivered", **by_transport) == 1
        assert value(found, "transport_transfers_total", outcome="failed", **by_transport) == 1
        assert value(found, "transfers_total", site="AMS", outcome="failed", verdict="window") == 1
        assert value(found, "copy_seconds_sum", site="AMS") == 10
        assert value(found, "copy_rate_bytes_per_second_bucket", site="AMS", transport="ftp", le="2500000.0") == 1
        assert value(found, "copy_rate_bytes_per_second_bucket", site="AMS", transport="ftp", le="1250000.0") == 0


def test_what_is_pruned_stays_counted(tmp_path, kept):  # noqa: F811
    """A counter that fell would be a restart to Prometheus, and all that is left be taken for new."""
    served = serve(tmp_path)
    served.person("vera", "viewer")
    with Journal(tmp_path) as journal:
        run_id = a_run(journal, "r1")
        journal.add_transfer(run_id, "r1", kept())
        journal.finish_run(run_id)
    served.app.state.figures.count()
    remove_runs(tmp_path, [run_id])
    with Journal(tmp_path) as journal:
        journal.add_transfer(a_run(journal, "r1"), "r1", kept(ticket_id="t2"))
    served.app.state.figures.count()
    assert value(told(served), "transfers_total", site="AMS", outcome="delivered", verdict="bandwidth") == 2
    assert value(told(serve(tmp_path)), "transfers_total", site="AMS", outcome="delivered", verdict="bandwidth") == 2


def test_a_scrape_changes_nothing(served):
    """What ended is counted by a background thread; who asks is told what it counted."""
    before = dump(served)
    told(served)
    after = dump(served)
    assert [line for line in after if 'INTO "counted"' in line] == []
    assert [line for line in before if "sessions" not in line] == [line for line in after if "sessions" not in line]


def dump(served) -> list[str]:
    with served.service.database.reading() as database:
        return list(database.iterdump())


def test_what_is_changed_and_the_journal_does_not_know_counts(served):
    """Files beside the journal tell of a device that is tuned; nobody knows its site."""
    lost = LostDevice(run_id="gone", host="r9", address="192.0.2.9")
    found = told_of(scene(lost=(lost,)))
    assert value(found, "unrestored_devices", site="") == 1
    assert value(found, "unrestored_device", site="", device="r9", run_id="gone") == 1
    known = run(device("r9", "done", outcome="done"), state=RunState.FINISHED)
    assert value(told_of(scene(known, lost=(lost,))), "unrestored_devices", site="AMS") == 1
    assert value(told_of(scene()), "unrestored_devices", site="") == 0


def test_a_device_that_is_left_by_two_runs_is_one():
    """And a device in the hands of a run that lives is none."""
    left = device("r1", "tuned", is_held=True)
    two = scene(run(left, state=RunState.DIED, run_id="b"), run(left, state=RunState.DIED, run_id="a"))
    assert value(told_of(two), "unrestored_devices", site="AMS") == 1
    assert value(told_of(scene(run(left))), "unrestored_devices", site="AMS") == 0


def test_no_label_grows_with_the_fleet():
    """Five hundred devices that are left make one series each up to a bound, and are counted all."""
    sizes = []
    for count in (MOST_NAMED, 500):
        left = [device(f"r{number}", "tuned", is_held=True) for number in range(count)]
        found = told_of(scene(run(*left, state=RunState.DIED)))
        assert value(found, "unrestored_devices", site="AMS") == count
        sizes.append(len(found))
    assert sizes[0] == sizes[1]


def test_each_device_counts_once_as_its_last_run_has_it():
    """One that is in a run under way counts there, whatever a later one did with it."""
    later = run(device("r1", "failed", outcome="failed"), state=RunState.FINISHED, run_id="z")
    alive = run(device("r1", "tuned"), device("r2", "done", outcome="done"), run_id="a")
    found = told_of(scene(later, alive))
    assert value(found, "devices", site="AMS", state="tuning") == 1
    assert value(found, "devices", site="AMS", state="failed") == 0
    assert value(found, "devices", site="AMS", state="done") == 1


def test_a_run_under_way_tells_its_window_and_when_it_was_heard():
    """As seconds since 1970; one that is over has no series any more."""
    copying = DeviceActivity(
        phase=Phase.IN_PROGRESS, step="pull", acked_bytes=400, size_bytes=1000, rate_bytes_per_s=10
    )
    heard = EventView(
        devices={"r1": copying},
        last_at="2026-11-22T02:13:50.000Z",
        hold="paused",
    )
    until = (NOW + timedelta(minutes=1)).isoformat()
    forecast = Forecast(caps_bytes_per_s={"AMS": 25.0})
    alive = run(device("r1", "copying"), heard=heard, until=until, forecast=forecast, run_id="a")
    found = told_of(scene(alive, run(device("r2"), state=RunState.FINISHED, run_id="b")))
    assert value(found, "last_event_timestamp_seconds", run_id="a") == NOW.timestamp() - 10
    assert value(found, "run_window_end_timestamp_seconds", run_id="a") == NOW.timestamp() + 60
    assert value(found, "run_forecast_end_timestamp_seconds", run_id="a") == NOW.timestamp() + 60
    assert value(found, "run_held", run_id="a", reason="paused") == 1
    assert value(found, "run_held", run_id="a", reason="waiting") == 0
    assert value(found, "copies_running", site="AMS") == 1
    assert value(found, "acknowledged_bytes_per_second", site="AMS") == 10
    assert value(found, "site_cap_bytes_per_second", site="AMS") == 25
    assert value(found, "remaining_bytes", site="AMS") == 600
    assert value(found, "devices", site="AMS", state="copying") == 1
    assert [key for key in found if ("run_id", "b") in key[1]] == []


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({"state": "planned"}, "queued"),
        ({"state": "journaled"}, "tuning"),
        ({"state": "copied"}, "verifying"),
        ({"state": "verified"}, "restoring"),
        ({"state": "nonsense"}, "other"),
        ({"state": "done", "outcome": "done"}, "done"),
    ],
)
def test_states_without_events_are_those_of_the_journal(more, state):
    """A run from a shell that writes no events is told by its journal."""
    (one,) = run(device("r1", **more)).devices
    assert state_of(one) == state


def test_names_that_are_hostile_stay_labels():
    """Neither a line of its own, nor a second label; and no secret."""
    keep_secret("hunter2hunter2")
    hostile = 'a"} 1\nflashferry_unrestored_devices{site="b\\ hunter2hunter2'
    left = device(hostile, "tuned", is_held=True, site=hostile)
    sheet = Sheet()
    put_snapshot(sheet, scene(run(left, state=RunState.DIED, run_id=hostile)))
    text = sheet.text().decode()
    forget_secrets()
    assert "hunter2" not in text
    sites = {dict(labels)["site"] for name, labels in parsed(text) if name == "flashferry_unrestored_devices"}
    assert len(sites) == 2
    assert "b" not in sites


def test_tables_are_told(served, tmp_path):
    """Jobs, notices, images and the audit, by state; a hook has its oldest notice."""
    service = served.service
    with service.database.writing() as database:
        hook = HookRow(hook_id="h", name="ops", form="syslog", target="udp://x", secret_name=None, kinds=())
        add_hook(database, hook)
        waiting = OutboxRow(
            notice_id="1", hook_id="h", kind="run.dead", body="{}", at="2026-11-23T19:00:00.000Z",
            next_at="2026-11-23T20:00:00.000Z",
        )  # fmt: skip
        put_out(database, waiting)
        put_out(database, replace(waiting, notice_id="2", at="2026-11-23T19:30:00.000Z"))
        put_out(database, replace(waiting, notice_id="3", next_at=None))
    found = told(served)
    assert value(found, "notices_waiting", hook="ops") == 2
    assert value(found, "notices_given_up", hook="ops") == 1
    oldest = value(found, "oldest_waiting_notice_timestamp_seconds", hook="ops")
    assert oldest == served.clock.now.timestamp() - 3600
    assert value(found, "jobs", kind="stage", state="queued") == 0
    assert value(found, "disk_free_bytes", folder="state") > 0
    assert value(found, "depot_up") == 0


def test_the_newest_backup_is_told(tmp_path):
    """Of the folder that the configuration names, by what the archive is called."""
    state, backups = tmp_path / "state", tmp_path / "backups"
    served = serve(state, ServiceSettings(metrics=MetricsSettings(backups=backups)))
    served.person("vera", "viewer")
    assert value(told(served), "state_backup_timestamp_seconds") is None
    back_up(backups, state=state)
    (backups / "flashferry-state-99999999T999999Z.tar.gz.part").touch()
    served.app.state.figures = Figures(served.service)
    (archive,) = backups.glob("*.tar.gz")
    made = datetime.strptime(archive.name, "flashferry-state-%Y%m%dT%H%M%SZ.tar.gz").replace(tzinfo=UTC)
    assert value(told(served), "state_backup_timestamp_seconds") == made.timestamp()


def test_keepers_that_fail_are_told(service):
    """By name, with how often, until one goes well."""
    seen = []

    def fail(_service) -> None:
        seen.append(1)
        raise OSError("no")

    keepers = BackgroundTasks(service, [PeriodicTask(name="weak", every_s=0.01, run=fail)])
    keepers.start()
    until(lambda: len(seen) >= 3, "three failures")
    keepers.stop(PATIENCE_S)
    text = Figures(service).text(SnapshotReader(service), keepers.states()).decode()
    found = parsed(text)
    assert value(found, "keeper_good", keeper="weak") == 0
    assert value(found, "keeper_failures", keeper="weak") >= 2
    assert value(found, "keeper_last_look_timestamp_seconds", keeper="weak") > 0


def test_who_asks_again_within_seconds_is_given_the_same(service):
    """However many scrape."""
    now = [100.0]
    figures, looker = Figures(service, clock_s=lambda: now[0]), SnapshotReader(service)
    first = figures.text(looker, ())
    now[0] += FRESH_S - 0.1
    assert figures.text(looker, ()) is first
    now[0] += 0.2
    assert figures.text(looker, ()) is not first


def test_a_journal_that_cannot_be_read_is_told(served):
    """The answer is whole, and says since when nothing was read."""
    (served.service.state / "journal.sqlite3").write_bytes(b"no database" * 500)
    found = told(served)
    assert value(found, "journal_readable") == 0
    assert value(found, "journal_read_timestamp_seconds") == 0
    assert value(found, "audit_entries_total") is not None


def test_a_depot_that_has_not_answered_for_a_minute_is_not_up(service, monkeypatch):
    """Its look may hang; how it stood before is not told for ever."""
    now = [0.0]
    view = type("View", (), {"since": 1.8e9, "runs": (1, 2), "sites": ()})()
    monkeypatch.setattr(
        "flashferry.service.metrics.collector.find_depot", lambda *_: type("Found", (), {"view": view})()
    )
    figures, looker = Figures(service, clock_s=lambda: now[0]), SnapshotReader(service)
    figures.check_depot()
    found = parsed(figures.text(looker, ()).decode())
    assert (value(found, "depot_up"), value(found, "depot_runs")) == (1, 2)
    now[0] += 61
    assert value(parsed(figures.text(looker, ()).decode()), "depot_up") == 0
