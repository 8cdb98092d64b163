"""One device's steps against a scripted one: what is set at which copy, what is removed, how often is asked again."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from nornir.core.exceptions import NornirSubTaskError
from nornir.core.inventory import Defaults, Host

from flashferry.cli.view import device_tables as tables
from flashferry.core.errors import kind_of
from flashferry.devices.errors import (
    CopyStopped,
    DeviceOverloaded,
    DeviceRefused,
    DeviceUnreachable,
    FlashBusy,
    HashStopped,
    HostKeyRefused,
    ImageCorrupt,
    Interrupted,
    LoginRefused,
    OutputNotUnderstood,
    TransferStalled,
)
from flashferry.fileserver import FileServerError, TransferState
from flashferry.images.fit import Fits, ImageFit
from flashferry.model.record import failure_of
from flashferry.model.recovery_rules import Decision
from flashferry.model.states import Outcome, Restored
from flashferry.planning.given_images import GivenImages
from flashferry.run import copy as copy_run
from flashferry.run import copy_recovery as reconciling
from flashferry.run import device as device_run
from flashferry.run import leftover as leftover_run
from flashferry.run.context import DeviceOptions, RunContext
from flashferry.run.device import RESTORE_PAUSES_S, DeviceRun
from flashferry.run.probe import ProbeRun, ProbeWish
from tasks.partial_file import FlashFile, in_words
from tasks.tcp_config import plan_tune, tcp_lines
from tasks.tune import apply_plan, reapply, without_scaling

IMAGE_BYTES = 1000
PATH = "ip ftp source-interface Loopback0"
WINDOW = "ip tcp window-size 2500000"
SACK = "ip tcp selective-ack"


class Router:
    """Holds configuration lines by keyword."""

    name = "r1"
    peer_address = "192.0.2.1"

    def __init__(self) -> None:
        self.lines: dict[str, str] = {}

    def configure(self, lines):
        for line in lines:
            words = line.split()
            if words[0] == "no":
                self.lines.pop(words[3], None)
            else:
                self.lines[words[2]] = line
        return "\n".join(f"{line}\nr1(config)#" for line in lines)

    def running_config(self):
        return "\n".join(["version 17.12", *self.lines.values(), "end"])


class Journal:
    """Keeps what is on disk, and every state."""

    directory = Path("/nonexistent")

    def __init__(self) -> None:
        self.changes: tuple[str, ...] = ()

    def replan(self, run_id, host, changes):
        self.changes = tuple(change.ours for change in changes)

    def move(self, run_id, host, state):
        pass

    def release(self, run_id, host, record=None):
        pass


class Server:
    """Answers with the account that it is given."""

    port = 2121

    def __init__(self) -> None:
        self.tickets = itertools.count(1)
        self.revoked: list[str] = []
        self.requests: list[object] = []
        self.account = SimpleNamespace(record=None, state="waiting", bytes_acked=0)

    def image(self, name):
        return SimpleNamespace(name=name, size_bytes=IMAGE_BYTES, md5="0" * 32, sha512="0" * 128)

    def issue_ticket(self, request):
        self.requests.append(request)
        return SimpleNamespace(ticket_id=f"t{next(self.tickets)}", username="u" * 8, password="p" * 16)

    def progress(self, ticket_id):
        return self.account

    def wait(self, ticket_id, timeout_s):
        return self.account

    def revoke(self, ticket_id):
        self.revoked.append(ticket_id)


class Steps:
    """Stands for a Nornir task: runs a step's script, by the step's name."""

    parent_task = None

    def __init__(self, **scripts) -> None:
        self.host = Host(name="r1", hostname="192.0.2.1", platform="ios", defaults=Defaults())
        self.scripts = scripts
        self.done: list[str] = []

    def run(self, task, name, **arguments):
        self.done.append(name)
        try:
            return [SimpleNamespace(result=self.scripts[name](task, **arguments))]
        except Exception as error:  # noqa: BLE001 -- as Nornir wraps whatever a step raises
            raise NornirSubTaskError(task=task, result=[SimpleNamespace(exception=error)]) from None


@pytest.fixture(autouse=True)
def no_session(monkeypatch):
    for module in (copy_run, device_run, leftover_run, reconciling):
        monkeypatch.setattr(module, "session_of", lambda task: Router())
    monkeypatch.setattr(copy_run, "own_addresses", lambda session: ("192.0.2.1",))


def context(**options) -> RunContext:
    return RunContext(
        run_id="run",
        image=Server().image("x.bin"),
        server=Server(),
        journal=Journal(),
        options=DeviceOptions(**options),
        emit=lambda event: None,
        interrupted=lambda: False,
        started_s=0.0,
    )


def checked(run):
    """Take a run to where its check is done."""
    run._update(check=SimpleNamespace(rtt_s=0.1, server_address="192.0.2.10", file_system="flash:"))
    return run


def tuning(router):
    """Return the scripts of the steps that set lines, on this router."""

    def tune(task, **given):
        if task.__name__ == "tune":
            return apply_plan(router, given["plan"], remember=given["remember"])
        if task.__name__ == "set_again":
            return reapply(router, given["changes"])
        return without_scaling(router, given["changes"], remember=given["remember"])

    return tune


class FirstCopyFails:
    """Notes the router's lines and the journal's at each copy; the first one ends with an error."""

    def __init__(self, router, error) -> None:
        self.router, self.error, self.seen = router, error, []
        self.before = lambda: None

    def __call__(self, task, **given):
        self.before()
        self.seen.append(set(self.router.lines.values()))
        if len(self.seen) == 1:
            raise self.error
        return SimpleNamespace(device=SimpleNamespace(duration_s=1.0), wall_s=1.0)


def speed_test(error, found="copy again"):
    """Return a speed test of which the first copy, as it is, fails; its router and its copies."""
    router = Router()
    pull = FirstCopyFails(router, error)
    decision = copy_run.Decision(found)
    judgement = SimpleNamespace(decision=decision, reason="gone")
    steps = Steps(tune=tuning(router), pull=pull, reconcile=lambda task, case: judgement)
    run = ProbeRun(steps, context(to_null=True), ProbeWish(), files=SimpleNamespace())
    plan = plan_tune(tcp_lines(""), window_bytes=2_500_000, source_interface="Loopback0", may_back_off=True)
    return checked(run), router, pull, plan


def copies_of(run):
    """Have each arm be one copy, and keep the journal's lines at each."""
    on_disk = []

    def arm(name, target, *, expected_bytes_per_s):
        on_disk.append(run.context.journal.changes)
        run._pull(target)
        return SimpleNamespace(steady_bytes_per_s=1.0, rtt_s=0.1, verdict=SimpleNamespace(kind=""))

    run._arm = arm
    run._forecast = lambda arm: 1.0
    run._decide = lambda *, has_tuning: None
    return on_disk


