"""Device output to typed rows.

Each kind of row has a TextFSM template of its name (`CopyResult`: `copy_result.textfsm`). These are the outputs that
ntc-templates lacks or does not read on every release; for the rest use ntc-templates (`show users`, `show inventory`,
...).
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
    """One record of a template; the template is named after the class, its values after the fields."""


RowT = TypeVar("RowT", bound=Row)

_kinds: list[type[Row]] = []


@dataclass_transform(frozen_default=True, kw_only_default=True)
def row(kind: type[RowT]) -> type[RowT]:
    """Make a class a kind of row: a frozen value whose fields are the values of its template.

    A field is `str`, `int` or `float`; a `tuple[str, ...]` takes a template's `List`.
    """
    made = dataclass(frozen=True, slots=True, kw_only=True)(kind)
    _kinds.append(made)
    return made


def template_name(kind: type[Row]) -> str:
    """Return the name of a kind's template: `CopyResult` is read by `copy_result.textfsm`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


def row_kinds() -> tuple[type[Row], ...]:
    """Return all row classes, for tests and documentation."""
    return tuple(_kinds)


def rows(kind: type[RowT], output: str) -> tuple[RowT, ...]:
    """Return every row of a kind in a device's output, in order; none where there is none.

    Args:
        kind: A row class of this module.
        output: Device output; CR LF and LF are both taken.

    Raises:
        ValueError: The template caught something that its field's type does not hold; a fault of ours.
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
    """Return the first row of a kind, or None."""
    found = rows(kind, output)
    return found[0] if found else None


def last(kind: type[RowT], output: str) -> RowT | None:
    """Return the last row of a kind, or None."""
    found = rows(kind, output)
    return found[-1] if found else None


_MOST_IDLE = 4
"""Parsers of a template that are kept: one is in use by one thread at a time, and few threads parse at once."""


@cache
def _parsers_of(kind: type[Row]) -> tuple[tuple[tuple[str, Any], ...], deque[textfsm.TextFSM]]:
    """Return a row's fields in the order of its template, and its idle parsers: compiling costs more than parsing."""
    machine, types = _compiled(kind), get_type_hints(kind)
    names = (name.lower() for name in machine.header)
    return tuple((name, types[name]) for name in names), deque((machine,), _MOST_IDLE)


def _compiled(kind: type[Row]) -> textfsm.TextFSM:
    return textfsm.TextFSM(io.StringIO(_source(template_name(kind))))


def _value(kind: Any, found: str | list[str]) -> object:
    if isinstance(found, list):
        return tuple(found)
    return kind(found)


@cache
def _source(template: str) -> str:
    return (files("templates") / f"{template}.textfsm").read_text(encoding="utf-8")


# The configuration, and who may change it


@row
class IpTcp(Row):
    """A global `ip tcp` line; `negated` is `no` where the configuration says so explicitly."""

    negated: str
    keyword: str
    value: str


@row
class ConfigStamp(Row):
    """A stamp on top of a configuration: `event` is `Last configuration change` or `NVRAM config last updated`."""

    event: str
    time: str
    zone: str
    date: str
    user: str


@row
class Unchanged(Row):
    """The stamp of a configuration that was not changed since the device started."""

    text: str


@row
class VrfDefinition(Row):
    """A VRF that the configuration defines, in the new form or the old one (`ip vrf`)."""

    name: str


@row
class PkiTrustpoint(Row):
    """A trustpoint that the configuration defines: a certificate authority that the device trusts, or itself."""

    name: str


@row
class CommandAuthorization(Row):
    """An `aaa authorization` line by which a server or the device decides about each command."""

    scope: str
    methods: str


@row
class LoweredCommand(Row):
    """A command that a `privilege exec` line gives to a lower level."""

    level: int
    command: str


@row
class LoweredLine(Row):
    """A configuration line that a `privilege configure` line gives to a lower level."""

    level: int
    command: str


@row
class ExclusiveMode(Row):
    """`configuration mode exclusive`: there is a configuration lock to ask about."""

    text: str


@row
class ArchiveSection(Row):
    """`archive`: configurations are kept, so that a rollback may be pending."""

    text: str


@row
class Privilege(Row):
    """The privilege level of the session, 0 to 15."""

    level: int


@row
class Refusal(Row):
    """A line with which IOS refuses a command."""

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
    """An access-session lock of a user who configures exclusively."""

    tty: str
    user: str


@row
class RollbackTimer(Row):
    """A pending rollback: when it is due all configuration changes since it was armed are taken back."""

    configured: str
    kind: str
    value: str
    user: str


@row
class ArchiveEntry(Row):
    """A configuration that `show archive` lists; `newest` is `Most Recent` or empty."""

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
    """The line that says that two configurations are equal."""

    text: str


# `copy` and `verify`


