"""What the parent keeps of tickets: everything of those under way, less and less of those that are over."""

from pathlib import Path

import pytest

from flashferry.fileserver.errors import TicketUnknown
from flashferry.fileserver.telemetry import BRIEF_RECORDS, WHOLE_RECORDS, Snapshots
from flashferry.fileserver.ticket_accounts import TicketRequest, issue
from flashferry.fileserver.transfer import Transfer, TransferStart
from flashferry.fileserver.transfer_records import SenderReport, TransferProgress, TransferRecord, TransferState
from flashferry.images.image import ImageFile
from flashferry.images.safe_open import FileIdentity

_SENDER = SenderReport(
    congestion_control_asked="auto",
    congestion_control_chosen=None,
    congestion_control="cubic",
    reason="",
    cap_asked_bytes_per_s=None,
    cap_bytes_per_s=None,
)


def _record() -> TransferRecord:
    identity = FileIdentity(device=1, inode=2, size_bytes=9, mtime_ns=3, ctime_ns=4)
    image = ImageFile(name="a.bin", size_bytes=9, md5="", sha512="", path=Path("/a.bin"), identity=identity)
    start = TransferStart(
        grant=issue(TicketRequest(image_name="a.bin"), image)[1],
        peer_address="192.0.2.1",
        offset_bytes=0,
        wall_s=1e9,
        now_s=100.0,
        control_syn=None,
        data_syn=None,
        transport="ftp",
    )
    transfer = Transfer(start, bytes(280))
    return transfer.record(outcome="x", raw_info=None, now_s=101.0, sender=_SENDER, commands=("0.000 NOOP",))


def _progress(ticket_id: str, state: TransferState, record: TransferRecord | None = None) -> TransferProgress:
    return TransferProgress(ticket_id=ticket_id, state=state, sequence=1, size_bytes=9, tries_left=1, record=record)


def test_old_records_lose_their_samples_and_then_go() -> None:
    """The latest finished tickets keep everything, older ones the figures, the oldest nothing."""
    snapshots, record = Snapshots(), _record()
    count = WHOLE_RECORDS + BRIEF_RECORDS + 1
    for number in range(count):
        snapshots.put(_progress(str(number), TransferState.DELIVERED, record))
    assert len(snapshots) == count - 1
    assert snapshots.get(str(count - WHOLE_RECORDS)).record == record
    older = snapshots.get(str(count - WHOLE_RECORDS - 1)).record
    assert older is not None
    assert (older.samples, older.commands, older.verdict) == ((), (), record.verdict)
    with pytest.raises(TicketUnknown, match="'0': not issued by this server, or finished long ago"):
        snapshots.get("0")


def test_a_ticket_under_way_is_never_forgotten() -> None:
    """A waiting ticket outlives any number of finished ones, and a failed one that starts again is under way."""
    snapshots = Snapshots()
    snapshots.put(_progress("waiting", TransferState.WAITING))
    snapshots.put(_progress("again", TransferState.FAILED))
    snapshots.put(_progress("again", TransferState.TRANSFERRING))
    for number in range(WHOLE_RECORDS + BRIEF_RECORDS + 1):
        snapshots.put(_progress(str(number), TransferState.FAILED))
    assert {progress.ticket_id for progress in snapshots.in_progress()} == {"waiting", "again"}
    assert snapshots.get("waiting").state is TransferState.WAITING


def test_a_record_stays_until_a_new_transfer_begins() -> None:
    """What comes after the end of a transfer does not hide what it came to; its successor does."""
    snapshots, record = Snapshots(), _record()
    snapshots.put(_progress("t", TransferState.FAILED, record))
    snapshots.put(_progress("t", TransferState.LOGGED_IN))
    assert snapshots.get("t").record == record
    snapshots.put(_progress("t", TransferState.TRANSFERRING), new_transfer=True)
    assert snapshots.get("t").record is None
