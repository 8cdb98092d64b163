"""Transcripts of sessions: the last output in memory for reports, and on request all of it in files.

The text in memory is masked only when it is read, which most devices never need, so recording costs almost nothing.
Text for files is masked before it is written (`flashferry.devices.masked_stream`).
"""

from __future__ import annotations

import atexit
import os
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path
from typing import Protocol

from flashferry.core.errors import ConfigInvalid, reason_of
from flashferry.devices.masked_stream import Mark, MaskedStream, entry, stamp, without_secrets

KEPT_CHARS = 8192
"""Most characters kept in memory per device, besides the current answer."""

KEPT_PIECES = 400
"""Most pieces kept in memory."""

JOINED_CHARS, JOINED_S = 256, 0.25
"""Longest text, and longest time, for which pieces of one line are kept as one: an echo may arrive character by
character, and a tuple of each would take ten times its text."""

HEAD_CHARS, TAIL_CHARS = 240, 1200
"""Characters kept of the current answer, at its start and at its end."""

OLD_TAIL_CHARS = 240
"""Characters kept of the end of earlier answers, so that a configuration does not push out the commands before it."""

SHOWN_LINES = 40

ANSWER_LINES = 5
"""Lines shown of the start and of the end of each answer but the last."""

SHOWN_CHARS = 4096

LONGEST_SHOWN = 400
"""Longest entry shown; the marks of a copy, or a certificate, are shortened in the middle."""

Piece = tuple[float, Mark, str]
"""Time in seconds since 1970, direction, and unmasked text."""


class Sink(Protocol):
    """Receiver of all input and output of a session; its methods never raise."""

    def take(self, at_s: float, mark: Mark, text: str) -> None:
        """Add a piece of text."""

    def close(self) -> None:
        """Note that nothing follows."""


class _Pieces:
    """Buffer of pieces up to a number of characters; `is_cut` shows whether old ones were dropped."""

    def __init__(self) -> None:
        # A list: one of a few pieces takes a tenth of a deque.
        self.all: list[Piece] = []
        self.chars = 0
        self.is_cut = False

    def add(self, piece: Piece, most_chars: int) -> None:
        """Add the last `most_chars` characters of a piece, and drop old ones."""
        at_s, mark, text = piece
        kept = text[-most_chars:]
        if self.all and _continues(self.all[-1], (at_s, mark, kept)):
            since_s, _, start = self.all[-1]
            self.all[-1] = (since_s, mark, start + kept)
        else:
            self.all.append((at_s, mark, kept))
        self.chars += len(kept)
        self.is_cut = self.is_cut or len(kept) < len(text)
        self.shrink(most_chars)

    def shrink(self, most_chars: int) -> None:
        """Drop the oldest pieces beyond the limits."""
        while self.chars > most_chars or len(self.all) > KEPT_PIECES:
            at_s, mark, text = self.all[0]
            surplus = self.chars - most_chars
            self.all[:1] = [(at_s, mark, text[surplus:])] if 0 < surplus < len(text) else []
            self.chars -= min(surplus, len(text)) if surplus > 0 else len(text)
            self.is_cut = True


def _continues(last: Piece, piece: Piece) -> bool:
    """Return whether a piece of output belongs, as a whole, to the line that the last one began."""
    (since_s, last_mark, start), (at_s, mark, text) = last, piece
    return (
        mark is last_mark is Mark.CAME
        and "\n" not in start
        and "\n" not in text[:-1]
        and len(start) < JOINED_CHARS
        and 0.0 <= at_s - since_s <= JOINED_S
    )


