"""The push of an image: what is looked at before a byte is sent, what ends it early, and what each end means."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from flashferry.devices.errors import (
    CopyFailed,
    CopyStopped,
    DeviceUnreachable,
    FileExists,
    HostKeyRefused,
    LoginRefused,
    TransferStalled,
)
from flashferry.devices.scp_source import ScpRefused
from flashferry.images.image import ImageFile
from flashferry.images.safe_open import FileIdentity
from flashferry.run.device import copy
from tasks.copy import CopyLimits
from tests.patience import PATIENCE_S
from tests.unit.run.device.scripted import IMAGE_BYTES, Clock, Flash

TARGET = "flash:x.bin"
LIMITS = CopyLimits(start_s=45.0, stall_s=60.0, total_s=1000.0, end_s=200.0)


@dataclass
class Source:
    """A second connection to a device: notes what it is asked, and fails where it is to.

    `is_held`: a file that is sent waits until the connection is closed.
    """

    noted: list[str] = field(default_factory=list)
    fails: dict[str, Exception] = field(default_factory=dict)
    is_held: bool = False
    sends: object = None
    socket: object = None
    peer_address = cipher = mac = server = ""

    def __post_init__(self) -> None:
        self.closed, self.sent = threading.Event(), b""

    def note(self, what: str) -> None:
        self.noted.append(what)
        if (error := self.fails.get(what.split(maxsplit=1)[0])) is not None:
            raise error

    def channel(self):
        return None

    def start(self, path, *, limit_s):
        self.note(f"start {path}")

    def announce(self, name, size_bytes):
        self.note(f"announce {name} {size_bytes}")

    def send(self, descriptor, size_bytes, wrote, *, end_s):
        if self.is_held:
            assert self.closed.wait(PATIENCE_S)
            raise EOFError("closed")
        self.sent = os.pread(descriptor, size_bytes, 0)
        if self.sends is not None:
            self.sends()
        wrote(len(self.sent))
        self.note("send")

    def close(self):
        self.closed.set()


@dataclass
class Account:
    """The server's book of a push: notes when it was opened, and how it was closed."""

    noted: list[str]
    cut_because: str = ""
    begins: Exception | None = None
    readings: object = None
    concluded: list[str] = field(default_factory=list)

    def begin(self, connection, **facts):
        self.noted.append("begin")
        if self.begins is not None:
            raise self.begins

    def wrote(self, count):
        self.noted.append(f"wrote {count}")

    def sample(self, channel):
        if self.readings is not None:
            self.readings()

    def conclude(self, failure="", channel=None):
        self.concluded.append(failure)


