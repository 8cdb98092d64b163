"""Cells of the activation's matrix, with which router each, and what is handed to the processes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.e2e.matrix.activation import faults, points
from tests.e2e.matrix.activation.faults import FAULTS, PORT, Fault
from tests.e2e.matrix.activation.points import POINTS, KillPoint, Mode

_PORT_LINES = (f"interface {PORT}", " ip address 198.51.100.77 255.255.255.255")
OLD_LINE = "boot system bootflash:isr4300-universalk9.16.06.05.SPA.bin"
NEW_LINE = "boot system bootflash:isr4300-universalk9.16.12.05.SPA.bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a mode's router is at the start, and what it is to run.

    Attributes:
        platform: The stand-in.
        config_lines: What it has beside the stock configuration.
        image: Name of the new image.
        old: What runs, as the lab tells it.
        new: The same of the new image.
        old_release: The release of before, as `show version` prints it.
        new_release: The same of the new image.
    """

    platform: str
    config_lines: tuple[str, ...]
    image: str
    old: str
    new: str
    old_release: str
    new_release: str


STARTS = {
    Mode.INSTALL: Start(
        platform="c8000v-17.15",
        config_lines=_PORT_LINES,
        image="c8000v-universalk9.17.18.02.SPA.bin",
        old="17.15.01a.0.193",
        new="17.18.02.0.1",
        old_release="17.15.1a",
        new_release="17.18.2",
    ),
    Mode.BUNDLE: Start(
        platform="isr4321-16.6",
        config_lines=(OLD_LINE, *_PORT_LINES),
        image=NEW_LINE.rpartition(":")[2],
        old=OLD_LINE.rsplit(maxsplit=1)[-1],
        new=NEW_LINE.rsplit(maxsplit=1)[-1],
        old_release="16.6.5",
        new_release="16.12.5",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A kill point with a fault."""

    point: KillPoint
    fault: Fault

    @property
    def mode(self) -> Mode:
        """Return how its router boots."""
        return self.fault.mode

    @property
    def name(self) -> str:
        """Return its name."""
        return f"{self.mode}, {self.point.name} x {self.fault.name}"

    @property
    def start(self) -> Start:
        """Return its router at the start."""
        return STARTS[self.mode]


ALL_CELLS = tuple(
    Cell(point=point, fault=fault)
    for mode in Mode
    for fault in FAULTS[mode]
    for point in POINTS[mode]
    if point.name not in fault.never
)
"""A point that a column's run does not pass is no cell of it."""


def named(name: str) -> Cell:
    """Return the cell of a name, as `Cell.name` gives it.

    Raises:
        KeyError: There is none.
    """
    mode, _, rest = name.partition(", ")
    point, _, fault = rest.partition(" x ")
    return Cell(point=points.BY_NAME[Mode(mode)][point], fault=faults.BY_NAME[Mode(mode)][fault])


CI_CELLS = tuple(
    named(name)
    for name in (
        "install, none x old image",
        "install, away x stays away",
        "install, committing.kept x none",
        "install, none x busy",
        "install, settling x left alone",
        "bundle, reloading.kept x line, saved",
        "bundle, settling x port down",
    )
)
"""CI's minutes are few, and `test_activate*.py` plays others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a process is told to do.

    Attributes:
        act: `prepare`, `activate`, `recover`, or `look`: what a colleague sees.
        cell: Name of the cell.
        folder: The cell's own; its `state` is the state directory.
        output: Where standard output, standard error and the result go.
        device: Name of the device.
        control: Control socket of the lab's devices.
        image: The new image's file here.
        patience_s: How long a recovery waits.
        dies: Whether a recovery is killed where it enters a phase.
    """

    act: str
    cell: str
    folder: Path
    output: Path
    device: str
    control: Path
    image: Path
    patience_s: float = 90.0
    dies: bool = False
