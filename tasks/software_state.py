"""A device's software: what each member or supervisor runs and boots next, packages, stack, redundancy.

Facts
-----

* `show boot` prints a block per member on Catalyst 3850 and 9300, one for the active and one for the standby supervisor
  on ASR 1000, Catalyst 9400 and 9500, and `BOOT path-list` with a block per further member on 2960 and 3750. Only some
  show the register there; `show version` shows it everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from msgspec import Struct

from flashferry.devices.errors import DeviceRefused
from flashferry.devices.prompts import is_syslog
from flashferry.devices.session import DeviceSession
from flashferry.images.file_name import read_file_name
from flashferry.images.image_platform_match import platform_of
from templates.rows import (
    AbortTimer,
    BootVariable,
    ConfigRegister,
    InstalledPackage,
    IssuLine,
    ManualBoot,
    PackageFile,
    Privilege,
    RedundancyState,
    StackUnit,
    first,
    rows,
)
from templates.version import SoftwareVersion, parse_version

STANDBY = "standby"
"""Name of the other supervisor's place."""

_YES_OR_NO = {"yes": True, "no": False}


class Boot(Struct, frozen=True, kw_only=True):
    """What one member, or one supervisor, boots.

    Attributes:
        place: The member's number, `standby` for the other supervisor; empty for the device that answers.
        now: The boot variable that it was booted with, as printed; empty if none is set, None if not shown.
        next: The same from the next reload on.
        register: The configuration register as of the next reload, or None if not shown.
        manual: Whether ROMMON waits at the console, or None if not shown.
    """

    place: str
    now: str | None = None
    next: str | None = None
    register: str | None = None
    manual: bool | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """Return the files tried at the next reload, in order, for example `flash:packages.conf`."""
        return boot_files(self.next or "")

    @property
    def all_files(self) -> tuple[str, ...]:
        """Return the files that the variable names now or from the next reload on."""
        return tuple(dict.fromkeys((*boot_files(self.now or ""), *self.files)))


def boot_files(paths: str) -> tuple[str, ...]:
    """Return the files of a boot variable, in order: `bootflash:/x.bin,12;flash:y;` names two."""
    return tuple(path for one in paths.split(";") if (path := one.split(",")[0].strip()))


def boots(text: str, *, register: str | None = None) -> tuple[Boot, ...]:
    """Return what each member or supervisor boots; `register` is that of `show version`, for outputs without one."""
    variables, manuals = rows(BootVariable, text), rows(ManualBoot, text)
    registers = {row.standby: row.next or row.now for row in rows(ConfigRegister, text)}
    places = dict.fromkeys((row.switch, row.standby) for row in variables)
    found = []
    for switch, standby in places:
        own = {row.when: row.paths for row in variables if (row.switch, row.standby) == (switch, standby)}
        values = {row.value.lower() for row in manuals if (row.switch, row.standby) == (switch, standby)}
        both = own.get("")
        found.append(
            Boot(
                place=STANDBY if standby else switch,
                now=own.get("Current", both),
                next=own.get("next reload", both),
                register=registers.get(standby) or (None if standby else register),
                manual=_YES_OR_NO.get(next(iter(values))) if len(values) == 1 else None,
            )
        )
    return tuple(found)


ALL_RIGHTS = 15
"""The privilege level that may use every command."""

ASK_LIMIT_S = 60.0
"""Longest silence of one of these commands; `show issu state detail` waits for locks first."""


class Topic(Enum):
    """The subjects that a device is asked about."""

    VERSION = "version"
    INSTALL = "install"
    BOOT = "boot"
    STACK = "stack"
    REDUNDANCY = "redundancy"
    ISSU = "issu"
    PACKAGES = "packages"


class Outcome(Enum):
    """The outcome of a command.

    Attributes:
        EMPTY: It was accepted, and printed nothing.
        NOT_THERE: The platform does not have it.
        NOT_ASKED: It was not sent, since it means nothing in this mode.
        UNREADABLE: It was refused for another reason, or its output is not known.
    """

    READ = "read"
    EMPTY = "empty"
    NOT_THERE = "not there"
    NOT_ASKED = "not asked"
    UNREADABLE = "unreadable"


