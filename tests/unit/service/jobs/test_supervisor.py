"""Jobs looked after: begun once, found again, their ends told once, their deaths cleaned up after."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from datetime import timedelta

import pytest

from flashferry.core.jobs import JobFolder, ProcessMark, claim, is_stopped
from flashferry.core.values import as_dict, replace
from flashferry.service.jobs.create import request_job
from flashferry.service.jobs.job_spec import JobSpec
from flashferry.service.jobs.steering import cancel
from flashferry.service.jobs.supervisor import Supervisor
from flashferry.service.principal import SYSTEM
from flashferry.service.reminders import Reminding
from flashferry.store.control_requests import Origin
from flashferry.store.journal import Journal
from flashferry.store.service.audit import entries
from flashferry.store.service.jobs import JobKind, JobState, add_job, claim_job, job_of, latest_jobs
from tests.patience import until

from .conftest import AT, DIGEST


class Processes:
    """Begins processes that do nothing until a test ends them; they take their job as the real ones do."""

    def __init__(self):
        self.begun = []
        self.is_slow = False

    def __call__(self, service, job):
        folder = JobFolder.of(service.state, job.job_id)
        child = subprocess.Popen(["sleep", "100"])
        self.begun.append((job.job_id, child))
        if not self.is_slow:
            self.take(folder, child)
        return child

    def take(self, folder, child):
        mark = ProcessMark.of(child.pid)
        with suppress(FileExistsError), (folder.mark_file).open("x") as file:
            json.dump(as_dict(mark), file)

    def end(self, service, job_id, *, exit_code=None, words=""):
        """Kill a job's process, which had said this at its end, or nothing."""
        folder = JobFolder.of(service.state, job_id)
        if exit_code is not None:
            folder.result.write_text(
                json.dumps({"schema": "x", "exit_code": exit_code, "meaning": "as it must be"}, indent=2)
            )
        if words:
            folder.stderr.write_text(words)
        for one, child in self.begun:
            if one == job_id:
                child.kill()
                child.wait()


@pytest.fixture
def processes():
    made = Processes()
    yield made
    for _, child in made.begun:
        child.kill()
        child.wait()


@pytest.fixture
def supervisor(processes):
    return Supervisor(processes)


def ask(service, actor, **wish):
    with service.database.writing() as database:
        return request_job(service, database, actor, JobSpec(**wish)).job_id


def seen(service, job_id):
    with service.database.reading() as database:
        return job_of(database, job_id)


def told(service):
    with service.database.reading() as database:
        return [(one.entry.action, one.entry.outcome, one.entry.actor) for one in entries(database)]


def run_of(service, job_id, *, touched=False, dies=True):
    """Have the journal know a run of a job."""
    with Journal(service.state, Origin(job=job_id, actor="anna")) as journal:
        run_id = journal.begin_run("stage")
        journal.add_device(run_id, host="r1", address="x", port=22, platform="ios", image="x.bin")
        if touched:
            journal._write("UPDATE devices SET touched = 1, identity = 'r1'", ())
        if not dies:
            journal.finish_run(run_id)
    return run_id


def test_a_job_begins_runs_and_ends(service, anna, supervisor, processes):
    """Its plan and its command are in its folder first; process, run and end are in its row, its end in the audit."""
    job_id = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST)
    supervisor.run_once(service)
    folder = JobFolder.of(service.state, job_id)
    assert json.loads(folder.command.read_text())["actor"] == "anna"
    assert folder.plan.read_text() == "{}"
    assert folder.path.stat().st_mode & 0o077 == 0
    supervisor.run_once(service)
    job = seen(service, job_id)
    assert (job.state, job.pid) == (JobState.RUNNING, processes.begun[0][1].pid)
    run_id = run_of(service, job_id, dies=False)
    supervisor.run_once(service)
    assert seen(service, job_id).run_id == run_id
    processes.end(service, job_id, exit_code=0)
    supervisor.run_once(service)
    supervisor.run_once(service)
    job = seen(service, job_id)
    assert (job.state, job.exit_code, job.sentence) == (JobState.ENDED, 0, "as it must be")
    assert told(service) == [("run.start", "done", "anna"), ("job.ended", "done", "system")]
    assert len(processes.begun) == 1


