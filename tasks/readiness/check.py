"""Step `ready`: is the image in place on every member, and will the device boot as it should? Changes nothing.

All is read in one session: what the device runs and boots, each file system that must hold the image, the hash that the
device computes there, both configurations. What cannot be read counts as unknown; only a lost session ends the check.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Any

from nornir.core.task import Result, Task

from flashferry.devices.connection import session_of
from flashferry.devices.errors import DeviceRefused, ImageCorrupt, OutputNotUnderstood
from flashferry.devices.prompts import is_syslog
from flashferry.devices.session import DeviceSession
from tasks.applet import is_applet
from tasks.check import TargetImage
from tasks.file_system import file_named, other_places, target_file_system
from tasks.read_config import (
    ConfigurationState,
    Configured,
    differing_lines,
    last_change,
    read_running,
    read_startup,
    saved_by_stamps,
)
from tasks.readiness.conditions import judge
from tasks.readiness.values import Evidence, Held, Leftover, Proof, Readiness, Sealed
from tasks.run_marker import first_mark
from tasks.software_state import Answer, Outcome, SoftwareState, asked, read_software
from tasks.step import Step
from tasks.verify import Signature, commands_for, hash_limits, read_signature, run_verify, verify_image
from templates.rows import Refusal, first

STEP = "ready"

READY = Step(
    word=STEP,
    label="we read whether the device is ready to boot its image (`--ready`, `flashferry ready`)",
    doing="checking",
    record_field="readiness",
)

_CERTIFICATE_FILE = re.compile(r"^(\s+certificate .*) nvram:\S+$")

_CERTIFICATE_BYTES = re.compile(r"\s+(?:[0-9A-F]{2,8}(?: [0-9A-F]{2,8})*|quit)")

_VIRTUAL = re.compile(r"CSR1000V|C8000V|ISRV|IOSv|VIOS", re.IGNORECASE)


def ready(task: Task, target: TargetImage, proven: Mapping[str, str] = MappingProxyType({}), **given: Any) -> Result:
    """Nornir task: return a Readiness. See `check_readiness`."""
    return Result(host=task.host, result=check_readiness(session_of(task), target, proven=proven, **given))


def check_readiness(
    session: DeviceSession,
    target: TargetImage,
    *,
    signature: bool = True,
    proven: Mapping[str, str] = MappingProxyType({}),
    owed: str | None = None,
    false_copy: str | None = None,
    failed_add: str | None = None,
    expected_members: tuple[int, ...] | None = None,
    known_bytes_per_s: float | None = None,
    interrupted: Callable[[], bool] = lambda: False,
    hashing: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Readiness:
    """Return whether a device is ready to boot an image, with the evidence.

    Args:
        session: An open session.
        target: The image.
        signature: Whether the device verifies the vendor's signature too.
        proven: Digests that the device computed earlier in the same run, by path: these files are not hashed again.
        owed: Why a run still holds the device by the journal, or None.
        false_copy: Which proof an earlier run found false, if the image's hash rests on it; or None.
        failed_add: Why the image may lack parts although it is listed as added, or None.
        expected_members: Members at the time of the staging, or None if unknown.
        known_bytes_per_s: Hash speed of this device from before, or None.
        interrupted: Whether the operator stops, asked while the image is hashed.
        hashing: Held while the image is hashed: a run limits concurrent hashes.

    Raises:
        DeviceRefused: The session is not privileged.
        OutputNotUnderstood: The device has no file system that could hold an image, or a prompt did not come.
    """
    session.check_privileged(STEP)
    state = _DeviceState(session, target, proven, known_bytes_per_s, interrupted)
    with hashing():
        held = state.held()
        seal = state.sealed(held) if signature else None
    configuration, leftovers, by = state.configuration()
    return judge(
        Evidence(
            image=target.image,
            inside=target.inside,
            software=state.software,
            held=held,
            names=session.platform.file_systems,
            signature=seal,
            boot_listings=state.boot_listings(held),
            configuration=configuration,
            compared_by=by,
            leftovers=leftovers,
            owed=owed,
            false_copy=false_copy,
            failed_add=failed_add,
            expected_members=expected_members,
            is_virtual=any(_VIRTUAL.search(model) for model in state.models),
        )
    )


class _DeviceState:
    """One check of one device. Output is kept, so that nothing is asked twice."""

    def __init__(
        self,
        session: DeviceSession,
        target: TargetImage,
        proven: Mapping[str, str],
        known_bytes_per_s: float | None,
        interrupted: Callable[[], bool],
    ) -> None:
        self._session = session
        self._target = target
        self._known_digests = proven
        self._known_bytes_per_s = known_bytes_per_s
        self._interrupted = interrupted
        self._names = session.platform.file_systems
        self._file_systems: str | None = None
        self.software: SoftwareState = read_software(session)

    @property
    def models(self) -> tuple[str, ...]:
        """Return the names of its models."""
        return self.software.version.hardware or (self._session.facts().model,)

    def held(self) -> tuple[Held, ...]:
        """Return what each file system holds of the image, the active member's first."""
        active = self._active()
        others = other_places(self.software, self._show_file_systems(), active)
        places = [("", active), *((one.place, one.file_system) for one in others)]
        return tuple(self._held(place, file_system) for place, file_system in places)

    def sealed(self, held: tuple[Held, ...]) -> Sealed | None:
        """Return the device's result for the signature; None for a file that is not proven to be the image."""
        if not held or held[0].proof is not Proof.EQUAL:
            return None
        path = f"{held[0].file_system}{self._target.image.name}"
        platform = self._session.platform
        command = platform.signature_command(path)
        limits = hash_limits(self._target.image.size_bytes, platform.defaults, self._known_bytes_per_s)
        try:
            done = run_verify(
                self._session,
                command,
                limits=limits,
                dot_bytes=platform.verifying.signature_dot_bytes,
                interrupted=self._interrupted,
            )
        except OutputNotUnderstood as error:
            return Sealed(outcome=Signature.UNKNOWN, words=error.message, command=command)
        report = read_signature(done.text, path, self._names)
        refusal = first(Refusal, done.text)
        if report.outcome is Signature.UNKNOWN and refusal is not None:
            outcome = None if "Invalid input" in refusal.text else Signature.UNKNOWN
            return Sealed(outcome=outcome, words=refusal.text, command=command)
        return Sealed(outcome=report.outcome, words=report.words, command=command)

    def boot_listings(self, held: tuple[Held, ...]) -> dict[str, Answer]:
        """Return the listings of boot files that are in no folder listed so far."""
        listed = {held[0].file_system} if held else set()
        found: dict[str, Answer] = {}
        for path in dict.fromkeys(path for boot in self.software.boot for path in boot.files[:1]):
            system, _, name = path.rpartition(":")
            is_own = not system or f"{system}:" in listed or {system, self._active()[:-1]} <= self._names.aliases
            if not is_own or "/" in name.lstrip("/"):
                found[path] = asked(self._session, self._session.platform.list_command(path))
        return found

    def configuration(self) -> tuple[ConfigurationState | None, tuple[Leftover, ...] | None, str]:
        """Return whether the configuration is saved, our lines in it, and the command that shows the first."""
        by = "show running-config"
        try:
            running = read_running(self._session, without_syslog=True)
            startup = read_startup(self._session)
        except (DeviceRefused, OutputNotUnderstood):
            if not self._session.alive:
                raise
            return None, None, by
        leftovers = (*_ours(running, "running"), *_ours(startup, "startup"))
        saved = saved_by_stamps(running.comments, startup.comments)
        differing = None
        if not startup.text:
            saved = False
        elif saved is True and _comparable(running.text) == _comparable(startup.text):
            by = "show startup-config"
        else:
            # A stamp also changes without a change, and a file copied to startup has its own: let the device compare.
            by_stamps, saved = saved, False if saved is False else None
            by = self._session.platform.commands.unsaved_lines
            answer = asked(self._session, by)
            differing = differing_lines(answer.text) if answer.is_read else None
            if differing is not None:
                saved = differing == 0
            elif by_stamps is not True and _same_lines(running, startup):
                saved, by = True, "show startup-config"
        at, who = last_change(running.comments)
        state = ConfigurationState(saved=saved, differing_lines=differing, changed_at=at, changed_by=who)
        return state, leftovers, by

    def _active(self) -> str:
        return target_file_system(self._session, self.software.version, self._show_file_systems, STEP)

    def _show_file_systems(self) -> str:
        if self._file_systems is None:
            self._file_systems = asked(self._session, self._session.platform.commands.file_systems).text
        return self._file_systems

    def _held(self, place: str, file_system: str) -> Held:
        platform, image = self._session.platform, self._target.image
        if not file_system:
            nothing = Answer(command=platform.commands.file_systems, outcome=Outcome.UNREADABLE)
            return Held(place=place, file_system="", listing=nothing)
        listing = asked(self._session, platform.list_command(file_system))
        held = Held(place=place, file_system=file_system, listing=listing)
        try:
            entry = file_named(listing.text, image.name) if listing.is_read else None
        except ValueError:
            return held
        if entry is None or entry.name != image.name or entry.size_bytes != image.size_bytes:
            return held
        path = f"{file_system}{image.name}"
        command = commands_for(path, image.digests, platform, signature=False)[0]
        proof, words = self._proven(path)
        return Held(place=place, file_system=file_system, listing=listing, proof=proof, command=command, words=words)

    def _proven(self, path: str) -> tuple[Proof, str]:
        image, known = self._target.image, self._known_digests.get(path, "")
        if algorithm := {image.sha512.lower(): "sha512", image.md5.lower(): "md5"}.get(known):
            return Proof.EQUAL, f"{algorithm} {known}"
        try:
            report = verify_image(
                self._session,
                path,
                image.digests,
                size_bytes=image.size_bytes,
                known_bytes_per_s=self._known_bytes_per_s,
                interrupted=self._interrupted,
            )
        except ImageCorrupt as error:
            return Proof.OTHER, error.message
        except (DeviceRefused, OutputNotUnderstood) as error:
            if not self._session.alive or self._interrupted():
                raise
            return Proof.NONE, error.message
        return Proof.EQUAL, f"{report.algorithm} {report.digest}"


def _ours(configured: Configured, where: str) -> Iterable[Leftover]:
    mark = first_mark(configured.tcp.lines)
    if mark is not None:
        yield Leftover(line=mark, where=where)
    for line in configured.lines:
        if is_applet(line):
            yield Leftover(line=line, where=where)


def _same_lines(one: Configured, other: Configured) -> bool:
    """Return whether two configurations have the same lines, ignoring comments and blank lines."""
    lines = _comparable(one.text)
    return bool(lines) and lines == _comparable(other.text)


def _comparable(text: str) -> list[str]:
    """Return the lines that running and startup print alike.

    A certificate is printed as bytes in running and as a file name in startup; `ntp clock-period` drifts.
    """
    lines = (_CERTIFICATE_FILE.sub(r"\1", line.rstrip()) for line in text.splitlines() if not is_syslog(line))
    unlike = ("!", "Building configuration", "Current configuration", "Using ", "ntp clock-period ")
    return [line for line in lines if line and not line.startswith(unlike) and not _CERTIFICATE_BYTES.fullmatch(line)]
