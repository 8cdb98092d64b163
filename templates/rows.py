"""Typed rows of device output.

Each row class has a TextFSM template of its name (`CopyResult`: `copy_result.textfsm`), for output that ntc-templates
lacks or does not parse on every release.
"""

from __future__ import annotations

import io
import re
from collections import deque
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar, dataclass_transform, get_type_hints

import textfsm


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One record of a TextFSM template of the same name; the fields are its values."""


RowT = TypeVar("RowT", bound=Row)
_kinds: list[type[Row]] = []


@dataclass_transform(frozen_default=True, kw_only_default=True)
def row(kind: type[RowT]) -> type[RowT]:
    """Register a row class and make it a frozen dataclass (class decorator).

    Field types are `str`, `int`, `float`, or `tuple[str, ...]` for a `List` value of the template.
    """
    made = dataclass(frozen=True, slots=True, kw_only=True)(kind)
    _kinds.append(made)
    return made


def template_name(kind: type[Row]) -> str:
    """Return the template's name: `copy_result.textfsm` for `CopyResult`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


def row_kinds() -> tuple[type[Row], ...]:
    """Return all row classes; for tests and documentation."""
    return tuple(_kinds)


def rows(kind: type[RowT], output: str) -> tuple[RowT, ...]:
    """Parse device output, with CR LF or LF, into all rows of a class, in order.

    Raises:
        ValueError: A matched text does not fit the field's type, which is a defect of the template.
    """
    fields, idle = _parsers_of(kind)  # type: ignore[arg-type] # a class is hashable, its rows are not asked
    try:
        machine = idle.pop()
    except IndexError:
        machine = _compiled(kind)
    machine.Reset()
    parsed = machine.ParseText(output.replace("\r", "\n").replace("\0", ""))
    found = tuple(
        kind(**{name: _value(hint, value) for (name, hint), value in zip(fields, record, strict=True)})
        for record in parsed
    )
    idle.append(machine)
    return found


def first(kind: type[RowT], output: str) -> RowT | None:
    """Return the first row of a class, or None."""
    found = rows(kind, output)
    return found[0] if found else None


def last(kind: type[RowT], output: str) -> RowT | None:
    """Return the last row of a class, or None."""
    found = rows(kind, output)
    return found[-1] if found else None


MOST_IDLE = 4
"""Parsers of a template that are kept: one is in use by one thread at a time, and few threads parse at once."""


@cache
def _parsers_of(kind: type[Row]) -> tuple[tuple[tuple[str, Any], ...], deque[textfsm.TextFSM]]:
    """Return the fields of a row class in template order, and its idle parsers: compiling costs more than parsing."""
    machine, types = _compiled(kind), get_type_hints(kind)
    names = (name.lower() for name in machine.header)
    return tuple((name, types[name]) for name in names), deque((machine,), MOST_IDLE)


def _compiled(kind: type[Row]) -> textfsm.TextFSM:
    return parser_of(_source(template_name(kind)))


def parser_of(template: str) -> textfsm.TextFSM:
    """Return a new parser by the text of a template."""
    machine = textfsm.TextFSM(io.StringIO(template))
    for rule in (one for state in machine.states.values() for one in state):
        # TextFSM's wrapper only allows copies; a stage tries 2,000 rules per device, each by one more call.
        rule.regex_obj = rule.regex_obj.regex
    return machine


def _value(kind: Any, found: str | list[str]) -> object:
    if isinstance(found, list):
        return tuple(found)
    return kind(found)


@cache
def _source(template: str) -> str:
    return (files("templates") / f"{template}.textfsm").read_text(encoding="utf-8")


# Configuration, privileges and locks


@row
class IpTcp(Row):
    """A global `ip tcp` line; `negated` is `no` if the configuration has the line with `no`, else empty."""

    negated: str
    keyword: str
    value: str


@row
class ConfigStamp(Row):
    """A timestamp comment at the top of a configuration.

    `event` is `Last configuration change` or `NVRAM config last updated`.
    """

    event: str
    time: str
    zone: str
    date: str
    user: str


@row
class Unchanged(Row):
    """The comment at the top of a configuration that was not changed since boot."""

    text: str


@row
class VrfDefinition(Row):
    """A VRF that the configuration defines, as `vrf definition` or `ip vrf`."""

    name: str


@row
class PkiTrustpoint(Row):
    """A trustpoint that the configuration defines: a trusted certificate authority, or a self-signed one."""

    name: str


@row
class CommandAuthorization(Row):
    """An `aaa authorization` line: a server or the device authorizes each command."""

    scope: str
    methods: str


@row
class LoweredCommand(Row):
    """A `privilege exec` line that moves a command to another privilege level."""

    level: int
    command: str


@row
class LoweredLine(Row):
    """A `privilege configure` line that moves a configuration command to another privilege level."""

    level: int
    command: str


@row
class ExclusiveMode(Row):
    """The line `configuration mode exclusive`: the device has a configuration lock."""

    text: str


@row
class ArchiveSection(Row):
    """The line `archive`: configurations are archived, so a rollback may be pending."""

    text: str


@row
class Privilege(Row):
    """The privilege level of the session, 0 to 15."""

    level: int


@row
class Refusal(Row):
    """An error line by which IOS refuses a command."""

    text: str


@row
class ConfigLock(Row):
    """The exclusive configuration lock; `state` is LOCKED or FREE."""

    user: str
    tty: str
    type: str
    state: str
    cause: str


@row
class SessionLock(Row):
    """The lock of a session that has exclusive configuration mode."""

    tty: str
    user: str


@row
class RollbackTimer(Row):
    """A pending rollback, which reverts all configuration changes made since the timer was started."""

    configured: str
    kind: str
    value: str
    user: str


