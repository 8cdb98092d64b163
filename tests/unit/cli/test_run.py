"""`flashferry run` and `flashferry history` at a terminal: what they print, and what they refuse in one sentence."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from typer.testing import CliRunner

from flashferry.cli.history import blocks
from flashferry.cli.program import build
from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.model.activation import Activation, ActivationLimits, Phase
from flashferry.model.record import DeviceRecord
from flashferry.model.states import State
from flashferry.store.journal import Journal
from tasks.activating.service_state import ServiceState
from tasks.tcp_config import Change
from tests.unit.conftest import SNAPSHOT, take

COPY = (
    "INSERT INTO transfers (run_id, host, at, identity, kind, tuned, target, image, ticket_id, outcome, size_bytes, "
    "bytes_acked, duration_s, rate_bytes_per_s, rtt_s, window_bytes, congestion_control, verdict, device_s, transport, "
    "record) "
    "VALUES ('20261101-000000-aaaa', ?, ?, 'SN/r1', 'stage', 1, 'flash:x', 'x.bin', ?, ?, 20000000, 20000000, 5.0, "
    "4000000.0, 0.1, 1250000, 'bbr', 'bandwidth', ?, 'ftp', x'00')"
)


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Return what calls a command on this state directory, on a terminal of 80 columns."""
    monkeypatch.setattr("flashferry.cli.view.layout.console", narrow)
    for module in ("view.run_tables", "status", "history"):
        monkeypatch.setattr(f"flashferry.cli.{module}.console", narrow)

    def call(*words):
        done = CliRunner().invoke(build(), [*words, "--state-dir", str(tmp_path)])
        if isinstance(done.exception, ConfigInvalid):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.stdout

    return call


def narrow(*, stderr=False):
    from flashferry.cli.view.layout import ShownConsole

    return ShownConsole(stderr=stderr, width=80)


@pytest.fixture
def run_id(tmp_path):
    """Return a run under way with three waves."""
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
        for wave in range(3):
            journal.add_device(run_id, host=f"r{wave}", address="x", port=22, platform="ios", wave=wave, image="x.bin")
        yield run_id


def control(tmp_path, run_id):
    with Journal(tmp_path) as journal:
        return journal.control(run_id)


def test_a_run_is_paused_and_goes_on(call, run_id, tmp_path):
    """What the command says is what the run finds at its next look."""
    assert "pauses" in call("run", "pause", "latest")
    assert control(tmp_path, run_id).paused
    assert "alive, paused" in call("run", "list")
    assert f"flashferry run continue {run_id}" in call("status")
    assert "continues" in call("run", "continue", run_id[-4:])
    assert not control(tmp_path, run_id).paused


def test_a_run_is_stopped(call, run_id, tmp_path):
    """Gracefully, and the listing shows it."""
    assert "stops: what is under way is ended" in call("run", "stop", "latest")
    assert control(tmp_path, run_id).stopping
    assert "alive, stopping" in call("run", "list")


def test_a_wave_is_approved(call, run_id, tmp_path):
    """The one that waits, unless another is named."""
    with Journal(tmp_path) as journal:
        journal.set_waiting_wave(run_id, 1)
    told = " ".join(call("run", "show", "latest").split())
    assert f"wave 1 waits for approval: 'flashferry run approve {run_id} --state-dir " in told
    assert "may start wave 1" in call("run", "approve", "latest")
    assert control(tmp_path, run_id).approved_wave == 1
    assert json.loads(call("run", "approve", "latest", "--wave", "2", "--json"))["control"]["approved_wave"] == 2


def test_approving_a_paused_run_says_that_it_is_paused(call, run_id):
    """Else the operator waits for a wave that does not begin."""
    call("run", "pause", "latest")
    assert f"but is paused: 'flashferry run continue {run_id} --state-dir " in " ".join(
        call("run", "approve", "latest").split()
    )


@pytest.mark.parametrize("verb", ["pause", "continue", "approve", "stop"])
def test_a_run_that_is_not_alive_is_not_steered(call, tmp_path, verb):
    """The sentence says how to go on with it."""
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
    with pytest.raises(ConfigInvalid, match=rf"run {run_id} is not alive.*stage --resume {run_id}"):
        call("run", verb, "latest")


@pytest.mark.parametrize("verb", ["show", "pause", "continue", "approve", "stop"])
def test_an_unknown_run_is_one_sentence(call, tmp_path, verb):
    """And no journal is made for the asking."""
    with pytest.raises(ConfigInvalid, match="unknown run 'nope': the journal has no run yet"):
        call("run", verb, "nope")
    assert list(tmp_path.iterdir()) == []


