"""Install commands of IOS-XE: sent, followed to the prompt, and judged by their output; trains without them.

Facts
-----

* `SUCCESS` and `FAILED` are words, not outcomes: an add that is refused because the package is there already is FAILED,
  a removal that the user rejected is SUCCESS (genielibs, log of three C8000V). What counts is `show install summary`,
  which the callers read afterwards.
* An add of 850 MB took 76 s on a C8000V, with a minute of silence; Genie waits 900 s for any of these commands.
* The last line of a failed add need not have `install_add` in it: `FAILED: add_activate_commit /mnt/sd3/user/X ...`
  (public note of a C9200L).
* We answer no question of these commands: each is sent in the form that asks nothing. If one asks nevertheless, the
  session is dropped.
* Trains without `install add` have commands that also switch what boots next: these are left to the owner, and never
  sent.
* Catalyst 3650 and 3850 with 3.x unpack an image by `software install file flash:X switch 1-N`: it rewrites
  `packages.conf`, from which each switch boots next.
* Switches with 16.5.1a and 16.6.1 have `request platform software package install switch all file flash:X auto-copy`
  (pyntc sends it to these; earlier 16.x are taken for the same); `show install summary` was seen from 16.6.6 on
  (genieparser).
* A router that boots from packages and has no `show install summary` has `request platform software package expand file
  bootflash:X`, which puts a `packages.conf` beside them.
* Catalyst 2960, 3560 and 3750 and IE switches boot from a file; a `.tar` does not boot by being copied. `archive
  download-sw` unpacks it and sets the boot variable to it; `/leave-old-sw` keeps the old files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from nornir.core.task import Result, Task

from flashferry.devices.connection import session_of
from flashferry.devices.dialogue import Dialogue, PromptWait, WaitLimits
from flashferry.devices.errors import DeviceUnreachable, InstallFailed, InstallRefused, OutputNotUnderstood
from flashferry.devices.prompts import is_syslog
from flashferry.devices.session import DeviceSession
from flashferry.images.file_name import FileName, ImageRelease, read_file_name, release_in
from tasks.software_state import Issu, Mode, Outcome, SoftwareState, Topic, mode_of, read_software
from tasks.step import MEASURABLE_S, Step
from templates.version import SoftwareVersion

TOTAL_LIMIT_S = 2400.0
"""No install command takes longer than 40 minutes; the result of a longer one counts as unknown."""

_LIMITS = WaitLimits(start_s=60.0, silence_s=900.0, total_s=TOTAL_LIMIT_S)
"""An install command may be silent while it unpacks an image; Genie waits as long."""

_SHOWN_LINES = 6

_NUMBERS = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
"""`03.06.05E`, `16.5.1a`, `16.4.20170410:165034` (a developers' build), `15.5(3)S` (a router with 3.16)."""

_FIRST_WITH_ADD = (16, 6, 2)

_FIRST_OF_16 = (16, 0, 0)

_ALL_HAVE_ADD = (17, 0, 0)


class InstallOutcome(StrEnum):
    """The outcome of an install command by its output.

    Attributes:
        DONE: It reports success.
        ALREADY_ADDED: A package is there already, of whichever version.
        NO_SPACE: A file system has too little space.
        CONFIGURATION_MODIFIED: The running configuration is not saved.
        IN_PROGRESS: Another install operation is running.
        PENDING_COMMIT: An activation waits for its commit.
        ISSU_IN_PROGRESS: An in-service software upgrade is running.
        FAILED: It failed for another reason.
        UNKNOWN: It printed nothing known.
    """

    DONE = "done"
    ALREADY_ADDED = "already added"
    NO_SPACE = "no room"
    CONFIGURATION_MODIFIED = "configuration modified"
    IN_PROGRESS = "operation in progress"
    PENDING_COMMIT = "pending commit"
    ISSU_IN_PROGRESS = "upgrade in service in progress"
    FAILED = "failed"
    UNKNOWN = "unknown"


_REFUSALS = tuple(
    (outcome, re.compile(words, re.IGNORECASE))
    for outcome, words in (
        (InstallOutcome.NO_SPACE, r"requires \d+ KB of free space|No space left|not enough (?:disk )?space"),
        (InstallOutcome.CONFIGURATION_MODIFIED, r"configuration has been modified"),
        (InstallOutcome.ISSU_IN_PROGRESS, r"ISSU in progress"),
        (InstallOutcome.PENDING_COMMIT, r"pending commit"),
        (InstallOutcome.IN_PROGRESS, r"(?:operation|install|process)\b[^\n]* in progress|currently busy"),
        (
            InstallOutcome.ALREADY_ADDED,
            "Super package already added|SMU Already Added-No Change|Same Image File-No Change",
        ),
    )
)
"""The first match counts: a reason that prevents the operation outweighs other output."""

_FAILED = re.compile(
    r"(?:^|\s)FAILED:|\bError:|^%|(?i:^\s*failed\b|^\s*\w+: failed on (?!\[\s*\])|^\s*\[\s*\w+\s*\].*\bfailed\b)",
    re.MULTILINE,
)
"""Failure of the whole, of a list of members that is not empty, or in the row of one member (`[2] ...`)."""

_ADDED_VERSION = re.compile(r"^Image added\. Version: (\S+)", re.MULTILINE)


class InstallAnswer(Struct, frozen=True, kw_only=True):
    """A device's output for an install command.

    Attributes:
        outcome: The outcome by the output; only `show install summary` proves it.
        lines: The device's lines that decide the outcome.
        duration_s: Duration in seconds.
        added_version: The version that was added by the output, or None.
    """

    command: str
    outcome: InstallOutcome
    lines: tuple[str, ...]
    duration_s: float = 0.0
    added_version: str | None = None

    @property
    def words(self) -> str:
        """Return the decisive lines as one text, for a message."""
        return "; ".join(line.strip() for line in self.lines) or "nothing"


def read_answer(command: str, text: str, *, duration_s: float = 0.0) -> InstallAnswer:
    """Return what an install command's output says; log lines may occur anywhere in it. Pure."""
    lines = tuple(line.rstrip() for line in text.splitlines() if line.strip() and not is_syslog(line))
    said = "\n".join(lines)
    version = _ADDED_VERSION.search(said)
    outcome = _outcome(command, said)
    return InstallAnswer(
        command=command,
        outcome=outcome,
        lines=_decisive_lines(lines, outcome),
        duration_s=round(duration_s, 3),
        added_version=version[1] if version else None,
    )


def _outcome(command: str, said: str) -> InstallOutcome:
    for outcome, pattern in _REFUSALS:
        if pattern.search(said):
            return outcome
    if _FAILED.search(said):
        return InstallOutcome.FAILED
    verb = "_".join(command.split()[:2])
    return InstallOutcome.DONE if re.search(rf"^SUCCESS: {verb}\b", said, re.MULTILINE) else InstallOutcome.UNKNOWN


def _decisive_lines(lines: tuple[str, ...], outcome: InstallOutcome) -> tuple[str, ...]:
    """Return the lines that decide the outcome: those with the reason, or the last ones."""
    patterns = [pattern for known, pattern in _REFUSALS if known is outcome] or [_FAILED]
    why = tuple(line for line in lines if patterns[0].search(line) or _FAILED.search(line))
    if outcome in {InstallOutcome.DONE, InstallOutcome.UNKNOWN}:
        return lines[-_SHOWN_LINES:]
    return why[-_SHOWN_LINES:]


def run_install(
    session: DeviceSession, command: str, *, step: str, report: Callable[[str], None] = lambda _: None
) -> InstallAnswer:
    """Send an install command that asks nothing, and follow it to the prompt even if the operator stops the run.

    No known command stops a device during it. `report` receives each new line of progress.

    Raises:
        OutputNotUnderstood: A limit was reached, or the device asks something. `show install summary` shows the result.
    """
    progress = _Progress(prompt_pattern=session.prompt_pattern, report=report)
    hint = f"Check with '{session.platform.commands.install_summary}' what became of it before anything else"
    wait = PromptWait(progress, command, _LIMITS, host=session.name, step=step, hint=hint)
    session.converse(command, progress, wait.check)
    return read_answer(command, progress.shown, duration_s=progress.elapsed_s)


class _Progress(Dialogue):
    """Output until the prompt; each complete line is reported."""

    def __init__(self, *, prompt_pattern: str, report: Callable[[str], None]) -> None:
        super().__init__(prompt_pattern=prompt_pattern)
        self._report = report
        self._reported_chars = 0
        self._pattern = re.compile(prompt_pattern)

    @property
    def shown(self) -> str:
        """Return the output without the prompt at its end."""
        found = list(self._pattern.finditer(self.text))
        return self.text[: found[-1].start()] if found else self.text

    def take(self, received: str) -> None:
        super().take(received)
        *whole, _ = self.text[self._reported_chars :].split("\n")
        for line in whole:
            self._reported_chars += len(line) + 1
            if line.strip() and not is_syslog(line):
                self._report(line.strip())


class OlderTrain(Struct, frozen=True, kw_only=True):
    """A device whose release has no command that only adds an image.

    Attributes:
        release: The running release.
        command: The command that its owner sends instead, with the image's path.
    """

    release: str
    command: str

    @property
    def reason(self) -> str:
        """Return why nothing is added, for a refusal."""
        return (
            f"expected a release that has 'install add', found {self.release}: what it has instead also switches what "
            "boots next, so it is not given"
        )

    @property
    def hint(self) -> str:
        """Return what the device's owner can do."""
        return f"The image stays on the flash. When its time has come, its owner gives: {self.command}"

    @property
    def note(self) -> str:
        """Return the note for a check before the copy."""
        return (
            f"nothing will be added: release {self.release} has no 'install add', and what it has instead also "
            f"switches what boots next. Its owner gives, when its time has come: {self.command}"
        )


def without_add(version: SoftwareVersion, path: str, *, knows_summary: bool = True) -> OlderTrain | None:
    """Return the train of a device that cannot only add an image; None if it can, or if that is unknown."""
    command = _command(version, path, knows_summary=knows_summary)
    return OlderTrain(release=version.release, command=command) if command else None


def _command(version: SoftwareVersion, path: str, *, knows_summary: bool) -> str:
    mode, numbers = mode_of(version), _numbers(version.release)
    if mode is Mode.BUNDLE and path.endswith(".tar"):
        return f"archive download-sw /leave-old-sw {path}"
    if mode is not Mode.INSTALL or numbers is None:
        return ""
    if version.members and numbers < _FIRST_OF_16:
        return f"software install file {path} switch {_all_of(version)}"
    if version.members and numbers < _FIRST_WITH_ADD:
        return f"request platform software package install switch all file {path} auto-copy"
    if not version.members and not knows_summary and numbers < _ALL_HAVE_ADD:
        return f"request platform software package expand file {path}"
    return ""


def _all_of(version: SoftwareVersion) -> str:
    numbers = [member.number for member in version.members]
    return f"{min(numbers)}-{max(numbers)}" if len(numbers) > 1 else str(numbers[0])


def _numbers(release: str) -> tuple[int, int, int] | None:
    found = _NUMBERS.match(release)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


STEP = "add"

ADD = Step(word=STEP, label="the device runs `install add` (`--add`)", doing="adding", record_field="added")

NOTHING_TO_ADD_TO = "nothing is added: it does not boot from packages"
"""Note before the copy to a device in bundle mode that is to add its image."""


class AddOutcome(StrEnum):
    """The outcome of adding an image.

    Attributes:
        ADDED: The device unpacked it; it is inactive.
        NOT_APPLICABLE: The device boots from image files.
    """

    ADDED = "added"
    ALREADY_ADDED = "already added"
    RUNS_IT = "runs it already"
    NOT_APPLICABLE = "does not apply"


class AddReport(Struct, frozen=True, kw_only=True):
    """The result of adding an image.

    Attributes:
        command: The command sent; empty if none.
        version: The version in `show install summary`, or None.
        lines: The device's lines that prove it.
        bytes_per_s: Speed of the add; None if not measured or too short to measure.
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
    notify: Callable[[str], None] = lambda _: None,
) -> AddReport:
    """Have a device add an image on its flash, which its hash has proven, unless that was done before.

    Args:
        session: An open session.
        path: The image on flash.
        release: The image's release, or None if unknown.
        size_bytes: Its size; without it no speed is reported.
        failed_before: Why the image may lack parts although it is listed as added, or None.
        notify: Receives the device's lines of progress.

    Raises:
        InstallRefused: The device does not add it now, its release has no command that only adds, another version is
            added, or this one is listed as added by a command that failed.
        InstallFailed: The device printed a failure, whatever its tables show, even if its session was lost then.
        OutputNotUnderstood: The device's state cannot be read, or it does not show the image after the command.
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
    answer = _run_add(session, session.platform.add_command(path), notify)
    report = judge(session.name, answer, before=state, after=read_software(session), release=release)
    if size_bytes is None or report.duration_s < MEASURABLE_S:
        return report
    return replace(report, bytes_per_s=size_bytes / report.duration_s)


def _run_add(session: DeviceSession, command: str, notify: Callable[[str], None]) -> InstallAnswer:
    """Send the command; output from before a lost session counts too."""
    printed: list[str] = []

    def take(line: str) -> None:
        printed.append(line)
        notify(line)

    try:
        return run_install(session, command, step=STEP, report=take)
    except (DeviceUnreachable, OutputNotUnderstood) as error:
        answer = read_answer(command, "\n".join(printed))
        if answer.outcome not in _FAILURES:
            raise
        raise InstallFailed(
            f"'{command}': {answer.words}; then {error.message}",
            host=session.name,
            step=STEP,
            hint=_HINTS[answer.outcome],
        ) from error


def already(state: SoftwareState, release: ImageRelease | None) -> AddReport | None:
    """Return the report of a device whose tables already have the image, or None. Pure."""
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
    """Return the refusal of a device that runs the release in another feature set, or None.

    No table of the device distinguishes the two.
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
    """Return the result of an add, by its output and by the device's tables afterwards. Pure.

    Raises:
        InstallRefused: The device did not add the image, and prints why.
        InstallFailed: It printed a failure, or shows a part of the image as added.
        OutputNotUnderstood: It printed success but does not show the image, or printed nothing known.
    """
    summary = after.answers[Topic.INSTALL]
    found = [each for each in after.versions("I") if each not in before.versions("I")]
    lacking = after.lacking(found[0], "I") if len(found) == 1 else ()
    # Without a release to compare, the version that appeared may have been added by others.
    is_expected = answer.outcome is InstallOutcome.DONE if release is None else release in map(release_in, found)
    # If the device prints a failure, a member may lack packages, whatever its tables show.
    may_be_done = answer.outcome in {InstallOutcome.DONE, InstallOutcome.UNKNOWN}
    if may_be_done and summary.is_read and len(found) == 1 and is_expected and not lacking:
        return AddReport(
            outcome=AddOutcome.ADDED,
            command=answer.command,
            version=found[0],
            lines=(*answer.lines, *_rows_of(after, found[0])),
            duration_s=answer.duration_s,
        )
    said = answer.words
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
    has_started = answer.outcome in _FAILURES or (found and not _is_refused_as_a_whole(answer))
    failure = InstallFailed if has_started else InstallRefused
    raise failure(f"'{answer.command}'{missing}: {said}{shown}", host=host, step=STEP, hint=_HINTS[answer.outcome])


def _rows_of(state: SoftwareState, version: str) -> tuple[str, ...]:
    return state.answers[Topic.INSTALL].lines_with(version)


def _is_refused_as_a_whole(answer: InstallAnswer) -> bool:
    """Return whether the device refused before it started: what appeared meanwhile was added by another operation."""
    pattern = next((pattern for known, pattern in _REFUSALS if known is answer.outcome), None)
    return pattern is not None and all(
        pattern.search(line) and not line.lstrip().startswith("[") for line in answer.lines
    )


_FAILURES = frozenset({InstallOutcome.FAILED, InstallOutcome.NO_SPACE})
"""The device had started: its tables may show an image that lacks parts."""

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
