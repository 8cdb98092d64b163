"""Speeds over time, and what they tell about the next copy: never more than was seen, and always with its source."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from flashferry.core.values import replace
from flashferry.model.record import DeviceRecord
from flashferry.model.states import Outcome
from flashferry.store.history import History
from flashferry.store.journal import Journal
from flashferry.store.measurements import Measurement, ProbeWord, age
from flashferry.store.transfer_row import PROBE_AS_IS, PROBE_TUNED, STAGE
from flashferry.tcp.tuning_benefit import nothing_to_tune

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
IMAGE_BYTES = 500_000_000
MB = 1_000_000


def measured(kind=STAGE, *, days=3.0, host="r1", **more) -> Measurement:
    """Return a copy of 500 MB at 2 MB/s, by both clocks, as long ago as said."""
    values = {
        "host": host,
        "at": (NOW - timedelta(days=days)).isoformat(),
        "run_id": f"run{days}",
        "kind": kind,
        "tuned": kind != PROBE_AS_IS,
        "to_null": kind != STAGE,
        "size_bytes": IMAGE_BYTES,
        "duration_s": 250.0,
        "rate_bytes_per_s": 2.0 * MB,
        "steady_bytes_per_s": None,
        "rtt_s": 0.1,
        "window_bytes": 1_250_000,
        "congestion_control": "bbr",
        "verdict": "cap",
        "device_s": 250.0 if kind == STAGE else None,
        "identity": "SN1/r1",
        "model": "ISR4331/K9",
    }
    return Measurement(**values | more)


FREE = measured(verdict="bandwidth")
"""A copy that no cap of ours held back."""


def probed(kind, steady_mb, **more) -> Measurement:
    return measured(kind, steady_bytes_per_s=steady_mb * MB, size_bytes=50 * MB, duration_s=10.0, **more)


def slow_flash(mb_per_s, **more) -> Measurement:
    """Return a copy that the device's flash held up: our server was done earlier."""
    return measured(device_s=IMAGE_BYTES / mb_per_s / MB, duration_s=IMAGE_BYTES / mb_per_s / MB / 2, **more)


def expected(*measurements, tuned=True, host="r1", probes=None, size_bytes=IMAGE_BYTES):
    found = History(measurements, probes=probes or {}, now=NOW).expected(host, tuned=tuned, size_bytes=size_bytes)
    return (None, "") if found is None else (round(found.bytes_per_s / MB, 2), found.source)


def test_nothing_known_is_nothing_expected():
    """No figure is made up."""
    assert expected() == (None, "")
    assert expected(measured(host="r2")) == (None, "")


def test_the_newest_copy_to_flash_counts_by_the_devices_clock():
    """The device writes on when our server is done: that time is part of the next copy, too."""
    older = measured(days=9.0, device_s=100.0)
    assert expected(older, measured(device_s=312.5)) == (1.6, "staged 3 days ago, 1.60 MB/s")


def test_flash_outweighs_a_speed_test():
    """However new that is: it wrote no flash."""
    assert expected(slow_flash(0.5), probed(PROBE_TUNED, 5.0, days=0.1))[0] == 0.5


def test_without_a_copy_to_flash_the_speed_test_counts():
    """Its steady rate, with the round trip at the end; the words say that it went to null."""
    rate, source = expected(probed(PROBE_TUNED, 5.0, days=1 / 24), probed(PROBE_AS_IS, 0.2, days=1 / 23))
    assert (rate, source) == (5.0, "probed tuned 1 hour ago, 5.00 MB/s to null:")


def test_pilots_of_a_speed_test_say_nothing():
    """Only the last copy of each kind in a run counts, and only that is shown."""
    pilot = probed(PROBE_TUNED, 0.1, run_id="one", days=2.002)
    last = probed(PROBE_TUNED, 5.0, run_id="one", days=2.0)
    assert History([last, pilot], now=NOW).of("r1") == (last,)


def test_a_copy_as_it_is_says_nothing_of_a_tuned_one_where_the_window_held_it():
    """A window or loss is what tuning moves."""
    for verdict in ("window", "random loss", "too short"):
        assert expected(measured(tuned=False, verdict=verdict), tuned=True) == (None, "")


def test_a_copy_as_it_is_counts_for_a_tuned_one_where_no_window_held_it():
    """The link, the cap or the device would limit that one just as well."""
    for verdict in ("bandwidth", "cap", "slow receiver", "policer", "server"):
        assert expected(measured(tuned=False, verdict=verdict), tuned=True)[0] == 2.0


