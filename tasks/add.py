"""Step `add`: have a device in install mode unpack the proven image (`install add`), and check that it did.

Nothing is activated, removed or saved. It comes after the restore: a device whose running configuration is not saved
refuses to add, and our lines would be the difference. `show install summary` before and after decides, not what the
device prints for the command.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from nornir.core.task import Result, Task

from flashferry.devices.connection import session_of
from flashferry.devices.errors import DeviceUnreachable, InstallFailed, InstallRefused, OutputNotUnderstood
from flashferry.devices.session import DeviceSession
from flashferry.images.file_name import FileName, read_file_name
from flashferry.images.release import ImageRelease, release_in
from tasks.install import InstallAnswer, InstallOutcome, read_answer, run_install, without_add
from tasks.software_state import Issu, Mode, Outcome, SoftwareState, Topic, read_software
from tasks.step import Step
from tasks.verify import MEASURABLE_S

STEP = "add"
ADD = Step(word=STEP, label="the device runs `install add` (`--add`)", doing="adding", record_field="added")


NOTHING_TO_ADD_TO = "nothing is added: it does not boot from packages"
"""What is said before the copy of a device in bundle mode that is to add its image."""


class AddOutcome(StrEnum):
    """What became of adding an image.

    Attributes:
        ADDED: The device unpacked it; it is inactive.
        NOT_APPLICABLE: The device boots from image files.
    """

    ADDED = "added"
    ALREADY_ADDED = "already added"
    RUNS_IT = "runs it already"
    NOT_APPLICABLE = "does not apply"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddReport:
    """What became of adding an image.

    Attributes:
        command: The command that was given; empty where none was.
        version: The version in `show install summary`, or None.
        lines: The device's lines that this rests on.
        bytes_per_s: How fast it went through the image; None where that was not measured, or took too little time.
    """

    outcome: AddOutcome
    command: str = ""
    version: str | None = None
    lines: tuple[str, ...] = ()
    duration_s: float = 0.0
    bytes_per_s: float | None = None


def add(task: Task, **given: Any) -> Result:
    """Nornir task: return an AddReport. See `add_image`."""
    return Result(host=task.host, result=add_image(session_of(task), **given))


def add_image(
    session: DeviceSession,
    path: str,
    release: ImageRelease | None,
    *,
    size_bytes: int | None = None,
    failed_before: str | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> AddReport:
    """Have a device add an image on its flash, proven by its hash, unless that was done before.

    `failed_before` says why the image may lack parts although it is listed as added; without `size_bytes` no speed is
    reported; `tell` takes the device's lines of progress.

    Raises:
        InstallRefused: The device does not add it now, its release has no command that only adds, another version is
            added, or this one is listed as added by a command that failed.
        InstallFailed: It printed that it failed, whatever its tables show, and also where its session was lost then.
        OutputNotUnderstood: What the device shows cannot be read, or it does not show the image after the command.
    """
    named = read_file_name(path)
    if not named.is_image:
        raise _refused(
            session.name, f"expected an image, {path} is a {named.kind.value} by its name", _PATCH.format(path)
        )
    state = read_software(session)
    if (other := _other_feature_set(session.name, state, release, named)) is not None:
        raise other
    if (known := already(state, release)) is not None:
        if known.outcome is AddOutcome.ALREADY_ADDED and failed_before is not None:
            raise _refused(session.name, f"{known.version} is listed in state I, but {failed_before}", _FAILED_BEFORE)
        return known
    if (older := without_add(state.version, path, knows_summary=_knows_summary(state))) is not None:
        raise _refused(session.name, older.reason, older.hint)
    if state.mode is Mode.BUNDLE:
        booted = state.answers[Topic.VERSION].lines_with("System image")
        return AddReport(outcome=AddOutcome.NOT_APPLICABLE, lines=booted)
    if (reason := objection(session.name, state, release)) is not None:
        raise reason
    answer = _run_add(session, session.platform.add_command(path), tell)
    report = judge(session.name, answer, before=state, after=read_software(session), release=release)
    if size_bytes is None or report.duration_s < MEASURABLE_S:
        return report
    return replace(report, bytes_per_s=size_bytes / report.duration_s)


def _run_add(session: DeviceSession, command: str, tell: Callable[[str], None]) -> InstallAnswer:
    """Give the command; what it printed before the session was lost counts too."""
    printed: list[str] = []

    def take(line: str) -> None:
        printed.append(line)
        tell(line)

    try:
        return run_install(session, command, step=STEP, report=take)
    except (DeviceUnreachable, OutputNotUnderstood) as error:
        answer = read_answer(command, "\n".join(printed))
        if answer.outcome not in _FAILURES:
            raise
        raise InstallFailed(
            f"'{command}': {_said(answer)}; then {error.message}",
            host=session.name,
            step=STEP,
            hint=_HINTS[answer.outcome],
        ) from error


def already(state: SoftwareState, release: ImageRelease | None) -> AddReport | None:
    """Return the report of a device that has the image in its tables, or None. Pure."""
    if release is None:
        return None
    for states, outcome in (("C", AddOutcome.RUNS_IT), ("I", AddOutcome.ALREADY_ADDED)):
        found = next((each for each in state.versions(states) if release_in(each) == release), None)
        if found is not None and not state.versions("U", "D") and not state.lacking(found, states):
            return AddReport(outcome=outcome, version=found, lines=_rows_of(state, found))
    return None


def objection(host: str, state: SoftwareState, release: ImageRelease | None) -> Exception | None:
    """Return why nothing is added to a device in this state, or None. Pure."""
    summary = state.answers[Topic.INSTALL]
    if state.mode is Mode.UNKNOWN or not summary.is_read or not state.versions("C", "U"):
        return OutputNotUnderstood(
            f"'{summary.command}': expected the packages of a device in install mode, found {summary.outcome.value}",
            host=host,
            step=STEP,
            hint="Look at the device; nothing was added",
        )
    pending = state.versions("U", "D")
    if pending or (state.timer is not None and state.timer.state.casefold() != "inactive"):
        seen = ", ".join(pending) or "the abort timer"
        return _refused(host, f"expected no activation that waits for its commit, found {seen}", _PENDING)
    others = [each for each in state.versions("I") if release is None or release_in(each) != release]
    if others:
        seen = ", ".join(others)
        return _refused(host, f"expected no other version added, found {seen}: a device keeps one at a time", _OTHER)
    if state.unlisted_members:
        seen = ", ".join(state.unlisted_members)
        return _refused(host, f"expected the packages of every member, found none of member {seen}", _MEMBERS)
    for states in ("I", "C"):
        there = next((each for each in state.versions(states) if release_in(each) == release), None)
        if release is not None and there is not None:
            seen = ", ".join(state.lacking(there, states))
            return _refused(host, f"expected {there} on every member, or on none; it is missing on {seen}", _MEMBERS)
    if state.issu is Issu.GOING_ON:
        return _refused(host, "expected no upgrade in service, one is going on", "Wait until it is over")
    return None


def _other_feature_set(
    host: str, state: SoftwareState, release: ImageRelease | None, named: FileName
) -> InstallRefused | None:
    """Return why nothing is added to a device that runs the release in another feature set, or None.

    No table distinguishes the two.
    """
    runs = release is not None and release_in(state.version.release) == release
    if not runs or state.mode is not Mode.INSTALL or state.encryption == named.encryption:
        return None
    seen, expected = (one or "the full one" for one in (state.encryption, named.encryption))
    return _refused(host, f"expected feature set {expected} of {release}, the device runs it in {seen}", _FEATURE_SET)


def _knows_summary(state: SoftwareState) -> bool:
    return state.answers[Topic.INSTALL].outcome is not Outcome.NOT_THERE


def _refused(host: str, reason: str, hint: str) -> InstallRefused:
    return InstallRefused(reason, host=host, step=STEP, hint=hint)


def judge(
    host: str, answer: InstallAnswer, *, before: SoftwareState, after: SoftwareState, release: ImageRelease | None
) -> AddReport:
    """Return what became of an add, by what the device printed and what its tables show afterwards. Pure.

    Raises:
        InstallRefused: It did not add the image, and says why.
        InstallFailed: It printed that it failed, or shows a part of the image as added.
        OutputNotUnderstood: It printed success and does not show it, or nothing that we know.
    """
    summary = after.answers[Topic.INSTALL]
    found = [each for each in after.versions("I") if each not in before.versions("I")]
    lacking = after.lacking(found[0], "I") if len(found) == 1 else ()
    # Without a release to compare, what appeared may be what was added otherwise.
    is_expected = answer.outcome is InstallOutcome.DONE if release is None else release in map(release_in, found)
    # A device that says it failed has not done it all, whatever a table shows of it: a member may lack packages.
    may_be_done = answer.outcome in {InstallOutcome.DONE, InstallOutcome.UNKNOWN}
    if may_be_done and summary.is_read and len(found) == 1 and is_expected and not lacking:
        return AddReport(
            outcome=AddOutcome.ADDED,
            command=answer.command,
            version=found[0],
            lines=(*answer.lines, *_rows_of(after, found[0])),
            duration_s=answer.duration_s,
        )
    said = _said(answer)
    missing = f", missing on {', '.join(lacking)}" if lacking else ""
    if may_be_done:
        raise OutputNotUnderstood(
            f"'{answer.command}': expected {release or 'the image'} in state I in '{summary.command}', "
            f"found {', '.join(found) or 'none'}{missing}; the device said: {said}",
            host=host,
            step=STEP,
            hint="Look at the device: what it says and what it shows do not agree",
        )
    shown = f"; '{summary.command}' shows {', '.join(found)} in state I all the same" if found and not missing else ""
    failure = InstallFailed if found or answer.outcome in _FAILURES else InstallRefused
    raise failure(f"'{answer.command}'{missing}: {said}{shown}", host=host, step=STEP, hint=_HINTS[answer.outcome])


def _said(answer: InstallAnswer) -> str:
    return "; ".join(line.strip() for line in answer.lines) or "nothing"


def _rows_of(state: SoftwareState, version: str) -> tuple[str, ...]:
    return state.answers[Topic.INSTALL].lines_with(version)


_FAILURES = frozenset({InstallOutcome.FAILED, InstallOutcome.NO_SPACE})
"""The device had started: what its tables show afterwards may lack parts."""

_PENDING = "An upgrade is not over: have it committed or aborted, then stage again with --add"
_OTHER = (
    "'install remove inactive' discards it, and with it every image file that was only copied: look at the list that "
    "the device shows before you confirm, then stage again with --add"
)
_FAILED_BEFORE = (
    "Parts of it may be missing, whatever the table shows. 'install remove inactive' discards it, and with it every "
    "image file that was only copied: look at the list that the device shows before you confirm, then stage again "
    "with --add"
)
_PATCH = (
    "A patch, a part of an image or a boot loader goes its owner's way, and stays on the flash: "
    "'install add file {}' by hand adds a patch of what runs"
)
_FEATURE_SET = (
    "Both have the same version in the summary of install mode, so what became of it could not be read: add it by hand"
)
_MEMBERS = "See to that member, or have what is half added discarded, then stage again with --add"
_HINTS = {
    InstallOutcome.ALREADY_ADDED: "A package is added already and not shown as inactive: look at the device",
    InstallOutcome.NO_SPACE: "Adding needs the image's size once more on each member: make room ('flashferry check' "
    "names files that could go), then stage again with --add; the copy stays where it is",
    InstallOutcome.CONFIGURATION_MODIFIED: "The running configuration is not the saved one. Saving is its owner's "
    "decision: it would save other people's lines too. Then stage again with --add",
    InstallOutcome.IN_PROGRESS: "Another install operation is going on: wait, then stage again with --add",
    InstallOutcome.PENDING_COMMIT: _PENDING,
    InstallOutcome.ISSU_IN_PROGRESS: "An upgrade in service is going on: wait until it is over",
    InstallOutcome.FAILED: "The image stays on the flash, nothing was activated. Look at the device's lines",
}
