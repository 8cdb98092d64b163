"""Following a run by its events: the sums are those of the devices, whatever happens to them."""

from __future__ import annotations

import random

import pytest

from flashferry.model.states import Phase
from flashferry.monitor.events import Event, Progress
from flashferry.monitor.progress import Expected, Fleet, Roster
from tests.some import some

SIZE_BYTES = 1000


def fleet(*hosts: str, size_bytes: int | None = SIZE_BYTES) -> Fleet:
    """A fleet of devices at two sites: those that begin with a are at the first."""
    devices = [Expected(host=host, site=f"site {host[0]}", size_bytes=size_bytes) for host in hosts]
    return Fleet(Roster(devices=tuple(devices), caps_bytes_per_s={"site a": 500.0}), "restore")


def told(host: str | None, step: str, status: str, text: str = "", **more: object) -> Event:
    return Event(host=host, step=step, status=status, text=text, at_s=0.0, **more)  # type: ignore[arg-type]


def copying(host: str, acked_bytes: int, rate_bytes_per_s: float = 100.0) -> Event:
    seen = Progress(acked_bytes=acked_bytes, size_bytes=SIZE_BYTES, rate_bytes_per_s=rate_bytes_per_s)
    return told(host, "pull", "progress", progress=seen, verdict="cap")


def test_a_site_sums_up_its_devices():
    """Bytes, rates and copies of two devices; time left is what is left over the rate."""
    seen = fleet("a1", "a2", "b1")
    for host in ("a1", "a2"):
        seen.take(told(host, "pull", "started"), 1.0)
        seen.take(copying(host, 250), 2.0)
    site = seen.sites["site a"]
    assert (site.copies, site.acked_bytes, site.todo_bytes, site.rate_bytes_per_s) == (2, 500, 2000, 200.0)
    assert site.left_s == pytest.approx(7.5)
    assert seen.whole.share == pytest.approx(500 / 3000)
    assert seen.devices["a1"].verdict == "cap"


def test_a_device_that_needs_no_copy_is_nothing_left_to_do():
    """The image was there already: its bytes are no longer part of what is to be copied."""
    seen = fleet("a1", "a2")
    seen.take(told("a1", "check", "started"), 1.0)
    seen.take(told("a1", "device", "done", "already there", outcome="already there"), 2.0)
    assert seen.devices["a1"].phase is Phase.DONE
    assert (seen.whole.todo_bytes, seen.whole.acked_bytes) == (1000, 0)


@pytest.mark.parametrize("told_bytes", [None, 100])
def test_a_copy_that_is_done_counts_whole_however_little_was_told_of_it(told_bytes):
    """From a site progress comes every ten seconds: of a short copy none may, or only that of its beginning."""
    seen = fleet("a1", "a2")
    seen.take(told("a1", "pull", "started"), 1.0)
    if told_bytes is not None:
        seen.take(copying("a1", told_bytes), 2.0)
    seen.take(told("a1", "pull", "done"), 8.0)
    seen.take(told("a1", "device", "done", "done", outcome="done"), 9.0)
    assert (seen.whole.share, seen.whole.acked_bytes, seen.whole.received_bytes) == (0.5, 1000, 1000)


def test_a_retry_begins_anew_and_what_was_received_stays():
    """Half a copy, a failure, a whole copy: the second counts, both were received."""
    seen = fleet("a1")
    seen.take(copying("a1", 500), 1.0)
    seen.take(told("a1", "pull", "failed", "no progress"), 2.0)
    seen.take(told("a1", "device", "failed", "failed: pull: no progress", outcome="failed"), 3.0)
    assert seen.whole.devices[Phase.FAILED] == 1
    seen.take(told("a1", "device", "retry", "in 30 s"), 4.0)
    assert (seen.devices["a1"].is_retrying, seen.whole.devices[Phase.IN_PROGRESS]) == (True, 1)
    seen.take(told("a1", "pull", "started"), 30.0)
    seen.take(copying("a1", SIZE_BYTES), 31.0)
    seen.take(told("a1", "pull", "done"), 32.0)
    seen.take(told("a1", "device", "done", "done", outcome="done"), 33.0)
    assert (seen.whole.devices[Phase.DONE], seen.whole.acked_bytes, seen.whole.received_bytes) == (1, 1000, 1500)


def test_a_failure_that_was_made_good_is_none():
    """A copy that was interrupted, found delivered and verified is a good one in the end."""
    seen = fleet("a1")
    seen.take(told("a1", "pull", "failed", "session lost"), 1.0)
    assert seen.devices["a1"].has_failed
    seen.take(told("a1", "device", "done", "done", outcome="done"), 2.0)
    assert (seen.devices["a1"].phase, seen.devices["a1"].has_failed) == (Phase.DONE, False)


def test_a_device_that_never_began_has_not_failed():
    """The window closed before its turn came."""
    seen = fleet("a1")
    seen.take(told("a1", "device", "failed", "not begun: the window closes", outcome="not begun"), 1.0)
    assert seen.devices["a1"].phase is Phase.NOT_STARTED
    assert (seen.whole.over, seen.whole.todo_bytes) == (1, 0)


