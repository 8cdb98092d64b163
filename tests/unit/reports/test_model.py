"""The report's model: what follows from a stored run, and that what is missing stays missing."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flashferry.model.states import RunState
from flashferry.reports.build import IN_PROGRESS, LEFT, NOT_STARTED
from flashferry.reports.headline import configuration_line, covered_s, headline, saved_line, state_line
from flashferry.reports.model import Proof, Severity, Speed
from tests.some import some

BEFORE = Speed(bytes_per_s=160_000.0, source="speed test to null:", to_flash=False)


def test_three_real_devices_come_out_as_they_were(three, report):
    """Staged, slow and wrong: outcome, proof, hash, verdict and failure are those of the records."""
    found = report(three)
    xe1, ios1, xe2 = found.devices
    assert [one.standing for one in found.devices] == [Severity.GOOD, Severity.GOOD, Severity.FAILED]
    assert [one.needs_attention for one in found.devices] == [False, False, True]
    assert {one.restore.proof for one in found.devices} == {Proof.PROVEN}
    assert (xe1.verdict.kind, ios1.verdict.kind) == ("cap", "slow receiver")
    assert xe1.hash_proof.startswith("SHA512 76f4b342")
    assert (xe2.hash_proof, xe2.step) == (None, "verify")
    assert (xe1.model, xe1.release, xe1.tuned.to_flash) == ("CSR1000V", "16.11.1a", True)
    assert [line.is_as_before for line in xe1.restore.lines] == [True, True]
    assert found.summary.acked_bytes == 75_000_000
    assert headline(found) == "2 of 3 devices have the image, proven by its hash; 1 failed."
    assert configuration_line(found) == (
        "Every configuration is what it was: 3 changed, restored and proven equal to the start."
    )


def test_before_and_after_make_gain_and_saving(three, record, report):
    """Gain is tuned over before; saved is what the copy would have taken less what it took, by the device's clock."""
    xe1 = report(three, {"xe1": BEFORE}).devices[0]
    assert xe1.gain == pytest.approx(xe1.tuned.bytes_per_s / 160_000)
    took_s = record("xe_staged")["pull"]["device"]["duration_s"]
    assert xe1.tuned.bytes_per_s == pytest.approx(25_000_000 / took_s)
    assert xe1.saved_s == pytest.approx(25_000_000 / 160_000 - took_s)


def test_a_slow_flash_is_not_held_against_a_test_without_flash(three, report):
    """Tuned to flash slower than untuned to null: says nothing about tuning, so no gain is told, and why."""
    ios1 = report(three, {"ios1": BEFORE}).devices[1]
    assert (ios1.gain, ios1.saved_s) == (None, None)
    assert any("no gain can be stated" in note for note in ios1.notes)


def test_a_wrong_image_saves_no_time(three, report):
    """The speed of a copy that failed is shown; hours saved count only what is of use."""
    xe2 = report(three, {"xe2": BEFORE}).devices[2]
    assert xe2.gain is not None
    assert xe2.saved_s is None


def test_what_was_not_measured_is_none(run, device, report):
    """A device without a record has no speed, no time, no verdict: None everywhere, never 0."""
    found = report(run(device(record={}, state="planned"))).devices[0]
    assert (found.as_is, found.tuned, found.untuned, found.gain, found.saved_s) == (None,) * 5
    assert (found.total_s, found.rtt_s, found.verdict, found.hash_proof, found.model) == (None,) * 5
    assert found.restore.running_is_equal is None
    assert found.restore.startup_is_equal is None


def test_a_probe_has_both_arms(run, device, record, report):
    """As it is and tuned come from the speed test itself, with the gain; its files are no images."""
    probed = device(record=record("xe_probed"), image="probe-49000000.bin")
    found = report(run(probed, verb="probe"))
    one = found.devices[0]
    assert one.as_is.bytes_per_s == pytest.approx(159_318.98, rel=1e-4)
    assert one.gain == pytest.approx(14.94, rel=1e-3)
    assert (one.image, found.images) == (None, ())
    assert [copy.kind for copy in one.transfers] == ["probe as it is", "probe tuned"]