class Push:
    """One push with all that surrounds it."""

    def __init__(self, tmp_path, monkeypatch, **source) -> None:
        self.path = tmp_path / "x.bin"
        self.path.write_bytes(b"i" * IMAGE_BYTES)
        self.source = Source(**source)
        self.account = Account(self.source.noted)
        self.acked, self.is_stopped, self.at_target = 0, False, None
        self.refuses: Exception | None = None
        self.clock = Clock(monkeypatch, copy)
        Flash(monkeypatch, self._look_at_target, copy)
        monkeypatch.setattr(copy, "_POLL_S", 0.001)
        self.order = copy.PushOrder(
            image=ImageFile(
                name="x.bin",
                size_bytes=IMAGE_BYTES,
                md5="",
                sha512="",
                path=self.path,
                identity=FileIdentity.of(self.path.stat()),
            ),
            target=TARGET,
            limits=LIMITS,
            prepare=lambda socket: None,
            open_account=self._open,
            acked=lambda: self.acked,
            interrupted=lambda: self.is_stopped,
        )

    def _look_at_target(self):
        self.source.noted.append("look")
        return self.at_target

    def _open(self, close):
        self.source.noted.append("open")
        self.close = close
        return self.account

    def _open_source(self, prepare):
        if self.refuses is not None:
            raise self.refuses
        return self.source

    def run(self) -> None:
        copy.push_image(SimpleNamespace(name="r1", open_source=self._open_source), self.order)


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Return what makes a push."""
    return lambda **source: Push(tmp_path, monkeypatch, **source)


def test_the_target_is_looked_at_last_before_the_device_opens_it(made):
    """All of the image goes, the account is closed as a success, and so is the connection."""
    one = made()
    one.run()
    assert one.source.noted == [
        "open",
        "start flash:/x.bin",
        "look",
        f"announce x.bin {IMAGE_BYTES}",
        "begin",
        f"wrote {IMAGE_BYTES}",
        "send",
    ]
    assert one.source.sent == b"i" * IMAGE_BYTES
    assert (one.account.concluded, one.source.closed.is_set()) == ([""], True)


@pytest.mark.parametrize("size", [0, IMAGE_BYTES])
def test_a_file_at_the_target_is_not_overwritten(made, size):
    """Nothing is announced, for that would empty it; an empty file is a file, too."""
    one = made()
    one.at_target = size
    with pytest.raises(FileExists, match=rf"flash:x\.bin exists, {size:,} bytes"):
        one.run()
    assert "look" in one.source.noted
    assert not [what for what in one.source.noted if what.startswith(("announce", "begin", "send"))]
    assert one.source.closed.is_set()
    assert one.account.concluded == [f"flash:x.bin exists, {size:,} bytes; nothing is overwritten"]


@pytest.mark.parametrize("error", [LoginRefused("too many"), HostKeyRefused("other"), DeviceUnreachable("reset")])
def test_a_second_connection_that_is_refused_is_a_failed_copy(made, error):
    """The session goes on, so another transport may do; a ticket was not issued."""
    one = made()
    one.refuses = error
    expected = CopyFailed if isinstance(error, LoginRefused | DeviceUnreachable) else type(error)
    with pytest.raises(expected, match=error.message):
        one.run()
    assert one.source.noted == []


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("Administratively disabled.", "ip scp server enable"),
        ("Privilege denied.", "privilege 15"),
        ("No space left on device", "'dir' shows"),
    ],
)
@pytest.mark.parametrize("at", ["start", "announce", "send"])
def test_a_refusal_is_in_the_device_s_words_with_what_to_do(made, at, words, hint):
    """Whichever step of the dialogue it answers."""
    one = made(fails={at: ScpRefused(words)})
    with pytest.raises(CopyFailed, match=words) as caught:
        one.run()
    assert hint in caught.value.hint
    assert one.account.concluded == [caught.value.message]


def test_a_server_that_does_not_answer_is_a_failed_copy(made):
    """Nothing was opened on the device yet, and its session is not lost."""
    with pytest.raises(CopyFailed, match="does not answer: timed out"):
        made(fails={"start": TimeoutError("timed out")}).run()


def test_a_connection_lost_before_the_first_byte_is_a_lost_session(made):
    """The device has opened the file by then: what is there has to be found out."""
    one = made()
    one.account.begins = OSError("the connection was lost before the first byte")
    with pytest.raises(DeviceUnreachable, match="lost before the first byte"):
        one.run()
    assert "send" not in one.source.noted


@pytest.mark.parametrize("when", ["before", "while"])
def test_an_image_that_changes_on_disk_is_never_proven(made, when):
    """The digests are of another file, whether it was changed before it was opened or under way."""
    one = made()

    def change() -> None:
        one.path.write_bytes(b"j" * IMAGE_BYTES)
        os.utime(one.path, ns=(1, 1))

    if when == "before":
        change()
    else:
        one.source.sends = change
    with pytest.raises(CopyFailed, match=f"image changed on disk {when} it was sent"):
        one.run()
    assert bool(one.source.sent) is (when == "while")


def test_a_stop_ends_the_sender_before_it_is_reported(made):
    """The connection is closed, the thread is gone, and the account has the reason."""
    one = made(is_held=True)
    one.is_stopped = True
    with pytest.raises(CopyStopped):
        one.run()
    assert one.source.closed.is_set()
    assert not [thread for thread in threading.enumerate() if thread.name == "push-r1"]
    assert one.account.concluded == ["the operator interrupted the push"]


NEARLY = IMAGE_BYTES * 99 // 100


@pytest.mark.parametrize(
    ("acked", "after_s", "reason"),
    [
        (0, LIMITS.start_s, "no byte was taken within 45 s"),
        (500, LIMITS.stall_s, "no progress for 60 s after 500 bytes"),
        (NEARLY, LIMITS.end_s, f"no progress for 200 s after {NEARLY} bytes"),
    ],
    ids=["start", "stall", "end"],
)
def test_a_push_without_progress_ends_at_its_limit_and_not_before(made, acked, after_s, reason):
    """Flash that is written after the last byte has the longer limit."""
    one, readings = made(is_held=True), []

    def look() -> None:
        readings.append(one.clock.now_s)
        one.acked = acked
        if len(readings) == 2:
            one.clock.now_s = after_s  # the limit itself is still within it
        elif len(readings) == 3:
            one.clock.now_s = after_s + 0.5

    one.account.readings = look
    with pytest.raises(TransferStalled, match=reason):
        one.run()
    assert len(readings) == 3
    assert one.source.closed.is_set()


def test_a_push_that_creeps_ends_at_the_limit_of_the_whole(made):
    """It makes progress each time, and takes too long all the same."""
    one = made(is_held=True)

    def look() -> None:
        one.acked += 1
        one.clock.now_s += 50.0

    one.account.readings = look
    with pytest.raises(TransferStalled, match="21 bytes in 1000 s, the limit"):
        one.run()


def test_a_connection_lost_under_way_has_how_far_it_came(made):
    """It is a lost session: what is on flash has to be found out."""
    one = made(is_held=True)

    def look() -> None:
        if one.acked:
            one.source.close()  # as the network does
        one.acked = 400

    one.account.readings = look
    with pytest.raises(DeviceUnreachable, match="lost after 400 bytes: closed"):
        one.run()


def test_a_push_that_the_server_cut_has_the_reason(made):
    """A revoked ticket is no lost session; the reason is the account's."""
    one = made(is_held=True)

    def look() -> None:
        one.account.cut_because = "ticket revoked"
        one.close()

    one.account.readings = look
    with pytest.raises(CopyFailed, match="ticket revoked"):
        one.run()
    assert one.account.concluded == ["ticket revoked"]
