"""Install mode: which packages are there and in which state, and the timer that brings the old ones back.

The states and their letters are those of the legend of `show install summary`. A package of an image takes the room of
the image once more, on each file system that boots (a C9200L kept `.bin` and packages side by side).
"""

from __future__ import annotations

import asyncio
import functools
import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.lab.standin import clock, files
from flashferry.lab.standin.files import find_file, split_file

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.flash import FileEntry, Flash
    from flashferry.lab.standin.vty import Vty

    Work = Callable[[Vty, "Arguments"], Awaitable[None]]

TIMER_MIN = 120
"""The auto-abort timer when nothing else is asked for (log of three C8000V: 01:57:05 of it left)."""

_VERSION = re.compile(r"\.(\d+)\.(\d+)\.(\d+)([a-z]?)\.")
BUILD = ".0.1"
"""What stands after the release in a package's version is the build: own choice, as file names do not have it."""


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
    """What is installed on a device, and the timer of what was activated."""

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
        return next(
            each
            for each in self.packages
            if each.state in {"C", "U"} and not (each.state == "C" and self.is_uncommitted)
        )

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


Arguments = tuple[str, ...]
ONE_SHOT = "install_add_activate_commit"
_RULE = "-" * 80
_PROCEED = "This operation may require a reload of the system. Do you want to proceed? [y/n]"
_PENDING = "Cannot perform {what} operation as previous installation is pending commit"

_ALREADY = (
    "Super package already added. Add operation not allowed. 'install remove inactive' can be used to discard added "
    "packages"
)

_MODIFIED = "System configuration has been modified. Please save configuration and resubmit command."

_LEGEND = (
    "State (St): I - Inactive, U - Activated & Uncommitted,",
    "            C - Activated & Committed, D - Deactivated & Uncommitted",
)


def state_of(vty: Vty) -> InstallState:
    """Return what is installed; only platforms that install have these commands."""
    state = vty.device.install
    assert state is not None
    return state


def summary(vty: Vty, _: Arguments) -> str:
    """`show install summary`."""
    state = state_of(vty)
    if state.is_uncommitted:
        vty.device.note_guess("install: state of the old package before the commit")
    return _table(vty, "Installed", state.packages)


def in_state(vty: Vty, _: Arguments) -> str:
    """`show install active|committed|inactive|uncommitted`: of an image only what was activated, as C8000V show it."""
    letters = {"active": "CU", "committed": "C", "inactive": "I", "uncommitted": "U"}[vty.words[2]]
    which, found = vty.words[2].capitalize(), tuple(p for p in state_of(vty).packages if p.state in letters)
    return _table(vty, which, found) if found else f"{_head(vty, which)}\nNo {which} Packages\n"


def log_text(vty: Vty, _: Arguments) -> str:
    """`show install log`: nothing but the boot."""
    return f"[0|install_op_boot]: START {_now(vty)}\n[0|install_op_boot]: END SUCCESS {_now(vty)}\n"


def package_text(vty: Vty, arguments: Arguments) -> str:
    """`show install package FS:file`."""
    entry, name = find_file(vty, arguments[0]), split_file(arguments[0])[1]
    if entry is None:
        return f"%Error opening {arguments[0]} (No such file or directory)\n"
    return f"  Package: {name}\n    Size: {entry.size_bytes}\n    Version: {release_of(name) or ''}\n"


def rollback_points(vty: Vty, _: Arguments) -> str:
    """`show install rollback`: the head is that of a capture; the points are numbered from the first commit on."""
    vty.device.note_guess("install: rows of show install rollback")
    return f"{_RULE}\nID  {'Label':<32}Description\n{_RULE}\n1   {'No Label':<32}No Description\n"


def more(vty: Vty, arguments: Arguments) -> str:
    """`more FS:file`: a `packages.conf`, in the shape of a C9200L's, lists what boots; other files as they are."""
    state = vty.device.install
    if state is None or not arguments[0].lower().endswith("packages.conf"):
        return files.more(vty, arguments)
    file = state.running.file
    rows = (f"boot  rp  0 0   rp_boot      {file}", f"iso   rp  0 0   rp_base      {file}",
            f"iso   fp  0 0   fp           {file}", f"# pkginfo: Build: {release_of(file) or ''}")  # fmt: skip
    return "#! /usr/binos/bin/packages_conf.sh\n\n" + "".join(f"{row}\n" for row in rows)


