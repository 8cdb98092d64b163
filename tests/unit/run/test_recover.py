"""What a recovery is about: every entry of the journal, and no device beside them."""

from __future__ import annotations

import shutil

import pytest

import flashferry.run.activation.recovery
import flashferry.run.recover
from flashferry.api import recovering
from flashferry.api.recovering import only_pending
from flashferry.core.errors import ConfigInvalid, Kind
from flashferry.devices.credentials import Credentials, apply_credentials
from flashferry.devices.session import Facts
from flashferry.model.states import ACCEPTED_LABEL, Restored
from flashferry.reports.build import build_report
from flashferry.reports.model import Severity
from flashferry.reports.thresholds import Status, checks_of
from flashferry.run.recover import forget, pending, recover
from flashferry.store.journal import Journal
from flashferry.store.status import read_status
from flashferry.store.stored_run import read_run
from inventory.nornir_loader import open_inventory
from tasks.read_config import Difference, fingerprint
from tasks.restore import RestoreReport
from tasks.snapshot import Snapshot
from tasks.tcp_config import Change, TcpLines

CHANGES = (Change(keyword="window-size", before=None, ours="ip tcp window-size 1250000"),)
BEFORE = Snapshot(
    running=TcpLines(lines=()),
    startup=TcpLines(lines=()),
    running_fingerprint=fingerprint("hostname r1\nend\n", salt="00ff"),
    salt="00ff",
)


@pytest.fixture
def nornir(tmp_path):
    (tmp_path / "hosts.yaml").write_text(
        "r1: {hostname: 192.0.2.1, platform: ios}\nunrelated: {hostname: 192.0.2.9, platform: ios}"
    )
    (tmp_path / "defaults.yaml").write_text("{}")
    return open_inventory(tmp_path)


@pytest.fixture
def journal(tmp_path):
    with Journal(tmp_path / "state") as opened:
        yield opened


def left_by_a_dead_run(journal, host, address, identity, members=frozenset(), changes=None):
    """Enter a device as a run does that dies behind it: its lock goes with the process."""
    with Journal(journal.directory) as dying:
        run_id = dying.begin_run("stage")
        dying.add_device(run_id, host=host, address=address, port=22, platform="ios")
        lines = CHANGES if changes is None else changes
        dying.acquire_lease(
            run_id, host, identity=identity, snapshot=BEFORE, changes=lines, target="flash:x.bin", members=members
        )
    return run_id


class Sources:
    """Knows r2 only; any other device makes it fail, as a secrets command does."""

    workers = 2

    def __init__(self):
        self.asked = []

    def lookup(self, name, known):
        self.asked.append(name)
        if name != "r2":
            raise ConfigInvalid("the secrets command ended with exit code 1", host=name)
        return Credentials(username="ann", password="p-word", enable_secret="e-word")


def test_credentials_are_looked_up_for_the_journals_devices_only(nornir, journal):
    """A device that no dead run touched cannot keep the others from being restored, and nobody is asked about it."""
    left_by_a_dead_run(journal, "r2", "192.0.2.2", "SN2/r2")
    source, failures = Sources(), {}
    found = apply_credentials(only_pending(nornir, pending(journal)), [source], failed=failures.setdefault)
    assert (source.asked, failures) == (["r2"], {})
    assert (list(found.inventory.hosts), found.inventory.hosts["r2"].password) == (["r2"], "p-word")


@pytest.fixture
def two_runs(nornir, journal, monkeypatch):
    """Return two dead runs, each with a device in its hands, and the devices that a recovery then touches."""
    runs = [left_by_a_dead_run(journal, f"r{n}", f"192.0.2.{n}", f"SN{n}/r{n}") for n in (1, 2)]
    touched = []

    def restored(task, device, job):
        touched.append(device.host)
        job.journal.recovered(device.run_id, device.host)
        return flashferry.run.recover.RecoveryRecord(
            host=device.host,
            run_id=device.run_id,
            restored=Restored.RESTORED,
            restore=None,
            failure=None,
            partial_file=None,
        )

    monkeypatch.setattr(flashferry.run.recover, "_recover_device", restored)
    return runs, touched


@pytest.mark.parametrize("is_short", [False, True])
def test_of_one_run_no_other_runs_device_is_touched(nornir, journal, two_runs, is_short):
    """Another may be in somebody else's hands, or at somebody else's site; it stays in the journal as it was."""
    (first, second), touched = two_runs
    found = recovering.recover(nornir, run=first[-4:] if is_short else first, state=journal)
    assert (touched, [one.host for one in found.devices], found.exit_code) == (["r1"], ["r1"], 0)
    assert [one.run_id for one in pending(journal)] == [second]
    assert recovering.recover(nornir, run=first, state=journal).devices == ()
    recovering.recover(nornir, state=journal)
    assert touched == ["r1", "r2"]


