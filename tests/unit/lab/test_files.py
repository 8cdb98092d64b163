"""Flash, data files, worlds and the state file."""

import json
import os
import threading
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from flashferry.lab import state
from flashferry.lab.errors import LabError, Table, read_table
from flashferry.lab.standin.faults import Faults
from flashferry.lab.standin.flash import Flash, FlashWriter, NoSpaceError, Pace
from flashferry.lab.standin.platform import load_platform
from flashferry.lab.state import LabState, ask, read_state, remove_state, started_ticks, state_path, write_state
from flashferry.lab.world_spec import DeviceAccess, DeviceSpec, WorldSpec, addressed
from tests.patience import PATIENCE_S


@pytest.fixture
def flash(tmp_path: Path) -> Flash:
    return Flash(load_platform("csr1000v-16.11").flash, tmp_path / "flash", free_bytes=100_000)


def _writer(flash: Flash, name: str) -> FlashWriter:
    return FlashWriter(flash, name, Pace(1e12, threading.Event()))


def test_stock_files_have_their_length_and_take_no_room(flash: Flash) -> None:
    """446 MB of stock image are a hole on the host, and count on the device."""
    image = flash.find("csr1000v-mono-universalk9.16.11.01a.SPA.pkg")
    assert image.size_bytes == 446_334_108
    assert image.path.stat().st_blocks == 0
    assert [entry.inode for entry in flash.entries()] == [11, 12, 13]
    assert 95_000 < flash.free_bytes <= 100_000


def test_writing_takes_room_and_deleting_gives_it_back(flash: Flash) -> None:
    """Room is counted in blocks."""
    free = flash.free_bytes
    writer = _writer(flash, "a.bin")
    writer.write(b"x" * 5000)
    writer.close()
    assert flash.free_bytes == free - 8192
    assert flash.find("a.bin").inode == 14
    flash.delete("a.bin")
    flash.delete("a.bin")
    assert flash.free_bytes == free
    assert flash.find("a.bin") is None


def test_a_full_flash_takes_no_more(flash: Flash) -> None:
    """The byte that does not fit is refused; an overwritten file gives its room to the new one."""
    writer = _writer(flash, "a.bin")
    writer.write(b"x" * 90_000)
    with pytest.raises(NoSpaceError):
        writer.write(b"x" * 20_000)
    writer.close()
    again = _writer(flash, "a.bin")
    again.write(b"y" * 90_000)
    again.close()
    assert flash.find("a.bin").path.read_bytes() == b"y" * 90_000


def test_any_name_stays_in_the_folder(flash: Flash) -> None:
    """Names with slashes and dots are names, not paths."""
    writer = _writer(flash, "../../etc/x")
    writer.close()
    assert flash.find("../../etc/x").path.parent == flash.root
    assert flash.find("") is None
    assert flash.owns("FLASH")
    assert not flash.owns("usb0")


def test_a_flipped_byte_is_one_byte(flash: Flash) -> None:
    """The fault spoils the middle and nothing else."""
    writer = FlashWriter(flash, "a.bin", Pace(1e12, threading.Event()), flips_byte=True)
    writer.write(bytes(100))
    writer.close()
    assert flash.find("a.bin").path.read_bytes() == bytes(50) + b"\xff" + bytes(49)


def test_an_abort_ends_the_wait_of_a_slow_flash() -> None:
    """A pace of one byte per hour does not hold up a writer that is told to stop."""
    stop = threading.Event()
    pace = Pace(1 / 3600, stop)
    thread = threading.Thread(target=pace.spend, args=(1,))
    thread.start()
    stop.set()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


TABLE = Table(where="x.toml", values={"rate": -1, "name": 5, "list": [1], "on": "yes", "half": 0.5, "sub": 3})


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: TABLE.number("rate", low=0, high=10), r"x\.toml: rate: expected a number from 0 to 10, found -1"),
        (lambda: TABLE.text("name"), "name: expected a string, found 5"),
        (lambda: TABLE.strings("list"), "list: expected a list of strings"),
        (lambda: TABLE.flag("on"), "on: expected true or false"),
        (lambda: TABLE.integer("half"), "half: expected a whole number"),
        (lambda: TABLE.table("sub"), "sub: expected a table"),
        (lambda: TABLE.tables("sub"), "sub: expected an array of tables"),
        (lambda: TABLE.text("absent"), "'absent' is missing"),
        (lambda: TABLE.only("rate"), r"unknown key 'name'; allowed are rate"),
        (lambda: read_table("flashferry.lab.profiles", "moon"), r"'moon'; there are .*lan, .*published"),
    ],
)
def test_data_files_are_checked(read: object, message: str) -> None:
    """An error names file, key and what is allowed."""
    with pytest.raises(LabError, match=message):
        read()