def _alone(word: str) -> Callable[[Work], Work]:
    """Make an operation of a function; a second one beside it is refused."""

    def operation(work: Work) -> Work:
        @functools.wraps(work)
        async def run(vty: Vty, arguments: Arguments) -> None:
            state = state_of(vty)
            _say(vty, f"{word}: START {_now(vty)}")
            if state.is_busy or vty.device.faults.install_busy:
                vty.device.happened.append(f"refused: {word}, another operation is in progress")
                _fail(vty, word, "Another install operation is in progress. Please try again later",
                      guess="an operation in progress")  # fmt: skip
                return
            state.is_busy = True
            try:
                await work(vty, arguments)
            finally:
                state.is_busy = False

        return run

    return operation


@_alone("install_add")
async def add(vty: Vty, arguments: Arguments) -> None:
    """`install add file FS:X`."""
    if await _is_added(vty, arguments[0], "install_add"):
        _succeed(vty, "install_add")


@_alone(ONE_SHOT)
async def one_shot(vty: Vty, arguments: Arguments) -> None:
    """`install add file FS:X activate commit`: all in one, without a timer; a refused activation leaves it added."""
    if await _is_added(vty, arguments[0], ONE_SHOT) and await _is_activated(vty, ONE_SHOT):
        state_of(vty).activate(TIMER_MIN)
        _say_committed(vty)
        state_of(vty).commit()
        _end_by_reload(vty, ONE_SHOT)


@_alone("install_activate")
async def activate(vty: Vty, arguments: Arguments) -> None:
    """`install activate [auto-abort-timer N]`."""
    if await _is_activated(vty, "install_activate"):
        state_of(vty).activate(int(arguments[0]) if arguments else TIMER_MIN)
        _say(vty, "Send model notification for install_activate before reload")
        _end_by_reload(vty, "install_activate")


@_alone("install_commit")
async def commit(vty: Vty, _: Arguments) -> None:
    """`install commit`."""
    state = state_of(vty)
    _say(vty, f"install_commit: Committing {state.figures.word}")
    if state.is_uncommitted:
        _say_committed(vty)
        state.commit()
    else:
        vty.device.note_guess("install: text of nothing to commit")
    _succeed(vty, "install_commit")


@_alone("install_abort")
async def abort(vty: Vty, _: Arguments) -> None:
    """`install abort`, and `install rollback to committed`, which lead to the same."""
    if not state_of(vty).is_uncommitted:
        _fail(vty, "install_abort", "No uncommitted activation to abort", guess="nothing to abort")
    elif await _is_agreed(vty, _PROCEED):
        state_of(vty).abort()
        _say(vty, "--- Starting Abort ---")
        _say_passed(vty, "Abort")
        _end_by_reload(vty, "install_abort")


async def stop_timer(vty: Vty, _: Arguments) -> None:
    """`install auto-abort-timer stop`."""
    state_of(vty).stop_timer()
    vty.device.note_guess("install: text of auto-abort-timer stop")
    _say(vty, f"install_auto_abort_timer_stop: START {_now(vty)}")
    _succeed(vty, "install_auto_abort_timer_stop")


@_alone("install_remove")
async def remove_inactive(vty: Vty, _: Arguments) -> None:
    """`install remove inactive`: also takes images that were copied and never added."""
    state, name = state_of(vty), vty.device.flash.figures.name
    place, gone = state.figures.places[0], state.removable()
    _say(vty, "Cleaning up unnecessary package files",
         f"No path specified, will use booted path /{name}//packages.conf",
         f" [{place}]: /{name}/packages.conf File is in use, will not delete.")  # fmt: skip
    if not gone:
        _say(vty, "Nothing to clean.")
        _succeed(vty, "install_remove")
        return
    _say(vty, "The following files will be deleted:", *(f"    [{place}]: /{name}/{each}" for each in gone))
    if (await vty.terminal.ask("Do you want to remove the above files? [y/n]", "n")).lower() not in {"y", "yes"}:
        _say(vty, f"[1]  {_places(state)[0]} Add succeed with reason: User Rejected Deletion",
             "SUCCESS: install_remove")  # fmt: skip
        return
    state.remove(gone)
    _say(vty, *(f"Deleting file /{name}/{each} ... done." for each in gone), "SUCCESS: Files deleted.",
         "--- Starting Post_Remove_Cleanup ---")  # fmt: skip
    _succeed(vty, "install_remove")


