"""The waves of a run with devices that only say what became of them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from nornir.core import Nornir
from nornir.core.inventory import Defaults, Groups, Host, Hosts, Inventory
from nornir.core.task import Result

from flashferry.core.values import replace
from flashferry.fileserver import FileServerError
from flashferry.model.lease import JournalUnusable
from flashferry.model.limits import RetryPolicy
from flashferry.model.policy import StagePolicy
from flashferry.model.record import DeviceRecord, Failure, TransportTried
from flashferry.model.states import Outcome, Restored, State
from flashferry.model.waves import Wave, WavePolicy
from flashferry.planning.deadline import Deadline
from flashferry.run import scheduler
from flashferry.run.context import RunContext
from flashferry.run.control import RunControl
from flashferry.run.neighbours.board import SiteBoard
from flashferry.run.request import FleetRequest, Resumed
from flashferry.run.resume import after_serving, done_before
from flashferry.run.scheduler import Fleet, WaveScheduler
from flashferry.store.control import ControlRequest
from inventory.time_window import TimeWindow
from tests.patience import PATIENCE_S, until
from tests.unit.transports.some_transports import named

IMAGE = SimpleNamespace(name="x.bin", size_bytes=1, md5="", sha512="")
CANARY = Wave(number=0, name="canary", hosts=("a1", "b1"), is_canary=True)
SITE_A = Wave(number=1, name="site a", hosts=("a2", "a3"))
SITE_B = Wave(number=2, name="site b", hosts=("b2", "b3"))
NIGHT = (TimeWindow(opens="22:00", closes="05:00"),)


def at(hour):
    return datetime(2026, 3, 2, hour, tzinfo=UTC)


@dataclass
class Journal:
    """Keeps what was written, and the operator's wishes."""

    wishes: ControlRequest = field(default_factory=ControlRequest)
    records: dict[str, DeviceRecord] = field(default_factory=dict)
    anew: list[str] = field(default_factory=list)
    waited_for: list[int | None] = field(default_factory=list)
    is_full: bool = False
    writes: int = 0

    def control(self, run_id):
        return self.wishes

    def record(self, run_id, host, record):
        self.records[host] = record

    def record_all(self, run_id, records):
        self.records |= records
        self.writes += 1

    def again(self, run_id, host):
        self.anew.append(host)

    def set_waiting_wave(self, run_id, wave):
        self.waited_for.append(wave)
        self.write()

    def set_control(self, run_id, *, approved_wave, asker):
        assert asker.via == "command-line"
        self.write()
        self.wishes = replace(self.wishes, approved_wave=approved_wave)

    def write(self):
        if self.is_full:
            raise JournalUnusable("disk full")


class Server:
    """Lives until it is told otherwise."""

    gone = False

    @property
    def port(self):
        if self.gone:
            raise FileServerError("killed by signal 9")
        return 2121