def test_an_approved_run_of_another_site_is_claimed_before_400_probes(service, anna, chief, supervisor, processes):
    """One operator's flood, asked for before it, waits; so does not the run."""
    probe = seen(service, ask(service, chief, kind=JobKind.PROBE, sites=("LIM",)))
    with service.database.writing() as database:
        for number in range(1, 400):
            add_job(database, replace(probe, job_id=f"{probe.job_id}-{number}"))
    run = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST)
    supervisor.run_once(service)
    assert [job_id for job_id, _ in processes.begun] == [run]
    processes.end(service, run, exit_code=0)
    supervisor.run_once(service)
    assert [job_id for job_id, _ in processes.begun] == [run, probe.job_id]


def test_a_service_killed_before_the_start_begins_the_job_later(service, anna, supervisor, processes):
    """Claimed, and nothing begun: the next service does."""
    job_id = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST)
    with service.database.writing() as database:
        assert claim_job(database, job_id, at=AT, unit=None)
    supervisor.run_once(service)
    assert [one for one, _ in processes.begun] == [job_id]


def test_a_service_killed_between_start_and_row_finds_the_process(service, anna, processes):
    """It begins no other, and another that is begun all the same finds the job taken."""
    job_id = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST)
    Supervisor(processes).run_once(service)
    assert seen(service, job_id).state is JobState.STARTING
    Supervisor(processes).run_once(service)
    assert seen(service, job_id).state is JobState.RUNNING
    assert len(processes.begun) == 1
    assert not claim(JobFolder.of(service.state, job_id).mark_file)


def test_a_slow_process_is_not_begun_twice_by_its_parent(service, anna, supervisor, processes):
    """It has a moment before it takes its job."""
    processes.is_slow = True
    job_id = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST)
    for _ in range(3):
        supervisor.run_once(service)
    assert len(processes.begun) == 1
    assert seen(service, job_id).state is JobState.STARTING


def test_a_process_that_never_begins_is_given_up_for_good(service, anna, supervisor, processes, clock):
    """And should it come after all, it finds the job taken."""
    processes.is_slow = True
    job_id = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST)
    supervisor.run_once(service)
    clock.at += timedelta(minutes=3)
    supervisor.run_once(service)
    assert seen(service, job_id).state is JobState.DEAD
    assert not claim(JobFolder.of(service.state, job_id).mark_file)


def test_a_process_of_another_boot_is_dead(service, anna, supervisor, processes):
    """Its number may be somebody else's now."""
    job_id = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST)
    supervisor.run_once(service)
    run_of(service, job_id)
    folder = JobFolder.of(service.state, job_id)
    mark = ProcessMark.of(os.getpid())
    folder.mark_file.write_text(json.dumps(as_dict(replace(mark, started=f"another:{mark.started.split(':')[1]}"))))
    supervisor.run_once(service)
    assert seen(service, job_id).state is JobState.DEAD


def test_a_run_killed_before_its_first_journal_entry_starts_again(service, anna, supervisor, processes):
    """The same job, with nothing left of what the dead process printed; twice, and then it is dead."""
    job_id = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST)
    folder = JobFolder.of(service.state, job_id)
    supervisor.run_once(service)
    for start in range(1, 4):
        assert len(processes.begun) == start
        assert seen(service, job_id).state is JobState.STARTING
        assert not folder.result.exists()
        assert not folder.events.exists()
        folder.result.write_text('{"schema": "x", "exit_')
        folder.events.write_text("{}\n")
        processes.end(service, job_id, words="killed")
        supervisor.run_once(service)
    job = seen(service, job_id)
    assert (job.state, job.sentence) == (JobState.DEAD, "its process died; last output: killed")
    assert [action for action, _, _ in told(service)] == ["run.start", *2 * ["job.requeued"], "job.died"]
    for _ in range(3):
        supervisor.run_once(service)
    assert len(processes.begun) == 3