def test_a_run_that_is_none_or_alive_is_not_recovered(nornir, journal, two_runs):
    """Nothing is touched then, with a hint."""
    _, touched = two_runs
    for given, why in ((journal.begin_run("stage"), "is alive"), ("nothing", "expected")):
        with pytest.raises(ConfigInvalid) as told:
            recovering.recover(nornir, run=given, state=journal)
        assert told.value.hint
        assert why in told.value.message or why == "expected"
    assert touched == []


def test_a_failed_lookup_is_that_devices_failure(nornir, journal, monkeypatch):
    """One device is left with the reason, in the journal too; the other is restored."""
    runs = [left_by_a_dead_run(journal, f"r{n}", f"192.0.2.{n}", f"SN{n}/r{n}") for n in (1, 2)]
    failures = {}
    chosen = apply_credentials(only_pending(nornir, pending(journal)), [Sources()], failed=failures.setdefault)
    tried = []

    def restored(task, device, job):
        tried.append(device.host)
        job.journal.recovered(device.run_id, device.host)
        return flashferry.run.recover.RecoveryRecord(
            host=device.host,
            run_id=device.run_id,
            restored=Restored.RESTORED,
            restore=None,
            failure=None,
            partial_file=None,
        )

    monkeypatch.setattr(flashferry.run.recover, "_recover_device", restored)
    first, second = recover(chosen, journal, unusable=failures)
    assert (first.host, first.restored, second.restored) == ("r1", Restored.INCOMPLETE, Restored.RESTORED)
    assert "exit code 1" in first.failure.reason
    assert tried == ["r2"]
    assert [device.run_id for device in pending(journal)] == runs[:1]


def test_without_a_taker_a_failed_lookup_ends_the_command(nornir):
    """Where nothing was touched yet, a source that fails is the operator's to mend first."""
    with pytest.raises(ConfigInvalid, match="exit code 1"):
        apply_credentials(nornir, [Sources()])


def test_no_entry_hides_another(nornir, journal):
    """A router that was exchanged between two dead runs has two entries of one name and address: both are told."""
    runs = {left_by_a_dead_run(journal, "r1", "192.0.2.1", identity) for identity in ("SN1/r1", "SN7/r1")}
    records = recover(nornir, journal, unusable={"r1": ConfigInvalid("no login")})
    assert {record.run_id for record in records} == runs


class Answering:
    """A session with whoever answers at the address; notes what it was asked to restore."""

    def __init__(self, identity, monkeypatch, *, members=(), held=()):
        serial, name = identity.split("/")
        self._facts = Facts(hostname=name, vendor="Cisco", model="ISR4321/K9", os_version="16.11", serial_number=serial)
        self.restored, self.doubts = [], []
        self.difference = Difference(added=(), gone=0, reordered=False)
        self.members = members
        self.held = list(held)
        monkeypatch.setattr(flashferry.run.activation.recovery, "session_of", lambda task: self)
        monkeypatch.setattr(flashferry.run.recover, "describe_partial_file", lambda session, path: None)
        monkeypatch.setattr(flashferry.run.recover, "restore_device", self.restore)

    def facts(self):
        return self._facts

    running = "hostname branch-7\nend"

    def running_config(self):
        return self.running

    def show_version(self):
        return "".join(f"System Serial Number : {one}\n" for one in self.members)

    def restore(self, session, *, before, changes, is_again, needs_mark, doubt, is_accepted):
        assert needs_mark
        self.restored.append(changes)
        self.doubts.append(doubt)
        held = self.held.pop(0) if self.held else None
        return RestoreReport(
            commands=(),
            foreign=(),
            running=TcpLines(lines=()),
            running_difference=self.difference,
            startup_changed=False,
            held_by=held,
            held_hint="wait" if held else None,
            passes=held is not None and "rollback" in held,
        )


def test_nothing_is_sent_to_another_device(nornir, journal, monkeypatch):
    """Exchanged, or another one behind its address: told with both, and the lease stays."""
    run_id = left_by_a_dead_run(journal, "r1", "192.0.2.1", "FGL1/r1")
    stranger = Answering("FGL2/r1", monkeypatch)
    (record,) = recover(nornir, journal)
    assert (record.restored, stranger.restored) == (Restored.INCOMPLETE, [])
    assert "192.0.2.1:22 expected FGL1/r1 (serial number/host name), found FGL2/r1" in record.failure.reason
    assert "recover" in record.failure.hint
    assert [device.run_id for device in pending(journal)] == [run_id]


