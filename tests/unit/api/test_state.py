"""The state folder looked after: a backup is whole and goes back; damage is told; what is old goes."""

from __future__ import annotations

import filecmp
import io
import json
import sqlite3
import tarfile
import threading
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flashferry.api import back_up, check_state, prune, put_back
from flashferry.core.errors import ConfigInvalid
from flashferry.core.state_folder import scratch_folder
from flashferry.store import upkeep as module
from flashferry.store.history import History
from flashferry.store.journal import Journal
from flashferry.store.service.database import ServiceDatabase
from flashferry.store.status import read_status
from tests.unit.store.test_status import begin, touch


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder: a run that ended, one that died with a device in hand, a service, host keys, and what passes."""
    folder = tmp_path / "state"
    with Journal(folder) as journal:
        journal.finish_run(begin(journal, "r1"))
        touch(journal, begin(journal, "r2"), "r2")
    ServiceDatabase(folder)
    (folder / "known_hosts").write_text("r1 ssh-ed25519 AAAA\n")
    for name in ("images/x.bin", "scratch/y", "jobs/j/result.json", "recover.lock", "depot.sock"):
        (folder / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / name).write_text("passing")
    return folder


def files_in(folder: Path) -> set[Path]:
    """Return what is in a folder; SQLite takes its files beside a database away when the last connection ends."""
    return {path for path in folder.rglob("*") if not path.name.endswith(("-shm", "-wal"))}


def members(archive: Path) -> list[str]:
    """Return the names of the files in an archive."""
    with tarfile.open(archive) as found:
        return found.getnames()


def test_a_backup_goes_back(state: Path, tmp_path: Path) -> None:
    """What is put back tells the same runs and leases; locks, images, scratch and what jobs printed are left out."""
    made = back_up(tmp_path / "backups", state=state)
    assert set(made.members) == {"journal.sqlite3", "service.sqlite3", "known_hosts"}
    assert members(made.path) == [*made.members, "manifest.json"]
    assert made.path.stat().st_mode & 0o777 == 0o600
    other = tmp_path / "other"
    assert set(put_back(made.path, state=other)) == set(made.members)
    assert read_status(other).runs == read_status(state).runs
    assert [device.host for _, device in read_status(other).to_recover] == ["r2"]
    assert {path.stat().st_mode & 0o777 for path in other.iterdir() if path.is_file()} == {0o600}


def test_a_backup_is_of_one_moment(state: Path, tmp_path: Path) -> None:
    """While runs are written all the time, each backup is whole, and none of them holds up a run."""
    ends = threading.Event()

    def write() -> None:
        with Journal(state) as journal:
            while not ends.is_set():
                journal.finish_run(begin(journal, "r3", "r4"))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        made = [back_up(tmp_path / f"b{number}", state=state) for number in range(5)]
    finally:
        ends.set()
        writer.join()
    for one in made:
        assert check_state(archive=one.path).faults == ()


def test_old_backups_go_behind_a_new_one(state: Path, tmp_path: Path) -> None:
    """As many stay as were asked for, and nothing that is not ours is touched."""
    folder = tmp_path / "backups"
    folder.mkdir(mode=0o700)
    for day in (1, 2, 3):
        (folder / f"flashferry-state-2026010{day}T000000Z.tar.gz").touch()
    (folder / "flashferry-state-mine.tar.gz").touch()
    made = back_up(folder, keep=2, state=state)
    assert [path.name[17:25] for path in made.removed] == ["20260101", "20260102"]
    left = {path.name for path in folder.iterdir() if path.is_file()}
    assert left == {"flashferry-state-20260103T000000Z.tar.gz", "flashferry-state-mine.tar.gz", made.path.name}


def test_a_backup_beside_the_state_is_refused(state: Path) -> None:
    """It would be lost with what it is of."""
    with pytest.raises(ConfigInvalid, match="outside of the state folder"):
        back_up(state / "backups", state=state)
    assert not (state / "backups").exists()


def test_nothing_is_put_over_what_is_there(state: Path, tmp_path: Path) -> None:
    """A folder with files in it is left as it is."""
    made = back_up(tmp_path / "backups", state=state)
    before = files_in(state)
    with pytest.raises(ConfigInvalid, match="expected an empty one"):
        put_back(made.path, state=state)
    assert files_in(state) == before


def altered(archive: Path, name: str, content: bytes, *, kind: bytes = tarfile.REGTYPE) -> Path:
    """Return a copy of a backup in which a file is another one, or is added."""
    target = archive.with_name("altered.tar.gz")
    with tarfile.open(archive) as found, tarfile.open(target, "w:gz") as out:
        for member in found:
            if member.name != name:
                out.addfile(member, found.extractfile(member))
        made = tarfile.TarInfo(name)
        made.type, made.size = kind, len(content)
        out.addfile(made, io.BytesIO(content))
    return target


@pytest.mark.parametrize(
    ("name", "kind", "told"),
    [
        ("known_hosts", tarfile.REGTYPE, "not those that its manifest names"),
        ("added", tarfile.REGTYPE, "not those that its manifest names"),
        ("../../outside", tarfile.REGTYPE, "plain files below a folder"),
        ("/outside", tarfile.REGTYPE, "plain files below a folder"),
        ("link", tarfile.SYMTYPE, "plain files below a folder"),
        ("manifest.json", tarfile.REGTYPE, "expected the schema"),
    ],
)
def test_a_backup_that_was_altered_is_refused(state: Path, tmp_path: Path, name: str, kind: bytes, told: str) -> None:
    """Before anything is written: not what the manifest says, out of the folder, or none of ours."""
    made = back_up(tmp_path / "backups", state=state)
    wrong = altered(made.path, name, b"{}", kind=kind)
    with pytest.raises(ConfigInvalid, match=told):
        put_back(wrong, state=tmp_path / "other")
    assert not (tmp_path / "other").exists()
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("cut", [0.0, 0.5, 0.99])
def test_a_backup_that_was_cut_is_refused(state: Path, tmp_path: Path, cut: float) -> None:
    """A disk that was full while it was copied elsewhere, say."""
    made = back_up(tmp_path / "backups", state=state)
    whole = made.path.read_bytes()
    made.path.write_bytes(whole[: int(len(whole) * cut)])
    with pytest.raises(ConfigInvalid, match=r"the archive is cut short") as raised:
        put_back(made.path, state=tmp_path / "far" / "other")
    assert raised.value.hint == "Take another backup"
    assert not (tmp_path / "far").exists()


def test_no_backup_is_refused_in_plain_words(state: Path, tmp_path: Path) -> None:
    """A file that is not there, a folder, whose newest archive is named, and something else; no folder is made."""
    made = back_up(tmp_path / "backups", state=state)
    other = tmp_path / "other"
    with pytest.raises(ConfigInvalid, match=r"there is no such file"):
        put_back(tmp_path / "none" / "x.tar.gz", state=other)
    with pytest.raises(ConfigInvalid, match=r"expected a file, found a folder") as raised:
        put_back(made.path.parent, state=other)
    assert str(made.path) in (raised.value.hint or "")
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(ConfigInvalid, match=r"damaged, or no archive of gzip and tar"):
        put_back(tmp_path / "text", state=other)
    with pytest.raises(ConfigInvalid, match=r"there is no such file"):
        check_state(archive=tmp_path / "none" / "x.tar.gz")
    assert not other.exists()
    assert not (tmp_path / "none").exists()


def test_nothing_but_the_backup_stays_behind(state: Path, tmp_path: Path) -> None:
    """No folder of ours lies beside archives or in what was put back; digests of images are in neither."""
    (state / "digests.json").write_text("{}")
    made = back_up(tmp_path / "backups", state=state)
    assert check_state(archive=made.path).faults == ()
    assert list(made.path.parent.iterdir()) == [made.path]
    other = tmp_path / "other"
    assert set(put_back(made.path, state=other)) == set(made.members) == {path.name for path in other.iterdir()}
    assert "digests.json" not in made.members


def test_digests_of_an_older_backup_stay_in_it(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were of the images of that time."""
    (state / "digests.json").write_text("{}")
    with monkeypatch.context() as patch:
        patch.setattr("flashferry.api.state._PASSING", frozenset())
        made = back_up(tmp_path / "backups", state=state)
    assert "digests.json" in made.members
    assert "digests.json" not in put_back(made.path, state=tmp_path / "other")
    assert not (tmp_path / "other" / "digests.json").exists()


