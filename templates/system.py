"""Rows of what a device runs, boots next, and is made of."""

from __future__ import annotations

from templates.row import Row, row


@row
class Release(Row):
    """The release, as the first lines of `show version` print it; several lines may tell it."""

    family: str
    version: str


@row
class OperatingMode(Row):
    """`Autonomous`, or `Controller-Managed`: an SD-WAN controller configures the device."""

    mode: str


@row
class Processor(Row):
    """The line that tells model and memory, whoever made the device."""

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


@row
class RedundancyUnit(Row):
    """A supervisor of `show redundancy`: where it is, its state, and what it boots."""

    location: str
    state: str
    boot: str
    register: str


@row
class RedundancyState(Row):
    """`show redundancy states`: our state and the peer's."""

    mine: str
    peer: str
    mode: str
