"""Install mode: which packages are there and in which state, and the timer that brings the old ones back.

The states and their letters are those of the legend of `show install summary`. A package of an image takes the room of
the image once more, on each file system that boots (a C9200L kept `.bin` and packages side by side).
"""

from __future__ import annotations

import asyncio
import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.lab.standin import show_files
from flashferry.lab.standin.show_files import split_file

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.flash import FileEntry, Flash
    from flashferry.lab.standin.vty import Vty

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


def active(vty: Vty, _: Arguments) -> str:
    """`show install active`."""
    return _in_states(vty, "Active", "CU")


def committed(vty: Vty, _: Arguments) -> str:
    """`show install committed`."""
    return _in_states(vty, "Committed", "C")


def inactive(vty: Vty, _: Arguments) -> str:
    """`show install inactive`."""
    return _in_states(vty, "Inactive", "I")


def uncommitted(vty: Vty, _: Arguments) -> str:
    """`show install uncommitted`: of an image only what was activated, as the C8000V show it."""
    return _in_states(vty, "Uncommitted", "U")


def log_text(vty: Vty, _: Arguments) -> str:
    """`show install log`: nothing but the boot."""
    return f"[0|install_op_boot]: START {_now(vty)}\n[0|install_op_boot]: END SUCCESS {_now(vty)}\n"


def package_text(vty: Vty, arguments: Arguments) -> str:
    """`show install package FS:file`."""
    prefix, name = show_files.split_file(arguments[0])
    flash = vty.device.file_system(prefix)
    entry = flash.find(name) if flash is not None else None
    if entry is None:
        return f"%Error opening {arguments[0]} (No such file or directory)\n"
    return f"  Package: {name}\n    Size: {entry.size_bytes}\n    Version: {release_of(name) or ''}\n"


def rollback_points(vty: Vty, _: Arguments) -> str:
    """`show install rollback`: the head is that of a capture; the points are numbered from the first commit on."""
    vty.device.note_guess("install: rows of show install rollback")
    rows = (_RULE, f"ID  {'Label':<32}Description", _RULE, f"1   {'No Label':<32}No Description")
    return "".join(f"{row}\n" for row in rows)


def more(vty: Vty, arguments: Arguments) -> str:
    """`more FS:file`: what install mode boots from is made up when it is asked for, any other file is what it holds."""
    return _package_list(vty, arguments) or show_files.more(vty, arguments)


def _package_list(vty: Vty, arguments: Arguments) -> str | None:
    """Return what `more ...packages.conf` prints of what boots, in the shape of a C9200L's file; None for others."""
    state = vty.device.install
    if state is None or not arguments[0].lower().endswith("packages.conf"):
        return None
    file = state.running.file
    release = release_of(file) or ""
    kinds = (("rp", "rp_boot"), ("rp", "rp_base"), ("fp", "fp"))
    rows = [f"boot  {kind:<3} 0 0   {name:<12} {file}" for kind, name in kinds[:1]]
    rows += [f"iso   {kind:<3} 0 0   {name:<12} {file}" for kind, name in kinds[1:]]
    return "".join(
        f"{row}\n" for row in ("#! /usr/binos/bin/packages_conf.sh", "", *rows, f"# pkginfo: Build: {release}")
    )


async def add(vty: Vty, arguments: Arguments) -> None:
    """`install add file FS:X`."""
    await _alone(vty, "install_add", lambda: _add(vty, arguments[0]))


async def one_shot(vty: Vty, arguments: Arguments, *, asks: bool = True) -> None:
    """`install add file FS:X activate commit`: all in one, without a timer."""
    await _alone(vty, ONE_SHOT, lambda: _one_shot(vty, arguments[0], asks=asks))


async def one_shot_quietly(vty: Vty, arguments: Arguments) -> None:
    """`install add file FS:X activate commit prompt-level none`."""
    await one_shot(vty, arguments, asks=False)


