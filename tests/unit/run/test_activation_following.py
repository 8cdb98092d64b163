"""Following a device behind its restart: no end is told that the device does not show, and none twice."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from flashferry.core.values import replace
from flashferry.devices.errors import DeviceUnreachable
from flashferry.model.activation import ActivationLimits, ActivationOutcome, Phase
from flashferry.run.activation import following as followed
from tasks.activating.boot_order import BootOrder
from tasks.activating.service_state import ServiceState
from tests.unit.model.test_activation import ACTIVE, NEW, OLD, activation, installed

BEFORE = ServiceState(
    release=OLD, running_file="bootflash:packages.conf", restarted_at="before", interfaces_up=("Gi1", "Gi2")
)
AFTER = ServiceState(release=NEW, restarted_at="after", interfaces_up=("Gi1", "Gi2"))
BACK = ServiceState(release=OLD, restarted_at="later", interfaces_up=("Gi1", "Gi2"))
LESS = ServiceState(release=NEW, restarted_at="after", interfaces_up=("Gi1",))

ADDED = installed(OLD, "I    17.12.04.0.1", "C    17.06.03.0.1")
PENDING = installed(NEW, "U    17.12.04.0.1", "D    17.06.03.0.1", timer=ACTIVE)
COMMITTED = installed(NEW, "C    17.12.04.0.1", "I    17.06.03.0.1")


def away(*_):
    raise DeviceUnreachable("no answer", host="r1")


class Device:
    """A device that is something else at each look; the last one stays."""

    def __init__(self, monkeypatch, *looks):
        self.looks = list(looks)
        self.commits = 0
        self.on_commit = lambda: None
        monkeypatch.setattr(followed, "session_of", self._session)
        monkeypatch.setattr(followed, "read_software", lambda _: self._now()[0])
        monkeypatch.setattr(followed, "read_service_state", self._state)
        monkeypatch.setattr(followed, "commit_active", self._commit)
        monkeypatch.setattr(followed, "COMMIT_PAUSE_S", 0.0)

    def _now(self):
        return self.looks[0]

    def next(self):
        if len(self.looks) > 1:
            self.looks.pop(0)

    def _session(self, _):
        if self._now() is away:
            self.next()
            away()
        return SimpleNamespace(name="r1")

    def _state(self, _, software=None):
        found = self._now()
        self.next()
        if found is away or found[1] is away:
            away()
        return found[1]

    def _commit(self, *_, **__):
        self.commits += 1
        self.on_commit()
        return SimpleNamespace(command="install commit", lines=())


def follows(phase=Phase.ACTIVATING, **limits):
    """Return who follows a device, and the phases that were written down."""
    written = []
    quick = {"look_every_s": 0.0, "settle_s": 0.0, "boot_limit_s": 0.5}
    one = followed.Following(
        SimpleNamespace(host=SimpleNamespace(name="r1", connections={})),
        activation(phase=phase, before=BEFORE, limits=ActivationLimits(**(quick | limits))),
        None,
        keep=lambda each: written.append(each.phase),
        notify=lambda *_: None,
        interrupted=lambda: False,
    )
    return one, written


def test_a_path_that_broke_for_a_moment_is_no_restart(monkeypatch):
    """The session of `install activate` was lost with the path, and the device is still at it: it is waited for."""
    Device(monkeypatch, away, (ADDED, BEFORE), (ADDED, BEFORE), away, (PENDING, AFTER))
    one, _ = follows()
    assert one.await_return().seen is followed.Sighting.NEW_RUNS


def test_a_device_that_goes_down_in_the_middle_of_a_look_is_waited_for(monkeypatch):
    """The look found the old image, and the restart came before it was asked since when it runs."""
    Device(monkeypatch, (ADDED, away), away, (PENDING, AFTER))
    one, _ = follows()
    assert one.await_return().seen is followed.Sighting.NEW_RUNS


def test_a_device_that_was_only_out_of_reach_did_not_come_back(monkeypatch):
    """Nothing is to come any more, and it runs since before: it was not restarted, however long it did not answer."""
    Device(monkeypatch, away, (ADDED, BEFORE))
    one, _ = follows()
    look = one.await_return(is_going=lambda: False)
    assert one.finish(look).outcome is ActivationOutcome.NOT_ACTIVATED


@pytest.mark.parametrize(("state", "outcome"), [(AFTER, "committed"), (LESS, "activated, something is lacking")])
def test_a_commit_of_somebody_else_does_not_make_up_for_what_is_lacking(monkeypatch, state, outcome):
    """Committed is what runs for good and does what the old image did."""
    Device(monkeypatch, (COMMITTED, state))
    one, _ = follows()
    assert one.finish(one.await_return()).outcome.value == outcome


def test_an_old_image_that_comes_back_while_it_settles_is_not_committed(monkeypatch):
    """Its timer ran out, or somebody aborted: what is there again is the old image's, and no commit is given to it."""
    device = Device(monkeypatch, (PENDING, LESS), away, (ADDED, BACK))
    one, _ = follows(settle_s=5.0)
    report = one.finish(one.await_return())
    assert (report.outcome, report.to_release, device.commits) == (ActivationOutcome.CAME_BACK_OLD, OLD, 0)


