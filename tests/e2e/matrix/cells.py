"""Cells of the matrix: which are run in CI, with which router each, and what is handed to the processes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.e2e.matrix import faults, points
from tests.e2e.matrix.faults import FAULTS, HTTPS, NO_FAULT, PUSH, SCP_SERVER, SSH_TRANSPORTS, Fault
from tests.e2e.matrix.points import ALL_POINTS, APPLET, MEMBERS, PACKAGES, KillPoint

IMAGE_NAME = "image.bin"
RELEASE_NAME = "image.17.15.03.SPA.bin"
RELEASE = "17.15.03"
OLD_WINDOW = "ip tcp window-size 8000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a cell's router is at the start."""

    platform: str
    config_lines: tuple[str, ...]
    trusts_us: bool = False


STARTS = (
    Start(platform="csr1000v-16.11", config_lines=()),
    Start(platform="isr4321-16.6", config_lines=(OLD_WINDOW,)),
    Start(platform="iosv-15.8", config_lines=(OLD_WINDOW, "ip tcp path-mtu-discovery")),
)
"""No line, a line with another value, and a line that we have nothing to do with."""

SSH_STARTS = (
    Start(platform="c8000v-17.15", config_lines=()),
    Start(platform="isr4321-16.6", config_lines=(OLD_WINDOW, "ip ssh window-size 9000")),
    Start(platform="c9300-17.6", config_lines=("ip ssh bulk-mode 140000",)),
)
"""For copies by SSH: a channel's window that the stock configuration has a line for, one of the other command, and one
with another value."""

PUSH_STARTS = (*SSH_STARTS[:2], Start(platform="c9300-17.6", config_lines=(SCP_SERVER, "ip ssh bulk-mode 140000")))
"""For a push: a device whose SCP server somebody switched on is among them, where it must stay on."""

HTTPS_STARTS = (
    Start(platform="c8000v-17.15", config_lines=(), trusts_us=True),
    Start(platform="isr4321-16.6", config_lines=(OLD_WINDOW,), trusts_us=True),
    Start(platform="csr1000v-16.11", config_lines=(OLD_WINDOW, "ip tcp path-mtu-discovery"), trusts_us=True),
)
"""For copies by HTTPS: with the authority of our certificate in a trustpoint, which is none of our lines."""

MEMBER_STARTS = (
    Start(platform="c9300-bundle-17.6", config_lines=()),
    Start(platform="asr1006-dual-16.3", config_lines=(OLD_WINDOW, "boot system bootflash:/asr1000rpx.bin")),
)
"""For what is handed on: a stack of three, and two processors; each boots what is there."""

ADD_STARTS = (
    STARTS[0],
    Start(platform="c8000v-17.15", config_lines=(OLD_WINDOW,)),
    Start(platform="c9300-17.6", config_lines=(OLD_WINDOW, "ip tcp path-mtu-discovery")),
)
"""For what is added: two routers and a stack, all in install mode."""
ALL_STARTS = (*STARTS, *SSH_STARTS, PUSH_STARTS[-1], *HTTPS_STARTS, *MEMBER_STARTS, *ADD_STARTS[1:])

_NEEDS = ("", APPLET, MEMBERS, PACKAGES)
_PLACES = {point.name: place for place, point in enumerate(sorted(ALL_POINTS, key=lambda one: _NEEDS.index(one.needs)))}
"""Each kill point's, those of few columns behind the others: a point more leaves other cells their routers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A kill point with a fault."""

    point: KillPoint
    fault: Fault

    @property
    def name(self) -> str:
        """Return the name that the command line takes."""
        return f"{self.point.name} x {self.fault.name}"

    @property
    def start(self) -> Start:
        """Return the router at the start; each kill point and each fault meets all kinds."""
        place = _PLACES[self.point.name] + FAULTS.index(self.fault)
        return self.starts[place % len(self.starts)]

    @property
    def starts(self) -> tuple[Start, ...]:
        """Return the routers that the cell's column meets."""
        if self.fault.transport == PUSH:
            return PUSH_STARTS
        if self.fault.transport == HTTPS:
            return HTTPS_STARTS
        if self.fault.goes_on:
            return ADD_STARTS if self.fault.adds else MEMBER_STARTS
        return SSH_STARTS if self.fault.transport in SSH_TRANSPORTS else STARTS

    @property
    def image_name(self) -> str:
        """Return the name of the image; where packages or members are asked about, it tells a release."""
        return RELEASE_NAME if self.fault.goes_on else IMAGE_NAME


ALL_CELLS = tuple(
    Cell(point=point, fault=fault) for fault in FAULTS for point in ALL_POINTS if point.needs in fault.has
)
"""A row of a step that a column does not have is no cell of it."""