async def _is_added(vty: Vty, path: str, word: str) -> bool:
    state, device = state_of(vty), vty.device
    entry, release = find_file(vty, path), release_of(split_file(path)[1])
    _say(vty, f"{word}: Adding {state.figures.word}")
    if entry is None:
        _fail(vty, word, f"File {path} not found", guess="a file that is not there")
    elif _is_refused(vty):
        return False
    elif release is None or device.faults.image_not_executable:
        device.note_guess("install: text of a file that is no image")
        _say_lost(vty, word, path)
    elif state.is_uncommitted:
        _fail(vty, word, _PENDING.format(what="add"))
    else:
        _say(vty, f"{word}: Checking whether new add is allowed ....")
        if state.inactive is not None:
            _fail(vty, word, _ALREADY)
            return False
        if state.figures.is_stack:  # the other switches get the image
            places = state.figures.places
            _say(vty, "--- Starting initial file syncing ---",
                 f"Copying {path} from Switch {places[0]} to Switch {' '.join(places)}",
                 "Info: Finished copying to the selected Switch", "Finished initial file syncing")  # fmt: skip
        if not _lacks_space(vty, path, entry.size_bytes, word):
            await _take_apart(vty, entry, split_file(path)[1], release)
            if device.faults.install_add_fails:
                device.happened.append(f"refused: {word} fails")
                _say_lost(vty, word, path)
            return not device.faults.install_add_fails
    return False


async def _take_apart(vty: Vty, entry: FileEntry, name: str, release: str) -> None:
    state = state_of(vty)
    _say(vty, "")
    _say_started(vty, "Add")
    await asyncio.sleep(entry.size_bytes / (vty.device.faults.install_bytes_per_s or state.figures.bytes_per_s))
    for other in state.file_systems[1:]:
        other.name_written(name)
        shutil.copyfile(entry.path, other.path(name))
    version = f"{release}{BUILD}"
    state.add(version, package_file(state.figures, release), entry.size_bytes)
    _say_finished(vty, "Add")
    _say(vty, f"Image added. Version: {version}")


def _lacks_space(vty: Vty, path: str, needed_bytes: int, word: str) -> bool:
    """Refuse for want of room; path and last line are those of a C9200L."""
    state = state_of(vty)
    free = [files.free_bytes(vty, each) for each in state.file_systems]
    at = next((at for at, each in enumerate(free) if each < needed_bytes), None)
    if at is not None:
        _say(vty, f" [{at + 1}] {_places(state)[at]} FAILED: {device_path(path).rpartition('/')[0]} requires "
                  f"{needed_bytes // 1024} KB of free space, but only {free[at] // 1024} KB is available")  # fmt: skip
        _say_lost(vty, word, path)
    return at is not None


async def _is_activated(vty: Vty, word: str) -> bool:
    state, device, added = state_of(vty), vty.device, state_of(vty).inactive
    _say(vty, f"{word}: Activating {state.figures.word}")
    if state.is_uncommitted:
        _fail(vty, word, _PENDING.format(what="activate"))
    elif added is None:
        _fail(vty, word, "No inactive packages to activate", guess="nothing to activate")
    elif not _is_refused(vty):
        if device.faults.install_activate_fails:
            device.happened.append(f"refused: {word} fails")
            _say(vty, "FAILED: Activate failed in switch")
            return False
        _say(vty, "Following packages shall be activated:", device_path(f"{device.flash.prefix}{added.file}"))
        if await _is_agreed(vty, _PROCEED):
            _say_started(vty, "Activate")
            _say(vty, "    --- Starting list of software package changes ---", "    Old files list:",
                 f"      Modified {state.running.file}", "    New files list:", f"      Added {added.file}",
                 "    Finished list of software package changes")  # fmt: skip
            await asyncio.sleep(device.platform.boot_s / 8)
            _say_finished(vty, "Activate")
            return True
        _fail(vty, word, f"User Rejected Activation {_now(vty)}", guess="an activation that was not confirmed")
    return False


async def _is_agreed(vty: Vty, question: str) -> bool:
    return "prompt-level" in vty.words or (await vty.terminal.ask(question, "n")).lower() in {"y", "yes"}