def test_a_large_run_is_told_in_a_line(call, tmp_path):
    """Of five hundred devices those that need attention, and what became of all in numbers."""
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
        for number in range(30):
            journal.add_device(run_id, host=f"r{number}", address="x", port=22, platform="ios")
            journal.record(run_id, f"r{number}", {"outcome": "failed" if number == 7 else "done"})
        journal.finish_run(run_id)
    told = call("status")
    assert f"{run_id}: stage, finished, began " in told
    assert "30 devices: 29 done, 1 failed" in " ".join(told.split())
    assert "r7" in told
    assert "r8" not in told


def test_a_large_run_shows_what_needs_attention_first(call, tmp_path):
    """Then what is in its hands; the rest is counted, and a program gets all."""
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
        for number in range(30):
            journal.add_device(run_id, host=f"r{number}", address="x", port=22, platform="ios")
        take(journal, run_id, "r3", "r3")
        for number in range(10, 30):
            journal.record(run_id, f"r{number}", {"outcome": "failed" if number == 27 else "done"})
        told = call("run", "show", "latest")
    rows = [row.split()[0] for row in told.splitlines() if row.startswith("r") and not row.startswith("run ")]
    assert rows == ["r27", "r3"]
    assert "and 28 devices more: 19 done, 9 queued; --json has all" in " ".join(told.split())
    assert len(json.loads(call("run", "show", "latest", "--json"))["run"]["devices"]) == 30


def test_a_run_is_named_once_and_its_devices_below(call, run_id, monkeypatch):
    """Also on a narrow terminal no identifier is broken over two lines, nor repeated for each device."""
    monkeypatch.setattr("flashferry.cli.view.layout.Console.width", property(lambda _: 80))
    told = call("status").splitlines()
    assert told[0].startswith(f"{run_id}: stage, alive, began ")
    assert "\n".join(told).count(run_id) == 1
    assert [row.split()[:2] for row in told if row.lstrip().startswith("r")] == [[f"r{n}", "queued"] for n in range(3)]


def test_a_dead_run_is_told_how_it_goes_on(call, tmp_path):
    """Besides recovery, which only restores: the command that restores first and then does what is left."""
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
        journal.add_device(run_id, host="r1", address="x", port=22, platform="ios")
    assert f"'flashferry stage --resume {run_id} --state-dir " in " ".join(call("status").split())


def test_status_names_the_applet_that_a_killed_run_left(call, tmp_path):
    """It takes our lines back by itself, should recovery never run."""
    applet = Change(keyword="FLASHFERRY-3F2A", before=None, ours="event manager applet FLASHFERRY-3F2A")
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
        journal.add_device(run_id, host="r1", address="x", port=22, platform="ios")
        given = {"snapshot": SNAPSHOT, "changes": (applet,), "target": "flash:x.bin"}
        journal.acquire_lease(run_id, "r1", identity="SN/r1", **given)
    told = " ".join(call("status").split())
    assert "left tuned: r1 (journaled, x, applet FLASHFERRY-3F2A)" in told


@pytest.mark.parametrize("phase", Phase)
def test_a_device_in_an_activation_shows_its_phase(call, tmp_path, phase):
    """A device in mid-restart is in a phase that the journal has, and so is one that a killed run left there."""
    before = ServiceState(release="17.06.03", running_file="flash:packages.conf")
    activation = Activation(
        phase=Phase.INTENDED,
        is_install=True,
        image="x.bin",
        path="flash:x.bin",
        version="17.12.04.0.1",
        before=before,
        order=None,
        limits=ActivationLimits(),
        since="2026-11-26T12:00:00+00:00",
    )
    word = "in hand" if phase is Phase.INTENDED else phase.value
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("activate")
        journal.add_device(run_id, host="r1", address="x", port=22, platform="ios")
        given = {"snapshot": SNAPSHOT, "changes": (), "target": "flash:x.bin", "activation": activation}
        journal.acquire_lease(run_id, "r1", identity="SN/r1", **given)
        journal.activating(run_id, "r1", replace(activation, phase=phase))
        for words in (("status",), ("run", "list"), ("run", "show", "latest")):
            assert word in call(*words)
            assert "journaled" not in call(*words)
        (device,) = json.loads(call("status", "--json"))["status"]["runs"][0]["devices"]
        assert (device["state"], device["activation"]) == ("journaled", phase.value)
    assert f"left tuned: r1 ({word}, x)" in call("status")
    with Journal(tmp_path) as journal:
        journal.release(run_id, "r1", DeviceRecord(host="r1", seconds_by_step={}))
    assert json.loads(call("status", "--json"))["status"]["runs"][0]["devices"][0]["activation"] is None