def test_faults_are_named() -> None:
    """Known switches are set, unknown ones refused with the list."""
    assert Faults().with_switches({"flip_byte": True}).flip_byte
    with pytest.raises(LabError, match=r"'flip'.*flip_byte"):
        Faults().with_switches({"flip": True})


def test_addresses_are_given_and_checked() -> None:
    """Free addresses are given in order; doubles and strangers are refused."""
    first, second = addressed((DeviceSpec(name="a"), DeviceSpec(name="b", address="198.18.1.11")))
    assert (first.address, second.address) == ("198.18.1.12", "198.18.1.11")
    for devices, message in (
        ((), "at least one"),
        ((DeviceSpec(name="a", address="198.18.1.5"), DeviceSpec(name="b", address="198.18.1.5")), "address"),
        ((DeviceSpec(name="a", address="10.0.0.1"),), "expected one in its site.s 198"),
    ):
        with pytest.raises(LabError, match=message):
            addressed(devices)


def test_secrets_are_in_no_repr() -> None:
    """Neither the specification nor the access shows a password."""
    spec = WorldSpec(devices=(DeviceSpec(name="a", password="hush1", enable_secret="hush2"),))
    shown = repr(spec) + repr(addressed(spec.devices))
    assert shown.count("name='a'") == 2
    assert "hush" not in shown


@pytest.fixture
def lab_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabState:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    access = DeviceAccess(name="r1", address="198.18.1.11", username="u", password="p", enable_secret="e", platform="x")
    return LabState(
        pid=os.getpid(), started_ticks=started_ticks(os.getpid()), core_pid=2, server_address="198.18.0.1",
        profile="lan", rung="full", devices=(access,),
    )  # fmt: skip


def test_the_state_file_is_private_and_comes_back(lab_state: LabState) -> None:
    """What was written is read, only its owner may read it, and removing it is the end."""
    assert read_state() is None
    path = write_state(lab_state)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_state() == lab_state
    remove_state()
    assert read_state() is None
    assert not path.exists()


def test_a_stale_or_broken_state_file_is_no_lab(lab_state: LabState) -> None:
    """A pid that is gone or belongs to another process by now, or a torn file, counts as no lab."""
    path = write_state(lab_state)
    for change in ({"started_ticks": 1}, {"pid": 4194999}, {"devices": [{"name": "x"}]}):
        path.write_text(json.dumps(json.loads(path.read_text() or "{}") | change) if path.exists() else "{}")
        assert read_state() is None
        assert not path.exists()
        write_state(lab_state)
    path.write_text("{torn")
    assert read_state() is None


def test_a_second_lab_is_refused(lab_state: LabState, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one lab runs another is not announced, and it does not remove the first one's file."""
    write_state(lab_state)
    other = LabState(**{name: getattr(lab_state, name) for name in LabState.__slots__} | {"pid": 1})
    with pytest.raises(LabError, match="already running"):
        write_state(other)
    remove_state(pid=1)
    assert read_state() == lab_state


def test_a_shared_state_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder in /tmp that others may write to is not trusted."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(state.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = tmp_path / f"flashferry-{os.getuid()}"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    with pytest.raises(LabError, match="not private"):
        state_path()


def test_nobody_on_the_control_socket(tmp_path: Path) -> None:
    """Asking a lab that is gone says so."""
    with pytest.raises(LabError, match="still running"):
        ask(tmp_path / "link.sock", {"do": "counters"})


@dataclass(frozen=True, kw_only=True)
class _Line:
    name: str
    rate: float
    tags: tuple[str, ...] = ()
    seen: datetime = datetime(2000, 1, 1)


def test_a_record_has_the_values_of_its_table() -> None:
    """A field with a default may be missing; what the caller has read itself is taken as it is."""
    table = Table(where="x.toml", values={"rate": 3, "seen": "2021-03-20 10:00", "name": "a"})
    assert table.record(_Line, tags=("b",)) == _Line(name="a", rate=3.0, tags=("b",), seen=datetime(2021, 3, 20, 10))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"name": "a"}, "x.toml: the key 'rate' is missing"),
        ({"name": "a", "rate": -1}, "x.toml: rate: expected a number"),
        ({"name": "a", "rate": 1, "rat": 1}, "x.toml: unknown key 'rat'; allowed are name, rate, seen, tags"),
    ],
)
def test_a_record_names_the_key_that_is_wrong(values: dict[str, Any], said: str) -> None:
    """Missing, out of range, or misspelt."""
    with pytest.raises(LabError, match=said):
        Table(where="x.toml", values=values).record(_Line)
