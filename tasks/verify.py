"""Step `verify`: the file on the device is the file that was offered, by its hash."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from nornir.core.task import Result, Task

from tasks.connection import session_of
from tasks.errors import DeviceRefused, ImageCorrupt, OutputNotUnderstood
from tasks.session import DeviceSession
from templates.rows import Refusal, VerifyDigest, VerifyError, first, last

STEP = "verify"
SILENCE_LIMIT_S = 120.0
"""Each dot is progress; without one for this long the device is taken as hung."""

SLOWEST_HASH_BYTES_PER_S = 250_000
"""400 MB in 12 minutes were reported of old ISR and ASR (550 kB/s); half of that ends our patience."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """A proven file: where it is, its MD5 as the device computed it, and how long that took."""

    path: str
    md5: str
    duration_s: float


def verify(task: Task, path: str, md5: str, size_bytes: int, interrupted: Callable[[], bool] = lambda: False) -> Result:
    """Nornir task: return a VerifyReport. See `verify_file`."""
    report = verify_file(session_of(task), path=path, md5=md5, size_bytes=size_bytes, interrupted=interrupted)
    return Result(host=task.host, result=report)


def verify_file(
    session: DeviceSession,
    *,
    path: str,
    md5: str,
    size_bytes: int,
    interrupted: Callable[[], bool] = lambda: False,
) -> VerifyReport:
    """Prove that a file on the device has the expected MD5.

    The digests are compared here. The device is never told the expected one: it would echo it, and a reader that
    looks for it in the output would find it in every case.

    Raises:
        ImageCorrupt: The device computed another digest.
        DeviceRefused: It could not compute one.
        OutputNotUnderstood: It printed none, or went silent.
    """
    started = time.monotonic()
    found = digest_of(session, path, size_bytes=size_bytes, interrupted=interrupted)
    if found != md5.lower():
        raise ImageCorrupt(
            f"{path}: expected MD5 {md5}, the device computed {found}",
            host=session.name,
            step=STEP,
            hint=f"Delete {path} on the device and stage again; do not boot from it",
        )
    return VerifyReport(path=path, md5=found, duration_s=time.monotonic() - started)


def digest_of(
    session: DeviceSession, path: str, *, size_bytes: int, interrupted: Callable[[], bool] = lambda: False
) -> str:
    """Return the MD5 that the device computes of a file, in lower case."""
    waiter = _Dots(
        prompt_pattern=session.prompt_pattern,
        total_limit_s=60 + size_bytes / SLOWEST_HASH_BYTES_PER_S,
        interrupted=interrupted,
    )
    try:
        session.converse(f"verify /md5 {path}", waiter.reply, waiter.check_limits)
    except _LimitReached as reached:
        raise OutputNotUnderstood(f"'verify /md5 {path}': {reached}", host=session.name, step=STEP) from None
    output = waiter.text
    digest = last(VerifyDigest, output)
    if digest is not None and len(digest.digest) == 32:
        return digest.digest.lower()
    if (error_row := first(VerifyError, output)) is not None:
        raise DeviceRefused(f"{path}: {error_row.reason}", host=session.name, step=STEP)
    if (refusal := first(Refusal, output)) is not None:
        raise DeviceRefused(f"'verify /md5': {refusal.text}", host=session.name, step=STEP)
    raise OutputNotUnderstood(
        f"'verify /md5 {path}': expected a digest, found {output[-200:].strip()!r}", host=session.name, step=STEP
    )


class _LimitReached(Exception):
    """The device was silent, or at it, for too long. Not a TimeoutError: that is an OSError, a lost session."""


class _Dots:
    """Collects output until the prompt, throwing the dots away: 2 GB print half a million of them on one line."""

    def __init__(self, *, prompt_pattern: str, total_limit_s: float, interrupted: Callable[[], bool]) -> None:
        self.text = ""
        self._prompt = re.compile(prompt_pattern)
        self._heard_at = self._started_at = time.monotonic()
        self._total_limit_s = total_limit_s
        self._interrupted = interrupted

    def reply(self, received: str) -> tuple[str, ...] | None:
        if received:
            self._heard_at = time.monotonic()
        self.text = (self.text + re.sub(r"\.{2,}", ".", received)).replace("\r\n", "\n")
        return None if self._prompt.search(self.text) else ()

    def check_limits(self) -> None:
        now = time.monotonic()
        if self._interrupted():
            raise _LimitReached("interrupted by the operator")
        if now - self._heard_at > SILENCE_LIMIT_S:
            raise _LimitReached(f"no dot for {SILENCE_LIMIT_S:.0f} s")
        if now - self._started_at > self._total_limit_s:
            raise _LimitReached(f"no digest after {self._total_limit_s:.0f} s")