async def activate(vty: Vty, _: Arguments, *, minutes: int = TIMER_MIN, asks: bool = True) -> None:
    """`install activate`."""
    await _alone(vty, "install_activate", lambda: _activate(vty, minutes=minutes, asks=asks))


async def activate_quietly(vty: Vty, arguments: Arguments) -> None:
    """`install activate [auto-abort-timer N] prompt-level none`."""
    await activate(vty, (), minutes=int(arguments[0]) if arguments else TIMER_MIN, asks=False)


async def activate_timed(vty: Vty, arguments: Arguments) -> None:
    """`install activate auto-abort-timer N`."""
    await activate(vty, (), minutes=int(arguments[0]))


async def commit(vty: Vty, _: Arguments) -> None:
    """`install commit`."""
    await _alone(vty, "install_commit", lambda: _commit(vty))


async def abort(vty: Vty, _: Arguments) -> None:
    """`install abort`, and `install rollback to committed`, which lead to the same."""
    await _alone(vty, "install_abort", lambda: _abort(vty, asks=True))


async def abort_quietly(vty: Vty, _: Arguments) -> None:
    """`install abort prompt-level none`."""
    await _alone(vty, "install_abort", lambda: _abort(vty, asks=False))


async def stop_timer(vty: Vty, _: Arguments) -> None:
    """`install auto-abort-timer stop`."""
    state_of(vty).stop_timer()
    vty.device.note_guess("install: text of auto-abort-timer stop")
    _say(
        vty, f"install_auto_abort_timer_stop: START {_now(vty)}", f"SUCCESS: install_auto_abort_timer_stop  {_now(vty)}"
    )


async def remove_inactive(vty: Vty, _: Arguments) -> None:
    """`install remove inactive`: also takes images that were copied and never added."""
    await _alone(vty, "install_remove", lambda: _remove_inactive(vty))


async def _alone(vty: Vty, word: str, work: Callable[[], Awaitable[None]]) -> None:
    """Do one operation; a second one beside it is refused."""
    state = state_of(vty)
    _say(vty, f"{word}: START {_now(vty)}")
    if state.is_busy or vty.device.faults.install_busy:
        vty.device.note_guess("install: text of an operation in progress")
        vty.device.happened.append(f"refused: {word}, another operation is in progress")
        _say(vty, f"FAILED: {word} : Another install operation is in progress. Please try again later")
        return
    state.is_busy = True
    try:
        await work()
    finally:
        state.is_busy = False


async def _add(vty: Vty, path: str) -> None:
    if await _is_added(vty, path, "install_add"):
        _say(vty, f"SUCCESS: install_add  {_now(vty)}")


async def _is_added(vty: Vty, path: str, word: str) -> bool:
    state, device = state_of(vty), vty.device
    prefix, name = split_file(path)
    flash = device.file_system(prefix)
    entry = flash.find(name) if flash is not None else None
    _say(vty, f"{word}: Adding {state.figures.word}")
    if entry is None:
        device.note_guess("install: text of a file that is not there")
        _say(vty, f"FAILED: {word} : File {path} not found")
    elif not _is_refused(vty) and (release := _release(vty, path, word)) is not None and _is_add_allowed(vty, word):
        _sync(vty, path)
        if not _lacks_space(vty, path, entry.size_bytes, word):
            await _take_apart(vty, entry, name, release)
            if device.faults.install_add_fails:
                device.happened.append(f"refused: {word} fails")
                _say(vty, f"FAILED: {_short(word)} {device_path(path)} {_now(vty)}")
            return not device.faults.install_add_fails
    return False


async def _one_shot(vty: Vty, path: str, *, asks: bool) -> None:
    """Add, activate, commit and reload; what was added stays where the activation is refused."""
    if await _is_added(vty, path, ONE_SHOT) and await _is_activated(vty, ONE_SHOT, asks=asks):
        state_of(vty).activate(TIMER_MIN)
        _say_committed(vty)
        state_of(vty).commit()
        _end_by_reload(vty, ONE_SHOT)


