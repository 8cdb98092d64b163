"""Step `verify`: have a device hash a file, wait for it within limits, and compare the digest.

Facts
-----

* A command that hashes prints a dot for so many bytes (`VerifyGrammar`), all on one line: 143,737 in one capture.
* 400 MB took 12 minutes on old ISR and ASR routers, 2 GB eight minutes on a Catalyst 9000 (networktocode/pyntc#410,
  cisco.ios#1093): no fixed time-out is right.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace
from nornir.core.task import Result, Task

from flashferry.devices.connection import session_of
from flashferry.devices.dialogue import Dialogue, PromptWait, WaitLimits
from flashferry.devices.errors import DeviceRefused, HashStopped, ImageCorrupt, OutputNotUnderstood
from flashferry.devices.platforms.platform import Defaults, FileSystems, Platform
from flashferry.devices.session import DeviceSession
from flashferry.images.image import Digests
from tasks.step import MEASURABLE_S, Step
from templates.rows import (
    ImageHash,
    Refusal,
    SignatureRefused,
    SignatureVerified,
    VerifyDigest,
    VerifyError,
    first,
    rows,
)

START_LIMIT_S = 45.0
"""Without any output for so long, not even the echo, the device did not accept the command."""

SILENCE_LIMIT_S = 120.0
"""Each dot is progress; without one for this long the device counts as hung."""


def hash_limits(size_bytes: int, defaults: Defaults, known_bytes_per_s: float | None = None) -> WaitLimits:
    """Return the limits for a file: in all, a minute and four times what it should take.

    Without a known speed the device counts as slow as the platform's slowest.
    """
    # An unknown device counts as the slowest; a known speed never extends that.
    hash_s = size_bytes / defaults.hash_bytes_per_s
    if known_bytes_per_s is not None:
        hash_s = min(4 * size_bytes / known_bytes_per_s, hash_s)
    return WaitLimits(start_s=START_LIMIT_S, silence_s=SILENCE_LIMIT_S, total_s=60 + hash_s, sign="dot", end="result")


class Hashed(Struct, frozen=True, kw_only=True):
    """What a device printed for `verify`, without the progress dots, and how long it took."""

    text: str
    duration_s: float


def run_verify(
    session: DeviceSession,
    command: str,
    *,
    limits: WaitLimits,
    dot_bytes: int,
    interrupted: Callable[[], bool] = lambda: False,
) -> Hashed:
    """Send a `verify` command and wait for the prompt; `interrupted` is called about once a second.

    The command contains no digest: it would be echoed, and a search of the output would find it.

    Raises:
        HashStopped: The operator stopped it; the device is back at its prompt.
        OutputNotUnderstood: A limit was reached; the device is back at its prompt.
    """
    dots = Dots(prompt_pattern=session.prompt_pattern, dot_bytes=dot_bytes)
    wait = PromptWait(
        dots, command, limits, host=session.name, step="verify", interrupted=interrupted, stopped=HashStopped
    )
    session.converse(command, dots, wait.check)
    return Hashed(text=dots.text, duration_s=dots.elapsed_s)


class Dots(Dialogue):
    """Output until the prompt, with the dots counted and removed; `verify` asks nothing."""

    def __init__(self, *, prompt_pattern: str, dot_bytes: int, clock: Callable[[], float] | None = None) -> None:
        super().__init__(prompt_pattern=prompt_pattern, clock=clock)
        self.dots = 0
        self._dot_bytes = dot_bytes

    @property
    def bytes_hashed(self) -> int:
        """Return how many bytes the device has hashed, by its dots."""
        return self.dots * self._dot_bytes

    @property
    def progress(self) -> str:
        """Return the progress as a suffix of an error."""
        return f" (about {self.bytes_hashed:,} bytes hashed)" if self.dots else ""

    def _kept(self, received: str) -> str:
        self.dots += sum(map(len, re.findall(r"\.{2,}|^\.+$", received)))
        # Squeeze dots at the joint of two pieces of output too, or a slow device's single dots pile up.
        fresh = re.sub(r"\.{2,}", ".", received)
        return fresh.lstrip(".") if self.text[-1:] == "." else fresh


class Signature(Enum):
    """A device's result for an image's signature.

    Attributes:
        HASH_ONLY: The hash inside the image is good; this release does not report a signature.
        REFUSED: It is not good, or there is none.
        UNKNOWN: The device printed nothing known.
    """

    VERIFIED = "verified"
    HASH_ONLY = "hash only"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class SignatureReport(Struct, frozen=True, kw_only=True):
    """The result for a signature, with the device's own words."""

    outcome: Signature
    words: str
    duration_s: float = 0.0


