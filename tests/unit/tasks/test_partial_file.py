"""Removing a partial file: exactly ours, with its questions answered exactly, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from flashferry.devices.errors import DeviceRefused, FlashBusy, OutputNotUnderstood
from flashferry.devices.platforms.ios import IOS_XE
from flashferry.devices.session import DeviceSession
from tasks.partial_file import DeleteDialogue, delete_file, describe_partial_file, file_at, remove_file
from tests.patience import PATIENCE_S

CAPTURES = Path(__file__).parents[2] / "captures/dir"
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

    def __init__(self, *answers: str, asks: str = "flash:/x.bin", first: str = "x.bin", names: str = "") -> None:
        self._answers = list(answers)
        self._names = names
        self._output = (f"delete\r\nDelete filename [{first}]? ", f"\r\nDelete {asks}? [confirm]", "\r\nr1#")
        self.typed: list[str] = []

    def ask(self, command: str, *, limit_s: float = PATIENCE_S) -> str:
        assert command == "dir flash:x.bin"
        return self._answers.pop(0)

    def running_config(self) -> str:
        return f"hostname r1\n{self._names}\nend"

    def startup_config(self) -> str:
        return ""

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


@pytest.mark.parametrize(
    "question",
    [
        {"first": "y.bin"},
        {"first": "flash-2:/x.bin"},
        {"asks": "flash:/y.bin"},
        {"asks": "flash:/x.bin.old"},
        {"asks": "flash:/old/x.bin"},
        {"asks": "flash-2:/x.bin"},
        {"asks": "flash2:/x.bin"},
        {"asks": "usbflash0:/x.bin"},
        {"asks": "flash0:/x.bin"},
        {"asks": "x.bin"},
    ],
)
def test_a_question_about_another_file_is_not_confirmed(question):
    """The device asks about something else: the dialogue ends without an answer to it."""
    router = Router(listing(500), **question)
    with pytest.raises(OutputNotUnderstood, match=r"expected a question about flash:x\.bin"):
        remove_file(router.session, "flash:x.bin", no_larger_than_bytes=1000)
    assert len(router.typed) == (1 if "first" in question else 2)


@pytest.mark.parametrize(
    "line",
    [
        "tftp-server flash:x.bin",
        "boot config flash:X.BIN",
        "boot system flash x.bin",
        ' action 010 cli command "copy flash:x.bin usb0:"',
        "kron policy-list a\n cli delete /force flash:x.*",
        "ip http path flash:/x.bin",
    ],
)
def test_what_a_configuration_names_stays(line):
    """Whatever line it is, in whatever letters, by a pattern too: nothing is typed."""
    router = Router(listing(500), names=line)
    with pytest.raises(DeviceRefused, match="a line of the device's configuration names it"):
        remove_file(router.session, "flash:x.bin", no_larger_than_bytes=1000)
    assert router.typed == []


@pytest.mark.parametrize("name", ["x*.bin", "x?.bin", "x[12].bin", "x y.bin", "x|y.bin"])
def test_a_name_that_may_fit_other_files_is_not_deleted(table_device, name):
    """`delete flash:x*.bin` takes every file that fits: nothing is typed."""
    device = table_device({"dir": listing(500).replace("x.bin", name)})
    with pytest.raises(DeviceRefused, match="may take for a pattern"):
        delete_file(device, f"flash:{name}")
    assert device.asked == [f"dir flash:{name}"]


@pytest.mark.parametrize(
    "shown", [listing(500).replace("bootflash:", "flash-2:"), GONE.replace("bootflash:", "usbflash0:")]
)
def test_an_answer_about_another_file_system_is_none(shown):
    """Neither a file nor its absence elsewhere tells of the file that was asked about."""
    with pytest.raises(OutputNotUnderstood, match="expected the file or its absence"):
        file_at(Router(shown).session, "flash:x.bin")


def test_a_name_on_the_line_after_its_row(table_device):
    """At 80 columns a long name stands on a line of its own: the file is there, with its size."""
    shown = (CAPTURES / "wrapped_one.txt").read_text()
    found = file_at(table_device({"dir": shown}), "flash:c3750e-universalk9-mz.152-4.E10.bin")
    assert (found.size_bytes, found.modified) == (24436736, "Jun 30 2011 00:34:09 +00:00")


def test_a_file_that_stays_is_told():
    """The device did not delete: its words are the reason."""
    router = Router(listing(500), listing(500))
    with pytest.raises(DeviceRefused, match="still there after 'delete'"):
        remove_file(router.session, "flash:x.bin", no_larger_than_bytes=1000)


def test_questions_that_come_in_pieces():
    """Byte by byte or at once, each question is answered once."""
    talk = DeleteDialogue(
        path="flash:x.bin",
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
        ("%Error opening flash:/x.bin (I/O error)", "not known: 'dir flash:x.bin': expected the file"),
        ("%Error opening flash:/x.bin (Device or resource busy)", "not known: 'dir flash:x.bin': expected the file"),
    ],
)
def test_what_is_left_in_words(answer, words):
    """Only the device's word that there is no file means none; any other error is told as what it is."""
    found = describe_partial_file(Router(answer).session, "flash:x.bin")
    assert found == words if words is None else str(found).startswith(words)


def test_what_may_not_be_listed_is_not_absent(table_device):
    """A user who may not list a file cannot tell that there is none."""
    device = table_device({"dir": "Command authorization failed.\n"})
    assert str(describe_partial_file(device, "flash:x.bin")).startswith("not known: ")
    assert describe_partial_file(device, "null:") is None
