"""The events of a run. Programs and people watch the same ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from flashferry.core.files import reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a copy has come, by the server's account.

    Attributes:
        acked_bytes: Bytes that the device has acknowledged.
        size_bytes: Size of the file.
        rate_bytes_per_s: Rate of the last second or so; 0 where it is not known.
    """

    acked_bytes: int
    size_bytes: int
    rate_bytes_per_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferEnd:
    """What the server's account of a transfer came to.

    Attributes:
        is_delivered: Whether the device has acknowledged everything.
        verdict: What limited it, by the words of `flashferry.tcp.verdict_rules.VerdictKind`.
        bytes_acked: Payload that the device acknowledged.
        retransmitted_bytes: Bytes sent again; None where the kernel does not report it.
        duration_s: First byte to last acknowledgement.
        rate_bytes_per_s: Acknowledged payload over that time.
        transport: By what it was fetched; empty where unknown.
    """

    is_delivered: bool
    verdict: str
    bytes_acked: int
    retransmitted_bytes: int | None
    duration_s: float
    rate_bytes_per_s: float
    transport: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened.

    Attributes:
        host: Device, or None where the run itself is meant.
        step: `connect`, `check`, `tune`, `pull`, ...; `transfer`: the server's account of a copy was closed;
            `device`: the device is through, nothing follows but a `retry`. Without a device `server`, `wave` or `run`.
        status: `started`, `progress`, `note`, `done` or `failed`; `queued`: waits for a slot, the text says which;
            `retry`: begins anew after a pause. A wave is `waiting` where it has to be approved first, a run for its
            time or a site's; a run is `paused`, `continued` or `stopping`.
        text: A short sentence for people.
        at_s: Seconds since the run began.
        progress: With `progress` of a copy: how far it has come.
        site: The device's site, or the site that is meant; None where there is none.
        wave: Number of the wave, 0 for the canaries; None outside waves.
        verdict: With `progress` of a copy: what limits it so far, by the words of
            `flashferry.tcp.verdict_rules.VerdictKind`.
        run_id: With `started` of a `run`: its identifier in the journal.
        outcome: With the end of a `device`: what became of it, by the words of `flashferry.model.states.Outcome`.
        restored: Likewise, by the words of `flashferry.model.states.Restored`.
        failure: With a device that failed: the kind of its first failure, such as `LoginRefused`.
        transfer: With the end of a `transfer`: what it came to.
    """

    host: str | None
    step: str
    status: str
    text: str
    at_s: float
    progress: Progress | None = None
    site: str | None = None
    wave: int | None = None
    verdict: str | None = None
    run_id: str | None = None
    outcome: str | None = None
    restored: str | None = None
    failure: str | None = None
    transfer: TransferEnd | None = None


OTHER_STEPS: Mapping[str, str] = {
    "probe": "a copy of a speed test, tuned or not: the text says which",
    "sweep": "copies over SSH, one for each cipher (`probe --ssh-sweep`)",
    "activate": "the device boots its image (`flashferry activate`)",
    "recover": "`flashferry recover` restores what a killed run left",
    "plan": "we read what a plan or a dry run has to know of the device",
    "record": "the device's record could not be made or kept",
    "transport": (
        "with `note` alone: how fast the copy can be at most by what it goes by, where there was a choice; or that no "
        "byte came by one transport, why, and which is tried now"
    ),
    "transfer": "our server closed its account of a copy",
    "device": "the device is through: `done` or `failed`. Nothing follows but a `retry`",
    "server": "our server: what it offers and where",
    "wave": "a wave",
    "run": "the run itself",
    "message": "a message for people, with `--events -` only",
    "events": "lines are missing here",
}
"""Values of `Event.step` that are no step of `tasks.steps.STEPS`, each with what it is about."""

Emit = Callable[[Event], None]


def silent(event: Event) -> None:
    """Drop an event: for callers that only need the result."""


def never_failing(emit: Emit) -> Emit:
    """Return a function that emits an event and swallows every error: a closed terminal must not stop a restore."""

    def emit_safely(event: Event) -> None:
        with suppress(Exception):
            emit(event)

    return emit_safely


READ_BYTES = 1 << 20
"""So much is read at once; a line is some hundred bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenEvent(Event):
    """An event as it stands in a file.

    Attributes:
        at: Time of the event, ISO 8601, UTC.
    """

    at: str


_DECODER = msgspec.json.Decoder(WrittenEvent)


def event_of(line: bytes) -> WrittenEvent | None:
    """Return the event of a line, or None where it is no line of ours."""
    try:
        return _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Whole lines of a file.

    Attributes:
        data: They, each with its end; empty where no whole one is there.
        start: Offset of the first byte.
        mark: Which file it is: another one under the same name has another.
    """

    data: bytes
    start: int
    mark: str

    @property
    def end(self) -> int:
        """Offset behind the last line: where the next one begins."""
        return self.start + len(self.data)

    def each(self) -> Iterator[tuple[bytes, int]]:
        """Yield each line, without its end, and the offset behind it."""
        at = self.start
        for line in self.data.split(b"\n")[:-1]:
            at += len(line) + 1
            yield line, at


def lines_from(path: Path, offset: int, *, mark: str = "", most_bytes: int = READ_BYTES) -> Lines:
    """Return whole lines of a file from an offset on.

    Args:
        path: The file; where it is not there, there are no lines.
        offset: Where to begin. In the middle of a line, that line is handed out whole; behind the end, nothing is.
            Negative: so far before the end, at the next beginning of a line.
        mark: The file that is meant; where another one has its name now, its lines are handed out from its beginning.
            Empty: whichever is there.
        most_bytes: So much is read at most; a longer line is waited for no longer than it takes to read it whole.

    Raises:
        OSError: It is there and cannot be read, or is no regular file.
    """
    try:
        with reading(path) as file:
            found = os.fstat(file.fileno())
            its_mark = f"{found.st_dev:x}.{found.st_ino:x}"
            if mark not in ("", its_mark):
                offset = 0
            start = _line_start(file.fileno(), offset, found.st_size)
            return Lines(data=_whole(file.fileno(), start, most_bytes), start=start, mark=its_mark)
    except FileNotFoundError:
        return Lines(data=b"", start=max(0, offset), mark="")


def _line_start(number: int, offset: int, size: int) -> int:
    """Return where a line begins: at the offset, or before it; for one from the end, behind it."""
    if offset < 0:
        most = size + offset
        if most <= 0:
            return 0
        found = os.pread(number, READ_BYTES, most - 1).find(b"\n")
        return _line_start(number, size, size) if found < 0 else most + found
    at = min(offset, size)
    while at > 0:
        start = max(0, at - READ_BYTES)
        found = os.pread(number, at - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return 0


def _whole(number: int, start: int, most_bytes: int) -> bytes:
    data = b""
    while True:
        more = os.pread(number, most_bytes, start + len(data))
        data += more
        end = data.rfind(b"\n") + 1
        if end or len(more) < most_bytes:
            return data[:end]
