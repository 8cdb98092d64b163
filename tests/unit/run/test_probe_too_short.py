"""A speed test that ends with a copy too short to be a measurement: what was measured is told, and no ratio is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.cli.view.probe_table import print_probe
from flashferry.core.values import replace
from flashferry.fileserver import SenderReport
from flashferry.model.probe_result import Arm, ProbeResult
from flashferry.model.record import DeviceRecord, RunReport
from flashferry.model.states import Outcome, Restored, State
from flashferry.run import probe
from flashferry.run.probe import SpeedTest, SpeedTestOptions
from flashferry.store.history import History
from flashferry.store.measurements import Measurement
from flashferry.store.transfer_row import PROBE_AS_IS
from flashferry.tcp.speed_test_size import PILOT_BYTES, too_short
from flashferry.tcp.verdict import Verdict
from flashferry.tcp.verdict_rules import VerdictKind

SENDER = SenderReport(
    congestion_control_asked="auto",
    congestion_control_chosen="bbr",
    congestion_control="bbr",
    reason="",
    cap_asked_bytes_per_s=None,
    cap_bytes_per_s=None,
)


def arm(size_bytes: int, duration_s: float, *, rtt_s: float = 0.1, copies: int = 1) -> Arm:
    """Return an arm whose last copy was so large and took so long."""
    rate = size_bytes / duration_s
    return Arm(
        size_bytes=size_bytes,
        copies=copies,
        device_bytes_per_s=rate,
        server_bytes_per_s=rate,
        steady_bytes_per_s=rate,
        duration_s=duration_s,
        rtt_s=rtt_s,
        syn=None,
        sender=SENDER,
        verdict=Verdict(kind=VerdictKind.WINDOW, share=1.0, sentence="Window.", evidence=()),
        too_short=too_short(size_bytes=size_bytes, duration_s=duration_s, rtt_s=rtt_s),
    )


@pytest.fixture(autouse=True)
def no_lines(monkeypatch):
    monkeypatch.setattr(probe, "tune", lambda run, plan, before: None)


def speed_test(as_is: list[Arm], tuned: list[Arm]) -> ProbeResult:
    """Return what a speed test finds whose copies are these, in their order; the last of an arm is used again."""
    record = SimpleNamespace(host="r1", probe=None, transfer=None, link_rate=None, transport="ftp")
    run = SimpleNamespace(record=record, checked=SimpleNamespace(facts=SimpleNamespace(model="CISCO2811")))
    run.update = lambda **values: vars(record).update(values)
    test = SpeedTest(run, SpeedTestOptions(), files=None)
    left = {"as it is": list(as_is), "tuned": list(tuned)}
    test.time_once = lambda name, target, size_bytes, copies: replace(
        left[name].pop(0) if len(left[name]) > 1 else left[name][0], copies=copies
    )
    changes = (SimpleNamespace(is_tuning=True, keyword="window-size"),)
    test.deliver(SimpleNamespace(tune=SimpleNamespace(changes=changes), target="null:"), None)
    assert record.outcome is Outcome.DONE
    return record.probe


def printed(found: ProbeResult, capsys) -> str:
    """Return what a person is shown of a speed test."""
    device = DeviceRecord(
        host="r1",
        state=State.DONE,
        outcome=Outcome.DONE,
        restored=Restored.RESTORED,
        probe=found,
        seconds_by_step={},
    )
    print_probe(RunReport(run_id="run", verb="probe", image="", image_bytes=0, md5="", devices=(device,)))
    return " ".join(capsys.readouterr().out.split())


SLOW_PILOT = arm(PILOT_BYTES, 80.0)
FAST = arm(30_000_000, 6.0)


def test_no_ratio_from_a_pilot(capsys):
    """80 s for the first 64 KiB beside 5 MB/s tuned were '6,103 times'; now what was measured is told, and what not."""
    found = speed_test([SLOW_PILOT], [FAST])
    assert (found.as_is.copies, found.worth, found.as_is_s) == (1, None, None)
    assert found.tuned_s == pytest.approx(100, rel=0.1)
    said = printed(found, capsys)
    assert "times as fast" not in said
    assert "6,1" not in said
    assert "r1: as it is: not measured: only 66 kB went over, in 80.0 s" in said
    assert "5.00 MB/s" in said
    assert "is tuning worth it: not known, for a gain takes two measurements; as it is: only 66 kB" in said


def test_a_stalled_pilot_is_followed_by_a_measurement():
    """5.2 s for 64 KiB, half of what a copy should take, ended the test at 13 kB/s; the device takes 0.16 MB/s."""
    found = speed_test([arm(PILOT_BYTES, 5.2), arm(140_000, 0.9), arm(1_600_000, 10.0)], [FAST])
    assert (found.as_is.copies, found.as_is.steady_bytes_per_s) == (3, 160_000.0)
    assert found.worth is not None
    assert found.worth.gain == pytest.approx(31.25)


def test_a_copy_of_a_few_round_trips_carries_no_ratio(capsys):
    """64 MB, the largest, over in five round trips: the start of a copy, in the tuned arm too."""
    found = speed_test([arm(1_600_000, 10.0)], [arm(64_000_000, 0.5)])
    assert (found.worth, found.tuned_s) == (None, None)
    assert "tuned: not measured: 64 MB were over in 0.5 s, 5 round trips" in printed(found, capsys)


def test_two_measurements_carry_one(capsys):
    """Nothing is withheld where both arms were long enough."""
    said = printed(speed_test([arm(1_600_000, 10.0)], [FAST]), capsys)
    assert "tuning is worth it: 31.2 times as fast" in said
    assert "not measured" not in said


def test_a_pilot_is_no_history():
    """A speed test that broke off behind its pilot says nothing about the device's next copy."""
    found = Measurement(
        host="r1",
        at="2026-11-18T12:00:00+00:00",
        run_id="run",
        kind=PROBE_AS_IS,
        tuned=False,
        to_null=True,
        size_bytes=PILOT_BYTES,
        duration_s=5.2,
        rate_bytes_per_s=12_603.0,
        steady_bytes_per_s=None,
        rtt_s=0.1,
        window_bytes=16_060,
        congestion_control="bbr",
        verdict="window",
    )
    assert not found.counts
    assert replace(found, size_bytes=1_600_000, duration_s=10.0).counts
    assert History([found]).expected("r1", tuned=False, size_bytes=10**8) is None
