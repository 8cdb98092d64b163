"""A speed test writes no flash: what is known of the flash bounds its forecast and its advice."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

from flashferry.model.probe_result import ProbeResult
from flashferry.run.probe import SpeedTest, SpeedTestOptions
from flashferry.store.history import History
from flashferry.store.measurements import Measurement
from flashferry.store.transfer_row import STAGE
from flashferry.tcp.verdict_rules import VerdictKind

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def slow(host="r1"):
    """Return a copy that the device's flash held up: 83 kB/s by its clock, our server was done in half the time."""
    return Measurement(
        host=host,
        at="2026-11-18T12:00:00+00:00",
        run_id="run",
        kind=STAGE,
        tuned=True,
        to_null=False,
        size_bytes=3_000_000,
        duration_s=18.0,
        rate_bytes_per_s=166_000.0,
        steady_bytes_per_s=None,
        rtt_s=0.1,
        window_bytes=1_260_000,
        congestion_control="bbr",
        verdict="slow receiver",
        device_s=36.1,
        identity=f"SN/{host}",
        model="CISCO1941",
    )


def arm(bytes_per_s):
    return SimpleNamespace(
        steady_bytes_per_s=bytes_per_s,
        measured_bytes_per_s=bytes_per_s,
        rtt_s=0.1,
        verdict=SimpleNamespace(kind=VerdictKind.WINDOW),
    )


def advice(*measurements):
    """Return what a test of 0.1 against 5.6 MB/s says, with these copies known."""
    found = ProbeResult(image_bytes=100_000_000, as_is=arm(0.1e6), tuned=arm(5.6e6))
    checked = SimpleNamespace(facts=SimpleNamespace(model="CISCO1941"))
    run = SimpleNamespace(record=SimpleNamespace(host="r1", probe=found, transport="ftp"), checked=checked)
    run.update = lambda **values: vars(run.record).update(values)
    test = SpeedTest(run, SpeedTestOptions(), files=None, history=History(measurements, now=NOW))
    test.decide(has_tuning=True)
    return run.record.probe.worth, test.forecast(found.tuned)


def test_without_any_copy_to_flash_the_test_speaks_for_itself():
    """56 times as fast, as far as anybody knows."""
    worth, tuned_s = advice()
    assert worth.is_worth
    assert worth.gain > 50
    assert tuned_s < 1000


def test_a_slow_flash_is_known_and_said():
    """Its flash took 83 kB/s: tuning gains nothing where it counts, and the reason has the figure."""
    worth, tuned_s = advice(slow())
    assert not worth.is_worth
    assert worth.reason.endswith("its flash is slower: staged 3 days ago, 0.083 MB/s")
    assert "the device itself is the limit" in worth.reason
    assert tuned_s > 6_000


def test_the_flash_of_its_model_counts_too():
    """Never staged itself, but another one of its model was."""
    worth, _ = advice(slow(host="r2"))
    assert not worth.is_worth
    assert "the flash of CISCO1941" in worth.reason
