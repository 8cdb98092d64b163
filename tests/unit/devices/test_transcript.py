"""What is kept of a device's sessions in memory, and in files: private, masked, and never at a device's expense."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import MASK, keep_secret
from flashferry.devices import transcript
from flashferry.devices.transcript import (
    HEAD_CHARS,
    KEPT_CHARS,
    SHOWN_CHARS,
    SHOWN_LINES,
    TAIL_CHARS,
    Recent,
    Recorder,
    Transcripts,
    transcripts_in,
)
from tests.patience import PATIENCE_S, until

PASSWORD = "Tr0ub4dor&3"


def never(text: str) -> None:
    raise AssertionError(text)


def talk(recorder: Recorder) -> None:
    """A session of a few words, one of them a secret that comes in two pieces."""
    recorder.note("logging in")
    recorder.came("r1#")
    recorder.sent("show clock\n")
    recorder.came(f"show clock\r\nnoon {PASSWORD[:5]}")
    recorder.came(f"{PASSWORD[5:]}\r\nr1#")
    recorder.note("logged out")
    recorder.close()


def open_files() -> list[str]:
    """Return what the descriptors of this process lead to."""
    found = []
    for one in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the folder itself
            found.append(str(one.readlink()))
    return found


def said(lines: list[str] | tuple[str, ...]) -> list[str]:
    """Return entries without their times, which must be there."""
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [<>-] ", one) for one in lines)
    return [one[25:] for one in lines]


SAID = [
    "- logging in",
    "< r1#",
    "> show clock\\n",
    "< show clock\\r\\n",
    f"< noon {MASK}\\r\\n",
    "< r1#",
    "- logged out",
]


def test_the_last_of_it_is_masked():
    """In order, with times and ways, and no secret that came in two pieces."""
    keep_secret(PASSWORD)
    recent = Recent()
    talk(Recorder(recent))
    assert said(recent.lines()) == SAID
    assert PASSWORD not in repr(Recorder(recent))


def test_the_last_of_it_is_bounded():
    """Some kB are kept of a flood, whatever its pieces; what is shown is the end of it, in whole lines."""
    recent = Recent()
    recorder = Recorder(recent)
    for n in range(20_000):
        recorder.came(f"line {n}\r\n")
    assert recent.chars <= KEPT_CHARS + HEAD_CHARS + TAIL_CHARS
    shown = said(recent.lines())
    assert shown == [f"< line {n}\\r\\n" for n in range(20_000 - SHOWN_LINES, 20_000)]
    recorder.came("x" * 1_000_000 + "\r\n" + "".join(f"{n:0200}\r\n" for n in range(200)))
    assert recent.chars <= KEPT_CHARS + HEAD_CHARS + TAIL_CHARS
    assert sum(map(len, recent.lines())) <= SHOWN_CHARS
    assert recent.lines()[-1].endswith("0199\\r\\n")


def test_an_echo_by_characters_is_kept_like_one_by_lines():
    """As much of it, with the time of each line's beginning: a line that comes in pieces takes no more room."""
    at_s = [1000.0]
    by_lines, by_characters = Recent(), Recent()
    for recent, size in ((by_lines, 100), (by_characters, 1)):
        recorder = Recorder(recent, wall=lambda: at_s[0])
        for n in range(60):
            at_s[0] = 1000.0 + n
            for start in range(0, 32, size):
                recorder.came(f"line {n:025}\r\n"[start : start + size])
            recorder.sent("\n")
    assert by_characters.lines() == by_lines.lines()
    assert by_characters.chars == by_lines.chars


def test_what_is_cut_off_in_front_has_no_half_of_a_secret():
    """The rest of a line whose beginning is gone is not shown: nobody could tell what it is."""
    recent = Recent()
    recorder = Recorder(recent)
    recorder.came("username x secret 5 ")
    recorder.came("$hidden value$" + "y" * KEPT_CHARS + "\r\nnext line\r\nhostname r1\r\n")
    cut = [
        "< username x secret 5 ***",
        "- some of the answer is left out here",
        "< next line\\r\\n",
        "< hostname r1\\r\\n",
    ]
    assert said(recent.lines()) == cut
    recorder.sent("show clock\n")
    assert said(recent.lines()) == [*cut, "> show clock\\n"]


def test_a_long_answer_does_not_push_out_what_went_before():
    """The command that went wrong is still there behind a configuration of a thousand lines, and another one."""
    recent = Recent()
    recorder = Recorder(recent)
    recorder.sent("the command\n")
    recorder.came("the command\r\n% refused\r\nr1#")
    for name in ("running", "startup"):
        recorder.sent(f"show {name}\n")
        for n in range(1000):
            recorder.came(f"{name} {n:030}\r\n")
        recorder.came("r1#")
    recorder.note("failed")
    shown = said(recent.lines())
    assert shown[:4] == ["> the command\\n", "< the command\\r\\n", "< % refused\\r\\n", "< r1#"]
    assert shown.count("- some of the answer is left out here") == 2
    assert shown[-3:] == [f"< startup {999:030}\\r\\n", "< r1#", "- failed"]


def test_nothing_is_told_of_a_device_that_said_nothing():
    """Where no session came about, there is none to show."""
    recent = Recent()
    Recorder(recent).note("logging in")
    assert recent.lines() == ()


