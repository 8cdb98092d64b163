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
from flashferry.run.device import copy_recovery, login, partial_file
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
    found = Flash(monkeypatch, at, copy_recovery, partial_file)
    monkeypatch.setattr(partial_file, "describe_partial_file", lambda session, path: in_words(found.look(path)))


def failed_run(error, *, server_account, may_be_writing=True, may_remove=True):
    """Return the parts of a run whose copy was begun and which failed with an error."""

    def decided(task, lost):
        return copy_recovery.recover_copy(Steps(), lost).result

    steps = Steps(remove=lambda task, **given: None, reconcile=decided)
    parts = checked(steps, context(remove_partial=may_remove))
    parts.context.server.__class__, parts.context.server.account = EndingServer, server_account
    traces = parts.traces
    traces.order, traces.ticket = order(parts.context), parts.context.server.issue_ticket(None)
    traces.began, traces.may_be_writing = True, may_be_writing
    parts.keeper.update(failure=failure_of("verify", error))
    return parts


def test_a_whole_file_that_is_merely_unproven_stays(monkeypatch):
    """The hash was not computed in time: nobody knows that the file is bad, so leave to remove does not cover it."""
    clock_of(monkeypatch)
    flash(monkeypatch, lambda: IMAGE_BYTES)
    parts = failed_run(OutputNotUnderstood("no digest in time"), server_account=account())
    parts.leftover.clean_up()
    assert "remove" not in parts.task.done
    assert parts.keeper.record.partial_file == "flash:x.bin, 1,000 bytes"
    assert parts.keeper.record.partial_removed is False


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
    parts = failed_run(error, server_account=account(), may_be_writing=False, may_remove=False)
    parts.leftover.clean_up()
    sentence = sentence.replace("RUN", parts.context.run_id)
    assert sentence in parts.keeper.record.partial_advice
    assert ("delete" in parts.keeper.record.partial_advice) is (size != IMAGE_BYTES or isinstance(error, ImageCorrupt))
    tables._print_proof(parts.keeper.record)
    told = " ".join(capsys.readouterr().out.split())
    assert f"left on the device: flash:x.bin, {size:,} bytes. " in told
    assert sentence in told


@pytest.mark.parametrize(("error", "size"), [(ImageCorrupt("other"), IMAGE_BYTES), (OutputNotUnderstood("?"), 999)])
def test_a_worthless_file_is_removed(monkeypatch, error, size):
    """Proven to be another file, or cut off: with leave it goes."""
    clock_of(monkeypatch)
    flash(monkeypatch, lambda: size)
    parts = failed_run(error, server_account=account(), may_be_writing=False)
    parts.leftover.clean_up()
    assert (parts.task.done, parts.keeper.record.partial_removed) == (["remove"], True)


def test_nothing_is_removed_that_may_still_be_written(monkeypatch):
    """The ticket is revoked first, and the flash must have settled: what grew to a whole image meanwhile stays."""
    clock = clock_of(monkeypatch)
    flash(monkeypatch, lambda: min(IMAGE_BYTES, 100 * int(clock.now_s)))
    parts = failed_run(DeviceUnreachable("lost"), server_account=account(TransferState.TRANSFERRING, 500))
    parts.leftover.clean_up()
    assert parts.context.server.revoked
    assert parts.task.done == ["reconcile"]
    assert parts.keeper.record.partial_file == "flash:x.bin, 1,000 bytes"


def test_a_server_that_is_gone_has_nothing_removed(monkeypatch):
    """Without the server's account nobody knows whose file it is: it is named and stays."""

    def gone(ticket_id):
        raise FileServerError("gone")

    flash(monkeypatch, lambda: 10)
    parts = failed_run(DeviceUnreachable("lost"), server_account=account())
    parts.context.server.progress = gone
    parts.leftover.clean_up()
    assert (parts.task.done, parts.keeper.record.partial_file) == ([], "flash:x.bin, 10 bytes")


def test_what_an_earlier_copy_of_the_run_began_is_ours(monkeypatch):
    """The second ticket never came to a transfer: what the first one's copy left is named all the same."""
    flash(monkeypatch, lambda: 10)
    parts = failed_run(DeviceUnreachable("lost"), server_account=account(TransferState.WAITING, 0))
    parts.traces.began = False
    parts.tickets.take_account(account(TransferState.TRANSFERRING, 10))
    parts.tickets.take_account(account(TransferState.WAITING, 0))
    parts.leftover.clean_up()
    assert parts.keeper.record.partial_file == "flash:x.bin, 10 bytes"


def test_no_login_for_the_leftover_of_a_device_that_could_not_be_restored(monkeypatch):
    """What is left there cannot be told; it is not said to be nothing, and no login more is tried."""
    parts = failed_run(LoginRefused("password"), server_account=account())
    parts.keeper.update(restore_failure=failure_of("restore", LoginRefused("password")))
    monkeypatch.setattr(login, "session_of", lambda task: pytest.fail("another login"))
    parts.leftover.clean_up()
    assert parts.keeper.record.partial_file.startswith("cannot tell: ")


