"""What a failed copy left: named, and removed only where it is ours and worthless for certain."""

from __future__ import annotations

import pytest

from flashferry.cli.view import device_tables as tables
from flashferry.devices.errors import (
    DeviceUnreachable,
    HashStopped,
    ImageCorrupt,
    LoginRefused,
    OutputNotUnderstood,
)
from flashferry.fileserver import FileServerError, TransferState
from flashferry.model.record import failure_of
from flashferry.run.device import copy_recovery, device_run
from flashferry.run.device.copy_recovery import clean_up
from flashferry.run.device.tickets import take_account
from tasks.partial_file import in_words
from tests.unit.run.device.scripted import (
    IMAGE_BYTES,
    Clock,
    EndingServer,
    Flash,
    Steps,
    account,
    checked,
    context,
    order,
)


def clock_of(monkeypatch):
    return Clock(monkeypatch, copy_recovery)


def flash(monkeypatch, at):
    found = Flash(monkeypatch, at, copy_recovery, copy_recovery)
    monkeypatch.setattr(copy_recovery, "describe_partial_file", lambda session, path: in_words(found.look(path)))


def failed_run(error, *, server_account, may_be_writing=True, may_remove=True):
    """Return a run whose copy was begun and which failed with an error."""

    def decided(task, lost):
        return copy_recovery.recover_copy(Steps(), lost).result

    steps = Steps(remove=lambda task, **given: None, reconcile=decided)
    run = checked(steps, context(remove_partial=may_remove))
    run.context.server.__class__, run.context.server.account = EndingServer, server_account
    traces = run.traces
    traces.order, traces.ticket = order(run.context), run.context.server.issue_ticket(None)
    traces.began, traces.may_be_writing = True, may_be_writing
    run.update(failure=failure_of("verify", error))
    return run


def test_a_whole_file_that_is_merely_unproven_stays(monkeypatch):
    """The hash was not computed in time: nobody knows that the file is bad, so leave to remove does not cover it."""
    clock_of(monkeypatch)
    flash(monkeypatch, lambda: IMAGE_BYTES)
    run = failed_run(OutputNotUnderstood("no digest in time"), server_account=account())
    clean_up(run)
    assert "remove" not in run.task.done
    assert run.record.partial_file == "flash:x.bin, 1,000 bytes"
    assert run.record.partial_removed is False


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
    clock_of(monkeypatch)
    flash(monkeypatch, lambda: size)
    run = failed_run(error, server_account=account(), may_be_writing=False, may_remove=False)
    clean_up(run)
    sentence = sentence.replace("RUN", run.context.run_id)
    assert sentence in run.record.partial_advice
    assert ("delete" in run.record.partial_advice) is (size != IMAGE_BYTES or isinstance(error, ImageCorrupt))
    tables._print_proof(run.record)
    told = " ".join(capsys.readouterr().out.split())
    assert f"left on the device: flash:x.bin, {size:,} bytes. " in told
    assert sentence in told


@pytest.mark.parametrize(("error", "size"), [(ImageCorrupt("other"), IMAGE_BYTES), (OutputNotUnderstood("?"), 999)])
def test_a_worthless_file_is_removed(monkeypatch, error, size):
    """Proven to be another file, or cut off: with leave it goes."""
    clock_of(monkeypatch)
    flash(monkeypatch, lambda: size)
    run = failed_run(error, server_account=account(), may_be_writing=False)
    clean_up(run)
    assert (run.task.done, run.record.partial_removed) == (["remove"], True)


def test_nothing_is_removed_that_may_still_be_written(monkeypatch):
    """The ticket is revoked first, and the flash must have settled: what grew to a whole image meanwhile stays."""
    clock = clock_of(monkeypatch)
    flash(monkeypatch, lambda: min(IMAGE_BYTES, 100 * int(clock.now_s)))
    run = failed_run(DeviceUnreachable("lost"), server_account=account(TransferState.TRANSFERRING, 500))
    clean_up(run)
    assert run.context.server.revoked
    assert run.task.done == ["reconcile"]
    assert run.record.partial_file == "flash:x.bin, 1,000 bytes"


def test_a_server_that_is_gone_has_nothing_removed(monkeypatch):
    """Without the server's account nobody knows whose file it is: it is named and stays."""

    def gone(ticket_id):
        raise FileServerError("gone")

    flash(monkeypatch, lambda: 10)
    run = failed_run(DeviceUnreachable("lost"), server_account=account())
    run.context.server.progress = gone
    clean_up(run)
    assert (run.task.done, run.record.partial_file) == ([], "flash:x.bin, 10 bytes")


def test_what_an_earlier_copy_of_the_run_began_is_ours(monkeypatch):
    """The second ticket never came to a transfer: what the first one's copy left is named all the same."""
    flash(monkeypatch, lambda: 10)
    run = failed_run(DeviceUnreachable("lost"), server_account=account(TransferState.WAITING, 0))
    run.traces.began = False
    take_account(run, account(TransferState.TRANSFERRING, 10))
    take_account(run, account(TransferState.WAITING, 0))
    clean_up(run)
    assert run.record.partial_file == "flash:x.bin, 10 bytes"


def test_no_login_for_the_leftover_of_a_device_that_could_not_be_restored(monkeypatch):
    """What is left there cannot be told; it is not said to be nothing, and no login more is tried."""
    run = failed_run(LoginRefused("password"), server_account=account())
    run.update(restore_failure=failure_of("restore", LoginRefused("password")))
    monkeypatch.setattr(device_run, "session_of", lambda task: pytest.fail("another login"))
    clean_up(run)
    assert run.record.partial_file.startswith("not known: ")