def test_files_are_private_and_of_one_session_each(tmp_path):
    """Mode 0600 in a folder of 0700, whatever the umask; a further session, or run, takes a name of its own."""
    keep_secret(PASSWORD)
    before = os.umask(0)
    try:
        for _ in range(2):
            made = transcripts_in(tmp_path / "new" / "folder", notify=never)
            for host in ("r1", "r1", "../r/2"):
                talk(Recorder(Recent(), made.of(host)))
            made.close()
    finally:
        os.umask(before)
    folder = tmp_path / "new" / "folder"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = sorted(folder.iterdir())
    assert len(files) == 6
    assert {stat.S_IMODE(one.stat().st_mode) for one in files} == {0o600}
    assert all(re.fullmatch(r"\d{8}T\d{6}Z-(r1|.._r_2)-\d+\.txt", one.name) for one in files)
    for one in files:
        head, *lines = one.read_text().splitlines()
        assert said([head])[0].startswith("- flashferry ")
        assert said(lines) == SAID


def test_what_is_written_is_there_when_the_process_is_killed(tmp_path):
    """Its lines, and a question without an end, are written while it waits; SIGKILL removes neither."""
    script = (
        "import sys, time; from pathlib import Path; from flashferry.devices.transcript import transcripts_in\n"
        "from flashferry.devices.transcript import Recent, Recorder\n"
        "r = Recorder(Recent(), transcripts_in(Path(sys.argv[1]), notify=print).of('r1'))\n"
        "r.sent('copy\\n'); r.came('copy\\r\\nDestination [x]? '); print(flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdout=subprocess.PIPE,
        cwd=Path(transcript.__file__).parents[2],
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        written = ["> copy\\n", "< copy\\r\\n", "< Destination [x]? "]
        try:
            file = until(lambda: next(tmp_path.iterdir(), None), "the session's file")
            until(lambda: said(file.read_text().splitlines())[1:] == written, "both lines and the question")
        finally:
            process.send_signal(signal.SIGKILL)
    assert said(file.read_text().splitlines())[1:] == written


@pytest.mark.parametrize("case", ["a file", "below a file", "read-only", "full"])
def test_a_folder_that_takes_no_file_is_refused(tmp_path, monkeypatch, case):
    """Before anything is touched, in a sentence that names it; no trial is left."""
    folder = tmp_path / "given"
    if case in {"a file", "below a file"}:
        folder.write_text("")
        folder = folder / "more" if case == "below a file" else folder
    if case == "read-only":
        folder = Path("/proc/self")
    if case == "full":

        def full(number: int, data: bytes) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "write", full)
    with pytest.raises(ConfigInvalid, match=rf"transcript folder {folder}: expected a folder to write to, found \w"):
        transcripts_in(folder, notify=never)
    if case == "full":
        assert list(folder.iterdir()) == []


def test_a_disk_that_is_full_later_is_reported_once(tmp_path, monkeypatch):
    """No session has an error; the operator is notified once, and a later session is tried again."""
    notices: list[str] = []
    refused: list[int] = []
    made = Transcripts(tmp_path, notify=notices.append)
    full, write = threading.Event(), os.write
    full.set()

    def maybe(number: int, data: bytes) -> int:
        if full.is_set() and threading.current_thread().name == "transcripts":
            refused.append(number)
            raise OSError(28, "No space left on device")
        return write(number, data)

    monkeypatch.setattr(os, "write", maybe)
    recorders = [Recorder(Recent(), made.of(f"r{n}")) for n in range(3)]
    for _ in range(100):
        for one in recorders:
            one.came("x" * 60_000 + "\r\n")
    until(lambda: notices and len(refused) >= len(recorders), "a refused write of each session")
    full.clear()
    talk(Recorder(Recent(), made.of("r9")))
    made.close()
    assert notices == [
        f"warning: transcript in {tmp_path} cannot be written: No space left on device; devices are not held up by it"
    ]
    (last,) = tmp_path.glob("*-r9-*")
    assert said(last.read_text().splitlines())[-1] == "- logged out"


def test_a_disk_that_hangs_holds_a_device_up_once(tmp_path, monkeypatch):
    """The device's text goes on being taken; what is left out is told in the transcript when the disk is back."""
    monkeypatch.setattr(transcript, "MOST_WAITING_CHARS", 10_000)
    hangs, back, write = threading.Event(), threading.Event(), os.write

    def slow(number: int, data: bytes) -> int:
        hangs.set()
        back.wait(PATIENCE_S)
        return write(number, data)

    monkeypatch.setattr(os, "write", slow)
    made = Transcripts(tmp_path, notify=never)
    recorder = Recorder(Recent(), made.of("r1"))
    recorder.came("first\r\n")
    assert hangs.wait(PATIENCE_S)
    for n in range(1000):
        recorder.came(f"{n:098}\r\n")
    back.set()
    until(lambda: "missing" in next(tmp_path.iterdir()).read_text(), "what is missing")
    recorder.came("last\r\n")
    made.close()
    lines = said(next(tmp_path.iterdir()).read_text().splitlines())
    assert lines[1] == "< first\\r\\n"
    assert lines[-1] == "< last\\r\\n"
    (missing,) = [one for one in lines if "missing" in one]
    assert missing == "- 90,000 characters are missing here: they came faster than they could be written"
    assert len(lines) == 1 + 1 + 100 + 1 + 1


def test_hundreds_of_sessions_at_once(tmp_path):
    """Each has all of its own and nothing of the others."""
    made = Transcripts(tmp_path, notify=never)

    def one(name: str) -> None:
        recorder = Recorder(Recent(), made.of(name))
        for n in range(50):
            recorder.came(f"{name} {n}\r\n")
        recorder.close()

    threads = [threading.Thread(target=one, args=(f"r{n}",)) for n in range(300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 300
    for file in files:
        name = file.name.split("-")[1]
        assert said(file.read_text().splitlines()[1:]) == [f"< {name} {n}\\r\\n" for n in range(50)]
    assert not [one for one in open_files() if one.startswith(str(tmp_path))]