def test_a_tuned_copy_says_nothing_of_one_as_it_is():
    """Without tuning it may be thirty times as slow; a forecast of the tuned rate would be a lie."""
    assert expected(measured(), tuned=False) == (None, "")


def test_a_speed_test_is_no_faster_than_the_devices_own_flash():
    """As it is to null: faster than the flash was seen to take, tuned: the flash decides, and the words say so."""
    rate, source = expected(slow_flash(0.08), probed(PROBE_AS_IS, 0.1, days=1.0), tuned=False)
    assert rate == 0.08
    assert source.endswith("its flash is slower: staged 3 days ago, 0.080 MB/s")


def test_a_speed_test_is_no_faster_than_the_flash_of_the_same_model():
    """The median of those that were held up by their flash, and how many they were."""
    others = [slow_flash(rate, host=f"o{rate}") for rate in (0.5, 0.7, 4.0)]
    rate, source = expected(probed(PROBE_TUNED, 5.0), *others)
    assert rate == 0.7
    assert source.endswith("the flash of ISR4331/K9 took 0.700 MB/s on 3 other devices")


def test_another_devices_link_is_not_its_flash():
    """A copy that the link or the window held says nothing about what the flash of that model takes."""
    others = [measured(host="o1", device_s=5000.0, duration_s=5000.0, verdict="bandwidth")]
    assert expected(probed(PROBE_TUNED, 5.0), *others)[0] == 5.0


def test_another_model_says_nothing():
    """Nor does one whose model nobody knows."""
    others = [slow_flash(0.5, host="o1", model="C2911"), slow_flash(0.5, host="o2", model=None)]
    assert expected(probed(PROBE_TUNED, 5.0), *others)[0] == 5.0


def test_a_device_that_needs_no_tuning_is_expected_as_it_is():
    """Its speed test has no tuned arm, for there was nothing to tune."""
    word = ProbeWord(at=NOW.isoformat(), is_useful=False, reason=nothing_to_tune().reason)
    assert expected(probed(PROBE_AS_IS, 5.0), tuned=True, probes={"r1": word})[0] == 5.0
    assert expected(probed(PROBE_AS_IS, 5.0), tuned=True) == (None, "")


@pytest.mark.parametrize(
    ("outcome", "size_bytes", "counts"),
    [
        ("delivered", 10_000, True),
        ("the client closed the data connection", 2 * MB, True),
        ("the client closed the data connection", 900_000, False),
        ("nothing acknowledged for 120 s", 400 * MB, False),
    ],
)
def test_what_counts_of_a_copy_that_broke_off(outcome, size_bytes, counts):
    """Long enough and not by a stall; a delivered one always does."""
    assert measured(outcome=outcome, size_bytes=size_bytes).counts is counts


def test_a_delivered_copy_outweighs_a_newer_broken_one():
    """What broke off is known by our server's clock only."""
    broken = measured(days=1.0, outcome="reset", rate_bytes_per_s=9.0 * MB)
    assert expected(measured(), broken)[0] == 2.0
    assert expected(broken)[0] == 9.0


def test_a_long_copy_outweighs_a_newer_tiny_one():
    """A tiny one is start and end; among long ones the newest counts."""
    tiny = measured(days=1.0, size_bytes=300_000, duration_s=1.0, device_s=3.0)
    assert expected(measured(), tiny)[0] == 2.0
    assert expected(tiny)[0] == 0.1


def test_a_short_copy_to_flash_is_no_bound_from_above():
    """It was mostly its start: a speed test may tell more, never less; the device's own limit stays one."""
    short = measured(size_bytes=3 * MB, duration_s=1.2, device_s=1.1, verdict="too short")
    assert expected(short, probed(PROBE_TUNED, 4.77))[0] == 4.77
    assert expected(short, probed(PROBE_TUNED, 1.0))[0] == 2.73
    slow = measured(size_bytes=3 * MB, duration_s=16.6, device_s=36.2, verdict="slow receiver")
    assert expected(slow, probed(PROBE_TUNED, 4.77))[0] == 0.08


def test_a_router_that_was_exchanged_begins_anew():
    """The same name, another serial number: what the former one's flash took says nothing."""
    now = probed(PROBE_TUNED, 5.0, days=1.0, identity="SN2/r1")
    assert expected(slow_flash(0.1), now)[0] == 5.0


def why(*measurements, probes=None):
    return History(measurements, probes=probes or {}, now=NOW).shown_not_to_gain("r1")