class Recent:
    """The last few kB of a device's sessions, unmasked. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._old = _Pieces()
        self._head, self._tail = _Pieces(), _Pieces()
        self._has_answer = False

    def __repr__(self) -> str:
        """Return the size only, for the text may contain secrets."""
        return f"Recent({self.chars} characters)"

    @property
    def chars(self) -> int:
        """Return how many characters are kept."""
        return self._old.chars + self._head.chars + self._tail.chars

    def take(self, at_s: float, mark: Mark, text: str) -> None:
        """Add a piece, and drop old ones beyond the limits."""
        with self._lock:
            if mark is not Mark.CAME:
                self._settle()
                self._old.add((at_s, mark, text), KEPT_CHARS)
                return
            self._has_answer = True
            if space := HEAD_CHARS - self._head.chars:
                self._head.add((at_s, mark, text[:space]), HEAD_CHARS)
                text = text[space:]
            if text:
                self._tail.add((at_s, mark, text), TAIL_CHARS)

    def lines(self) -> tuple[str, ...]:
        """Return the last entries, masked; empty if the device never sent anything."""
        with self._lock:
            if not self._has_answer:
                return ()
            pieces = [*self._old.all, *self._head.all, *([_GAP] if self._tail.is_cut else ()), *self._tail.all]
            is_cut = self._old.is_cut
        entries: list[str] = []
        for part in _parts(pieces):
            if is_cut:
                if entries:
                    entries.append(entry(part[0][0] if part else pieces[-1][0], Mark.NOTE, _LEFT_OUT))
                part = _from_a_line_on(part)
            stream = MaskedStream()
            entries += [one for piece in part for one in stream.take(*piece)]
            entries += stream.end(part[-1][0] if part else 0.0)
            is_cut = True
        return _last(_folded(entries))

    def _settle(self) -> None:
        """Move start and end of the finished answer to the older pieces."""
        if not self._head.all:
            return
        self._tail.shrink(OLD_TAIL_CHARS)
        for piece in (*self._head.all, *([_GAP] if self._tail.is_cut else ()), *self._tail.all):
            self._old.add(piece, KEPT_CHARS)
        self._head, self._tail = _Pieces(), _Pieces()


_GAP: Piece = (0.0, Mark.NOTE, "\0")
"""Placeholder for dropped pieces."""

_MARK_AT = len(stamp(0.0)) + 1

_LEFT_OUT = "some of the answer is left out here"


def _parts(pieces: list[Piece]) -> list[list[Piece]]:
    """Split pieces at gaps."""
    parts: list[list[Piece]] = [[]]
    for piece in pieces:
        if piece[1:] == _GAP[1:]:
            parts.append([])
        else:
            parts[-1].append(piece)
    return parts


def _from_a_line_on(pieces: list[Piece]) -> list[Piece]:
    """Return pieces from the first complete line of output on: text before it may be the rest of a secret."""
    for number, (at_s, mark, text) in enumerate(pieces):
        if mark is Mark.CAME and "\n" in text:
            return [(at_s, mark, text.partition("\n")[2]), *pieces[number + 1 :]]
    return []


def _is_of_an_answer(one: str) -> bool:
    return one[_MARK_AT] == Mark.CAME or one.endswith(_LEFT_OUT)


def _folded(entries: list[str]) -> list[str]:
    """Return entries with long answers shortened in the middle, except the last one."""
    answers = [(is_answer, list(found)) for is_answer, found in groupby(entries, _is_of_an_answer)]
    folded: list[str] = []
    for number, (is_answer, found) in enumerate(answers, start=1):
        if is_answer and len(found) > 2 * ANSWER_LINES and number < len(answers):
            middle = found[ANSWER_LINES]
            left_out = f"{middle[:_MARK_AT]}{Mark.NOTE} {_LEFT_OUT}"
            found = [*found[:ANSWER_LINES], left_out, *found[-ANSWER_LINES:]]
        folded += found
    return folded


def _last(entries: list[str]) -> tuple[str, ...]:
    """Return as many of the last entries as fit into a report."""
    kept: list[str] = []
    chars = 0
    for one in reversed(entries[-SHOWN_LINES:]):
        short = one if len(one) <= LONGEST_SHOWN else f"{one[: LONGEST_SHOWN // 2]} ... {one[-LONGEST_SHOWN // 2 :]}"
        chars += len(short)
        if chars > SHOWN_CHARS:
            break
        kept.append(short)
    return tuple(reversed(kept))


class Recorder:
    """Records input and output of one session. Its methods never raise.

    Args:
        recent: Buffer of the last output.
        sink: Receiver of all input and output, or None.
        wall: Wall-clock time, seconds since 1970.
    """

    def __init__(self, recent: Recent, sink: Sink | None = None, *, wall: Callable[[], float] = time.time) -> None:
        self._recent, self._sink, self._wall = recent, sink, wall

    def __repr__(self) -> str:
        """Return the size only."""
        return f"Recorder({self._recent!r})"

    def sent(self, text: str) -> None:
        """Record text sent to the device."""
        self._take(Mark.SENT, text)

    def came(self, text: str) -> None:
        """Record text received from the device."""
        if text:
            self._take(Mark.CAME, text)

    def note(self, text: str) -> None:
        """Record a remark."""
        self._take(Mark.NOTE, text)

    def close(self) -> None:
        """Note that nothing follows."""
        if self._sink is not None:
            self._sink.close()

    def _take(self, mark: Mark, text: str) -> None:
        at_s = self._wall()
        self._recent.take(at_s, mark, text)
        if self._sink is not None:
            self._sink.take(at_s, mark, text)


WRITE_EVERY_S = 0.2
"""Interval at which waiting text is masked and written."""

MOST_WAITING_CHARS = 512 * 1024
"""Most text of a session that waits to be written: twice the largest read from a device."""

PATIENCE_S = 0.5
"""Time for which a session waits once if too much of its text is unwritten."""

CLOSE_S = 2.0

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC

_TRIAL_BYTES = 4096

_MOST_NAMES = 10_000

_LEGEND = "< came from the device, > was sent, - is a remark; *** hides a secret"

Report = Callable[[str], None]


def transcripts_in(folder: Path, *, notify: Report) -> Transcripts:
    """Return transcripts in a folder, which is created (private) if missing; they are closed at the process's end.

    `notify` is called with a message for the operator if writing fails later.

    Raises:
        ConfigInvalid: No file can be written there.
    """
    trial = folder / f".flashferry-{os.getpid()}-{time.time_ns()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = os.open(trial, _FLAGS, 0o600)
        try:
            _write_all(number, b"\n" * _TRIAL_BYTES)
            # A disk may find out late that it is full.
            os.fsync(number)
        finally:
            os.close(number)
            trial.unlink()
    except OSError as error:
        found = "a file" if folder.is_file() else reason_of(error)
        raise ConfigInvalid(
            f"transcript folder {folder}: expected a folder to write to, found {found}",
            hint="Name a folder of your own with some megabytes of room, or one that does not exist yet",
        ) from None
    made = Transcripts(folder, notify=notify)
    atexit.register(made.close)
    return made


class Transcripts:
    """Writes the output of sessions into files of a folder. Safe to use from several threads.

    Args:
        folder: The folder, which must exist.
        notify: Called with a message for the operator, at most once.
        wall: Wall-clock time, seconds since 1970.
    """

    def __init__(self, folder: Path, *, notify: Report, wall: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._report, self._wall = notify, wall
        self._started = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(wall()))
        self._lock = threading.Lock()
        self._sessions: Counter[str] = Counter()
        self._open: list[SessionFile] = []
        self._written_files = 0
        self._wake = threading.Event()
        self._is_closing = self._has_reported = False
        self._writer: threading.Thread | None = None

    def __repr__(self) -> str:
        """Return the folder."""
        return f"Transcripts({str(self.folder)!r})"

    def report_by(self, notify: Report) -> None:
        """Replace the callback for failures: during a live view only that view may write to the terminal."""
        self._report = notify

    def of(self, host: str) -> SessionFile:
        """Return the sink of the next session of a device; its file is created with the first entry."""
        with self._lock:
            made = SessionFile(host, self._wake)
            self._open.append(made)
            if self._writer is None and not self._is_closing:
                self._writer = threading.Thread(target=self._write_on, name="transcripts", daemon=True)
                self._writer.start()
        self._wake.set()
        return made

    def close(self) -> None:
        """Write waiting text while there is progress; sessions that continue are no longer recorded."""
        with self._lock:
            self._is_closing, writer = True, self._writer
            for one in self._open:
                one.close()
        self._wake.set()
        # Give up after two seconds without progress: the disk hangs. A busy host still makes progress.
        seen = -1
        while writer is not None and writer.is_alive() and seen != self._written_files:
            seen = self._written_files
            writer.join(CLOSE_S)

    def _write_on(self) -> None:
        while True:
            with self._lock:
                files, is_last = list(self._open), self._is_closing
            for one in files:
                self._write(one)
                self._written_files += 1
            with self._lock:
                self._open = [one for one in self._open if not one.is_done]
                is_idle = not self._open
            if is_last and is_idle:
                return
            # With no session there is nothing to do until one begins; with one, some rest makes larger pieces.
            if is_idle:
                self._wake.wait()
            elif not is_last:
                self._wake.wait(WRITE_EVERY_S)
            self._wake.clear()

    def _write(self, one: SessionFile) -> None:
        try:
            entries = one.entries(self._wall())
            if entries:
                if one.number is None:
                    one.number = self._opened(one.host)
                    # With the time of the first entry, which it stands in front of.
                    head = without_secrets(f"{_program()}: {_LEGEND}")
                    entries.insert(0, f"{entries[0].partition(' ')[0]} {Mark.NOTE} {head}")
                # What no encoding has is written out by now, but for half characters in a device's name.
                _write_all(one.number, "".join(f"{line}\n" for line in entries).encode("utf-8", "backslashreplace"))
            if one.is_ending:
                one.give_up()
        except Exception as error:  # noqa: BLE001 -- whatever it is, no device has to do with it
            one.give_up()
            self._report_once(error)

    def _opened(self, host: str) -> int:
        """Create a file with a new name, and return its descriptor."""
        name = f"{self._started}-{_file_name(host)}"
        for _ in range(_MOST_NAMES):
            self._sessions[name] += 1
            with suppress(FileExistsError):
                return os.open(self.folder / f"{name}-{self._sessions[name]}.txt", _FLAGS, 0o600)
        raise FileExistsError(f"no name is free for {name}")

    def _report_once(self, error: Exception) -> None:
        if self._has_reported:
            return
        self._has_reported = True
        why = (error.strerror or str(error)) if isinstance(error, OSError) else f"internal error {type(error).__name__}"
        with suppress(Exception):
            self._report(
                f"warning: transcript in {self.folder} cannot be written: {why}; devices are not held up by it"
            )


class SessionFile:
    """File of one session, with the text that waits to be written; a `Sink`.

    Attributes:
        number: Descriptor of the file, or None while there is none. Only the writer uses the attributes.
        is_ending: Whether no text follows the entries returned last.
    """

    def __init__(self, host: str, wake: threading.Event) -> None:
        self.host = host
        self.number: int | None = None
        self._wake = wake
        self._stream = MaskedStream()
        self._written = threading.Condition()
        self._waiting: deque[Piece] = deque()
        self._chars = self._left_out = 0
        self._is_over = self._is_late = False
        self.is_ending = self.is_done = False

    def take(self, at_s: float, mark: Mark, text: str) -> None:
        """Add a piece; if too much text waits already, wait `PATIENCE_S` once, then drop the piece."""
        with self._written:
            if self._is_over:
                return
            if not self._has_space(text) and not self._is_late:
                self._wake.set()
                self._is_late = not self._written.wait_for(lambda: self._has_space(text), PATIENCE_S)
            if not self._has_space(text):
                self._left_out += len(text)
                return
            self._waiting.append((at_s, mark, text))
            self._chars += len(text)

    def close(self) -> None:
        """Note that nothing follows."""
        with self._written:
            self._is_over = True

    def entries(self, now_s: float) -> list[str]:
        """Return the entries of the waiting text; only for the writer, like the methods below."""
        with self._written:
            pieces, left_out, is_over = list(self._waiting), self._left_out, self._is_over
            self._waiting.clear()
            self._chars = self._left_out = 0
            self._is_late = False
            self._written.notify_all()
        found = [one for piece in pieces for one in self._stream.take(*piece)]
        if left_out:
            text = f"{left_out:,} characters are missing here: they came faster than they could be written"
            found += self._stream.take(now_s, Mark.NOTE, text)
        found += self._stream.end(now_s) if is_over else self._stream.overdue(now_s)
        self.is_ending = is_over
        return found

    def give_up(self) -> None:
        """Close the file, and ignore all further text."""
        self.close()
        number, self.number, self.is_done = self.number, None, True
        if number is not None:
            with suppress(OSError):
                os.close(number)

    def _has_space(self, text: str) -> bool:
        return not self._waiting or self._chars + len(text) <= MOST_WAITING_CHARS


def _file_name(host: str) -> str:
    """Return a device's name as part of a file's."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", host)[:100]


def _program() -> str:
    try:
        return f"flashferry {version('flashferry')}"
    except PackageNotFoundError:
        return "flashferry"


def _write_all(number: int, data: bytes) -> None:
    while data:
        data = data[os.write(number, data) :]