def test_who_waits_in_line_has_not_begun():
    """A queued device stays queued; one that waits for its hash is under way and says what it waits for."""
    seen = fleet("a1", "a2")
    seen.take(told("a1", "connect", "queued", "waits for one of 20 logins"), 1.0)
    seen.take(told("a2", "check", "started"), 1.0)
    seen.take(told("a2", "verify", "queued", "waits for one of 50 hashes"), 2.0)
    assert seen.devices["a1"].phase is Phase.QUEUED
    assert (seen.devices["a2"].phase, seen.devices["a2"].waits) == (Phase.IN_PROGRESS, "waits for one of 50 hashes")
    seen.take(told("a2", "verify", "started"), 3.0)
    assert seen.devices["a2"].waits == ""


def test_what_holds_up_the_run_is_known():
    """Paused until it goes on; waiting for approval until the wave begins."""
    seen = fleet("a1")
    seen.take(told(None, "run", "started", "r-1", run_id="r-1"), 0.0)
    seen.take(told(None, "run", "paused", "nothing new begins"), 1.0)
    assert (seen.run_id, seen.hold, seen.hold_text) == ("r-1", "paused", "nothing new begins")
    seen.take(told(None, "run", "continued"), 2.0)
    assert seen.hold == ""
    seen.take(told(None, "wave", "waiting", "wave 1 waits"), 3.0)
    assert seen.hold == "waiting"
    seen.take(told(None, "wave", "started", "1: site a"), 4.0)
    assert (seen.hold, seen.wave) == ("", "1: site a")


def test_sums_stay_true_whatever_happens():
    """After thousands of events in any order the tallies are what counting anew finds."""
    luck = random.Random(6)
    hosts = [f"{site}{number}" for site in "ab" for number in range(20)]
    seen = fleet(*hosts)
    steps = ("check", "snapshot", "tune", "pull", "verify", "restore", "device", "transfer")
    for now_s in range(5000):
        host = luck.choice(hosts)
        if luck.random() < 0.5:
            seen.take(copying(host, luck.randrange(SIZE_BYTES + 1), luck.random() * 100), now_s)
        else:
            status = luck.choice(("started", "done", "failed", "queued", "retry", "note"))
            outcome = luck.choice(("done", "failed", "already there", "not begun", None))
            seen.take(told(host, luck.choice(steps), status, outcome=outcome), now_s)
        assert seen.whole.acked_bytes <= seen.whole.todo_bytes
    for site, tally in some(seen.sites.items()):
        anew = Fleet(Roster(), "restore").whole
        for device in seen.devices.values():
            if device.site == site:
                anew.count(device, 1)
        assert +anew.devices == +tally.devices
        assert (anew.copies, anew.acked_bytes, anew.todo_bytes) == (tally.copies, tally.acked_bytes, tally.todo_bytes)
        assert anew.rate_bytes_per_s == pytest.approx(tally.rate_bytes_per_s, abs=1e-6)


CAP_BYTES_PER_S = 4_000_000.0
LARGE_BYTES = 40_000_000


def shared(seen: Fleet, acked_bytes: dict[str, int], rate_bytes_per_s: dict[str, float], now_s: float) -> float:
    """Tell how far copies are at one moment, and return what their site is shown to make then."""
    for host, acked in acked_bytes.items():
        found = Progress(acked_bytes=acked, size_bytes=LARGE_BYTES, rate_bytes_per_s=rate_bytes_per_s[host])
        seen.take(told(host, "pull", "progress", progress=found), now_s)
    return seen.sites["site a"].rate_bytes_per_s


def test_a_site_is_never_shown_above_its_cap_at_a_hand_over():
    """One copy ends while the next begins: shares change, the ended one's last rate counts no more, nothing lags."""
    seen = fleet("a1", "a2", size_bytes=LARGE_BYTES)
    seen.take(told("a1", "pull", "started"), 0.0)
    seen.take(told("a2", "pull", "started"), 0.0)
    for second in range(1, 9):
        acked = {"a1": second * 4_000_000}
        assert shared(seen, acked, {"a1": CAP_BYTES_PER_S}, second) == pytest.approx(CAP_BYTES_PER_S)
    found = []
    for second in range(9, 13):  # handed on: both under half the cap
        acked = {"a1": 32_000_000 + (second - 8) * 2_000_000, "a2": (second - 8) * 2_000_000}
        found.append(shared(seen, acked, dict.fromkeys(acked, CAP_BYTES_PER_S / 2), second))
    assert seen.devices["a1"].acked_bytes == LARGE_BYTES
    for second in range(13, 20):  # the first device writes flash; our server's last word on its rate was half the cap
        acked = {"a1": LARGE_BYTES, "a2": 8_000_000 + (second - 12) * 4_000_000}
        found.append(shared(seen, acked, {"a1": CAP_BYTES_PER_S / 2, "a2": CAP_BYTES_PER_S}, second))
    assert max(found) <= CAP_BYTES_PER_S * 1.001
    assert found[-6:] == [pytest.approx(CAP_BYTES_PER_S)] * 6
    assert seen.sites["site a"].copies == 2
    assert seen.whole.rate_bytes_per_s == pytest.approx(CAP_BYTES_PER_S)


def test_the_rate_of_a_lone_copy_is_smoothed():
    """Long after the last hand-over one slow second is shown as a dip, not as a fall."""
    seen = fleet("a1", size_bytes=LARGE_BYTES)
    for second in range(1, 6):
        shared(seen, {"a1": second * 1_000_000}, {"a1": 1_000_000.0}, second)
    assert shared(seen, {"a1": 5_100_000}, {"a1": 100_000.0}, 6.0) == pytest.approx(730_000.0)