_MOST_TELLING = {
    "second kill": ("tune.done", "pull.most", "restore.mode"),
    "SSH lost": ("none", "pull.asked", "pull.quarter", "restore.between"),
    "copy goes on": ("none", "pull.most", "verify.asked"),
    "part stays": ("none", "pull.quarter"),
    "reboot": ("none", "pull.quarter", "restore.proof"),
    "full flash": ("none", "pull.quarter"),
    "refused line": ("none", "tune.between", "restore.mode"),
    "ignored line": ("none", "tune.reread"),
    "undo refused": ("tune.done", "pull.asked", "restore.leaving"),
    "locked": ("tune.mode", "pull.started", "restore.started"),
    "foreign line": ("none", "snapshot.done", "pull.most", "lease.ended"),
    "foreign value": ("none", "tune.mode", "verify.asked", "record.kept"),
    "foreign save": ("none", "tune.between", "restore.mode"),
    "save, reboot": ("none", "tune.done"),
    "stall": ("none", "pull.started"),
    "no server": ("none", "pull.asked"),
    "wrong hash": ("none", "verify.asked"),
    "by HTTP": ("none", "tune.between", "pull.asked", "pull.most", "restore.between"),
    "by SCP": (
        "none",
        "tune.mode",
        "tune.between",
        "tune.done",
        "pull.asked",
        "pull.most",
        "restore.between",
        "restore.mark",
    ),
    "by SFTP": ("none", "tune.leaving", "pull.quarter", "restore.leaving"),
    "by HTTPS": ("none", "tune.between", "pull.asked", "pull.most", "restore.between"),
    "by push": (
        "none",
        "tune.between",
        "tune.leaving",
        "pull.started",
        "pull.asked",
        "pull.quarter",
        "pull.most",
        "pull.done",
        "restore.mode",
        "restore.leaving",
        "restore.proof",
    ),
    "dead-man": (
        "none",
        "dead-man.started",
        "dead-man.body",
        "dead-man.last",
        "dead-man.proof",
        "dead-man.done",
        "tune.between",
        "pull.quarter",
        "restore.between",
        "restore.mark",
    ),
    "applet fires": ("none", "dead-man.body", "dead-man.done", "tune.leaving", "pull.quarter", "restore.between"),
    "save, armed": ("none", "dead-man.proof", "pull.quarter"),
    "no EEM": ("none", "dead-man.done", "pull.most"),
    "members": (
        "none",
        "lease.ended",
        "distribute.started",
        "distribute.asked",
        "distribute.half",
        "distribute.hash",
        "distribute.between",
        "distribute.again",
        "distribute.done",
    ),
    "member leaves": ("none", "distribute.half"),
    "add": ("none", "add.started", "add.before", "add.sent", "add.going", "add.behind", "add.done"),
    "no room to add": ("none", "add.going"),
    "removed in copy": ("none", "verify.asked"),
    "removed before add": ("none", "add.behind"),
    "removed after add": ("none", "record.kept"),
}
"""CI's minutes are few: the other cells are for `make matrix`."""


def _telling(fault: Fault) -> tuple[Cell, ...]:
    if fault is NO_FAULT:
        return tuple(Cell(point=point, fault=fault) for point in ALL_POINTS if point.needs in fault.has)
    return tuple(Cell(point=points.BY_NAME[name], fault=fault) for name in _MOST_TELLING[fault.name])


CI_CELLS = tuple(cell for fault in FAULTS for cell in _telling(fault))
"""Every kill point without a fault, every fault without a kill, and of the rest what is most telling."""


def named(name: str) -> Cell:
    """Return the cell of a name, as `Cell.name` gives it.

    Raises:
        KeyError: There is no such kill point or fault.
    """
    point, _, fault = name.partition(" x ")
    return Cell(point=points.BY_NAME[point], fault=faults.BY_NAME[fault])


GATE_CELLS = tuple(
    Cell(point=points.BY_NAME[point], fault=faults.BY_NAME[fault])
    for point, fault in (
        ("tune.done", "second kill"),
        ("dead-man.proof", "dead-man"),
        ("pull.quarter", "applet fires"),
        ("pull.quarter", "by push"),
        ("pull.most", "none"),
        ("verify.asked", "foreign value"),
        ("restore.mode", "foreign save"),
        ("restore.between", "none"),
    )
)
"""What `make test` plays: a kill in each step that leaves lines of ours, a push, an applet, a colleague."""

_WAITS = ("undo refused", "locked", "stall", "no server")


def slowest_first(cells: tuple[Cell, ...]) -> list[Cell]:
    """Return cells in an order in which the long waits lie beside the rest, not behind it."""
    return sorted(cells, key=lambda cell: _WAITS.index(cell.fault.name) if cell.fault.name in _WAITS else len(_WAITS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a process is told to do.

    Attributes:
        act: `stage`, `recover`, or `finish`: what a run does that comes behind.
        cell: Name of the cell.
        folder: The cell's own; its `state` is the state directory.
        output: Where standard output, standard error and the result go.
        device: Name of the device.
        control: Control socket of the lab's devices.
        flash_file: Where the host keeps the image once the device has it.
        member_files: The same of its other members.
        image: The image.
        certificate: File of our server's certificate for HTTPS.
        key: File of its private key.
        secrets: File that takes the tickets' credentials, for the search; it is not searched itself.
        dies: Whether a recovery is killed.
        accepts: Whether the operator accepts what a recovery leaves.
    """

    act: str
    cell: str
    folder: Path
    output: Path
    device: str
    control: Path
    flash_file: Path
    member_files: tuple[Path, ...]
    image: Path
    certificate: Path
    key: Path
    secrets: Path
    dies: bool = False
    accepts: bool = False