class Mode(Enum):
    """How a device boots.

    Attributes:
        INSTALL: From packages that `packages.conf` names.
        BUNDLE: From one image file.
        UNKNOWN: Not shown, or its members differ.
    """

    INSTALL = "install"
    BUNDLE = "bundle"
    UNKNOWN = "unknown"


class Issu(Enum):
    """Whether an in-service software upgrade is running.

    Attributes:
        GOING_ON: One is running, or waits to be committed.
        NOT_THERE: The platform has none, or prints nothing.
        UNKNOWN: The output is not known.
    """

    IDLE = "idle"
    GOING_ON = "going on"
    NOT_THERE = "not there"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A device's output for one command.

    Attributes:
        text: The output without log lines; if it was refused, the refusal.
    """

    command: str
    outcome: Outcome
    text: str = field(default="", repr=False)

    @property
    def is_read(self) -> bool:
        """Return whether it was read."""
        return self.outcome is Outcome.READ

    def lines_with(self, *parts: str) -> tuple[str, ...]:
        """Return the lines that contain one of some texts, without spaces at their ends."""
        return tuple(line.strip() for line in self.text.splitlines() if any(part in line for part in parts))


class SoftwareState(Struct, frozen=True, kw_only=True):
    """A device's software.

    Attributes:
        packages: The rows of `show install summary`; empty if not read.
        timer: The timer that restores the old image; None if not shown.
        boot: What each member or supervisor boots; empty if not read.
        units: The members of the stack; empty for a device that is not one, or if not read.
        redundancy: The two supervisors; None if not read.
        package_files: Names of the files that `packages.conf` of the active member names.
        answers: The device's output by topic.
    """

    version: SoftwareVersion
    mode: Mode
    packages: tuple[InstalledPackage, ...] = ()
    timer: AbortTimer | None = None
    boot: tuple[Boot, ...] = ()
    units: tuple[StackUnit, ...] = ()
    redundancy: RedundancyState | None = None
    issu: Issu = Issu.UNKNOWN
    package_files: tuple[str, ...] = ()
    answers: Mapping[Topic, Answer]

    @property
    def running_file(self) -> str | None:
        """Return the path that it booted from, such as `flash:packages.conf`, or None."""
        system, path = self.version.image_file_system, self.version.image_path
        return f"{system}:{path}" if system is not None and path is not None else None

    @property
    def is_stack(self) -> bool:
        """Return whether it consists of several switches, by any of its tables."""
        return len(self.units) > 1 or len(self.version.members) > 1

    @property
    def has_standby(self) -> bool:
        """Return whether it has another supervisor, or a standby switch."""
        return any(one.place == STANDBY for one in self.boot) or (
            self.redundancy is not None and self.redundancy.mode.casefold() != "simplex"
        )

    @property
    def encryption(self) -> str:
        """Return the restricted feature set that runs, `npe` or `ldpe`; empty for the full one."""
        software = platform_of(self.answers[Topic.VERSION].text, (), None).software
        names = (*self.package_files, self.running_file or "", software or "")
        return next((found for name in names if (found := read_file_name(name).encryption)), "")

    def versions(self, *states: str) -> tuple[str, ...]:
        """Return the versions of whole images in some states (`I`, `U`, `C`, `D` as printed), each once."""
        found = (row.version for row in self.packages if row.type == IMAGE and row.state in states)
        return tuple(dict.fromkeys(found))

    @property
    def install_places(self) -> tuple[str, ...]:
        """Return the members or supervisors whose packages are listed, each once."""
        return tuple(dict.fromkeys(place for row in self.packages for place in row.places))

    @property
    def unlisted_members(self) -> tuple[str, ...]:
        """Return the members of a stack whose packages are not listed."""
        numbers = (*(unit.number for unit in self.units), *(member.number for member in self.version.members))
        listed = self.install_places
        return tuple(dict.fromkeys(str(one) for one in numbers if str(one) not in listed)) if self.is_stack else ()

    def lacking(self, version: str, *states: str) -> tuple[str, ...]:
        """Return the members or supervisors that have a version of a whole image in none of some states."""
        rows_of_it = (row for row in self.packages if (row.type, row.version) == (IMAGE, version))
        having = {place for row in rows_of_it if row.state in states for place in row.places}
        return (*(place for place in self.install_places if place not in having), *self.unlisted_members)


IMAGE = "IMG"
"""The type of a row of `show install summary` that is a whole image, not a patch."""


def read_software(session: DeviceSession) -> SoftwareState:
    """Read what a device runs, boots and consists of, in a privileged session. Changes nothing."""
    commands = session.platform.commands
    printed = Answer(command="show version", outcome=Outcome.READ, text=_without_syslog(session.show_version()))
    version = parse_version(printed.text)
    answers = {Topic.VERSION: printed, Topic.INSTALL: Answer(command=commands.install_summary, outcome=_NOT_ASKED)}
    if mode_of(version) is not Mode.BUNDLE:
        answers[Topic.INSTALL] = asked(session, commands.install_summary)
    answers[Topic.BOOT] = asked(session, commands.boot)
    if answers[Topic.BOOT].outcome is Outcome.NOT_THERE:
        answers[Topic.BOOT] = asked(session, commands.boot_on_routers)
    answers[Topic.STACK] = asked(session, commands.stack)
    answers[Topic.REDUNDANCY] = asked(session, commands.redundancy)
    answers[Topic.ISSU] = asked(session, commands.issu)
    path = f"{version.image_file_system}:{version.image_path}"
    read = session.platform.read_command(path)
    answers[Topic.PACKAGES] = Answer(command=read, outcome=_NOT_ASKED)
    if mode_of(version) is Mode.INSTALL and path.endswith(".conf"):
        answers[Topic.PACKAGES] = asked(session, read)
    if any(one.outcome is Outcome.NOT_THERE for one in answers.values()) and not _may_give_all(session):
        answers = {topic: _not_for_this_user(one) for topic, one in answers.items()}
    return software_state(answers)


def asked(session: DeviceSession, command: str) -> Answer:
    """Return a device's output for a command, even if it refuses it."""
    try:
        text = session.ask(command, limit_s=ASK_LIMIT_S)
    except DeviceRefused as refused:
        outcome = Outcome.NOT_THERE if _CARET.search(refused.message) else Outcome.UNREADABLE
        return Answer(command=command, outcome=outcome, text=refused.message)
    text = _without_syslog(text)
    return Answer(command=command, outcome=Outcome.READ if text.strip() else Outcome.EMPTY, text=text)