def read_signature(output: str, path: str, names: FileSystems) -> SignatureReport:
    """Return the result that the output of `verify PATH` shows for the file.

    A failure outweighs any number of successes, and a success for another file does not count.
    """
    if (refusal := _refusal(output)) is not None:
        return SignatureReport(outcome=Signature.REFUSED, words=refusal)
    signed = ""
    hashed = ""
    for row in rows(SignatureVerified, output):
        if row.file and not names.same_file(path, row.file.rstrip(".")):
            continue
        if "ignature" in row.by:
            signed = signed or row.by
        else:
            hashed = hashed or row.by
    if signed:
        return SignatureReport(outcome=Signature.VERIFIED, words=signed)
    if hashed:
        return SignatureReport(outcome=Signature.HASH_ONLY, words=hashed)
    return SignatureReport(outcome=Signature.UNKNOWN, words="")


def _refusal(output: str) -> str | None:
    if (refused := first(SignatureRefused, output)) is not None:
        return refused.reason.strip()
    if (error := first(VerifyError, output)) is not None:
        return error.reason
    hashes = {(row.origin, row.algorithm): "".join(row.digest).lower() for row in rows(ImageHash, output)}
    for (origin, algorithm), digest in hashes.items():
        computed = hashes.get(("Computed", algorithm))
        if origin != "Computed" and computed is not None and computed != digest:
            return f"{origin} {algorithm} {digest} and computed {algorithm} {computed} differ"
    return None


STEP = "verify"

VERIFY = Step(
    word=STEP,
    label="the device computes the hash of the image",
    doing="verifying",
    state="verified",
    record_field="verify",
    is_delivery=True,
)

_DIGITS = {"md5": 32, "sha512": 128}


class VerifyReport(Struct, frozen=True, kw_only=True):
    """A proven file.

    Attributes:
        md5: Its MD5; if SHA-512 proved it, that of the file on our side, which is the same file.
        duration_s: Seconds that the device hashed.
        algorithm: The algorithm that proved it: `md5` or `sha512`.
        hash_bytes_per_s: Hash speed, or None if too short to measure.
        signature: The device's result for the signature, or None if not asked for.
    """

    path: str
    md5: str
    duration_s: float
    algorithm: str = "md5"
    digest: str = ""
    hash_bytes_per_s: float | None = None
    signature: SignatureReport | None = None


def verify(
    task: Task,
    path: str,
    md5: str,
    size_bytes: int,
    interrupted: Callable[[], bool] = lambda: False,
    sha512: str | None = None,
    signature: bool = False,
    known_bytes_per_s: float | None = None,
) -> Result:
    """Nornir task: return a VerifyReport. See `verify_image`."""
    report = verify_image(
        session_of(task),
        path,
        Digests(md5=md5, sha512=sha512 or ""),
        size_bytes=size_bytes,
        signature=signature,
        known_bytes_per_s=known_bytes_per_s,
        interrupted=interrupted,
    )
    return Result(host=task.host, result=report)