def _release(vty: Vty, path: str, word: str) -> str | None:
    """Return the release of an image's file; None, with a word, where it is no image."""
    release = release_of(path)
    if release is None or vty.device.faults.image_not_executable:
        vty.device.note_guess("install: text of a file that is no image")
        _say(vty, f"FAILED: {_short(word)} {device_path(path)} {_now(vty)}")
        return None
    return release


def _is_add_allowed(vty: Vty, word: str) -> bool:
    state = state_of(vty)
    if state.is_uncommitted:
        _say(vty, f"FAILED: {word} : {_PENDING.format(what='add')}")
        return False
    _say(vty, f"{word}: Checking whether new add is allowed ....")
    if state.inactive is not None:
        _say(vty, f"FAILED: {word} : {_ALREADY}")
    return state.inactive is None


def _sync(vty: Vty, path: str) -> None:
    """Print that the other switches of a stack get the image."""
    places = state_of(vty).figures.places
    if state_of(vty).figures.is_stack:
        _say(vty, "--- Starting initial file syncing ---",
             f"Copying {path} from Switch {places[0]} to Switch {' '.join(places)}",
             "Info: Finished copying to the selected Switch", "Finished initial file syncing")  # fmt: skip


async def _take_apart(vty: Vty, entry: FileEntry, name: str, release: str) -> None:
    state = state_of(vty)
    _say(vty, "", "--- Starting Add ---", f"Performing Add on {_all(state)}")
    _say(vty, *(f"  [{number}] Add package(s) on {place}" for number, place in enumerate(_places(state), start=1)))
    await asyncio.sleep(entry.size_bytes / (vty.device.faults.install_bytes_per_s or state.figures.bytes_per_s))
    for other in state.file_systems[1:]:
        other.name_written(name)
        shutil.copyfile(entry.path, other.path(name))
    version = f"{release}{BUILD}"
    _say(vty, *(f"  [{number}] Finished Add on {place}" for number, place in enumerate(_places(state), start=1)))
    state.add(version, package_file(state.figures, release), entry.size_bytes)
    where = f"[{' '.join(state.figures.places)}]"
    _say(vty, f"Checking status of Add on {where}", f"Add: Passed on {where}", "Finished Add", "",
         f"Image added. Version: {version}")  # fmt: skip


def _lacks_space(vty: Vty, path: str, needed_bytes: int, word: str) -> bool:
    """Refuse for want of room; path and last line are those of a C9200L."""
    state = state_of(vty)
    free = [show_files.free_bytes(vty, each) for each in state.file_systems]
    at = next((at for at, each in enumerate(free) if each < needed_bytes), None)
    if at is not None:
        _say(vty, f" [{at + 1}] {_places(state)[at]} FAILED: {device_path(path).rpartition('/')[0]} requires "
                  f"{needed_bytes // 1024} KB of free space, but only {free[at] // 1024} KB is available",
             f"FAILED: {_short(word)} {device_path(path)} {_now(vty)}")  # fmt: skip
    return at is not None


def _short(word: str) -> str:
    """Return an operation as the last line of a failed one names it: a C9200L leaves `install_` out of the long one."""
    return word.removeprefix("install_") if word == ONE_SHOT else word


async def _activate(vty: Vty, *, minutes: int, asks: bool) -> None:
    if await _is_activated(vty, "install_activate", asks=asks):
        state_of(vty).activate(minutes)
        _say(vty, "Send model notification for install_activate before reload")
        _end_by_reload(vty, "install_activate")


async def _is_activated(vty: Vty, word: str, *, asks: bool) -> bool:
    device, added = vty.device, state_of(vty).inactive
    _say(vty, f"{word}: Activating {state_of(vty).figures.word}")
    if state_of(vty).is_uncommitted:
        _say(vty, f"FAILED: {word} : {_PENDING.format(what='activate')}")
    elif added is None:
        device.note_guess("install: text of nothing to activate")
        _say(vty, f"FAILED: {word} : No inactive packages to activate")
    elif not _is_refused(vty) and await _is_confirmed(vty, added, word, asks=asks):
        await _change_over(vty, added)
        return True
    return False