def test_a_lost_session_leaves_the_copy_as_it_is_untuned():
    """The arm "as it is" is repeated as it is: lines that were planned and not sent are none to set again."""
    run, _, pull, plan = speed_test(DeviceUnreachable("lost"))
    on_disk = copies_of(run)
    run._feed(plan, "null:")
    assert pull.seen == [{PATH}, {PATH}, {PATH, WINDOW, SACK}]
    assert on_disk == [(PATH,), (WINDOW, SACK, PATH)]


def test_an_overloaded_device_is_not_given_a_window_in_the_arm_as_it_is():
    """No window of ours is in force, so a smaller one cannot help: the failure is told, and nothing was tuned."""
    run, router, pull, plan = speed_test(DeviceOverloaded("I/O error"))
    copies_of(run)
    with pytest.raises(DeviceOverloaded):
        run._feed(plan, "null:")
    assert pull.seen == [{PATH}]
    assert set(router.lines.values()) == {PATH}
    assert run.context.journal.changes == (PATH,)


def test_what_is_in_force_is_on_disk_after_stepping_down():
    """The tuned arm fails with our window: the smaller one, and no other, is in force and on disk."""
    run, router, pull, plan = speed_test(DeviceOverloaded("I/O error"))
    copies_of(run)
    run._wish = ProbeWish(as_is=False)
    run._feed(plan, "null:")
    assert pull.seen == [{PATH, WINDOW, SACK}, {PATH, SACK, "ip tcp window-size 65535"}]
    assert set(run.context.journal.changes) == set(router.lines.values())


class Clock:
    """Goes on only while somebody sleeps."""

    def __init__(self, monkeypatch) -> None:
        self.now_s, self.slept = 0.0, []
        stand_in = SimpleNamespace(monotonic=lambda: self.now_s, sleep=self.sleep)
        for module in (device_run, reconciling):
            monkeypatch.setattr(module, "time", stand_in)

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now_s += seconds


class Flash:
    """Tells what is at the target: a size, None, or an error, by the clock."""

    def __init__(self, monkeypatch, at) -> None:
        self.at = at
        for module in (reconciling, leftover_run):
            monkeypatch.setattr(module, "file_at", lambda session, path: self.look(path))
        monkeypatch.setattr(leftover_run, "describe_partial_file", lambda session, path: in_words(self.look(path)))

    def look(self, path):
        found = self.at()
        if isinstance(found, Exception):
            raise found
        return FlashFile(path=path, size_bytes=found)