def test_a_file_of_another_author_is_neither_named_nor_removed(monkeypatch):
    """It came to the target since the check: no copy of ours wrote it, whatever an earlier one began."""
    clock_of(monkeypatch)
    flash(monkeypatch, lambda: 10)
    parts = failed_run(DeviceUnreachable("lost"), server_account=account(), may_be_writing=False)
    parts.traces.is_theirs = True
    parts.leftover.clean_up()
    assert (parts.task.done, parts.keeper.record.partial_file) == ([], None)


def test_a_proven_image_is_no_leftover(monkeypatch):
    """What failed came after the proof: the file is what was asked for."""
    flash(monkeypatch, lambda: IMAGE_BYTES)
    parts = failed_run(DeviceUnreachable("lost"), server_account=account(), may_be_writing=False)
    parts.keeper.update(verify=object())
    parts.leftover.clean_up()
    assert (parts.task.done, parts.keeper.record.partial_file) == ([], None)


def test_a_speed_test_leaves_nothing(monkeypatch):
    """`null:` keeps no file."""
    parts = failed_run(DeviceUnreachable("lost"), server_account=account(), may_be_writing=False)
    parts.traces.order = order(parts.context, target="null:")
    monkeypatch.setattr(login, "session_of", lambda task: pytest.fail("another look"))
    parts.leftover.clean_up()
    assert parts.keeper.record.partial_file is None


def test_a_copy_that_never_began_left_nothing(monkeypatch):
    """The server can tell: the device fetched no byte, so a file at the target is not ours."""
    flash(monkeypatch, lambda: 10)
    parts = failed_run(DeviceUnreachable("lost"), server_account=account(TransferState.WAITING, 0))
    parts.traces.began = False
    parts.leftover.clean_up()
    assert (parts.task.done, parts.keeper.record.partial_file) == ([], None)


def test_a_run_without_a_ticket_left_nothing(monkeypatch):
    """It failed before the copy; no look at the flash."""
    parts = failed_run(DeviceUnreachable("lost"), server_account=account())
    parts.traces.ticket = None
    monkeypatch.setattr(login, "session_of", lambda task: pytest.fail("another look"))
    parts.leftover.clean_up()
    assert parts.keeper.record.partial_file is None


def test_a_neighbour_s_copy_is_ours_without_a_ticket(monkeypatch):
    """Our server knows nothing of it; what it left is named, and removed where that is allowed."""
    clock_of(monkeypatch)
    flash(monkeypatch, lambda: 10)
    parts = failed_run(DeviceUnreachable("lost"), server_account=account(), may_be_writing=False)
    parts.traces.ticket, parts.traces.is_from_neighbour = None, True
    parts.leftover.clean_up()
    assert parts.keeper.record.partial_removed


def test_without_leave_nothing_is_removed(monkeypatch):
    """It is named with what to do."""
    clock_of(monkeypatch)
    flash(monkeypatch, lambda: 10)
    parts = failed_run(OutputNotUnderstood("?"), server_account=account(), may_be_writing=False, may_remove=False)
    parts.leftover.clean_up()
    assert (parts.task.done, parts.keeper.record.partial_removed) == ([], False)
    assert "--remove-partial" in parts.keeper.record.partial_advice


def test_what_is_removed_is_no_larger_than_what_we_sent(monkeypatch):
    """A larger file is not what a copy of ours left: the removal is bound to the most that any of them got."""
    clock_of(monkeypatch)
    flash(monkeypatch, lambda: 999)
    parts = failed_run(OutputNotUnderstood("?"), server_account=account(), may_be_writing=False)
    given = []
    parts.task.scripts["remove"] = lambda task, **arguments: given.append(arguments)
    parts.traces.sent_bytes = 999
    parts.leftover.clean_up()
    assert given == [{"path": "flash:x.bin", "no_larger_than_bytes": 999}]
    assert parts.context.server.revoked


def test_a_removed_file_needs_no_advice(monkeypatch):
    """The record has what it was, and that it is gone."""
    clock_of(monkeypatch)
    flash(monkeypatch, lambda: 10)
    parts = failed_run(OutputNotUnderstood("?"), server_account=account(), may_be_writing=False)
    parts.leftover.clean_up()
    record = parts.keeper.record
    assert (record.partial_file, record.partial_advice) == ("flash:x.bin, 10 bytes", None)


def test_a_removal_that_fails_is_reported_and_the_file_stays_named(monkeypatch):
    """The record has what is there, and not that it was removed."""
    clock_of(monkeypatch)
    flash(monkeypatch, lambda: 10)
    parts = failed_run(OutputNotUnderstood("?"), server_account=account(), may_be_writing=False)

    def refuse(task, **arguments):
        raise DeviceUnreachable("reset")

    parts.task.scripts["remove"] = refuse
    parts.leftover.clean_up()
    record = parts.keeper.record
    assert (record.partial_file, record.partial_removed) == ("flash:x.bin, 10 bytes", False)
    assert "--remove-partial" in record.partial_advice


def test_the_ticket_is_worthless_before_the_flash_is_looked_at(monkeypatch):
    """A device that still fetches with it would write to what is read."""
    parts = failed_run(DeviceUnreachable("lost"), server_account=account(), may_be_writing=False, may_remove=False)
    looked = []
    monkeypatch.setattr(
        partial_file, "describe_partial_file", lambda session, path: looked.append(list(parts.context.server.revoked))
    )
    parts.leftover.clean_up()
    assert looked == [["t1"]]