class Play:
    """A run of which each device's attempts end as given; without a word it is done."""

    def __init__(
        self,
        *waves,
        policy=None,
        retry=None,
        script=None,
        approve=None,
        journal=None,
        until=None,
        windows=None,
        **request,
    ):
        self.script = {host: list(kinds) for host, kinds in (script or {}).items()}
        self.begun: list[str] = []
        self.contexts: list[RunContext] = []
        self.events = []
        self.journal = journal or Journal()
        self.server, self.stop = Server(), threading.Event()
        self.lock = threading.Lock()
        hosts = request.pop("hosts", None) or [host for wave in waves for host in wave.hosts]
        board = request.pop("board", None)
        everybody = [*hosts, *request.pop("helpers", ())]
        inventory = Inventory(
            hosts=Hosts({name: Host(name=name, hostname="192.0.2.1", platform="ios") for name in everybody}),
            groups=Groups(),
            defaults=Defaults(),
        )
        views = {name: SimpleNamespace(name=name, site=name[0], max_copies=None) for name in everybody}
        self.request = FleetRequest(
            images=dict.fromkeys(hosts, "x.bin"),
            waves=waves,
            **request,
        )
        context = RunContext(
            run_id="run",
            image=IMAGE,
            server=self.server,
            journal=self.journal,
            policy=StagePolicy(policy=policy or WavePolicy(), retry=retry or RetryPolicy(times=0)),
            emit=self.events.append,
            interrupted=self.stop.is_set,
            started_s=0.0,
            neighbourhood=board and SimpleNamespace(sites={"a"}, board_of=lambda _: board),
        )
        control = RunControl(
            self.journal, "run", interrupted=self.stop.is_set, notify=lambda *words: None, approve=approve
        )
        fleet = Fleet(nornir=Nornir(inventory=inventory), views=views, images=dict.fromkeys(everybody, IMAGE))
        self.now = None if windows is None else at(12)
        deadline = Deadline(
            until=until, windows=windows or {}, expected_s={}, now=lambda: self.now or datetime.now(UTC)
        )
        self.scheduler = WaveScheduler(fleet, self.request, context, self.device, control, deadline)

    def device(self, task, context):
        name = task.host.name
        with self.lock:
            self.begun.append(name)
            self.contexts.append(context)
        kind = self.script.get(name, [None]).pop(0) if self.script.get(name) else None
        if kind == "bug":
            raise ZeroDivisionError
        if callable(kind):
            kind = kind(self)
        return Result(host=task.host, result=ended(name, kind, context))

    def outcomes(self):
        return {name: record.outcome.value for name, record in self.scheduler.run().items()}


def ended(name, kind, context):
    if kind is None:
        return DeviceRecord(
            host=name, state=State.DONE, outcome=Outcome.DONE, restored=Restored.RESTORED, seconds_by_step={}
        )
    return DeviceRecord(
        host=name,
        outcome=Outcome.REFUSED if kind == "PolicyViolation" else Outcome.FAILED,
        restored=Restored.UNTOUCHED,
        failure=Failure(step="pull", reason=f"failed in attempt {context.attempt}", hint=None, kind=kind),
        earlier=context.earlier,
        seconds_by_step={},
    )


def test_waves_follow_each_other():
    """No device of a wave begins before all of the wave before have ended."""
    play = Play(CANARY, SITE_A, SITE_B)
    assert set(play.outcomes().values()) == {"done"}
    assert [set(play.begun[at : at + 2]) for at in (0, 2, 4)] == [{"a1", "b1"}, {"a2", "a3"}, {"b2", "b3"}]
    told = [(event.status, event.wave) for event in play.events if event.step == "wave"]
    assert told == [("started", 0), ("done", 0), ("started", 1), ("done", 1), ("started", 2), ("done", 2)]


def opens_the_night(play):
    """End a device, at the time at which the other site's window opens."""
    play.now = at(22)


def test_a_wave_that_waits_for_its_window_does_not_hold_one_that_is_open():
    """Site a opens in ten hours, site b closes before: b is staged at noon and a at night, in one run."""
    play = Play(SITE_A, SITE_B, windows=dict.fromkeys(SITE_A.hosts, NIGHT), script={"b3": [opens_the_night]})
    assert set(play.outcomes().values()) == {"done"}
    assert set(play.begun[:2]) == {"b2", "b3"}
    texts = [event.text for event in play.events if event.step in ("wave", "run")]
    assert "waits: site a: its time window is closed, and opens 2026-03-02 22:00 UTC, in 10 h 00 min" in texts
    assert any(
        text.endswith("0 of 2 devices failed, 2 devices waiting for their time window meanwhile") for text in texts
    )


def test_a_device_that_waited_over_its_wave_is_recorded_where_the_run_stops():
    """A later wave fails: the devices that still wait are not begun, with the reason, and none is missing."""
    policy = WavePolicy(max_failures=0)
    play = Play(
        *(SITE_A, SITE_B, Wave(number=3, name="c", hosts=("c1",))),
        policy=policy,
        windows=dict.fromkeys(SITE_A.hosts, NIGHT),
        script={"b2": ["ImageCorrupt"], "b3": ["ImageCorrupt"]},
    )
    found = play.outcomes()
    assert {found[host] for host in (*SITE_A.hosts, "c1")} == {"not begun"}