async def _is_confirmed(vty: Vty, added: Package, word: str, *, asks: bool) -> bool:
    if vty.device.faults.install_activate_fails:
        vty.device.happened.append(f"refused: {word} fails")
        _say(vty, "FAILED: Activate failed in switch")
        return False
    _say(vty, "Following packages shall be activated:", device_path(f"{vty.device.flash.prefix}{added.file}"))
    if asks and (await vty.terminal.ask(_PROCEED, "n")).lower() not in {"y", "yes"}:
        vty.device.note_guess("install: text of an activation that was not confirmed")
        _say(vty, f"FAILED: {word} : User Rejected Activation {_now(vty)}")
        return False
    return True


async def _change_over(vty: Vty, added: Package) -> None:
    state = state_of(vty)
    _say(vty, "--- Starting Activate ---", f"Performing Activate on {_all(state)}")
    _say(vty, *(f"  [{number}] Activate package(s) on {place}" for number, place in enumerate(_places(state), start=1)))
    _say(vty, "    --- Starting list of software package changes ---", "    Old files list:",
         f"      Modified {state.running.file}", "    New files list:", f"      Added {added.file}",
         "    Finished list of software package changes")  # fmt: skip
    await asyncio.sleep(vty.device.platform.boot_s / 8)
    _say(vty, *(f"  [{number}] Finished Activate on {place}" for number, place in enumerate(_places(state), start=1)))
    where = f"[{' '.join(state.figures.places)}]"
    _say(vty, f"Checking status of Activate on {where}", f"Activate: Passed on {where}", "Finished Activate", "")


async def _commit(vty: Vty) -> None:
    state = state_of(vty)
    _say(vty, f"install_commit: Committing {state.figures.word}")
    if not state.is_uncommitted:
        vty.device.note_guess("install: text of nothing to commit")
        _say(vty, f"SUCCESS: install_commit  {_now(vty)}")
        return
    _say_committed(vty)
    state.commit()
    _say(vty, f"SUCCESS: install_commit  {_now(vty)}")


def _say_committed(vty: Vty) -> None:
    """Print a commit, as a C9300L does; C8000V put a blank more into two of the lines."""
    state = state_of(vty)
    where = f"[{' '.join(state.figures.places)}]"
    _say(vty, "--- Starting Commit ---", "Performing Commit on all members")
    for number, place in enumerate(_places(state), start=1):
        _say(vty, f"  [{number}] Commit package(s) on {place}", f"  [{number}] Finished Commit on {place}")
    _say(vty, f"Checking status of Commit on {where}", f"Commit: Passed on {where}", "Finished Commit", "")


async def _abort(vty: Vty, *, asks: bool) -> None:
    state = state_of(vty)
    if not state.is_uncommitted:
        vty.device.note_guess("install: text of nothing to abort")
        _say(vty, "FAILED: install_abort : No uncommitted activation to abort")
        return
    if asks and (await vty.terminal.ask(_PROCEED, "n")).lower() not in {"y", "yes"}:
        return
    where = f"[{' '.join(state.figures.places)}]"
    state.abort()
    _say(vty, "--- Starting Abort ---", f"Checking status of Abort on {where}", f"Abort: Passed on {where}",
         "Finished Abort", "")  # fmt: skip
    _end_by_reload(vty, "install_abort")