@pytest.mark.parametrize(
    ("state", "begun", "outcome"),
    [
        (RunState.ALIVE, "planned", NOT_STARTED),
        (RunState.ALIVE, "copying", IN_PROGRESS),
        (RunState.DIED, "planned", NOT_STARTED),
        (RunState.DIED, "copying", LEFT),
        (RunState.FINISHED, "planned", NOT_STARTED),
    ],
)
def test_devices_of_a_run_that_did_not_end(run, device, report, state, begun, outcome):
    """Under way, not begun or left: by the run's state and how far the device came."""
    held = begun == "copying"
    found = report(run(device(record={}, state=begun, is_held=held), state=state, finished_at=None)).devices[0]
    assert found.outcome == outcome
    assert found.needs_attention is (outcome == LEFT)


def test_why_devices_had_no_turn_is_told_once(run, device, report):
    """A run that stopped says for how many devices and why; they do not fill the list of what needs attention."""
    reason = {"reason": "2 of 3 devices failed in wave 0", "step": "wave", "hint": None, "kind": "Stopped"}
    waiting = {"outcome": "not begun", "restored": "untouched", "failure": reason}
    found = report(run(device(), *(device(f"r{number}", waiting, state="planned") for number in range(5))))
    assert state_line(found) == "5 devices not started: 2 of 3 devices failed in wave 0."
    assert found.summary.needing_attention == 0
    assert [one.standing for one in found.devices][1:] == [Severity.OPEN] * 5


def test_a_device_that_a_dead_run_holds_is_not_proven_restored(run, device, report):
    """The lease outweighs whatever the record says."""
    found = report(run(device(state="copying", is_held=True), state=RunState.DIED, finished_at=None))
    assert found.devices[0].restore.proof is Proof.NOT_PROVEN
    assert found.devices[0].standing is Severity.UNRESTORED
    assert "flashferry recover" in state_line(found)


def test_what_recovery_did_counts_last(run, device, record, report):
    """A device that the run left tuned and `recover` restored is proven, and the report says by whom."""
    staged = record("xe_staged")
    recovery = {"restored": "restored", "restore": staged["restore"], "failure": None}
    left = staged | {"restored": "incomplete", "restore": None, "outcome": "failed", "recovery": recovery}
    found = report(run(device(record=left, state="restored"))).devices[0]
    assert (found.restore.proof, found.restore.by_recovery) == (Proof.PROVEN, True)
    assert found.restore.running_is_equal is True


def test_a_device_that_a_former_attempt_changed_is_no_untouched_one(run, device, record, report):
    """Killed while tuned, recovered, and found to have the image by the next attempt: changed, restored, proven."""
    recovery = {"restored": "restored", "restore": record("xe_staged")["restore"], "failure": None}
    there = {"outcome": "already there", "restored": "untouched"}
    found = report(run(device(record=there, attempts=({"recovery": recovery},), attempt=2), device("r2", there)))
    assert [one.restore.proof for one in found.devices] == [Proof.PROVEN, Proof.UNTOUCHED]
    assert found.devices[0].restore.by_recovery
    assert configuration_line(found).endswith("1 changed, restored and proven equal to the start; 1 never changed.")


def test_somebody_elses_change_is_named(run, device, record, report):
    """A foreign line needs attention though the image is there, with both values in a sentence."""
    changed = {
        "keyword": "window-size",
        "before": None,
        "ours": "ip tcp window-size 1250000",
        "present": "ip tcp window-size 80000",
    }
    staged = record("xe_staged", restored="restored but for somebody else's change")
    staged["restore"] |= {"foreign": [changed], "running": {"lines": ["ip tcp window-size 80000"]}}
    found = report(run(device(record=staged))).devices[0]
    assert (found.standing, found.needs_attention, found.restore.proof) == (Severity.GOOD, True, Proof.FOREIGN)
    assert "80000" in found.restore.foreign[0]
    assert found.restore.lines[0].is_as_before is False