def test_a_failed_canary_stops_the_run():
    """The others are not begun, each with the reason and the way to go on; the journal has it, too."""
    canary = Wave(number=0, name="canary", hosts=("a1",), is_canary=True)
    play = Play(canary, SITE_A, script={"a1": ["ImageCorrupt"]})
    assert play.outcomes() == {"a1": "failed", "a2": "not begun", "a3": "not begun"}
    assert play.journal.writes == 1
    failure = play.journal.records["a3"].failure
    assert failure.reason == "1 of the first devices (canaries) failed, none may"
    assert "--resume run" in failure.hint
    assert play.scheduler.stopped is not None


def test_a_refused_canary_does_not():
    """The check did what it is there for: the device is as it was, and nothing is wrong with the image."""
    play = Play(CANARY, SITE_A, script={"a1": ["PolicyViolation"]})
    assert play.outcomes() == {"a1": "refused", "b1": "done", "a2": "done", "a3": "done"}


def test_failures_are_borne_up_to_the_threshold():
    """One failed device of site a is borne, the second is one too many for site b."""
    policy = WavePolicy(max_failures=1)
    assert Play(SITE_A, SITE_B, policy=policy, script={"a2": ["ImageCorrupt"]}).outcomes()["b2"] == "done"
    play = Play(SITE_A, SITE_B, policy=policy, script={"a2": ["ImageCorrupt"], "a3": ["ImageCorrupt"]})
    assert play.outcomes()["b2"] == "not begun"


def test_what_may_pass_is_tried_again_in_its_wave():
    """Two failures, then done: the record says why the attempts before it failed, and the journal began it anew."""
    retry = RetryPolicy(times=2, pause_s=0.0)
    play = Play(CANARY, SITE_A, retry=retry, script={"a1": ["DeviceUnreachable", "TransferStalled"]})
    record = play.scheduler.run()["a1"]
    assert record.outcome is Outcome.DONE
    assert play.journal.anew == ["a1", "a1"]
    assert [one.attempt for one in play.contexts if one.earlier or one.attempt == 1][:1] == [1]
    last = max(play.contexts, key=lambda one: one.attempt)
    assert [failure.kind for failure in last.earlier] == ["DeviceUnreachable", "TransferStalled"]
    assert set(play.begun[-2:]) == {"a2", "a3"}
    assert [event.host for event in play.events if event.status == "retry"] == ["a1", "a1"]


def test_a_failure_that_is_being_tried_again_stops_nothing():
    """While a canary is at its second try the first one does not count: asked at that moment, the run may go on."""
    holds = []

    def second_try(play):
        holds.append(play.scheduler._hold())

    retry = RetryPolicy(times=1, pause_s=0.0)
    play = Play(CANARY, SITE_A, retry=retry, script={"a1": ["DeviceUnreachable", second_try]})
    assert set(play.outcomes().values()) == {"done"}
    assert holds == [None]


SOON = RetryPolicy(times=1, pause_s=0.3, jitter=0.0)
"""Long enough for another wave of this play to begin meanwhile."""


def test_a_dead_device_does_not_hold_up_the_next_site():
    """While it waits to be tried again the next wave begins; it is tried in time, and stays one of its own wave."""
    # A busy machine, too, begins the next wave within this pause.
    play = Play(SITE_A, SITE_B, retry=replace(SOON, pause_s=3.0), script={"a2": ["DeviceUnreachable"]})
    assert play.outcomes() == dict.fromkeys(["a2", "a3", "b2", "b3"], "done")
    assert play.begun[-1] == "a2"
    assert {"b2", "b3"} <= set(play.begun[:-1])
    assert [one.wave for one in play.contexts if one.attempt == 2] == [SITE_A.number]
    texts = [event.text for event in play.events if event.step == "wave" and event.status == "done"]
    assert texts[0].endswith("1 of 2 devices failed, 1 device to be tried again meanwhile")
    assert texts[1].endswith("0 of 2 devices failed")