@row
class ArchiveEntry(Row):
    """A configuration in `show archive`; `newest` is `Most Recent` or empty."""

    number: int
    path: str
    newest: str


@row
class ConfigDifference(Row):
    """A line of `show archive config differences`; `sign` is `+` or `-`."""

    sign: str
    line: str


@row
class NoDifference(Row):
    """The line in `show archive config differences` that two configurations are equal."""

    text: str


# `copy` and `verify`


@row
class CopyResult(Row):
    """The line `N bytes copied in S secs (R bytes/sec)`; measured by the device, flash writing included."""

    size_bytes: int
    duration_s: float
    rate_bytes_per_s: int


@row
class CopyError(Row):
    """A line `%Error opening ftp://... (reason)`, of our copy or of another process."""

    verb: str
    subject: str
    reason: str


@row
class SshNoMatch(Row):
    """A log line: client and server have no common algorithm. `what` is kex, cipher, mac ..."""

    what: str
    client: str
    server: str


@row
class SshAborted(Row):
    """A line `[Connection to 192.0.2.1 aborted: error status 0]`, printed when the device is the SSH client."""

    peer: str
    status: int


@row
class VerifyDigest(Row):
    """The digest that the device computed; `file` is empty if the release does not print it."""

    file: str
    digest: str


@row
class VerifyError(Row):
    """An error line of `verify`: why a digest could not be computed."""

    verb: str
    subject: str
    reason: str


@row
class ImageHash(Row):
    """A hash printed by `verify`; `origin` is Embedded, Computed or CCO. A SHA2 hash spans several lines."""

    origin: str
    algorithm: str
    digest: tuple[str, ...]


@row
class SignatureVerified(Row):
    """A line that says the image was accepted. `by`: its signature, or only the hash embedded in it."""

    by: str
    file: str


@row
class SignatureRefused(Row):
    """A line that says the image was rejected."""

    reason: str


# File systems


_NAME = re.compile(r"[^\s:#]+:")


@row
class DirTotals(Row):
    """The last line of `dir`, with size and free space of the file system."""

    total_bytes: int
    free_bytes: int


@row
class DirFile(Row):
    """A file or directory in `dir`; a directory's permissions start with `d`. `modified` as printed, or empty."""

    permissions: str
    size_bytes: int
    modified: str
    name: str


@row
class DirError(Row):
    """An error line of `dir`."""

    subject: str
    reason: str


@row
class FileSystem(Row):
    """A file system in `show file systems`; `size` and `free` are digits or `-`, `prefixes` as printed."""

    default: str
    size: str
    free: str
    type: str
    flags: str
    prefixes: str

    @property
    def names(self) -> tuple[str, ...]:
        """Return its names with colons, without the mark `#` for bootable; the output may lack spaces."""
        return tuple(_NAME.findall(self.prefixes))


# Software, boot settings and hardware


@row
class Release(Row):
    """The release in the first lines of `show version`; several lines can contain one."""

    family: str
    version: str


@row
class OperatingMode(Row):
    """Operating mode: `Autonomous`, or `Controller-Managed` if an SD-WAN controller configures the device."""

    mode: str


@row
class Processor(Row):
    """The line of `show version` with model and memory, from any vendor."""

    model: str


@row
class ImageLine(Row):
    """The file that the device booted from."""

    file_system: str
    path: str


@row
class StackMember(Row):
    """A switch of a stack in `show version`; `active` is `*`, `mode` INSTALL, BUNDLE or empty."""

    active: str
    number: int
    model: str
    version: str
    mode: str


@row
class BootVariable(Row):
    """The boot variable; `paths` are the images to boot, separated by `;`, empty if not set.

    `switch` is the member's number or empty; `when` is `Current`, `next reload` or empty; `standby` is `Standby` for
    the other supervisor; `variable` is `variable`, or `path-list` on older switches.
    """

    switch: str
    when: str
    standby: str
    variable: str
    paths: str


@row
class ConfigRegister(Row):
    """The configuration register, and its value after the next reload if that differs."""

    standby: str
    now: str
    next: str


@row
class InstalledPackage(Row):
    """A row of `show install`; `state` is I, U, C or D (inactive, uncommitted, committed, deactivated)."""

    location: str
    type: str
    state: str
    version: str

    @property
    def places(self) -> tuple[str, ...]:
        """Return its locations: `R0`, `R1`, numbers of switches, or `1/R0` of a chassis."""
        return tuple(self.location.removeprefix("Switch ").removeprefix("Chassis ").split())


@row
class AbortTimer(Row):
    """The timer of `install` that rolls back to the old image; `state` is active or inactive, `left` the time left."""

    state: str
    after: str
    left: str


@row
class PackageFile(Row):
    """A file that `packages.conf` names, in the same folder."""

    kind: str
    slot: str
    name: str
    file: str


@row
class ManualBoot(Row):
    """Manual boot: whether a restart stops at ROMMON's prompt, `yes` or `no`, per member or supervisor."""

    switch: str
    standby: str
    value: str


@row
class StackUnit(Row):
    """A switch of a stack in `show switch`; `active` is `*`, `state` is `Ready` if it is part of the stack."""

    active: str
    number: int
    role: str
    mac: str
    priority: int
    hardware: str
    state: str


@row
class IssuLine(Row):
    """A line of `show issu state detail` (in-service upgrade); one field per row is set."""

    idle: str
    slot: str
    operation: str
    state: str


@row
class RedundancyState(Row):
    """Redundancy in `show redundancy states`: states of this supervisor and its peer."""

    mine: str
    peer: str
    mode: str