def test_sites_sum_up_what_their_devices_did(fleet, report):
    """Every device, byte and copy is in exactly one site, and the cap is the site's whole one."""
    found = report(fleet(120, sites=4))
    assert [site.devices for site in found.sites] == [30, 30, 30, 30]
    assert sum(site.acked_bytes for site in found.sites) == found.summary.acked_bytes
    assert sum(site.copies for site in found.sites) == found.summary.copies
    for site in some(found.sites):
        # The records say "1 of 2 shares" of 4.87 MB/s, or the whole of it.
        assert site.cap_bytes_per_s == pytest.approx(4_866_666, abs=2)
        assert 0 < site.copying_share <= 1


def test_a_link_that_waits_between_waves_was_as_full_as_while_it_copied(run, device, record, report):
    """Two copies an hour apart are as large a share of the cap as one: the hour between them is no idle link."""
    alone = report(run(device())).sites[0]
    later = record("xe_staged")
    later["transfer"]["started_at"] += 3600
    both = report(run(device(), device("xe2", record=later))).sites[0]
    assert both.rate_bytes_per_s == pytest.approx(alone.rate_bytes_per_s)
    assert both.cap_share == pytest.approx(alone.cap_share)
    assert both.copying_share < 0.1 < alone.copying_share


def test_time_is_covered_once():
    """Copies at the same time count once, gaps not at all."""
    assert covered_s([(0, 10), (5, 12), (20, 25), (21, 22)]) == 17
    assert covered_s([]) == 0


def test_saved_time_is_told_for_whom_it_is_known(three, report):
    """The sentence names how many devices it rests on; without any there is none."""
    assert saved_line(report(three)) == ""
    assert "over the 1 device whose speed before is known" in saved_line(report(three, {"xe1": BEFORE}))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_KEYS = (
    *("outcome", "restored", "failure", "restore_failure", "check", "window", "link_rate", "changes", "tune", "pull"),
    *("transfer", "reconciled", "clocks", "verify", "restore", "partial_file", "probe", "seconds_by_step", "recovery"),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(wrong=st.dictionaries(st.sampled_from(_KEYS), _JSON, min_size=1))
def test_no_record_however_damaged_ends_a_report(run, device, record, report, wrong):
    """A field of another kind than expected is missing, and nothing else."""
    found = report(run(device(record=record("xe_staged") | wrong, transfers=()), device("xe2")))
    assert found.devices[1].standing is Severity.GOOD


def test_a_speed_test_that_was_too_short_has_no_gain(run, device, record, report):
    """The arm as it is ended with its first 64 KiB: its rate, and any ratio, would be chance; the report says so."""
    found = record("xe_probed")
    (whole,) = report(run(device(record=found), verb="probe")).devices
    assert whole.gain == pytest.approx(14.9, abs=0.1)
    found["probe"]["as_is"] |= {"size_bytes": 65_536, "duration_s": 5.2, "steady_bytes_per_s": 12_603.0}
    (short,) = report(run(device(record=found), verb="probe")).devices
    assert (short.as_is, short.gain) == (None, None)
    assert short.tuned == whole.tuned
    assert any(note.startswith("not measured as it is: only 66 kB went over, in 5.2 s") for note in short.notes)


def test_readiness_is_told_with_what_is_in_the_way(run, device, record, report):
    """Each reason stands in its sentence; a run that did not ask reports nothing."""
    conditions = [
        {"name": "image", "place": "flash-2:", "met": "not met", "sentence": "x.bin is not on flash-2:"},
        {"name": "room", "place": "", "met": "met", "sentence": "enough"},
        {"name": "register", "met": "unknown"},
    ]
    told = record("xe_staged") | {"readiness": {"verdict": "no", "conditions": conditions}}
    asked, silent = report(run(devices=(device(record=told), device(record=record("xe_staged"))))).devices
    assert asked.readiness.verdict == "no"
    assert asked.readiness.in_the_way == ("image (flash-2:): x.bin is not on flash-2:", "register: unknown")
    assert [str(one) for one in asked.facts] == [
        "readiness: ready to boot the image: no; image (flash-2:): x.bin is not on flash-2:; register: unknown"
    ]
    assert silent.readiness is None