def test_the_last_wave_waits_for_who_is_tried_again():
    """Also for one that came from a wave before: every device has all its tries."""
    play = Play(
        SITE_A, SITE_B, retry=SOON, script={"a2": ["DeviceUnreachable", "DeviceUnreachable"], "b3": ["FlashBusy"]}
    )
    assert play.outcomes() == {"a2": "failed", "a3": "done", "b2": "done", "b3": "done"}
    assert (play.begun.count("a2"), play.begun.count("b3")) == (2, 2)


@pytest.mark.parametrize(
    ("first", "options"),
    [
        (Wave(number=1, name="canary", hosts=("a2", "a3"), is_canary=True), {}),
        (SITE_A, {"policy": WavePolicy(approve=True), "approve": lambda wave: True}),
        (SITE_A, {"policy": WavePolicy(max_failures=0)}),
    ],
    ids=["canary", "approved", "one more is too many"],
)
def test_the_next_wave_waits_where_it_depends_on_who_is_tried_again(first, options):
    """A canary decides, an operator wants to see how the wave ended, a threshold may be reached: then none begins."""
    play = Play(first, SITE_B, retry=SOON, script={"a2": ["DeviceUnreachable"]}, **options)
    assert set(play.outcomes().values()) == {"done"}
    assert set(play.begun[-2:]) == {"b2", "b3"}


def test_tries_come_to_an_end():
    """Twice more and no further: then it has failed, and as a canary it stops the run."""
    retry = RetryPolicy(times=2, pause_s=0.0)
    play = Play(CANARY, SITE_A, retry=retry, script={"a1": ["DeviceUnreachable"] * 9})
    assert play.outcomes()["a2"] == "not begun"
    assert play.begun.count("a1") == 3


def test_a_fault_of_ours_fails_one_device():
    """Told as an error of which the configuration is not proven; the others go on."""
    play = Play(SITE_A, script={"a2": ["bug"]})
    records = play.scheduler.run()
    assert (records["a2"].outcome, records["a2"].restored) == (Outcome.ERROR, Restored.INCOMPLETE)
    assert "ZeroDivisionError" in records["a2"].failure.reason
    assert records["a3"].outcome is Outcome.DONE


def test_a_dead_server_begins_nothing_more():
    """What was under way tells its own failure; the rest is not begun and can be gone on with."""

    def dies(play):
        play.server.gone = True
        return "CopyFailed"

    play = Play(Wave(number=0, name="site a", hosts=("a2",)), SITE_B, script={"a2": [dies]})
    assert play.outcomes() == {"a2": "failed", "b2": "not begun", "b3": "not begun"}
    assert "killed by signal 9" in play.scheduler.stopped


def test_a_stop_leaves_the_rest():
    """Stopped during the first wave: nothing of the second begins, and nothing is tried again."""

    def stops(play):
        play.stop.set()
        return "DeviceUnreachable"

    first = Wave(number=0, name="site a", hosts=("a2",))
    play = Play(first, SITE_B, retry=RetryPolicy(times=2, pause_s=0.0), script={"a2": [stops]})
    found = play.outcomes()
    assert (found["a2"], found["b2"], found["b3"]) == ("failed", "not begun", "not begun")
    assert play.begun.count("a2") == 1


@pytest.mark.parametrize(("answer", "outcome"), [(True, "done"), (False, "not begun")])
def test_waves_wait_for_approval(answer, outcome):
    """The first wave needs none; the second begins with a yes only, and the journal says that it waited."""
    asked = []

    def approve(wave):
        asked.append(wave.number)
        return answer

    play = Play(CANARY, SITE_A, policy=WavePolicy(approve=True), approve=approve)
    assert play.outcomes()["a2"] == outcome
    assert asked == [1]
    assert play.journal.waited_for == [1, None]


def test_a_wave_is_approved_from_elsewhere():
    """Nobody sits at the terminal: the journal's word is enough."""
    journal = Journal(wishes=ControlRequest(approved_wave=1))
    play = Play(CANARY, SITE_A, policy=WavePolicy(approve=True), journal=journal)
    assert play.outcomes()["a2"] == "done"