def test_a_wrong_folder_is_no_state_without_fault(tmp_path: Path) -> None:
    """One that is not there, a file, and somebody else's are refused; an empty one and one of ours are not."""
    folder = tmp_path / "state"
    with pytest.raises(ConfigInvalid, match=r"expected a folder, found none"):
        check_state(state=folder)
    assert not folder.exists()
    folder.mkdir(mode=0o700)
    assert check_state(state=folder).looked_at == ()
    (folder / "letter.txt").touch()
    with pytest.raises(ConfigInvalid, match="expected one of ours, found other files only"):
        check_state(state=folder)
    with pytest.raises(ConfigInvalid, match=r"expected a folder, found something else"):
        check_state(state=folder / "letter.txt")
    (folder / "known_hosts").touch()
    assert check_state(state=folder).looked_at == ()


def test_damage_is_told(state: Path) -> None:
    """A row of the journal that is not what was written, and a page that was overwritten; a whole state has neither."""
    assert check_state(state=state).faults == ()
    with closing(sqlite3.connect(state / "journal.sqlite3")) as database, database:
        database.execute("UPDATE devices SET address = '198.51.100.9' WHERE host = 'r2'")
    assert check_state(state=state).faults == ("journal.sqlite3: 1 of the rows of devices are not what was written",)
    path = state / "service.sqlite3"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    assert any(fault.startswith("service.sqlite3") for fault in check_state(state=state).faults)