def test_a_timer_that_runs_out_before_the_commit_ends_in_a_roll_back(monkeypatch):
    """The commit is not given a second time to an image that is not the new one."""
    device = Device(monkeypatch, (PENDING, AFTER))
    device.on_commit = lambda: setattr(device, "looks", [away, (ADDED, BACK)])
    one, written = follows()
    report = one.finish(one.await_return())
    assert (report.outcome, device.commits) == (ActivationOutcome.ROLLED_BACK, 1)
    assert written == [Phase.COMMITTING, Phase.ROLLING_BACK]


def test_a_commit_that_takes_effect_late_is_a_commit(monkeypatch):
    """Refused while something else was going on, and there when the roll-back is waited for: told as what runs."""
    device = Device(monkeypatch, (PENDING, AFTER))
    one, written = follows()
    look = one.await_return()

    def committed():
        if device.commits == followed.COMMITS:
            device.looks = [(PENDING, AFTER), (COMMITTED, AFTER)]

    device.on_commit = committed
    monkeypatch.setattr(followed.Following, "_wait_for_timer", lambda *_: device.next())
    report = one.finish(look)
    assert (report.outcome, report.to_release) == (ActivationOutcome.COMMITTED, NEW)
    assert written == [Phase.COMMITTING, Phase.ROLLING_BACK]


def test_a_recovery_that_finds_it_committed_tells_what_runs(monkeypatch):
    """Waiting for the roll-back of another process: somebody's commit leaves the new image, and that is its release."""
    device = Device(monkeypatch, (PENDING, LESS))
    one, _ = follows(Phase.ROLLING_BACK)
    look = one.await_return()
    monkeypatch.setattr(followed.Following, "_wait_for_timer", lambda *_: setattr(device, "looks", [(COMMITTED, LESS)]))
    report = one.finish(look)
    assert (report.outcome, report.to_release) == (ActivationOutcome.LACKING, NEW)
    assert report.lacks == ("1 interface of 2 not up again: Gi2",)


def test_a_boot_order_that_was_never_typed_is_not_put_back(monkeypatch):
    """Somebody changed it right after it was looked at: what stands there is theirs, and nothing of ours is."""
    Device(monkeypatch, (ADDED, BEFORE))
    monkeypatch.setattr(followed, "undo_boot_order", lambda *_: pytest.fail("typed"))
    one, written = follows(Phase.INTENDED)
    one.activation = replace(one.activation, order=BootOrder(before=("boot system flash:old.bin",), wanted=()))
    look = one.await_return(is_going=lambda: False)
    assert (one.finish(look).outcome, written) == (ActivationOutcome.NOT_ACTIVATED, [])


@pytest.mark.parametrize("told", [{"restarted_at": None}, {"restarted_at": "a second later than before"}])
def test_an_uptime_longer_than_the_phase_is_no_restart(monkeypatch, told):
    """Also of a device that does not tell since when it runs, or whose clock was set meanwhile."""
    runs_on = replace(BEFORE, uptime_s=864_000, **told)
    Device(monkeypatch, away, (ADDED, runs_on), (ADDED, runs_on), away, (PENDING, AFTER))
    one, _ = follows()
    one.activation = replace(
        one.activation, before=replace(BEFORE, uptime_s=863_000), since=datetime.now(UTC).isoformat(timespec="seconds")
    )
    assert one.await_return().seen is followed.Sighting.NEW_RUNS


def test_a_new_image_that_was_not_started_does_not_run(monkeypatch):
    """Some seconds pass between the prompt and the restart: what it says of itself by then is not taken for a boot."""
    Device(monkeypatch, (PENDING, replace(AFTER, restarted_at="before")), away, (PENDING, AFTER))
    one, _ = follows()
    look = one.await_return()
    assert (look.seen, look.has_restarted) == (followed.Sighting.NEW_RUNS, True)