def test_a_pair_of_copies_to_flash_shows_what_tuning_gains():
    """Less than a fifth is no gain that could be told from chance; more is one, whatever a speed test said."""
    as_it_is = measured(tuned=False, days=9.0, device_s=270.0)
    said = why(measured(), as_it_is)
    assert said == "tuned staged 3 days ago, 2.00 MB/s; as it is staged 9 days ago, 1.85 MB/s to flash"
    assert why(measured(), replace(as_it_is, device_s=2500.0)) is None
    assert why(measured(verdict="too short"), as_it_is) is None


def test_flash_that_is_slower_than_the_untuned_path_shows_it():
    """The tuned copy was held up by the device, and untuned the path alone would have carried as much."""
    said = why(slow_flash(0.083), probed(PROBE_AS_IS, 0.102))
    assert said is not None
    assert "0.083 MB/s, and the device itself was the limit" in said
    assert said.endswith("0.102 MB/s to null:")
    assert why(slow_flash(0.5), probed(PROBE_AS_IS, 0.102)) is None
    assert why(slow_flash(0.5)) is None


def test_a_device_that_does_not_keep_up_as_it_is_gains_nothing():
    """What held it up was not its window."""
    assert "the device itself was the limit" in why(measured(tuned=False, verdict="slow receiver"))
    assert why(measured(tuned=False, verdict="window")) is None


def test_the_speed_tests_word_counts_where_no_flash_was_written():
    """Its reason is told, with its age; that tuning is worth it is no reason."""
    word = ProbeWord(
        at=(NOW - timedelta(hours=5)).isoformat(), is_useful=False, reason="1.05 times the speed is no gain"
    )
    assert why(probes={"r1": word}) == "its speed test 5 hours ago: 1.05 times the speed is no gain"
    assert why(probes={"r1": replace(word, is_useful=True)}) is None
    assert why() is None


@pytest.mark.parametrize(
    ("ago", "words"),
    [
        (timedelta(seconds=20), "just now"),
        (timedelta(minutes=1), "1 minute ago"),
        (timedelta(minutes=59), "59 minutes ago"),
        (timedelta(hours=1), "1 hour ago"),
        (timedelta(hours=47), "47 hours ago"),
        (timedelta(days=2), "2 days ago"),
        (timedelta(days=400), "400 days ago"),
        (timedelta(seconds=-5), "just now"),
    ],
)
def test_ages_are_told_in_words(ago, words):
    """The largest unit that says something."""
    assert age((NOW - ago).isoformat(), NOW) == words


def test_an_age_that_nobody_knows_is_told_as_that():
    """A damaged time is no error of the whole."""
    assert age("yesterday", NOW) == "at an unknown time"


def test_what_a_run_keeps_is_in_the_history(journal, enter, kept, transfer):
    """The server's account from the transfer, model and the device's clock from the record that followed it."""
    run_id = journal.begin_run("stage")
    enter(journal, run_id, "r1")
    journal.add_transfer(run_id, "r1", kept(verdict="cap", steady_bytes_per_s=2.1e6))
    record = DeviceRecord(host="r1", outcome=Outcome.DONE, transfer=transfer, seconds_by_step={})
    journal.record(run_id, "r1", record)
    (one,) = History.read(journal.directory).of("r1")
    assert (one.device_s, one.model, one.whole_bytes_per_s) == (None, None, 2_000_000.0)
    assert (one.verdict, one.steady_bytes_per_s, one.congestion_control) == ("cap", 2.1e6, "bbr")
    told = {
        "check": {"facts": {"model": "ISR4331/K9"}},
        "pull": {"device": {"duration_s": 20.0}},
        "transfer": {"ticket_id": "t1", "started_at": transfer.started_at},
    }
    journal.release(run_id, "r1", told)
    (one,) = History.read(journal.directory).of("r1")
    assert (one.device_s, one.model, one.whole_bytes_per_s) == (20.0, "ISR4331/K9", 1_000_000.0)


def test_a_journal_that_is_not_there_has_no_history(tmp_path):
    """Nor is one made."""
    assert History.read(tmp_path / "nowhere").hosts == ()
    assert not (tmp_path / "nowhere").exists()


def test_damaged_records_are_counted_and_hide_nothing(tmp_path, kept):
    """What can be read counts."""
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
        journal.add_device(run_id, host="r9", address="x", port=22, platform="ios")
        journal.add_transfer(run_id, "r2", kept())
        journal._write("UPDATE devices SET record = '{\"verdict\": ' WHERE host = 'r9'", ())
    found = History.read(tmp_path)
    assert (found.damaged, found.hosts) == (1, ("r2",))