def test_a_renamed_device_is_restored(nornir, journal, monkeypatch):
    """Its serial number, and the run's mark on it, are its own: another name keeps nobody from restoring it."""
    changes = (Change(keyword="flashferry-x", before=None, ours="alias exec flashferry-x ops@c", shown=None), *CHANGES)
    left_by_a_dead_run(journal, "r1", "192.0.2.1", "FGL1/r1", changes=changes)
    renamed = Answering("FGL1/branch-7", monkeypatch)
    (record,) = recover(nornir, journal)
    assert (record.restored, renamed.restored) == (Restored.INCOMPLETE, [])
    renamed.running = "hostname branch-7\nalias exec flashferry-x ops@c\nend"
    (record,) = recover(nornir, journal)
    assert (record.restored, renamed.restored) == (Restored.RESTORED, [changes])
    assert pending(journal) == ()


def test_a_serial_number_that_another_device_has_does_not_tell_who_it_is(nornir, journal, monkeypatch):
    """The journal knows two devices by it: the host name must be the one that was meant, too."""
    for host in ("r1", "r2"):
        left_by_a_dead_run(journal, host, "192.0.2.1", f"FGL1/{host}")
    answering = Answering("FGL1/r2", monkeypatch)
    records = recover(nornir, journal)
    assert [(record.host, record.restored) for record in records] == [
        ("r1", Restored.INCOMPLETE),
        ("r2", Restored.RESTORED),
    ]
    assert answering.restored == [CHANGES]


def test_a_stack_is_known_by_its_members(nornir, journal, monkeypatch):
    """Another member is active, or one was exchanged: it is the stack that the run tuned."""
    left_by_a_dead_run(journal, "r1", "192.0.2.1", "FOC1/r1", members=frozenset({"FOC1", "FOC2", "FOC3"}))
    stack = Answering("FOC2/r1", monkeypatch, members=("FOC2", "FOC3"))
    (record,) = recover(nornir, journal)
    assert (record.restored, stack.restored) == (Restored.RESTORED, [CHANGES])


def test_another_stack_of_that_name_is_not(nornir, journal, monkeypatch):
    """No member is one that the run saw."""
    left_by_a_dead_run(journal, "r1", "192.0.2.1", "FOC1/r1", members=frozenset({"FOC1", "FOC2"}))
    stack = Answering("FOC8/r1", monkeypatch, members=("FOC8", "FOC9"))
    (record,) = recover(nornir, journal)
    assert (record.restored, stack.restored) == (Restored.INCOMPLETE, [])
    assert "recover --device-is r1" in record.failure.hint


def test_a_device_that_the_operator_vouches_for_is_restored(nornir, journal, monkeypatch):
    """A router that was exchanged took over the configuration, our lines among it; only the one named is believed."""
    for host in ("r1", "r2"):
        left_by_a_dead_run(journal, host, "192.0.2.1", f"FGL1/{host}")
    Answering("FGL9/new", monkeypatch)
    records = recover(nornir, journal, confirmed=frozenset({"r1"}))
    assert [record.restored for record in records] == [Restored.RESTORED, Restored.INCOMPLETE]


def test_nobody_vouches_for_a_device_that_no_run_left(nornir, journal):
    """A name that is mistyped is told before anything is sent."""
    left_by_a_dead_run(journal, "r1", "192.0.2.1", "FGL1/r1")
    with pytest.raises(ConfigInvalid, match="--device-is r9: expected a device that a dead run still holds"):
        recover(nornir, journal, confirmed=frozenset({"r9"}))


def test_a_rollback_that_is_pending_is_waited_for(nornir, journal, monkeypatch):
    """Looked at again when it is over: what is in force then is put back, and the lease ends."""
    left_by_a_dead_run(journal, "r1", "192.0.2.1", "FGL1/r1")
    box = Answering("FGL1/r1", monkeypatch, held=["a rollback is pending"])
    pauses, pending_looks = [], [object(), object(), None]
    monkeypatch.setattr(flashferry.run.recover.time, "sleep", pauses.append)
    monkeypatch.setattr(flashferry.run.recover, "read_running", lambda session: None)
    monkeypatch.setattr(flashferry.run.recover, "pending_change", lambda session, running: pending_looks.pop(0))
    told = []
    (record,) = recover(nornir, journal, emit=lambda event: told.append((event.status, event.text)))
    assert (record.restored, len(box.restored), len(pauses)) == (Restored.RESTORED, 2, 3)
    assert any(status == "waiting" and "rollback" in text for status, text in told)
    assert pending(journal) == ()


@pytest.mark.parametrize(("held", "patience_s"), [("a rollback is pending", 0.0), ("the startup holds them", 900.0)])
def test_what_does_not_pass_keeps_the_lease(nornir, journal, monkeypatch, held, patience_s):
    """Also where nobody wants to wait: the device is told with the reason, and stays in the journal."""
    run_id = left_by_a_dead_run(journal, "r1", "192.0.2.1", "FGL1/r1")
    Answering("FGL1/r1", monkeypatch, held=[held])
    (record,) = recover(nornir, journal, patience_s=patience_s)
    assert (record.restored, record.failure.reason, record.failure.hint) == (Restored.INCOMPLETE, held, "wait")
    assert [device.run_id for device in pending(journal)] == [run_id]