def software_state(answers: Mapping[Topic, Answer]) -> SoftwareState:
    """Parse the outputs of a device; one that is not complete is marked as unreadable."""
    known = dict(answers)
    version = parse_version(known[Topic.VERSION].text if known[Topic.VERSION].is_read else "")
    for topic, is_whole in _WHOLE.items():
        one = known.get(topic)
        if one is not None and one.is_read and not is_whole(one.text, version):
            outcome = Outcome.UNREADABLE if one.text.strip() else Outcome.EMPTY
            known[topic] = replace(one, outcome=outcome)
    texts = {topic: one.text if one.is_read else "" for topic, one in known.items()}
    if not known[Topic.VERSION].is_read:
        version = parse_version("")
    return SoftwareState(
        version=version,
        mode=mode_of(version),
        packages=rows(InstalledPackage, texts[Topic.INSTALL]),
        timer=first(AbortTimer, texts[Topic.INSTALL]),
        boot=boots(texts[Topic.BOOT], register=_register(texts[Topic.VERSION])),
        units=rows(StackUnit, texts[Topic.STACK]),
        redundancy=first(RedundancyState, texts[Topic.REDUNDANCY]),
        issu=_issu(known[Topic.ISSU]),
        package_files=package_files(texts[Topic.PACKAGES]),
        answers=known,
    )


def mode_of(version: SoftwareVersion) -> Mode:
    """Return how a device boots, by its `show version`."""
    modes = {member.mode for member in version.members if member.mode}
    if len(modes) > 1:
        return Mode.UNKNOWN
    if version.install_mode:
        return Mode.INSTALL
    return Mode.BUNDLE if version.image_path else Mode.UNKNOWN


def package_files(text: str) -> tuple[str, ...]:
    """Return the names of the files in a `packages.conf`, each once."""
    return tuple(dict.fromkeys(row.file for row in rows(PackageFile, text)))


_NOT_ASKED = Outcome.NOT_ASKED