def account(state=TransferState.DELIVERED, acked=IMAGE_BYTES, record=None):
    return SimpleNamespace(record=record, state=state, bytes_acked=acked)


class Desk(Server):
    """Ends a transfer when its ticket is revoked."""

    def revoke(self, ticket_id):
        super().revoke(ticket_id)
        self.account = account(TransferState.FAILED, self.account.bytes_acked, self.account.record)


def failed_run(error, *, server_account, may_be_writing=True, may_remove=True, **scripts):
    """Return a run whose copy was begun and which failed with an error."""
    steps = Steps(remove=lambda task, **given: None, reconcile=decided, **scripts)
    run = checked(DeviceRun(steps, context(remove_partial=may_remove)))
    run.context.server.__class__, run.context.server.account = Desk, server_account
    run._ticket = run.context.server.issue_ticket(None)
    run._began, run._may_be_writing = True, may_be_writing
    run._update(failure=failure_of("verify", error))
    return run


def decided(task, case):
    return reconciled(case)


def reconciled(case):
    return reconciling.reconcile(Steps(), case).result


def case(server_account, **values):
    given = {
        "target": "flash:x.bin",
        "image_bytes": IMAGE_BYTES,
        "may_remove": True,
        "may_repeat": True,
        "began": True,
        "progress": lambda: server_account,
        "end_transfer": lambda: None,
        "interrupted": lambda: False,
    }
    return reconciling.Case(**(given | values))


def test_a_whole_file_that_is_merely_unproven_stays(monkeypatch):
    """The hash was not computed in time: nobody knows that the file is bad, so leave to remove does not cover it."""
    Clock(monkeypatch)
    Flash(monkeypatch, lambda: IMAGE_BYTES)
    run = failed_run(OutputNotUnderstood("no digest in time"), server_account=account())
    run._see_to_leftover("flash:x.bin")
    assert "remove" not in run.task.done
    assert run._record.partial_file == "flash:x.bin, 1,000 bytes"
    assert run._record.partial_removed is False


@pytest.mark.parametrize(
    ("error", "size", "sentence"),
    [
        (HashStopped("interrupted"), IMAGE_BYTES, "leave it there; 'flashferry stage --resume RUN' has it hashed"),
        (OutputNotUnderstood("?"), 999, "'flashferry stage --resume RUN' with --remove-partial removes it and goes on"),
        (ImageCorrupt("other"), IMAGE_BYTES, "It is not the image: delete it"),
    ],
)
def test_what_to_do_about_a_left_file_is_what_the_next_run_does(monkeypatch, capsys, error, size, sentence):
    """A whole file after an interrupted hash is not to be deleted: to go on hashes it, and copies nothing."""
    Clock(monkeypatch)
    Flash(monkeypatch, lambda: size)
    run = failed_run(error, server_account=account(), may_be_writing=False, may_remove=False)
    run._see_to_leftover("flash:x.bin")
    sentence = sentence.replace("RUN", run.context.run_id)
    assert sentence in run._record.partial_advice
    assert ("delete" in run._record.partial_advice) is (size != IMAGE_BYTES or isinstance(error, ImageCorrupt))
    tables._print_proof(run._record)
    told = " ".join(capsys.readouterr().out.split())
    assert f"what the copy left: flash:x.bin, {size:,} bytes. " in told
    assert sentence in told


@pytest.mark.parametrize(("error", "size"), [(ImageCorrupt("other"), IMAGE_BYTES), (OutputNotUnderstood("?"), 999)])
def test_a_worthless_file_is_removed(monkeypatch, error, size):
    """Proven to be another file, or cut off: with leave it goes."""
    Clock(monkeypatch)
    Flash(monkeypatch, lambda: size)
    run = failed_run(error, server_account=account(), may_be_writing=False)
    run._see_to_leftover("flash:x.bin")
    assert (run.task.done, run._record.partial_removed) == (["remove"], True)


def test_nothing_is_removed_that_may_still_be_written(monkeypatch):
    """The ticket is revoked first, and the flash must have settled: what grew to a whole image meanwhile stays."""
    clock = Clock(monkeypatch)
    Flash(monkeypatch, lambda: min(IMAGE_BYTES, 100 * int(clock.now_s)))
    run = failed_run(DeviceUnreachable("lost"), server_account=account(TransferState.TRANSFERRING, 500))
    run._see_to_leftover("flash:x.bin")
    assert run.context.server.revoked
    assert run.task.done == ["reconcile"]
    assert run._record.partial_file == "flash:x.bin, 1,000 bytes"