FOREIGN = Difference(added=("snmp-server location ...",), gone=0, reordered=False)


def test_a_difference_of_unproven_authorship_keeps_the_lease_until_it_is_accepted(nornir, journal, monkeypatch):
    """It is told with the way to let go; accepted by name, it ends the lease and is still told."""
    run_id = left_by_a_dead_run(journal, "r1", "192.0.2.1", "FGL1/r1")
    Answering("FGL1/r1", monkeypatch).difference = FOREIGN
    for _ in range(2):
        (record,) = recover(nornir, journal)
        assert (record.restored, record.failure.kind) == (Restored.INCOMPLETE, Kind.RESTORE_INCOMPLETE)
        assert "our lines are proven gone" in record.failure.reason
        assert "flashferry recover --accept r1" in record.failure.hint
        assert [device.run_id for device in pending(journal)] == [run_id]
    found = recovering.recover(nornir, accepted=["r1"], state=journal)
    (accepted,) = found.devices
    assert (accepted.restored, accepted.failure, accepted.is_accepted) == (Restored.FOREIGN_CHANGE, None, True)
    assert accepted.restore.running_difference == FOREIGN
    stored = read_run(journal.directory, run_id)
    (device,) = build_report(stored, written_at="", written_by="", before={}).devices
    words = (device.restore.label, device.restore.proof.value)
    assert words == (ACCEPTED_LABEL, "restored but for somebody else's change")
    assert device.standing is not Severity.UNRESTORED
    assert checks_of(device, "recover", ())[-1].status is Status.SKIPPED
    ((status,),) = (run.devices for run in read_status(journal.directory).runs)
    assert (status.configuration, status.is_accepted) == (ACCEPTED_LABEL, True)
    assert (found.exit_code, pending(journal)) == (0, ())


def test_a_device_on_which_nothing_was_set_ends_with_what_others_changed(nornir, journal, monkeypatch):
    """Nothing was ever sent, so no difference can be ours."""
    left_by_a_dead_run(journal, "r1", "192.0.2.1", "FGL1/r1", changes=())
    Answering("FGL1/r1", monkeypatch).difference = FOREIGN
    (record,) = recover(nornir, journal)
    assert (record.restored, record.failure) == (Restored.FOREIGN_CHANGE, None)
    assert pending(journal) == ()


def test_what_is_about_to_change_is_not_accepted(nornir, journal, monkeypatch):
    """A rollback that is pending may bring our lines back in a minute."""
    left_by_a_dead_run(journal, "r1", "192.0.2.1", "FGL1/r1")
    Answering("FGL1/r1", monkeypatch, held=["a rollback is pending"])
    (record,) = recover(nornir, journal, accepted=frozenset({"r1"}), patience_s=0.0)
    assert record.restored is Restored.INCOMPLETE
    assert len(pending(journal)) == 1


def test_no_device_is_accepted_that_no_run_left(nornir, journal):
    """A name that is mistyped is told before anything is sent."""
    left_by_a_dead_run(journal, "r1", "192.0.2.1", "FGL1/r1")
    with pytest.raises(ConfigInvalid, match="--accept r9: expected a device that a dead run still holds"):
        recover(nornir, journal, accepted=frozenset({"r9"}))


@pytest.mark.parametrize("confirmed", [frozenset(), frozenset({"r1"})])
def test_a_copied_journal_types_nothing_but_by_name(nornir, journal, monkeypatch, tmp_path, confirmed):
    """Its run may be alive where it was copied from."""
    left_by_a_dead_run(journal, "r1", "192.0.2.1", "FGL1/r1")
    shutil.copytree(journal.directory, tmp_path / "copied")
    box = Answering("FGL1/r1", monkeypatch)
    with Journal(tmp_path / "copied") as copied:
        recover(nornir, copied, confirmed=confirmed)
    recover(nornir, journal)
    assert [doubt is None for doubt in box.doubts] == [bool(confirmed), True]
    assert confirmed or "--device-is r1" in box.doubts[0]


def test_a_run_that_the_journal_lost_is_told(nornir, journal):
    """Its lock is there, and nobody knows what it had in hand: never called nothing to recover."""
    (journal.directory / "runs" / "20261122-1.lock").touch()
    (record,) = recover(nornir, journal)
    assert (record.run_id, record.restored) == ("20261122-1", Restored.INCOMPLETE)
    assert "the journal knows nothing of it" in record.failure.reason
    forget(journal, ["20261122-1"])
    assert recover(nornir, journal) == ()