@row
class CopyResult(Row):
    """The line `N bytes copied in S secs (R bytes/sec)`; the device's own clock, flash writing included."""

    size_bytes: int
    duration_s: float
    rate_bytes_per_s: int


@row
class CopyError(Row):
    """A line `%Error opening ftp://... (reason)`, of our copy or of another job."""

    verb: str
    subject: str
    reason: str


@row
class SshNoMatch(Row):
    """The log line that says that client and server have no algorithm in common: `what` is kex, cipher, mac ..."""

    what: str
    client: str
    server: str


@row
class SshAborted(Row):
    """A line `[Connection to 192.0.2.1 aborted: error status 0]`, seen when the device is the SSH client."""

    peer: str
    status: int


@row
class VerifyDigest(Row):
    """The digest the device computed; `file` is empty where the release does not repeat it."""

    file: str
    digest: str


@row
class VerifyError(Row):
    """Why a digest could not be computed."""

    verb: str
    subject: str
    reason: str


@row
class ImageHash(Row):
    """A hash that plain `verify` prints: `origin` is Embedded, Computed or CCO; SHA2 goes over several lines."""

    origin: str
    algorithm: str
    digest: tuple[str, ...]


@row
class SignatureVerified(Row):
    """A line with which the device accepts an image; `by` says why: its signature, or its own hash only."""

    by: str
    file: str


@row
class SignatureRefused(Row):
    """A line with which the device rejects an image."""

    reason: str


# File systems


_NAME = re.compile(r"[^\s:#]+:")


@row
class DirTotals(Row):
    """The last line of `dir`."""

    total_bytes: int
    free_bytes: int


@row
class DirFile(Row):
    """One file or directory (permissions begin with `d`) of `dir`; `modified` as printed, empty where it has none."""

    permissions: str
    size_bytes: int
    modified: str
    name: str


@row
class DirError(Row):
    """Why `dir` could not list."""

    subject: str
    reason: str


@row
class FileSystem(Row):
    """One row of `show file systems`; `size` and `free` are digits or `-`, `prefixes` as printed."""

    default: str
    size: str
    free: str
    type: str
    flags: str
    prefixes: str

    @property
    def names(self) -> tuple[str, ...]:
        """Return its names with their colons; `#` behind one (bootable) is none of it, and blanks may be missing."""
        return tuple(_NAME.findall(self.prefixes))


# What a device runs, boots next, and is made of


@row
class Release(Row):
    """The release, as the first lines of `show version` print it; several lines may have it."""

    family: str
    version: str


@row
class OperatingMode(Row):
    """`Autonomous`, or `Controller-Managed`: an SD-WAN controller configures the device."""

    mode: str


@row
class Processor(Row):
    """The line with model and memory, of any maker."""

    model: str


@row
class ImageLine(Row):
    """The file that the device was started from."""

    file_system: str
    path: str


@row
class StackMember(Row):
    """A switch of a stack by `show version`; `active` is `*`, `mode` INSTALL, BUNDLE or empty."""

    active: str
    number: int
    model: str
    version: str
    mode: str


@row
class BootVariable(Row):
    """What is to be booted: `paths` with `;` between them, empty where nothing is set.

    `switch` is the member's number or empty, `when` is `Current`, `next reload` or empty, `standby` is `Standby` for
    the other supervisor; `variable` is `variable`, or `path-list` on older switches.
    """

    switch: str
    when: str
    standby: str
    variable: str
    paths: str


@row
class ConfigRegister(Row):
    """The configuration register now, and from the next reload on where that differs."""

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
        """Return where it is, one by one: `R0`, `R1`, or the numbers of switches; `1/R0` of a chassis."""
        return tuple(self.location.removeprefix("Switch ").removeprefix("Chassis ").split())


@row
class AbortTimer(Row):
    """The timer that brings the old image back: `state` is active or inactive, `left` how long it runs yet."""

    state: str
    after: str
    left: str


@row
class PackageFile(Row):
    """A file that `packages.conf` names, beside which it lies."""

    kind: str
    slot: str
    name: str
    file: str


@row
class ManualBoot(Row):
    """Whether a restart stops at ROMMON's prompt: `yes` or `no`, per member or supervisor."""

    switch: str
    standby: str
    value: str


@row
class StackUnit(Row):
    """A switch of a stack by `show switch`; `active` is `*`, `state` is `Ready` where it takes part."""

    active: str
    number: int
    role: str
    mac: str
    priority: int
    hardware: str
    state: str


@row
class IssuLine(Row):
    """What `show issu state detail` says of an upgrade in service: one of these per row, the others empty."""

    idle: str
    slot: str
    operation: str
    state: str


@row
class RedundancyState(Row):
    """`show redundancy states`: our state and the peer's."""

    mine: str
    peer: str
    mode: str
