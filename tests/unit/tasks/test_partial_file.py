"""Removing a partial file: exactly ours, with its questions answered exactly, and nothing else."""

from __future__ import annotations

from typing import cast

import pytest

from flashferry.devices.errors import DeviceRefused, FlashBusy, OutputNotUnderstood
from flashferry.devices.platforms.ios import IOS_XE
from flashferry.devices.session import DeviceSession
from tasks.partial_file import DeleteDialogue, describe_partial_file, file_at, remove_file
from tests.patience import PATIENCE_S

ROW = "   16      -rw-             {size}  Apr 22 2024 09:55:24 +02:00  x.bin"
GONE = "%Error opening bootflash:/x.bin (No such file or directory)"
TOTALS = "1940303872 bytes total (1036210176 bytes free)"


def listing(size: int) -> str:
    return f"Directory of bootflash:/x.bin\n\n{ROW.format(size=size)}\n\n{TOTALS}"


class Router:
    """Answers `dir` from a list, and remembers what was typed."""

    name = "r1"
    platform = IOS_XE
    prompt_pattern = r"(?m)^r1#\s*$"

    def __init__(self, *answers: str, asks: str = "flash:/x.bin", first: str = "x.bin") -> None:
        self._answers = list(answers)
        self._output = (f"delete\r\nDelete filename [{first}]? ", f"\r\nDelete {asks}? [confirm]", "\r\nr1#")
        self.typed: list[str] = []

    def ask(self, command: str, *, limit_s: float = PATIENCE_S) -> str:
        assert command == "dir flash:x.bin"
        return self._answers.pop(0)

    def converse(self, command, dialogue, on_wait) -> None:
        self.typed.append(command)
        for piece in self._output:
            dialogue.take(piece)
            on_wait()
            if (answer := dialogue.due) is not None:
                self.typed.append(answer)
                dialogue.typed()
        assert dialogue.is_over

    @property
    def session(self) -> DeviceSession:
        return cast("DeviceSession", self)


def test_a_file_of_ours_is_removed():
    """Both questions are about our file, each gets Enter alone, and the file is gone afterwards."""
    router = Router(listing(500), GONE, asks="bootflash:/x.bin")
    remove_file(router.session, "flash:x.bin", no_larger_than_bytes=1000)
    assert router.typed == ["delete flash:x.bin", "\n", "\n"]


def test_a_larger_file_is_not_ours():
    """More bytes than the image: nothing is typed."""
    router = Router(listing(1001))
    with pytest.raises(DeviceRefused, match="1001 bytes, more than the 1000 that it got from us"):
        remove_file(router.session, "flash:x.bin", no_larger_than_bytes=1000)
    assert router.typed == []


def test_an_absent_file_needs_nothing():
    """Nothing there, nothing typed."""
    router = Router(GONE)
    remove_file(router.session, "flash:x.bin", no_larger_than_bytes=1000)
    assert router.typed == []


@pytest.mark.parametrize("question", [{"first": "y.bin"}, {"asks": "flash:/y.bin"}, {"asks": "flash:/x.bin.old"}])
def test_a_question_about_another_file_is_not_confirmed(question):
    """The device asks about something else: the dialogue ends without an answer to it."""
    router = Router(listing(500), **question)
    with pytest.raises(OutputNotUnderstood, match=r"expected a question about flash:x\.bin"):
        remove_file(router.session, "flash:x.bin", no_larger_than_bytes=1000)
    assert len(router.typed) == (1 if "first" in question else 2)


def test_a_file_that_stays_is_told():
    """The device did not delete: its words are the reason."""
    router = Router(listing(500), listing(500))
    with pytest.raises(DeviceRefused, match="still there after 'delete'"):
        remove_file(router.session, "flash:x.bin", no_larger_than_bytes=1000)


def test_questions_that_come_in_pieces():
    """Byte by byte or at once, each question is answered once."""
    talk = DeleteDialogue(
        host="r1",
        path="flash:x.bin",
        command="delete flash:x.bin",
        prompt_pattern=r"(?m)^r1#\s*$",
        questions=IOS_XE.deleting,
    )
    text = "Delete filename [x.bin]? \r\nDelete flash:/x.bin? [confirm]\r\nr1#"
    answers = []
    for byte in text:
        talk.take(byte)
        if (answer := talk.due) is not None:
            answers.append(answer)
            talk.typed()
    assert answers == ["\n", "\n"]
    assert talk.is_over


def test_what_is_at_a_path():
    """A file's size, its absence, and an answer that is neither."""
    assert file_at(Router(listing(77)).session, "flash:x.bin").size_bytes == 77
    assert file_at(Router(GONE).session, "flash:x.bin").size_bytes is None
    assert file_at(Router().session, "null:").size_bytes is None
    with pytest.raises(OutputNotUnderstood, match="expected the file or its absence"):
        file_at(Router("%Error opening flash:/x.bin (I/O error)").session, "flash:x.bin")
    with pytest.raises(FlashBusy):
        file_at(Router("%Error opening flash:/x.bin (Device or resource busy)").session, "flash:x.bin")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (listing(1234567), "flash:x.bin, 1,234,567 bytes"),
        (GONE, None),
        ("%Error opening flash:/x.bin (I/O error)", "cannot tell: 'dir flash:x.bin': expected the file"),
        ("%Error opening flash:/x.bin (Device or resource busy)", "cannot tell: 'dir flash:x.bin': expected the file"),
    ],
)
def test_what_is_left_in_words(answer, words):
    """Only the device's word that there is no file means none; any other error is told as what it is."""
    found = describe_partial_file(Router(answer).session, "flash:x.bin")
    assert found == words if words is None else str(found).startswith(words)


def test_what_may_not_be_listed_is_not_absent(table_device):
    """A user who may not list a file cannot tell that there is none."""
    device = table_device({"dir": "Command authorization failed.\n"})
    assert str(describe_partial_file(device, "flash:x.bin")).startswith("cannot tell: ")
    assert describe_partial_file(device, "null:") is None