def test_a_device_that_is_not_tuned_knows_why():
    """Shown not to gain: its options say so, and those of the others do not."""
    play = Play(SITE_A, untuned={"a2": "its flash is slow"})
    play.scheduler.run()
    found = {one.untuned_because: one.policy.tunes for one in play.contexts}
    assert found == {"its flash is slow": False, None: True}


def test_a_yes_is_kept():
    """A run that dies in a wave that was approved at the terminal does not ask for it again."""
    play = Play(CANARY, SITE_A, policy=WavePolicy(approve=True), approve=lambda wave: True)
    play.scheduler.run()
    assert play.journal.wishes.approved_wave == 1


def test_a_run_that_was_taken_up_again_asks_for_its_waves():
    """Its canaries are done already: the wave behind them is not the run's first, and nobody has said yes to it."""
    done = {host: ended(host, None, None) for host in CANARY.hosts}
    play = Play(
        CANARY,
        SITE_A,
        hosts=SITE_A.hosts,
        policy=WavePolicy(approve=True),
        approve=lambda wave: False,
        resumed=Resumed(run_id="run", before=done),
    )
    assert play.outcomes() == {"a2": "not begun", "a3": "not begun"}


def test_a_device_that_an_earlier_process_staged_comes_back_to_serve():
    """It is taken in hand as a canary is for a later wave; its record keeps all that the journal knew of it."""
    staged = done_before("a1", {"outcome": "done", "restored": "restored", "image": "x.bin", "attempt": 1})
    kept = {"outcome": "done", "verify": {"md5": "as it was"}, "notes": ["of old"]}
    play = Play(
        CANARY,
        SITE_A,
        hosts=SITE_A.hosts,
        helpers=("a1",),
        board=SiteBoard(("a2", "a3", "a1")),
        resumed=Resumed(run_id="run", before={"a1": staged}, attempts={"a1": 2}, done={"a1": kept}),
    )
    assert play.outcomes() == {"a1": "done", "a2": "done", "a3": "done"}
    assert [(one.is_helper, one.attempt, one.proof) for one in play.contexts if one.is_helper] == [(True, 2, None)]
    assert (play.begun[0], play.journal.anew) == ("a1", ["a1"])
    assert play.journal.records["a1"] == kept | {"attempt": 1}
    assert [one.attempt for one in play.contexts if not one.is_helper] == [1, 1]


def test_a_device_that_served_and_is_not_as_it_was_is_kept_as_that():
    """What became of its configuration now stands in the journal's record, beside what its copy came to then."""
    before = done_before("a1", {"outcome": "done", "restored": "untouched"})
    failure = Failure(step="restore", reason="gone", hint=None, kind="DeviceUnreachable")
    found = DeviceRecord(host="a1", restored=Restored.INCOMPLETE, restore_failure=failure, seconds_by_step={})
    kept = after_serving({"outcome": "done", "restored": "untouched", "pull": 1}, before.after_serving(found))
    assert (kept["outcome"], kept["pull"], kept["restored"]) == ("done", 1, "incomplete")
    assert kept["restore_failure"]["reason"] == "gone"
    assert kept["notes"] == ["it was to serve others: gone"]


def test_a_canary_that_could_not_be_restored_stops_the_run_that_is_taken_up_again():
    """It takes no part, and it has failed all the same: the others must not see what it saw."""
    stuck = DeviceRecord(host="a1", outcome=Outcome.FAILED, restored=Restored.INCOMPLETE, seconds_by_step={})
    play = Play(CANARY, SITE_A, hosts=SITE_A.hosts, resumed=Resumed(run_id="run", before={"a1": stuck}))
    assert set(play.outcomes().values()) == {"not begun"}
    assert "canaries" in play.scheduler.stopped