def test_alike_reasons_are_told_once(call, tmp_path):
    """With the devices that they are about."""
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
        for host, why in (("r1", "no answer of r1.lab port 22"), ("r2", "no answer of r2.lab port 22"), ("r3", "lost")):
            journal.add_device(run_id, host=host, address=f"{host}.lab", port=22, platform="ios")
            journal.record(run_id, host, {"outcome": "failed", "failure": {"reason": why}})
    told = call("status")
    assert "2 devices: no answer of its address, port 22 (r1, r2)" in told
    assert "r3: lost" in told


def test_an_attempt_is_told(call, run_id, tmp_path):
    """That a device is at its second one can be seen."""
    with Journal(tmp_path) as journal:
        journal.move(run_id, "r1", State.FAILED)
        journal.again(run_id, "r1")
    assert "attempt 2" in " ".join(call("status").split())


@pytest.fixture
def copies(tmp_path):
    """Have three copies of a device in the journal, the last one broken off."""
    with Journal(tmp_path):
        pass
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as database, database:
        for number, (outcome, device_s) in enumerate((("delivered", 10.0), ("delivered", 5.0), ("reset", None)), 1):
            at = f"2026-11-0{number}T10:00:00.000+00:00"
            database.execute(COPY, ("r1", at, f"t{number}", outcome, device_s))


def test_a_devices_history_fits_eighty_columns(call, copies):
    """When, what, how fast, what held it up; then the trend, and what is expected next."""
    told = call("history", "r1")
    assert max(len(row) for row in told.splitlines()) <= 80
    assert [row.split()[:2] for row in told.splitlines()[1:4]] == [[f"11-0{day}", "10:00"] for day in (1, 2, 3)]
    assert "stage, tuned  20 MB  2.00 MB/s  100 ms  1.25 MB  bandwidth" in told
    assert "not delivered: reset" in told
    assert "to flash, tuned    ▅██  last 4.00 MB/s, best 4.00 MB/s" in told
    assert "expected tuned: 500 MB to flash: 2 min at 4.00 MB/s (staged" in told


def test_a_history_can_be_cut_to_its_end(call, copies):
    """What is left out is told."""
    told = call("history", "r1", "--last", "1")
    assert "11-03 10:00" in told
    assert "11-01 10:00" not in told
    assert "2 earlier copies: --last 3 shows them all" in told


def test_the_newest_copy_of_each_device(call, copies):
    """Without a device the newest of all of them."""
    rows = call("history").splitlines()
    assert (len(rows), rows[1].split()[:3]) == (2, ["r1", "11-03", "10:00"])


def test_a_history_as_json(call, copies):
    """Figures with their units in the names."""
    found = json.loads(call("history", "r1", "--json"))
    assert found["schema"] == "flashferry.history/1"
    assert [one["device_s"] for one in found["measurements"]] == [10.0, 5.0, None]
    assert found["expected_tuned"]["bytes_per_s"] == 4_000_000.0


def test_an_unknown_device_is_told_with_names_like_it(call, copies):
    """Or with some that are known, or that there is none."""
    with pytest.raises(ConfigInvalid, match="no copy of a device 'r11': names like it are r1"):
        call("history", "r11")
    with pytest.raises(ConfigInvalid, match="it has copies of 1 device, such as r1"):
        call("history", "zzz")


def test_nothing_measured_yet(call):
    """Is no error."""
    assert "no copy of any device yet" in call("history")


def test_blocks_are_as_high_as_their_speed():
    """The fastest is full, and nothing at all is no error."""
    assert blocks([1.0, 4.0, 8.0]) == "▂▅█"
    assert blocks([]) == ""
    assert blocks([0.0, 0.0]) == "▁▁"