def verify_image(
    session: DeviceSession,
    path: str,
    expected: Digests,
    *,
    size_bytes: int,
    signature: bool = False,
    known_bytes_per_s: float | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> VerifyReport:
    """Prove that a file on the device is the expected one, and with `signature` the vendor's signature in it.

    By SHA-512 if the device has it (IOS-XE 16.5.1 and later) and it is known here, otherwise by MD5, which every device
    computes. The digests are compared here: a device that is given the expected digest echoes it, and a search of the
    output would always find it.

    Raises:
        ImageCorrupt: The device computed another digest, or rejects the signature.
        DeviceRefused: It could not compute a digest.
        OutputNotUnderstood: It printed none, went silent, or the operator stopped it.
    """
    limits = hash_limits(size_bytes, session.platform.defaults, known_bytes_per_s)
    report = _hashed(session, path, expected, limits, interrupted)
    digest = getattr(expected, report.algorithm).lower()
    if report.digest != digest:
        raise ImageCorrupt(
            f"{path}: expected {_spoken(report.algorithm)} {digest}, the device computed {report.digest}",
            host=session.name,
            step=STEP,
            hint=f"Delete {path} on the device and stage again; do not boot from it",
        )
    if report.duration_s >= MEASURABLE_S:
        report = replace(report, hash_bytes_per_s=size_bytes / report.duration_s)
    if signature:
        report = replace(report, signature=verify_signature(session, path, limits=limits, interrupted=interrupted))
    return report


def verify_signature(
    session: DeviceSession,
    path: str,
    *,
    limits: WaitLimits,
    interrupted: Callable[[], bool] = lambda: False,
) -> SignatureReport:
    """Have the device verify the vendor's signature inside an image.

    Raises:
        ImageCorrupt: The device rejects it.
        OutputNotUnderstood: It printed nothing known, or went silent.
    """
    platform = session.platform
    command = platform.signature_command(path)
    dot_bytes = platform.verifying.signature_dot_bytes
    done = run_verify(session, command, limits=limits, dot_bytes=dot_bytes, interrupted=interrupted)
    report = replace(read_signature(done.text, path, platform.file_systems), duration_s=done.duration_s)
    if report.outcome is Signature.REFUSED:
        raise ImageCorrupt(
            f"{path}: expected a good signature, the device says: {report.words}",
            host=session.name,
            step=STEP,
            hint="Its hash is the expected one: look where the image came from, and do not boot from it",
        )
    if report.outcome is Signature.UNKNOWN:
        raise OutputNotUnderstood(
            f"'{command}': expected a result of the signature check, found {done.text[-200:].strip()!r}",
            host=session.name,
            step=STEP,
            hint=f"Give '{command}' by hand and look at what the device says",
        )
    return report


def digest_of(
    session: DeviceSession,
    path: str,
    *,
    size_bytes: int,
    interrupted: Callable[[], bool] = lambda: False,
    algorithm: str = "md5",
) -> str:
    """Return the digest (`md5` or `sha512`) that the device computes of a file, in lower case.

    Raises:
        DeviceRefused: It could not compute one.
        OutputNotUnderstood: It printed none, or went silent.
    """
    return _digest(session, path, algorithm, hash_limits(size_bytes, session.platform.defaults), interrupted).digest


def _hashed(
    session: DeviceSession, path: str, expected: Digests, limits: WaitLimits, interrupted: Callable[[], bool]
) -> VerifyReport:
    """Return the digest that the device computed by the best algorithm that both sides have."""
    *better, always_there = session.platform.verifying.algorithms
    for algorithm in (one for one in better if getattr(expected, one)):
        found = _attempt(session, path, algorithm, limits, interrupted)
        # Refused by an older release, or not authorized: MD5 detects accidental changes just as well.
        if isinstance(found, VerifyReport):
            return replace(found, md5=expected.md5.lower())
    return _digest(session, path, always_there, limits, interrupted)


def _digest(
    session: DeviceSession, path: str, algorithm: str, limits: WaitLimits, interrupted: Callable[[], bool]
) -> VerifyReport:
    found = _attempt(session, path, algorithm, limits, interrupted)
    if isinstance(found, Refusal):
        command = session.platform.digest_command(algorithm, "").strip()
        raise DeviceRefused(
            f"'{command}': {found.text}",
            host=session.name,
            step=STEP,
            hint=f"Give '{command}' by hand as that user: the user may not give it, or the release does not have it",
        )
    return found


def _attempt(
    session: DeviceSession, path: str, algorithm: str, limits: WaitLimits, interrupted: Callable[[], bool]
) -> VerifyReport | Refusal:
    platform, grammar = session.platform, session.platform.verifying
    command = platform.digest_command(algorithm, path)
    done = run_verify(session, command, limits=limits, dot_bytes=grammar.digest_dot_bytes, interrupted=interrupted)
    found = [row for row in rows(VerifyDigest, done.text) if len(row.digest) == _DIGITS[algorithm]]
    ours = [row for row in found if platform.file_systems.same_file(path, row.file)]
    if found and not ours:
        raise OutputNotUnderstood(
            f"'{command}': expected a digest of {path}, found one of {found[-1].file or 'a file without a name'}",
            host=session.name,
            step=STEP,
            hint=f"Run '{command}' by hand and look at what the device says",
        )
    if ours:
        digest = ours[-1].digest.lower()
        md5 = digest if algorithm == "md5" else ""
        return VerifyReport(path=path, md5=md5, duration_s=done.duration_s, algorithm=algorithm, digest=digest)
    if (error := first(VerifyError, done.text)) is not None:
        raise DeviceRefused(
            f"{path}: {error.reason}",
            host=session.name,
            step=STEP,
            hint="Look at the file with 'dir' by hand, and at the console for errors of the flash",
        )
    if (refusal := first(Refusal, done.text)) is not None:
        return refusal
    raise OutputNotUnderstood(
        f"'{command}': expected a digest, found {done.text[-200:].strip()!r}",
        host=session.name,
        step=STEP,
        hint=f"Give '{command}' by hand and look at what the device says",
    )


def commands_for(path: str, expected: Digests, platform: Platform, *, signature: bool) -> tuple[str, ...]:
    """Return the commands that `verify_image` sends, in order; a refused SHA-512 is followed by MD5."""
    best = next(one for one in platform.verifying.algorithms if getattr(expected, one))
    seal = (platform.signature_command(path),) if signature else ()
    return (platform.digest_command(best, path), *seal)


def _spoken(algorithm: str) -> str:
    return {"md5": "MD5", "sha512": "SHA-512"}[algorithm]