def test_a_service_killed_while_it_queues_a_job_again_starts_it_once(service, anna, processes, clock):
    """The mark was put aside, and the row does not know: the next service goes by the process in the row."""
    job_id = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST)
    for _ in range(2):
        Supervisor(processes).run_once(service)
    folder = JobFolder.of(service.state, job_id)
    folder.put_aside()
    clock.at += timedelta(hours=1)
    Supervisor(processes).run_once(service)
    assert (seen(service, job_id).state, len(processes.begun)) == (JobState.RUNNING, 1)
    processes.end(service, job_id)
    for _ in range(3):
        Supervisor(processes).run_once(service)
    assert (seen(service, job_id).state, len(processes.begun)) == (JobState.RUNNING, 2)


def test_a_run_that_died_is_recovered_then_gone_on_with(service, anna, supervisor, processes):
    """Each a job of its own, of the system's, in the audit; last words are told."""
    job_id = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST)
    supervisor.run_once(service)
    run_id = run_of(service, job_id, touched=True)
    processes.end(service, job_id, words="first\nfell over\n")
    supervisor.run_once(service)
    dead = seen(service, job_id)
    assert (dead.state, dead.sentence) == (JobState.DEAD, "its process died; last output: fell over")
    with service.database.reading() as database:
        recovery = latest_jobs(database, 1)[0]
    assert (recovery.kind, recovery.run_id, recovery.parent, recovery.requested_by, recovery.sites) == (
        JobKind.RECOVER,
        run_id,
        job_id,
        "system",
        ("AMS",),
    )
    supervisor.run_once(service)
    with Journal(service.state) as journal:
        journal._write("UPDATE devices SET touched = 0", ())
    processes.end(service, recovery.job_id, exit_code=0)
    supervisor.run_once(service)
    with service.database.reading() as database:
        resume = latest_jobs(database, 1)[0]
    assert (resume.kind, resume.run_id, resume.attempt) == (JobKind.RESUME, run_id, 1)
    assert told(service)[1:] == [
        ("job.died", "failed", "system"),
        ("run.recover", "done", "system"),
        ("job.ended", "done", "system"),
        ("run.resume", "done", "system"),
    ]


def test_a_run_whose_plan_was_withdrawn_is_not_gone_on_with(service, anna, supervisor, processes):
    """It is said once why, in the audit and in its row."""
    job_id = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST)
    supervisor.run_once(service)
    run_of(service, job_id)
    processes.end(service, job_id)
    with service.database.writing() as database:
        database.execute("UPDATE plans SET state = 'withdrawn', withdrawn_by = 'anna', withdrawn_at = ''")
    for _ in range(3):
        supervisor.run_once(service)
    assert "withdrawn" in seen(service, job_id).sentence
    assert told(service)[-1] == ("run.resume", "refused", "system")
    assert len(told(service)) == 3


def test_a_plan_withdrawn_while_its_job_waits_is_not_begun(service, anna, supervisor, processes):
    """Asked for, then taken back: the job ends as refused, and nothing is started."""
    job_id = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST)
    with service.database.writing() as database:
        database.execute("UPDATE plans SET state = 'withdrawn', withdrawn_by = 'anna', withdrawn_at = ''")
    supervisor.run_once(service)
    job = seen(service, job_id)
    assert (job.state, job.exit_code) == (JobState.ENDED, None)
    assert job.sentence.startswith("not started: withdrawn")
    assert told(service)[-1] == ("job.ended", "refused", "system")
    assert processes.begun == []


