"""Install mode: which packages are there and in which state, and the timer that brings the old ones back.

The states and their letters are those of the legend of `show install summary`. A package of an image takes the room of
the image once more, on each file system that boots (a C9200L kept `.bin` and packages side by side).
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.flash import Flash

TIMER_MIN = 120
"""The auto-abort timer when nothing else is asked for (log of three C8000V: 01:57:05 of it left)."""

_VERSION = re.compile(r"\.(\d+)\.(\d+)\.(\d+)([a-z]?)\.")
BUILD = ".0.1"
"""What stands behind the release in a package's version is the build: own choice, as file names do not have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallFigures:
    """How a platform installs.

    Attributes:
        version: The package that is there from stock.
        places: `R0`, or the numbers of the switches of a stack.
        word: What it calls what it adds: `PACKAGE` or `IMG`.
        bytes_per_s: How fast an image is taken apart; a model.
        stock: What names of files that belong to the stock package have in common, with the family in front.
    """

    version: str
    places: tuple[str, ...]
    word: str
    bytes_per_s: float
    stock: str

    @property
    def is_stack(self) -> bool:
        """Return whether the places are switches."""
        return self.places[0].isdigit()

    @property
    def location(self) -> str:
        """Return the places as the tables' heads have them: `R0`, or `Switch 1 2 3`."""
        return f"Switch {' '.join(self.places)}" if self.is_stack else " ".join(self.places)


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package that is installed, by its version, its state's letter, and the file that it lies in."""

    version: str
    state: str
    file: str


def release_of(file: str) -> str | None:
    """Return the release in an image's name, such as `17.12.04a`; None where it has none."""
    found = _VERSION.search(file)
    return f"{found[1]}.{found[2]}.{found[3]}{found[4]}" if found else None


def device_path(path: str) -> str:
    """Return a file as the device's own file system has it: `/bootflash/x` for `bootflash:x`."""
    prefix, _, name = path.partition(":")
    return f"/{prefix}/{name.lstrip('/')}"


def package_file(figures: InstallFigures, release: str) -> str:
    """Return the name of the file that an image of a release is taken apart into."""
    return f"{figures.stock}.{release}.SPA.pkg"


class InstallState:
    """What is installed on a device, and what goes on there.

    Args:
        device: The device.
        figures: How its platform installs.
    """

    def __init__(self, device: Device, figures: InstallFigures) -> None:
        self._device = device
        self.figures = figures
        release = ".".join(figures.version.split(".")[:3])
        stock = Package(version=figures.version, state="C", file=package_file(figures, release))
        self.packages: tuple[Package, ...] = (stock,)
        self.is_busy = False
        self._timer: asyncio.TimerHandle | None = None
        self._minute_s = 60.0

    @property
    def file_systems(self) -> tuple[Flash, ...]:
        """Return the file systems that packages lie on: that of each switch, or the device's own."""
        return self._device.file_systems[: len(self.figures.places)] if self.figures.is_stack else (self._device.flash,)

    @property
    def running(self) -> Package:
        """Return the package that runs."""
        return next(each for each in self.packages if each.state in {"C", "U"} and not self._is_outgoing(each))

    @property
    def inactive(self) -> Package | None:
        """Return the package that was added, or None."""
        return next((each for each in self.packages if each.state == "I"), None)

    @property
    def is_uncommitted(self) -> bool:
        """Return whether what runs is not committed yet."""
        return any(each.state == "U" for each in self.packages)

    @property
    def left_s(self) -> float | None:
        """Return the seconds of the device's clock before the old packages come back; None where no timer runs."""
        if self._timer is None:
            return None
        return max(0.0, self._timer.when() - asyncio.get_running_loop().time()) * 60.0 / self._minute_s

    def add(self, version: str, file: str, size_bytes: int) -> None:
        """Keep a package, inactive; its file takes as much room as its image."""
        for flash in self.file_systems:
            flash.name_written(file)
            with flash.path(file).open("wb") as written:
                written.truncate(size_bytes)
        self.packages = (*self.packages, Package(version=version, state="I", file=file))

    def activate(self, minutes: int) -> None:
        """Have the added package run from the next start on, and the old one come back after some minutes."""
        states = {"I": "U", "C": "D"}
        self._set({each: states[each.state] for each in self.packages if each.state in states})
        self._minute_s = self._device.faults.seconds_per_minute
        self._timer = asyncio.get_running_loop().call_later(minutes * self._minute_s, self._run_out)

    def commit(self) -> None:
        """Keep what runs: the timer ends, the old package is inactive."""
        self.stop_timer()
        self._set({each: {"U": "C", "D": "I"}[each.state] for each in self.packages if each.state in {"U", "D"}})

    def abort(self) -> None:
        """Have the old package run from the next start on."""
        self.stop_timer()
        self._set({each: {"U": "I", "D": "C"}[each.state] for each in self.packages if each.state in {"U", "D"}})

    def stop_timer(self) -> None:
        """End the timer; the state stays."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def removable(self) -> list[str]:
        """Return what looks like an image or a package and is not in use, also an image that was only copied."""
        in_use = {each.file for each in self.packages if each.state != "I"}
        found = [each.name for each in self._device.flash.entries()]
        return [name for name in found if name.endswith((".pkg", ".bin")) and name not in in_use]

    def remove(self, names: Iterable[str]) -> None:
        """Delete files, and forget the added packages with theirs."""
        inactive = [each.file for each in self.packages if each.state == "I"]
        for name in (*names, *inactive):
            for flash in self.file_systems:
                flash.delete(name)
        self.packages = tuple(each for each in self.packages if each.state != "I")

    def _is_outgoing(self, package: Package) -> bool:
        return package.state == "C" and self.is_uncommitted

    def _set(self, states: dict[Package, str]) -> None:
        self.packages = tuple(
            Package(version=each.version, state=states.get(each, each.state), file=each.file) for each in self.packages
        )

    def _run_out(self) -> None:
        self._timer = None
        self._device.happened.append("timer: ran out")
        self._device.note_guess("install: log line of the timer that ran out")
        self.abort()
        self._device.syslog(
            "%INSTALL-3-AUTO_ABORT_TIMER_EXPIRED: R0/0: rollback_timer: Install auto abort timer has expired"
        )
        self._device.restart(reason="Image Install")