def _is_refused(vty: Vty) -> bool:
    """Print why nothing can be installed now: an upgrade in service, or a configuration that is not saved."""
    device, why = vty.device, ""
    if device.faults.issu_in_progress:
        why = "Install ISSU in progress. Abort the ISSU upgrade to proceed"
    elif device.is_unsaved or (device.is_modified and device.faults.install_counts_undone):
        why = _MODIFIED
    if why:
        _say(vty, f"[1]  {_places(state_of(vty))[0]} FAILED: {why}")
    return bool(why)


def _end_by_reload(vty: Vty, word: str) -> None:
    """Leave the user at the prompt, and reload a moment later.

    A VG400 began to reload nine seconds after its prompt (Cisco's configuration guide); the C8000V answered Ansible,
    which waits for the prompt and would not see it if the session ended first.
    """
    device = vty.device

    def restart() -> None:
        device.note_guess("install: log line of its reload")
        device.syslog("%SYS-5-RELOAD: Reload requested by install. Reload Reason: Image Install.")
        device.restart(reason="Image Install")

    _say(vty, "Install will reload the system now!")
    _succeed(vty, word)
    asyncio.get_running_loop().call_later(device.platform.boot_s / 8, restart)


def _head(vty: Vty, which: str) -> str:
    return f"[ {state_of(vty).figures.location} ] {which} Package(s) Information:"


def _table(vty: Vty, which: str, packages: tuple[Package, ...]) -> str:
    left_s = state_of(vty).left_s
    timer = "inactive" if left_s is None else f"active , time before rollback - {clock.ago(left_s)}"
    rows = [f"IMG   {each.state}    {each.version}" for each in packages]
    head = (_head(vty, which), *_LEGEND, _RULE, "Type  St   Filename/Version    ", _RULE)
    return "".join(f"{row}\n" for row in (*head, *rows, "", _RULE, f"Auto abort timer: {timer}", _RULE, ""))


def _places(state: InstallState) -> tuple[str, ...]:
    return tuple(f"Switch {place}" if place.isdigit() else place for place in state.figures.places)


def _say_started(vty: Vty, what: str) -> None:
    state = state_of(vty)
    where = "all members" if state.figures.is_stack else "Active/Standby"
    _say(vty, f"--- Starting {what} ---", f"Performing {what} on {where}",
         *(f"  [{n}] {what} package(s) on {place}" for n, place in enumerate(_places(state), start=1)))  # fmt: skip


def _say_finished(vty: Vty, what: str) -> None:
    _say(vty, *(f"  [{n}] Finished {what} on {place}" for n, place in enumerate(_places(state_of(vty)), start=1)))
    _say_passed(vty, what)


def _say_passed(vty: Vty, what: str) -> None:
    where = f"[{' '.join(state_of(vty).figures.places)}]"
    _say(vty, f"Checking status of {what} on {where}", f"{what}: Passed on {where}", f"Finished {what}", "")


def _say_committed(vty: Vty) -> None:
    """Print a commit, as a C9300L does; C8000V put a blank more into two of the lines."""
    _say(vty, "--- Starting Commit ---", "Performing Commit on all members")
    for n, place in enumerate(_places(state_of(vty)), start=1):
        _say(vty, f"  [{n}] Commit package(s) on {place}", f"  [{n}] Finished Commit on {place}")
    _say_passed(vty, "Commit")


def _say_lost(vty: Vty, word: str, path: str) -> None:
    """Print the last line of a failed operation on a file: a C9200L leaves `install_` out of the long one."""
    _say(vty, f"FAILED: {word.removeprefix('install_') if word == ONE_SHOT else word} {device_path(path)} {_now(vty)}")


def _fail(vty: Vty, word: str, why: str, *, guess: str = "") -> None:
    """Print why an operation fails; `guess` names a text that was never seen."""
    vty.device.note_guess(guess and f"install: text of {guess}")
    _say(vty, f"FAILED: {word} : {why}")


def _succeed(vty: Vty, word: str) -> None:
    _say(vty, f"SUCCESS: {word}  {_now(vty)}")


def _now(vty: Vty) -> str:
    moment = vty.device.now()
    return f"{moment:%a %b} {moment.day:2d} {moment:%H:%M:%S} UTC {moment.year}"


def _say(vty: Vty, *lines: str) -> None:
    vty.terminal.write("".join(f"{line}\n" for line in lines))