def test_a_job_that_was_cancelled_is_not_begun(service, anna, supervisor, processes):
    """Nor does what it waited for stand in the place of why it was."""
    first, second = (
        ask(service, anna, kind=JobKind.STAGE, digest=DIGEST),
        ask(service, anna, kind=JobKind.PROBE, sites=("AMS",)),
    )
    supervisor.run_once(service)
    cancel(service, anna, second, "not tonight")
    processes.end(service, first, exit_code=0)
    for _ in range(3):
        supervisor.run_once(service)
    job = seen(service, second)
    assert (job.state, job.sentence, job.pid) == (JobState.ENDED, "cancelled by anna: not tonight", None)
    assert [one for one, _ in processes.begun] == [first]


def test_a_resume_that_was_cancelled_is_not_asked_for_again(service, anna, supervisor, processes):
    """Somebody decided that this run is over."""
    job_id = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST)
    supervisor.run_once(service)
    run_of(service, job_id)
    processes.end(service, job_id)
    supervisor.run_once(service)
    with service.database.reading() as database:
        resume = latest_jobs(database, 1)[0]
    assert resume.kind is JobKind.RESUME
    cancel(service, anna, resume.job_id, "enough")
    for _ in range(3):
        supervisor.run_once(service)
    with service.database.reading() as database:
        assert latest_jobs(database, 1)[0].job_id == resume.job_id


def test_a_job_waits_for_its_time_through_a_restart(service, anna, processes, clock):
    """It says so, and is begun by whichever service is there then."""
    job_id = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST, not_before=clock.at + timedelta(hours=1))
    Supervisor(processes).run_once(service)
    assert (seen(service, job_id).state, seen(service, job_id).sentence) == (
        JobState.QUEUED,
        "waits until 2026-11-23 13:00:00 UTC",
    )
    clock.at += timedelta(hours=1)
    Supervisor(processes).run_once(service)
    assert [one for one, _ in processes.begun] == [job_id]


@pytest.mark.parametrize(
    "change", ["state = 'withdrawn', withdrawn_by = 'anna'", "ends_at = '2026-11-23T12:30:00.000Z'"]
)
def test_what_a_plan_lost_while_its_job_waited_is_seen(service, anna, supervisor, processes, clock, change):
    """The approval of the afternoon is not that of the night."""
    job_id = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST, not_before=clock.at + timedelta(hours=1))
    with service.database.writing() as database:
        database.execute(f"UPDATE plans SET {change}")
    clock.at += timedelta(hours=1)
    supervisor.run_once(service)
    assert (seen(service, job_id).state, told(service)[-1]) == (JobState.ENDED, ("job.ended", "refused", "system"))
    assert processes.begun == []


def test_a_job_whose_end_passed_while_it_waited_is_not_begun(service, anna, supervisor, processes, clock):
    """Its run would have no time left."""
    job_id = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST, until=clock.at + timedelta(hours=1))
    clock.at += timedelta(hours=2)
    supervisor.run_once(service)
    assert "waited too long" in seen(service, job_id).sentence
    assert processes.begun == []


def test_one_that_waits_says_for_whom(service, anna, chief, supervisor, processes):
    """And begins once that one ended."""
    first = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST)
    second = ask(service, chief, kind=JobKind.PROBE)
    supervisor.run_once(service)
    assert first in seen(service, second).sentence
    processes.end(service, first, exit_code=0)
    supervisor.run_once(service)
    assert seen(service, second).state is JobState.STARTING


def test_a_process_that_cannot_be_begun_is_tried_again(service, anna):
    """The disk was full for a moment; the row says so meanwhile."""

    def refuses(service, job):
        raise OSError(28, "No space left on device")

    supervisor = Supervisor(refuses)
    job_id = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST)
    supervisor.run_once(service)
    assert "No space left" in seen(service, job_id).sentence
    assert seen(service, job_id).state is JobState.STARTING
    assert SYSTEM.name == "system"


