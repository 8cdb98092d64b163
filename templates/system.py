"""Rows of what a device runs, boots next, and is made of."""

from __future__ import annotations

from templates.row import Row, row


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