def test_a_server_that_is_gone_has_nothing_removed(monkeypatch):
    """Without the server's account nobody knows whose file it is: it is named and stays."""

    def gone(ticket_id):
        raise FileServerError("gone")

    Flash(monkeypatch, lambda: 10)
    run = failed_run(DeviceUnreachable("lost"), server_account=account())
    run.context.server.progress = gone
    run._see_to_leftover("flash:x.bin")
    assert (run.task.done, run._record.partial_file) == ([], "flash:x.bin, 10 bytes")


def test_what_an_earlier_copy_of_the_run_began_is_ours(monkeypatch):
    """The second ticket never came to a transfer: what the first one's copy left is named all the same."""
    Flash(monkeypatch, lambda: 10)
    run = failed_run(DeviceUnreachable("lost"), server_account=account(TransferState.WAITING, 0))
    run._context = context(remove_partial=False)
    run._began = False
    run._take_transfer(account(TransferState.TRANSFERRING, 10))
    run._take_transfer(account(TransferState.WAITING, 0))
    run._see_to_leftover("flash:x.bin")
    assert run._record.partial_file == "flash:x.bin, 10 bytes"


def test_slow_flash_behind_the_last_byte_is_waited_for(monkeypatch):
    """The server delivered everything; the device takes a minute without a sign to finish the file."""
    clock = Clock(monkeypatch)
    Flash(monkeypatch, lambda: IMAGE_BYTES if clock.now_s > 60 else 900)
    found = reconciled(case(account()))
    assert found.decision is Decision.DONE


def test_a_file_that_stays_short_is_partial_in_the_end(monkeypatch):
    """Nothing is waited for without end: behind the copy's own limit the file is judged as it is."""
    clock = Clock(monkeypatch)
    Flash(monkeypatch, lambda: 900)
    assert reconciled(case(account())).decision is Decision.REMOVE_AND_AGAIN
    assert 120 <= clock.now_s < 140


def test_a_busy_file_is_looked_at_again(monkeypatch):
    """Busy is neither there nor absent: it is waited for, and given up on at the limit, never removed."""
    clock = Clock(monkeypatch)
    Flash(monkeypatch, lambda: IMAGE_BYTES if clock.now_s > 30 else FlashBusy("busy"))
    assert reconciled(case(account())).decision is Decision.DONE
    Flash(monkeypatch, lambda: FlashBusy("busy"))
    assert reconciled(case(account())).decision is Decision.GIVE_UP


def restoring(monkeypatch, *answers, touched=True):
    """Return a run whose attempts to restore end one after the other as given, and the pauses between them."""
    clock, given = Clock(monkeypatch), iter(answers)

    def restore(task, **arguments):
        raise next(given)

    run = DeviceRun(Steps(restore=restore), context())
    if touched:
        run._update(restored=Restored.INCOMPLETE)
    run._restore(SimpleNamespace())
    return run, clock.slept


def test_no_pause_behind_the_last_attempt(monkeypatch):
    """A pause has an attempt behind it, or nobody should wait for it."""
    run, slept = restoring(monkeypatch, *[DeviceUnreachable("down")] * 10)
    assert slept == list(RESTORE_PAUSES_S)
    assert len(run.task.done) == len(slept) + 1
    assert run._record.restored is Restored.INCOMPLETE
    assert restoring(monkeypatch, DeviceUnreachable("down"), touched=False)[1] == []


@pytest.mark.parametrize(("error", "attempts"), [(HostKeyRefused("other key"), 1), (LoginRefused("password"), 2)])
def test_refused_logins_are_not_repeated(monkeypatch, error, attempts):
    """A changed key will not change back, and wrong passwords lock an account: the journal keeps the device."""
    run, _ = restoring(monkeypatch, *[error] * 10)
    assert run.task.done == ["restore"] * attempts
    assert run._record.restored is Restored.INCOMPLETE


def test_no_login_for_the_leftover_of_a_device_that_could_not_be_restored(monkeypatch):
    """What is left there cannot be told; it is not said to be nothing, and no login more is tried."""
    run = failed_run(LoginRefused("password"), server_account=account())
    run._update(restore_failure=failure_of("restore", LoginRefused("password")))
    monkeypatch.setattr(leftover_run, "session_of", lambda task: pytest.fail("another login"))
    run._see_to_leftover("flash:x.bin")
    assert run._record.partial_file.startswith("cannot tell: ")


