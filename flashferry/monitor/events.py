"""Events of a run, for displays and programs alike."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from flashferry.core.files import reading


class Progress(Struct, frozen=True, kw_only=True):
    """Progress of a copy, measured by the server.

    Attributes:
        acked_bytes: Bytes that the device acknowledged.
        size_bytes: Size of the file.
        rate_bytes_per_s: Rate of about the last second; 0 if unknown.
    """

    acked_bytes: int
    size_bytes: int
    rate_bytes_per_s: float = 0.0


class TransferEnd(Struct, frozen=True, kw_only=True):
    """Result of a transfer, measured by the server.

    Attributes:
        is_delivered: Whether the device acknowledged everything.
        verdict: A value of `flashferry.tcp.verdict_rules.VerdictKind`.
        bytes_acked: Acknowledged payload.
        retransmitted_bytes: None if the kernel does not report it.
        duration_s: First byte to last acknowledgement.
        rate_bytes_per_s: Acknowledged payload over that time.
        transport: Empty if unknown.
    """

    is_delivered: bool
    verdict: str
    bytes_acked: int
    retransmitted_bytes: int | None
    duration_s: float
    rate_bytes_per_s: float
    transport: str = ""


class Event(Struct, frozen=True, kw_only=True):
    """An event.

    Attributes:
        host: Device; None for the run itself.
        step: `connect`, `check`, `tune`, `pull`, ...; `transfer`: a transfer ended at the server; `device`: the device
            has ended, only a `retry` can follow. Without a device `server`, `wave` or `run`.
        status: `started`, `progress`, `note`, `done` or `failed`; `queued`: waits for a slot, see the text; `retry`:
            starts again after a pause. A wave is `waiting` for approval, a run for its time or a site's; a run is
            `paused`, `continued` or `stopping`.
        text: A short sentence for the user.
        at_s: Seconds after the start of the run.
        progress: With `progress` of a copy; else None.
        site: Site of the device or of the event; None for none.
        wave: Number of the wave, 0 for the canaries; None outside waves.
        verdict: With `progress` of a copy: what limits it so far, a value of
            `flashferry.tcp.verdict_rules.VerdictKind`.
        run_id: With `started` of a `run`; else None.
        outcome: With the end of a `device`: a value of `flashferry.model.states.Outcome`; else None.
        restored: With the end of a `device`: a value of `flashferry.model.states.Restored`; else None.
        failure: For a failed device: type of its first failure, such as `LoginRefused`; else None.
        transfer: With the end of a `transfer`; else None.
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
"""Values of `Event.step` beside those of `tasks.steps.STEPS`, with descriptions."""

Emit = Callable[[Event], None]


def silent(event: Event) -> None:
    """Drop an event, for callers that only need the result."""


def never_failing(emit: Emit) -> Emit:
    """Wrap an event receiver so that its errors are ignored: a closed terminal must not stop a restore."""

    def emit_safely(event: Event) -> None:
        with suppress(Exception):
            emit(event)

    return emit_safely


READ_BYTES = 1 << 20
"""Size of a read; a line has some hundred bytes."""


class WrittenEvent(Event, frozen=True, kw_only=True):
    """An event in a file.

    Attributes:
        at: Its time, ISO 8601, UTC.
    """

    at: str


_DECODER = msgspec.json.Decoder(WrittenEvent)


def event_of(line: bytes) -> WrittenEvent | None:
    """Parse an event; None if the line is invalid."""
    try:
        return _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


class Lines(Struct, frozen=True, kw_only=True):
    """Whole lines of a file.

    Attributes:
        data: The lines with their ends; empty for none.
        start: Offset of the first byte.
        mark: Identifies the file, so that a replacement is noticed.
    """

    data: bytes
    start: int
    mark: str

    @property
    def end(self) -> int:
        """Offset after the last line."""
        return self.start + len(self.data)

    def each(self) -> Iterator[tuple[bytes, int]]:
        """Yield each line without its end, and the offset after it."""
        at = self.start
        for line in self.data.split(b"\n")[:-1]:
            at += len(line) + 1
            yield line, at


def lines_from(path: Path, offset: int, *, mark: str = "", most_bytes: int = READ_BYTES) -> Lines:
    """Read whole lines of a file from an offset.

    Args:
        path: The file; if it is missing, there are no lines.
        offset: Start. Within a line, the whole line is returned; beyond the end, nothing. Negative: from the end, at
            the next start of a line.
        mark: The expected file; a replacement is read from its start. Empty accepts any.
        most_bytes: Most bytes to read; a longer line is read whole.

    Raises:
        OSError: It cannot be read, or is no regular file.
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
    """Return the start of a line: at or before the offset; from the end, after it."""
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