def test_a_stop_is_heeded_where_nothing_new_begins_any_more():
    """Too many have failed; the one that is under way is stopped from another terminal, and need not run to its end."""

    def fails(play):
        until(lambda: "a3" in play.begun, "the other device starts")
        return "ImageCorrupt"

    def copies(play):
        until(lambda: play.scheduler.stopped is not None, "no device starts any more")
        play.journal.wishes = ControlRequest(stopping=True)
        until(play.contexts[0].interrupted, "the stop")

    play = Play(SITE_A, policy=WavePolicy(max_failures=0), script={"a2": [fails], "a3": [copies]})
    assert play.outcomes() == {"a2": "failed", "a3": "done"}


def test_a_run_that_is_paused_ends_with_its_time():
    """Nobody goes on with it before its end: it is over then, and does not wait for ever."""
    journal = Journal(wishes=ControlRequest(paused=True))
    play = Play(SITE_A, journal=journal, until=datetime.now(UTC) + timedelta(seconds=60))
    assert set(play.outcomes().values()) == {"not begun"}
    assert "time ends" in play.scheduler.stopped


def test_a_wave_that_nobody_approves_ends_with_the_runs_time():
    """Waiting for a yes has an end, too."""
    both = threading.Barrier(2)

    def ends_the_time(play):
        both.wait(PATIENCE_S)
        play.now = at(12)

    script = {"a1": [ends_the_time], "b1": [ends_the_time]}
    play = Play(CANARY, SITE_A, policy=WavePolicy(approve=True), until=at(12), script=script)
    play.now = at(9)
    assert play.outcomes() == {"a1": "done", "b1": "done", "a2": "not begun", "a3": "not begun"}
    assert "time ends" in play.scheduler.stopped


def test_a_journal_that_is_full_costs_no_report():
    """That a wave waits cannot be noted; it is asked for, approved and done all the same."""
    journal = Journal(is_full=True)
    play = Play(CANARY, SITE_A, policy=WavePolicy(approve=True), approve=lambda wave: True, journal=journal)
    assert play.outcomes()["a2"] == "done"


@pytest.mark.parametrize("raises", [False, True])
def test_what_failed_in_the_users_own_tasks_takes_part(raises):
    """Nornir's memory of failures is the user's: a device in it is staged, and none is added to it."""
    play = Play(SITE_A, script={"a3": ["bug"]})
    nornir = play.scheduler._fleet.nornir
    nornir.data.failed_hosts.add("a2")
    nornir.config.core.raise_on_error = raises
    assert play.outcomes() == {"a2": "done", "a3": "error"}
    assert nornir.data.failed_hosts == {"a2"}


def test_a_thread_that_the_system_does_not_give_is_waited_for(monkeypatch):
    """One device under way, and no thread for another one at first: both are done."""
    start, tries = threading.Thread.start, []

    def scarce(thread):
        tries.append(thread.name)
        if len(tries) == 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    play = Play(SITE_A, script={"a2": [lambda play: until(lambda: len(tries) > 1, "the refused thread") and None]})
    assert set(play.outcomes().values()) == {"done"}
    assert tries == ["flashferry-a2", "flashferry-a3", "flashferry-a3"]


def test_a_run_that_breaks_off_waits_for_what_it_has_in_hand(monkeypatch):
    """Ctrl-C in a script of the user's: what is under way is told to stop, and has come to its end before it shows."""
    play, ended_well = Play(SITE_A), []

    def copies(play):
        play.journal.control = broken
        ended_well.append(until(play.contexts[0].interrupted, "the stop"))

    def broken(run_id):
        raise KeyboardInterrupt

    play.script["a2"] = [copies]
    with pytest.raises(KeyboardInterrupt):
        play.scheduler.run()
    assert ended_well == [True]


def test_a_device_is_tried_again_by_what_it_was_last_and_at_last_by_what_no_byte_came():
    """Each try at a transport that does not get through costs the better part of a minute."""
    ways = named("ftp", "http", "scp")
    tried = (TransportTried(transport="ftp", reason="nobody came", hint=None, kind="TransferStalled"),)
    before = DeviceRecord(host="r1", transport="http", transports_tried=tried, seconds_by_step={})
    assert [one.name for one in scheduler._in_order(ways, before)] == ["http", "scp", "ftp"]
    assert scheduler._in_order(ways, None) == ways
