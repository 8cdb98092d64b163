"""Install commands of IOS-XE: typed, followed to the prompt, said apart by what the device says; trains without them.

Facts
-----
* `SUCCESS` and `FAILED` are words, not outcomes: an add that is refused since the package is there already is FAILED,
  a removal that the user rejected is SUCCESS (genielibs, log of three C8000V). What holds is `show install summary`,
  which the callers read after it.
* An add of 850 MB took 76 s on a C8000V, with a minute of silence in it; Genie waits 900 s for any of these commands.
* The last line of a failed add need not have `install_add` in it: `FAILED: add_activate_commit /mnt/sd3/user/X ...`
  (public note of a C9200L).
* None of these commands is answered by us: each is given in the form that asks nothing. One that asks all the same is
  left, and the session with it.
* Trains without `install add` have commands that also switch what boots next: they are the owner's, and never given.
* Catalyst 3650 and 3850 with 3.x take an image apart by `software install file flash:X switch 1-N`: it rewrites
  `packages.conf`, from which each switch boots next.
* Switches with 16.5.1a and 16.6.1 have `request platform software package install switch all file flash:X auto-copy`
  (pyntc gives it to these; earlier 16.x are taken for the same); `show install summary` was seen from 16.6.6 on
  (genieparser).
* A router that boots from packages and knows no `show install summary` has `request platform software package expand
  file bootflash:X`, which puts a `packages.conf` beside them.
* Catalyst 2960, 3560 and 3750 and IE switches boot from a file; a `.tar` does not boot by being copied. `archive
  download-sw` takes it apart and names what is in it in the boot variable; `/leave-old-sw` keeps what was there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from flashferry.devices.dialogue import Dialogue, PromptWait, WaitLimits
from flashferry.devices.prompts import is_syslog
from flashferry.devices.session import DeviceSession
from tasks.software_state import Mode, mode_of
from templates.version import SoftwareVersion

TOTAL_LIMIT_S = 2400.0
"""No install command takes longer than 40 minutes; what is not over by then counts as not known."""

_LIMITS = WaitLimits(start_s=60.0, silence_s=900.0, total_s=TOTAL_LIMIT_S)
"""An install command may be silent while it unpacks an image; Genie waits as long."""

_SHOWN_LINES = 6

_NUMBERS = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
"""`03.06.05E`, `16.5.1a`, `16.4.20170410:165034` of a build of developers, `15.5(3)S` of a router with 3.16."""

_FIRST_WITH_ADD = (16, 6, 2)
_FIRST_OF_16 = (16, 0, 0)
_ALL_HAVE_ADD = (17, 0, 0)


class InstallOutcome(StrEnum):
    """What a device says became of an install command.

    Attributes:
        DONE: It reports success.
        ALREADY_ADDED: A package is there already, of whichever version.
        NO_SPACE: A file system has too little space.
        CONFIGURATION_MODIFIED: The running configuration is not saved.
        IN_PROGRESS: Another install operation is going on.
        PENDING_COMMIT: An activation waits for its commit.
        ISSU_IN_PROGRESS: An upgrade in service is going on.
        FAILED: It failed for a reason of its own.
        UNKNOWN: It printed nothing that we know.
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
"""The first that fits counts: what keeps a device from it outweighs what it says besides."""

_FAILED = re.compile(
    r"(?:^|\s)FAILED:|\bError:|^%|(?i:^\s*failed\b|^\s*\w+: failed on (?!\[\s*\])|^\s*\[\s*\w+\s*\].*\bfailed\b)",
    re.MULTILINE,
)
"""What says so for the whole, for a list of members that is not empty, or in the row of one (`[2] ...`)."""

_ADDED_VERSION = re.compile(r"^Image added\. Version: (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallAnswer:
    """What a device answered to an install command.

    Attributes:
        outcome: What it says became of it; only `show install summary` proves it.
        lines: Its lines that this rests on, as printed.
        duration_s: How long it took, in seconds.
        added_version: The version that it says was added, or None.
    """

    command: str
    outcome: InstallOutcome
    lines: tuple[str, ...]
    duration_s: float = 0.0
    added_version: str | None = None


def read_answer(command: str, text: str, *, duration_s: float = 0.0) -> InstallAnswer:
    """Return what an install command's output says; log lines may stand anywhere in it. Pure."""
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
    """Return the lines that the outcome rests on: those that say why not, or the last ones."""
    patterns = [pattern for known, pattern in _REFUSALS if known is outcome] or [_FAILED]
    why = tuple(line for line in lines if patterns[0].search(line) or _FAILED.search(line))
    if outcome in {InstallOutcome.DONE, InstallOutcome.UNKNOWN}:
        return lines[-_SHOWN_LINES:]
    return why[-_SHOWN_LINES:]


def run_install(
    session: DeviceSession, command: str, *, step: str, report: Callable[[str], None] = lambda _: None
) -> InstallAnswer:
    """Give an install command that asks nothing, and follow it to the prompt whatever the operator wants.

    Nothing is known that stops a device in the middle of it. `report` takes each new line of progress.

    Raises:
        OutputNotUnderstood: A limit was reached, or the device asks something. `show install summary` shows what became
            of
            it.
    """
    progress = _Progress(prompt_pattern=session.prompt_pattern, report=report)
    hint = f"Check with '{session.platform.commands.install_summary}' what became of it before anything else"
    wait = PromptWait(progress, command, _LIMITS, host=session.name, step=step, hint=hint)
    session.converse(command, progress, wait.check)
    return read_answer(command, progress.shown, duration_s=progress.elapsed_s)


class _Progress(Dialogue):
    """Output until the prompt; each line is reported as it is whole."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class OlderTrain:
    """A device whose release has no command that only adds an image.

    Attributes:
        release: The release that runs on it.
        command: What its owner gives instead, with the image's path.
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
        """Return what its owner can do."""
        return f"The image stays on the flash. When its time has come, its owner gives: {self.command}"

    @property
    def note(self) -> str:
        """Return the note for the time before the copy."""
        return (
            f"nothing will be added: release {self.release} has no 'install add', and what it has instead also "
            f"switches what boots next. Its owner gives, when its time has come: {self.command}"
        )


def without_add(version: SoftwareVersion, path: str, *, knows_summary: bool = True) -> OlderTrain | None:
    """Return the train of a device that cannot only add an image; None where it can, or that is not known."""
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