def test_a_hash_takes_no_longer_than_what_was_learned_of_the_device_allows():
    """Its speed of earlier runs goes along; of another device nothing is known."""
    given = []
    for host in ("r1", "r2"):
        steps = Steps(verify=lambda task, **arguments: given.append(arguments["known_bytes_per_s"]))
        steps.host.name = host
        DeviceRun(steps, replace(context(), hash_speeds={"r1": 7e6}))._verify("flash:x.bin")
    assert given == [7e6, None]


def test_what_a_copy_left_is_on_disk_when_the_lease_ends(monkeypatch):
    """Killed right behind that, the run knows the file for its own; and no look at the flash can keep the lease."""
    for at, named in ((lambda: 10, "flash:x.bin, 10 bytes"), (lambda: OSError("gone"), None)):
        Flash(monkeypatch, at)
        run, kept = failed_run(DeviceUnreachable("lost"), server_account=account()), []
        run._target = "flash:x.bin"
        monkeypatch.setattr(run.context.journal, "release", lambda run_id, host, record, kept=kept: kept.append(record))
        run._restored(SimpleNamespace(is_proven=True, held_by=None), touched=True)
        assert [record.partial_file for record in kept] == [named]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Interrupted("before this step"), Outcome.INTERRUPTED),
        (CopyStopped("the operator interrupted the copy"), Outcome.INTERRUPTED),
        (HashStopped("interrupted by the operator"), Outcome.INTERRUPTED),
        (TransferStalled("no progress for 60 s"), Outcome.FAILED),
        (ImageCorrupt("another hash"), Outcome.FAILED),
        (DeviceRefused("no"), Outcome.FAILED),
        (OutputNotUnderstood("no digest"), Outcome.FAILED),
        (FileServerError("gone"), Outcome.FAILED),
        (ZeroDivisionError(), Outcome.ERROR),
    ],
)
@pytest.mark.parametrize("closing", [None, "its time is over"])
def test_only_what_the_stop_did_is_told_as_a_stop(error, outcome, closing):
    """After Ctrl-C or the end of the window a wrong hash is a wrong hash: nobody would look at the file else."""
    run = DeviceRun(Steps(), replace(context(), interrupted=lambda: True, closing=lambda: closing))
    run._fail(error)
    is_closed = closing is not None and outcome is Outcome.INTERRUPTED
    assert run._record.outcome is outcome
    assert run._record.failure.kind == ("WindowClosed" if is_closed else kind_of(error))


def test_a_device_that_fails_while_the_run_is_stopped_keeps_its_own_failure():
    """Nothing is repeated any more; that it failed with our window is what a reader must know."""
    run, _, pull, plan = speed_test(DeviceOverloaded("I/O error"))
    stopped = []
    pull.before = lambda: stopped.append(True)
    run._context = replace(run.context, interrupted=lambda: bool(stopped))
    run._in_force = plan.changes
    with pytest.raises(DeviceOverloaded):
        run._pull("null:")


@pytest.mark.parametrize(("data", "link"), [({"link_rate_bps": 16_000_000}, 1_946_666), ({}, None)])
def test_the_server_is_told_what_the_link_carries(data, link):
    """A verdict is held against the whole link, of which the cap is a share; nobody's guess where nothing is known."""
    steps = Steps()
    steps.host.data.update(data)
    run = DeviceRun(steps, context())
    run._issue_ticket()
    (request,) = run._context.server.requests
    assert request.link_bytes_per_s == link
    assert request.cap_bytes_per_s == (None if link is None else 1_557_333)


@pytest.mark.parametrize(("insists", "outcome"), [(False, Outcome.REFUSED), (True, Outcome.ERROR)])
def test_one_image_does_not_go_to_two_platforms_of_a_run(insists, outcome):
    """The first device decides; the second is refused with both named, unless the operator insists."""
    shared = GivenImages()
    runs = [DeviceRun(Steps(), replace(context(any_image=insists), given=shared)) for _ in range(2)]
    for run, family in zip(runs, ("ISR 4300", "2800"), strict=True):
        fit = ImageFit(fits=Fits.UNKNOWN, reason="", device_family=family)
        facts = SimpleNamespace(serial_number="9X", hostname="r1")
        run._judge(SimpleNamespace(facts=facts, refusal=None, refusal_hint=None, already_there=False, image=fit))
    assert [run._record.outcome for run in runs] == [Outcome.ERROR, outcome]
    if not insists:
        assert "x.bin goes to" in runs[1]._record.failure.reason
        assert "(ISR 4300)" in runs[1]._record.failure.reason
        assert "--any-image" in runs[1]._record.failure.hint