@pytest.mark.parametrize(("left", "words"), [(0, "nothing left"), (1, "1 device left"), (2, "2 devices left")])
def test_status_says_whether_anything_is_to_recover(call, tmp_path, left, words):
    """Its exit code is 0 either way, so words, a field and the meaning of the code say it."""
    with Journal(tmp_path) as journal:
        run = journal.begin_run("stage")
        for number in range(2):
            journal.add_device(run, host=f"r{number}", address=f"192.0.2.{number}", port=22, platform="ios")
        for number in range(left):
            take(journal, run, f"r{number}", f"SN/r{number}")
    found = json.loads(call("status", "--json"))
    assert (found["exit_code"], found["needs_recovery"], len(found["to_recover"])) == (0, left > 0, left)
    assert found["meaning"] == f"the journal was read; {words} to recover"
    told = " ".join(call("status").split())
    if left:
        assert f"{words.removesuffix(' left')} to recover: run 'flashferry recover --state-dir " in told
        assert "; the exit code is 0 all the same, for status changes nothing" in told
    else:
        assert "exit code" not in told
        assert told.endswith("nothing to recover")


@pytest.fixture
def copies_by_two(copies, tmp_path):
    """Have four copies by HTTP besides the three by FTP, twice as fast and newer."""
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as database, database:
        for number in range(4, 8):
            at = f"2026-11-0{number}T10:00:00.000+00:00"
            database.execute(COPY, ("r1", at, f"t{number}", "delivered", 2.5))
        database.execute("UPDATE transfers SET transport = 'http' WHERE at > '2026-11-04'")


def test_a_trend_is_of_one_transport(call, copies_by_two):
    """Of each a line of its own that names it: a step between two transports is no change of a device."""
    rows = [" ".join(row.split()) for row in call("history", "r1").splitlines() if " last " in row]
    assert rows == [
        "by http to flash, tuned ████ last 8.00 MB/s, best 8.00 MB/s",
        "by ftp to flash, tuned ▅██ last 4.00 MB/s, best 4.00 MB/s",
    ]


def test_what_is_expected_is_told_of_each_transport(call, copies_by_two):
    """And what programs read has the same of each, that of the newest copy first."""
    told = call("history", "r1")
    assert "expected tuned, by http: 500 MB to flash: 62 s at 8.00 MB/s" in told
    assert "expected tuned, by ftp: 500 MB to flash: 2 min at 4.00 MB/s" in told
    found = json.loads(call("history", "r1", "--json"))
    assert [(one["transport"], one["copies"]) for one in found["by_transport"]] == [("http", 4), ("ftp", 3)]
    assert found["expected_tuned"] == found["by_transport"][0]["expected_tuned"]


def test_the_newest_copy_by_each_transport(call, copies_by_two):
    """A row is a device's copies by one of them."""
    rows = [row.split()[:4] for row in call("history").splitlines()]
    assert rows[1:] == [["r1", "11-07", "10:00", "http"], ["r1", "11-03", "10:00", "ftp"]]


def test_status_says_by_which_transport_a_speed_is(call, run_id, tmp_path):
    """In a column that is there where any other than the usual one took part."""
    with Journal(tmp_path) as journal:
        journal.record(run_id, "r0", {"outcome": "done", "transport": "ftp"})
        assert " by " not in call("status")
        journal.record(run_id, "r1", {"outcome": "done", "transport": "scp"})
    rows = [row.split() for row in call("status").splitlines() if row.lstrip().startswith(("r", "device"))]
    assert [row[:3] for row in rows] == [
        ["device", "result", "by"],
        ["r0", "done", "ftp"],
        ["r1", "done", "scp"],
        ["r2", "queued", "-"],
    ]


def test_it_is_kept_who_steered_a_run_and_why(call, run_id, monkeypatch):
    """`run show` tells it to people and to programs; a service says for whom it asks."""
    monkeypatch.setenv("FLASHFERRY_ACTOR", "anna")
    call("run", "pause", "latest", "--reason", "core link is down")
    call("run", "approve", "latest", "--wave", "1")
    told = " ".join(call("run", "show", "latest").split())
    assert "anna asked for: pause (core link is down)" in told
    assert "anna asked for: approve up to wave 1" in told
    wishes = json.loads(call("run", "show", "latest", "--json"))["run"]["wishes"]
    assert [(one["what"], one["actor"], one["via"], one["reason"]) for one in wishes] == [
        ("pause", "anna", "command-line", "core link is down"),
        ("approve", "anna", "command-line", ""),
    ]


def test_a_reason_is_shown_as_text(call, run_id):
    """What would move the cursor is made visible."""
    call("run", "pause", "latest", "--reason", "\x1b[2Jgone\nrun x: fine")
    told = call("run", "show", "latest")
    assert "\x1b[2J" not in told
    assert "\nrun x: fine" not in told