def test_old_runs_go(state: Path) -> None:
    """Those that ended before the time; what holds a device stays, and so does what is not old; speeds stay."""
    with closing(sqlite3.connect(state / "journal.sqlite3")) as database, database:
        database.execute("UPDATE runs SET started_at = '2001-01-01T00:00:00.000+00:00'")
        database.execute("UPDATE runs SET finished_at = '2001-01-02T00:00:00.000+00:00'")
    with Journal(state) as journal:
        journal.finish_run(new := begin(journal, "r5"))
    speeds = History.read(state).hosts
    told = prune(30, is_dry=True, state=state)
    assert len(told.runs) == 1
    assert len(read_status(state).runs) == 3
    assert prune(30, is_dry=False, state=state).runs == told.runs
    left = read_status(state)
    assert told.runs[0] not in {run.run_id for run in left.runs}
    assert new in {run.run_id for run in left.runs}
    assert [device.host for _, device in left.to_recover] == ["r2"]
    assert History.read(state).hosts == speeds
    assert check_state(state=state).faults == ("journal.sqlite3: 1 of the rows of runs are not what was written",)


def test_the_manifest_says_what_it_is(state: Path, tmp_path: Path) -> None:
    """Schema, time and digests, so that somebody without us can tell what he has."""
    made = back_up(tmp_path / "backups", state=state)
    with tarfile.open(made.path) as archive:
        manifest = json.load(archive.extractfile("manifest.json") or io.BytesIO())
    assert manifest["schema"] == "flashferry.backup/1"
    assert set(manifest["sha256"]) == set(made.members)


def test_a_large_state_is_put_back_whole(state: Path, tmp_path: Path) -> None:
    """Files go through in pieces, into the archive and out of it."""
    (state / "events").mkdir(mode=0o700)
    with (state / "events" / "r1.jsonl").open("wb") as events:
        events.truncate(64 << 20)
    made = back_up(tmp_path / "backups", state=state)
    put_back(made.path, state=tmp_path / "other")
    assert filecmp.cmp(state / "events" / "r1.jsonl", tmp_path / "other" / "events" / "r1.jsonl", shallow=False)


def test_another_backup_may_follow_a_damaged_one(state: Path, tmp_path: Path) -> None:
    """A backup that could not be put back leaves the folder as good as empty, also one whose process was killed."""
    made = back_up(tmp_path / "backups", state=state)
    wrong = altered(made.path, "known_hosts", b"{}")
    with pytest.raises(ConfigInvalid, match="not those that its manifest names"):
        put_back(wrong, state=tmp_path / "other")
    killed = tmp_path / "other" / "scratch" / "killed"
    (killed / "files").mkdir(parents=True)
    (killed / ".lock").touch()
    (killed / "files" / "known_hosts").write_text("half")
    assert set(put_back(made.path, state=tmp_path / "other")) == set(made.members)


def test_one_of_two_that_are_put_back_at_once_is_refused(state: Path, tmp_path: Path) -> None:
    """The files of two backups in one folder would be neither of them."""
    made = back_up(tmp_path / "backups", state=state)
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    with scratch_folder(other), pytest.raises(ConfigInvalid, match="expected an empty one"):
        put_back(made.path, state=other)
    assert [path for path in other.rglob("*") if path.is_file()] == []


def test_a_state_is_put_back_whole_or_not_at_all(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a file cannot be put in its place, those before it go away again; the journal comes last."""
    made = back_up(tmp_path / "backups", state=state)
    other = tmp_path / "other"
    moved: list[str] = []
    rename = Path.rename

    def failing(path: Path, target: Path) -> Path:
        if target == other / "service.sqlite3":
            raise OSError(28, "No space left on device")
        if target.parent == other:
            moved.append(target.name)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(ConfigInvalid, match="No space left on device"):
        put_back(made.path, state=other)
    assert moved == ["known_hosts", "journal.sqlite3"]
    assert [path for path in other.rglob("*") if path.is_file()] == []


def test_a_file_that_grows_has_what_it_had(tmp_path: Path) -> None:
    """A line of events that comes while its file is read is for the next backup; the archive is whole."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"one\n" * 300_000)
    made = datetime.now(UTC)

    class Growing(io.FileIO):
        def read(self, most: int | None = -1, /) -> bytes:
            with path.open("ab") as more:
                more.write(b"more\n" * 10_000)
            return super().read(most)

    def opened(file: int, mode: str) -> io.FileIO:
        return Growing(file, mode)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "open", opened, raising=False)
        module.write_archive(tmp_path / "a.tar.gz", [("events.jsonl", path)], made)
    (tmp_path / "out").mkdir()
    module.unpack(tmp_path / "a.tar.gz", tmp_path / "out")
    assert (tmp_path / "out" / "events.jsonl").read_bytes() == b"one\n" * 300_000