_CARET = re.compile(r"Invalid input detected|Unknown command")
"""The parser does not know the word; any other refusal may be about the user."""

_SUMMARY_HEAD = re.compile(r"^\s*\[[^\]]*\].*Package\(s\) Information")

_SUMMARY_REST = re.compile(
    r"\s*(?:|-{20,}|State \(St\): I - Inactive.*|C - Activated.*|Type\s+St\s+Filename/Version"
    r"|[A-Z]{3,8}\s+[IUCD]\s+\S.*)\s*"
)

_WITHOUT_TIMER = re.compile(r"16\.[1-6](?:\D|$)")
"""Releases that print no line about the timer: 16.6 was seen; for earlier ones no timer is documented."""

_HEADER = re.compile(r"Load for five secs: |Time source is ")
"""What `terminal exec prompt timestamp` prints before every output."""

_STACK_ROW = re.compile(r"\s*\*?\s*\d+\s+[A-Z]\w*\s+[0-9a-fA-F]{4}\.")


def _may_give_all(session: DeviceSession) -> bool:
    try:
        found = first(Privilege, session.ask(session.platform.commands.privilege))
    except DeviceRefused:
        return False
    return found is not None and found.level >= ALL_RIGHTS


def _not_for_this_user(answer: Answer) -> Answer:
    return replace(answer, outcome=Outcome.UNREADABLE) if answer.outcome is Outcome.NOT_THERE else answer


def _without_syslog(text: str) -> str:
    kept = (line for line in text.splitlines() if not _HEADER.match(line))
    return "\n".join(line for line in kept if not line.strip() or not is_syslog(line))


def _register(version: str) -> str | None:
    row = first(ConfigRegister, version)
    return (row.next or row.now) if row is not None else None


def _issu(answer: Answer) -> Issu:
    if answer.outcome in {Outcome.NOT_THERE, Outcome.EMPTY}:
        return Issu.NOT_THERE
    found = rows(IssuLine, answer.text) if answer.is_read else ()
    if any(row.slot or row.operation for row in found):
        return Issu.GOING_ON
    states = {row.state.casefold() for row in found if row.state}
    if states:
        return Issu.IDLE if states == {"init"} else Issu.GOING_ON
    return Issu.IDLE if any(row.idle for row in found) else Issu.UNKNOWN


def _is_version(_: str, version: SoftwareVersion) -> bool:
    return bool(version.release)


def _is_summary(text: str, version: SoftwareVersion) -> bool:
    """Return whether a summary is complete: only lines that belong there, the timer's line at the end."""
    lines = [line for line in text.splitlines() if line.strip()]
    timers = rows(AbortTimer, text)
    if not lines or not _SUMMARY_HEAD.match(lines[0]) or not rows(InstalledPackage, text) or len(timers) > 1:
        return False
    strange = [line for line in lines if not (_SUMMARY_HEAD.match(line) or _SUMMARY_REST.fullmatch(line))]
    if timers:
        return len(strange) == 1 and "Auto abort timer" in strange[0] and strange[0] in lines[-2:]
    return not strange and _WITHOUT_TIMER.match(version.release) is not None


def _is_boot(text: str, _: SoftwareVersion) -> bool:
    return bool(boots(text))


def _is_stack(text: str, _: SoftwareVersion) -> bool:
    """Return whether every row that starts like a member's is one, with one active among them."""
    units = rows(StackUnit, text)
    starting = sum(1 for line in text.splitlines() if _STACK_ROW.match(line))
    numbers = {unit.number for unit in units}
    return len(units) == starting == len(numbers) and sum(1 for unit in units if unit.active) == 1


def _is_redundancy(text: str, _: SoftwareVersion) -> bool:
    found = first(RedundancyState, text)
    return found is not None and bool(found.peer and found.mode)


def _is_packages(text: str, _: SoftwareVersion) -> bool:
    return bool(rows(PackageFile, text))


_WHOLE = {
    Topic.VERSION: _is_version,
    Topic.INSTALL: _is_summary,
    Topic.BOOT: _is_boot,
    Topic.STACK: _is_stack,
    Topic.REDUNDANCY: _is_redundancy,
    Topic.PACKAGES: _is_packages,
}
"""By topic: whether an output is complete."""