def test_a_copy_by_one_transport_tells_nothing_of_another():
    """Neither its rate nor whether tuning is worth it."""
    copies = (measured(), measured(kind=STAGE, days=2, transport="scp", device_s=2_500.0))
    history = History(copies, now=NOW)
    by = {name: history.expected("r1", tuned=True, size_bytes=IMAGE_BYTES, transport=name) for name in ("ftp", "scp")}
    assert {name: one.bytes_per_s / MB for name, one in by.items()} == {"ftp": 2.0, "scp": 0.2}
    assert history.expected("r1", tuned=True, size_bytes=IMAGE_BYTES, transport="http") is None
    word = ProbeWord(at=NOW.isoformat(), is_useful=False, reason="no gain", transport="scp")
    history = History((measured(),), probes={"r1": word}, now=NOW)
    assert history.shown_not_to_gain("r1") is None
    assert "no gain" in history.shown_not_to_gain("r1", "scp")


def test_slow_flash_holds_back_every_transport_and_slow_crypto_its_own():
    """What clear text took by the device's own fault is its flash; what SCP took may have been the crypto."""
    flash = slow_flash(1.0, days=5)
    probe = probed(PROBE_TUNED, 5, transport="scp")
    found = History((flash, probe), now=NOW).expected("r1", tuned=True, size_bytes=IMAGE_BYTES, transport="scp")
    assert (found.bytes_per_s / MB, "flash" in found.source) == (1.0, True)
    crypto = slow_flash(1.0, days=5, transport="scp")
    probe = probed(PROBE_TUNED, 5)
    found = History((crypto, probe), now=NOW).expected("r1", tuned=True, size_bytes=IMAGE_BYTES)
    assert found.bytes_per_s / MB > 4


def test_probes_of_several_transports_in_one_run_all_count():
    """The pilot of one is not taken for the last word of another."""
    probes = [probed(PROBE_TUNED, mb, run_id="one", transport=name) for name, mb in (("ftp", 5), ("http", 4))]
    history = History(probes, now=NOW)
    assert [one.transport for one in history.of("r1")] == ["ftp", "http"]


@pytest.mark.parametrize(
    ("copies", "allowed", "fastest"),
    [
        ((), ("ftp", "http"), None),
        ((FREE, replace(FREE, transport="http", device_s=100.0)), ("ftp", "http"), "http"),
        ((FREE, replace(FREE, transport="http", device_s=100.0)), ("ftp", "scp"), "ftp"),
        ((FREE, replace(FREE, transport="http", device_s=100.0)), ("scp",), None),
        (
            (FREE, measured(kind=PROBE_AS_IS, transport="scp", steady_bytes_per_s=3.0 * MB, verdict="window")),
            ("ftp", "scp"),
            "scp",
        ),
        ((measured(host="r2"), measured(host="r2", transport="scp", device_s=50.0)), ("ftp", "scp"), "scp"),
        ((measured(), measured(transport="http", device_s=100.0)), ("ftp", "http"), "ftp"),
        ((measured(), measured(transport="http", device_s=100.0)), ("http", "ftp"), "http"),
    ],
    ids=[
        "nothing known",
        "two",
        "one not allowed",
        "none allowed",
        "by probe",
        "of the model",
        "our cap, not ftp, was the limit",
        "nor http",
    ],
)
def test_the_fastest_transport_is_the_one_that_was_measured_to_be(copies, allowed, fastest):
    """On the device itself, else on its model; never one that is not allowed; where our cap decided, the preferred."""
    known = (*copies, measured(kind=PROBE_AS_IS, transport="sftp", size_bytes=1, duration_s=0.1)) if copies else ()
    found = History(known, now=NOW).fastest("r1", allowed, size_bytes=IMAGE_BYTES)
    assert (found[0] if found else None) == fastest


def test_a_journal_tells_by_what_each_copy_went(journal, enter, kept):
    """Also the word of a speed test."""
    run_id = journal.begin_run("probe")
    enter(journal, run_id, "r1")
    journal.add_transfer(run_id, "r1", kept(transport="scp"))
    told = {"transport": "scp", "probe": {"worth": {"is_worth": False, "reason": "no gain"}}}
    journal.record(run_id, "r1", told)
    history = History.read(journal.directory)
    assert [one.transport for one in history.of("r1")] == ["scp"]
    assert history.shown_not_to_gain("r1") is None
    assert "no gain" in history.shown_not_to_gain("r1", "scp")