def test_a_file_of_another_author_is_neither_named_nor_removed(monkeypatch):
    """It came to the target since the check: no copy of ours wrote it, whatever an earlier one began."""
    clock_of(monkeypatch)
    flash(monkeypatch, lambda: 10)
    run = failed_run(DeviceUnreachable("lost"), server_account=account(), may_be_writing=False)
    run.traces.is_theirs = True
    clean_up(run)
    assert (run.task.done, run.record.partial_file) == ([], None)


def test_a_proven_image_is_no_leftover(monkeypatch):
    """What failed came after the proof: the file is what was asked for."""
    flash(monkeypatch, lambda: IMAGE_BYTES)
    run = failed_run(DeviceUnreachable("lost"), server_account=account(), may_be_writing=False)
    run.update(verify=object())
    clean_up(run)
    assert (run.task.done, run.record.partial_file) == ([], None)


def test_a_speed_test_leaves_nothing(monkeypatch):
    """`null:` keeps no file."""
    run = failed_run(DeviceUnreachable("lost"), server_account=account(), may_be_writing=False)
    run.traces.order = order(run.context, target="null:")
    monkeypatch.setattr(device_run, "session_of", lambda task: pytest.fail("another look"))
    clean_up(run)
    assert run.record.partial_file is None


def test_a_copy_that_never_began_left_nothing(monkeypatch):
    """The server can tell: the device fetched no byte, so a file at the target is not ours."""
    flash(monkeypatch, lambda: 10)
    run = failed_run(DeviceUnreachable("lost"), server_account=account(TransferState.WAITING, 0))
    run.traces.began = False
    clean_up(run)
    assert (run.task.done, run.record.partial_file) == ([], None)


def test_a_run_without_a_ticket_left_nothing(monkeypatch):
    """It failed before the copy; no look at the flash."""
    run = failed_run(DeviceUnreachable("lost"), server_account=account())
    run.traces.ticket = None
    monkeypatch.setattr(device_run, "session_of", lambda task: pytest.fail("another look"))
    clean_up(run)
    assert run.record.partial_file is None


def test_a_neighbour_s_copy_is_ours_without_a_ticket(monkeypatch):
    """Our server knows nothing of it; what it left is named, and removed where that is allowed."""
    clock_of(monkeypatch)
    flash(monkeypatch, lambda: 10)
    run = failed_run(DeviceUnreachable("lost"), server_account=account(), may_be_writing=False)
    run.traces.ticket, run.traces.is_from_neighbour = None, True
    clean_up(run)
    assert run.record.partial_removed


def test_without_leave_nothing_is_removed(monkeypatch):
    """It is named with what to do."""
    clock_of(monkeypatch)
    flash(monkeypatch, lambda: 10)
    run = failed_run(OutputNotUnderstood("?"), server_account=account(), may_be_writing=False, may_remove=False)
    clean_up(run)
    assert (run.task.done, run.record.partial_removed) == ([], False)
    assert "--remove-partial" in run.record.partial_advice


def test_what_is_removed_is_no_larger_than_what_we_sent(monkeypatch):
    """A larger file is not what a copy of ours left: the removal is bound to the most that any of them got."""
    clock_of(monkeypatch)
    flash(monkeypatch, lambda: 999)
    run = failed_run(OutputNotUnderstood("?"), server_account=account(), may_be_writing=False)
    given = []
    run.task.scripts["remove"] = lambda task, **arguments: given.append(arguments)
    run.traces.sent_bytes = 999
    clean_up(run)
    assert given == [{"path": "flash:x.bin", "no_larger_than_bytes": 999}]
    assert run.context.server.revoked


def test_a_removed_file_needs_no_advice(monkeypatch):
    """The record has what it was, and that it is gone."""
    clock_of(monkeypatch)
    flash(monkeypatch, lambda: 10)
    run = failed_run(OutputNotUnderstood("?"), server_account=account(), may_be_writing=False)
    clean_up(run)
    record = run.record
    assert (record.partial_file, record.partial_advice) == ("flash:x.bin, 10 bytes", None)


def test_a_removal_that_fails_is_reported_and_the_file_stays_named(monkeypatch):
    """The record has what is there, and not that it was removed."""
    clock_of(monkeypatch)
    flash(monkeypatch, lambda: 10)
    run = failed_run(OutputNotUnderstood("?"), server_account=account(), may_be_writing=False)

    def refuse(task, **arguments):
        raise DeviceUnreachable("reset")

    run.task.scripts["remove"] = refuse
    clean_up(run)
    record = run.record
    assert (record.partial_file, record.partial_removed) == ("flash:x.bin, 10 bytes", False)
    assert "--remove-partial" in record.partial_advice


def test_the_ticket_is_worthless_before_the_flash_is_looked_at(monkeypatch):
    """A device that still fetches with it would write to what is read."""
    run = failed_run(DeviceUnreachable("lost"), server_account=account(), may_be_writing=False, may_remove=False)
    looked = []
    monkeypatch.setattr(
        copy_recovery, "describe_partial_file", lambda session, path: looked.append(list(run.context.server.revoked))
    )
    clean_up(run)
    assert looked == [["t1"]]