def test_a_run_that_somebody_went_on_with_himself_is_his(service, anna, supervisor, processes):
    """Two dead jobs of one run ask for one recovery, the newer one's."""
    job_id = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST)
    supervisor.run_once(service)
    run_id = run_of(service, job_id, touched=True)
    processes.end(service, job_id)
    service = replace(service, settings=replace(service.settings, runs=replace(service.settings.runs, resumes=0)))
    supervisor.run_once(service)
    with service.database.reading() as database:
        recovery = latest_jobs(database, 1)[0].job_id
    supervisor.run_once(service)
    processes.end(service, recovery, exit_code=0)
    supervisor.run_once(service)
    again = ask(service, anna, kind=JobKind.RESUME, run_id=run_id, digest=DIGEST, sites=("AMS",))
    supervisor.run_once(service)
    processes.end(service, again)
    for _ in range(3):
        supervisor.run_once(service)
    with service.database.reading() as database:
        found = [(job.kind, job.parent) for job in latest_jobs(database, 9)[::-1]]
    assert found == [
        (JobKind.STAGE, None),
        (JobKind.RECOVER, job_id),
        (JobKind.RESUME, None),
        (JobKind.RECOVER, again),
    ]
    assert [outcome for _, outcome, _ in told(service)].count("refused") == 0


def notices(service):
    """Return what was announced, the oldest first, and forget it."""
    with service.database.writing() as database:
        kinds = [row["kind"] for row in database.execute("SELECT kind FROM outbox ORDER BY rowid")]
        database.execute("DELETE FROM outbox")
    return kinds


@pytest.mark.parametrize("reminds_first", [True, False])
def test_what_two_keepers_see_is_told_once(service, anna, supervisor, processes, clock, reminds_first):
    """A dead run whose device stays changed through four recoveries: one notice of each fact, and one each hour."""
    with service.database.writing() as database:
        kinds = '["run.began", "run.dead", "run.ended", "device.not_restored"]'
        database.execute(
            "INSERT INTO hooks (hook_id, name, form, target, kinds) VALUES ('h', 'h', 'webhook', 'https://h/', ?)",
            (kinds,),
        )
    reminding = Reminding()

    def look(**later):
        for _ in range(3):
            clock.at += timedelta(**later) / 3
            for one in (reminding, supervisor.run_once) if reminds_first else (supervisor.run_once, reminding):
                one(service)
        return notices(service)

    job_id = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST)
    look()
    run_id = run_of(service, job_id, touched=True)
    supervisor.run_once(service)
    processes.end(service, job_id)
    assert look(seconds=3) == ["run.began", "run.dead"]
    told = []
    for _ in range(4):
        with service.database.reading() as database:
            recovery = latest_jobs(database, 1)[0]
        assert (recovery.kind, recovery.run_id) == (JobKind.RECOVER, run_id)
        processes.end(service, recovery.job_id, exit_code=5)
        told.append(look(minutes=6))
    assert told == [["device.not_restored"], [], [], []]
    assert look(minutes=30) == []
    assert look(minutes=9) == ["device.not_restored"]
    assert look(minutes=50) == []
    with Journal(service.state) as journal:
        journal._write("UPDATE devices SET touched = 0", ())
    assert look(hours=3) == []


def test_a_job_whose_process_is_stopped_says_so_until_it_goes_on(service, anna, supervisor, processes, caplog):
    """It lives, and does nothing: its row and the log say so once, and what to do."""
    job_id = ask(service, anna, kind=JobKind.STAGE, digest=DIGEST)
    supervisor.run_once(service)
    pid = processes.begun[0][1].pid
    os.kill(pid, signal.SIGSTOP)
    until(lambda: is_stopped(pid), "a process that is stopped")
    for _ in range(2):
        supervisor.run_once(service)
    job = seen(service, job_id)
    assert job.state is JobState.RUNNING
    assert job.sentence == (f"its process {pid} was stopped by a signal; 'kill -CONT {pid}' continues it")
    os.kill(pid, signal.SIGCONT)
    until(lambda: not is_stopped(pid), "a process that goes on")
    supervisor.run_once(service)
    assert seen(service, job_id).sentence == ""
    assert [record.getMessage() for record in caplog.records if record.name == "flashferry.service.jobs"] == [
        f"job {job_id}: {job.sentence}",
        f"job {job_id}: its process {pid} goes on",
    ]