async def _remove_inactive(vty: Vty) -> None:
    name, place = vty.device.flash.figures.name, state_of(vty).figures.places[0]
    _say(vty, "Cleaning up unnecessary package files",
         f"No path specified, will use booted path /{name}//packages.conf",
         f" [{place}]: /{name}/packages.conf File is in use, will not delete.")  # fmt: skip
    gone = state_of(vty).removable()
    if not gone:
        _say(vty, "Nothing to clean.", f"SUCCESS: install_remove  {_now(vty)}")
        return
    _say(vty, "The following files will be deleted:", *(f"    [{place}]: /{name}/{each}" for each in gone))
    if (await vty.terminal.ask("Do you want to remove the above files? [y/n]", "n")).lower() not in {"y", "yes"}:
        _say(vty, f"[1]  {_places(state_of(vty))[0]} Add succeed with reason: User Rejected Deletion")
        _say(vty, "SUCCESS: install_remove")
        return
    _say(vty, *(f"Deleting file /{name}/{each} ... done." for each in gone))
    state_of(vty).remove(gone)
    _say(vty, "SUCCESS: Files deleted.", "--- Starting Post_Remove_Cleanup ---")
    _say(vty, f"SUCCESS: install_remove  {_now(vty)}")


def _is_refused(vty: Vty) -> bool:
    """Say why nothing can be installed now: an upgrade in service, or a configuration that is not saved."""
    state, device = state_of(vty), vty.device
    place = _places(state)[0]
    if device.faults.issu_in_progress:
        _say(vty, f"[1]  {place} FAILED: Install ISSU in progress. Abort the ISSU upgrade to proceed")
        return True
    if device.is_unsaved or (device.is_modified and device.faults.install_counts_undone):
        _say(vty, f"[1]  {place} FAILED: {_MODIFIED}")
        return True
    return False


def _end_by_reload(vty: Vty, word: str) -> None:
    _say(vty, "Install will reload the system now!", f"SUCCESS: {word}  {_now(vty)}")
    _reload(vty)


def _reload(vty: Vty) -> None:
    """Leave the user at the prompt, and reload a moment later.

    A VG400 began to reload nine seconds behind its prompt (Cisco's configuration guide); the C8000V answered Ansible,
    which waits for the prompt. Who waits for it would wait in vain where the session ended first.
    """
    asyncio.get_running_loop().call_later(vty.device.platform.boot_s / 8, _restart, vty.device)


def _restart(device: Device) -> None:
    device.note_guess("install: log line of its reload")
    device.syslog("%SYS-5-RELOAD: Reload requested by install. Reload Reason: Image Install.")
    device.restart(reason="Image Install")


def _in_states(vty: Vty, which: str, letters: str) -> str:
    """Return the table of the packages whose state is one of the letters, or the sentence that there are none."""
    found = tuple(each for each in state_of(vty).packages if each.state in letters)
    return _table(vty, which, found) if found else _none(vty, which)


def _table(vty: Vty, which: str, packages: tuple[Package, ...]) -> str:
    rows = [f"[ {state_of(vty).figures.location} ] {which} Package(s) Information:", *_LEGEND, _RULE,
            "Type  St   Filename/Version    ", _RULE]  # fmt: skip
    rows += [f"IMG   {each.state}    {each.version}" for each in packages]
    return "".join(f"{row}\n" for row in (*rows, "", _RULE, _timer_line(vty), _RULE, ""))


def _none(vty: Vty, which: str) -> str:
    return f"[ {state_of(vty).figures.location} ] {which} Package(s) Information:\nNo {which} Packages\n"


def _timer_line(vty: Vty) -> str:
    left_s = state_of(vty).left_s
    if left_s is None:
        return "Auto abort timer: inactive"
    minutes, seconds = divmod(int(left_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"Auto abort timer: active , time before rollback - {hours:02d}:{minutes:02d}:{seconds:02d}"


def _places(state: InstallState) -> tuple[str, ...]:
    """Return the places as the lines of progress name them."""
    return tuple(f"Switch {place}" if place.isdigit() else place for place in state.figures.places)


def _all(state: InstallState) -> str:
    return "all members" if state.figures.is_stack else "Active/Standby"


def _now(vty: Vty) -> str:
    moment = vty.device.now()
    return f"{moment:%a %b} {moment.day:2d} {moment:%H:%M:%S} UTC {moment.year}"


def _say(vty: Vty, *lines: str) -> None:
    vty.terminal.write("".join(f"{line}\n" for line in lines))
