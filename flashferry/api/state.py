"""The state folder looked after: backed up while runs go on, put back, looked through, rid of what is old."""

from __future__ import annotations

import errno
import re
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from flashferry.api.fleet import state_folder
from flashferry.core.errors import ConfigInvalid, reason_of
from flashferry.core.files import sync_folder
from flashferry.core.state_folder import make_private_directory, scratch_folder, state_entries
from flashferry.store.database import moment
from flashferry.store.reader import is_run_alive, locked_runs
from flashferry.store.sites.runs import remove_runs as remove_site_runs
from flashferry.store.upkeep.archive import DAMAGED, unpack, write_archive
from flashferry.store.upkeep.copies import DATABASES, copy_database, faults_of, old_runs, remove_runs

_NAME = re.compile(r"flashferry-state-(\d{8}T\d{6}Z)\.tar\.gz")
_LEFT_OUT = frozenset({"runs", "scratch", "leases", "images", "jobs"})
"""Folders that no backup has: locks and scratch of the living; leases, which the journal has too; images, which are
large and had elsewhere; and what jobs printed."""
_PASSING = frozenset({"digests.json"})
"""Files that no backup has: digests of images are found anew, and are of the files of this host at that time."""
_KEPT = frozenset({"known_hosts", "link-rates.json", "ssh_preferences.json", "service.toml", "service.lock"})
_OURS = _LEFT_OUT | _PASSING | _KEPT | {"recover.lock", "depot.sock", "server_host_keys", "events"}
"""What a state folder may have in it that has no database yet."""
_LEAST_DAYS = 1
_FULL = (errno.ENOSPC, errno.EDQUOT)
_WHICH = "Check --state-dir; the first run makes the folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A backup that was made.

    Attributes:
        path: The archive; its owner alone may read it, for host keys and people's names are in it.
        size_bytes: Its size.
        members: Files in it, by their names in the state folder.
        removed: Older archives that were removed for it.
    """

    path: Path
    size_bytes: int
    members: tuple[str, ...]
    removed: tuple[Path, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCheck:
    """What a look through a state folder, or a backup of one, found.

    Attributes:
        looked_at: The databases that are there.
        faults: What is wrong, a sentence each.
    """

    looked_at: tuple[str, ...]
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What was, or would be, removed.

    Attributes:
        before: Runs that ended before this time.
        runs: The runs of the journal.
        site_runs: Those of the centre's ledger of sites.
    """

    before: datetime
    runs: tuple[str, ...]
    site_runs: tuple[str, ...] = ()


def newest_backup(folder: Path) -> datetime | None:
    """Return when the newest archive of ours in a folder was made; None where there is none, or it cannot be read."""
    try:
        made = [found[1] for path in folder.iterdir() if (found := _NAME.fullmatch(path.name)) is not None]
        return max((datetime.strptime(one, "%Y%m%dT%H%M%S%z") for one in made), default=None)
    except (OSError, ValueError):
        return None


def back_up(folder: Path, *, keep: int | None = None, state: Path | str | None = None) -> Backup:
    """Back a state folder up into an archive of a folder, while runs and the service go on.

    Databases are copied as they are at one moment each; images, locks and what jobs printed are left out.

    Args:
        folder: Where archives are kept; made, private, where it is not there. It may not lie in the state folder.
        keep: Archives of ours that stay there, this one counted, from 1; None: all.
        state: The state folder; None: where the command line has it.

    Raises:
        ConfigInvalid: There is no state, or the archive cannot be written; no older archive is touched then.
    """
    source = state_folder(state)
    if not source.is_dir():
        raise ConfigInvalid(f"state folder {source}: expected a folder, found none", hint="Check --state-dir")
    if folder.resolve().is_relative_to(source.resolve()):
        raise ConfigInvalid(
            f"backup folder {folder}: expected one outside of the state folder {source}",
            hint="A backup beside what it is of is lost with it",
        )
    if folder.exists() and not folder.is_dir():
        raise ConfigInvalid(f"backup folder {folder}: expected a folder, found a file", hint="Name another one")
    try:
        make_private_directory(folder)
        made = datetime.now(UTC)
        target = folder / f"flashferry-state-{made:%Y%m%dT%H%M%SZ}.tar.gz"
        with scratch_folder(folder) as scratch:
            fresh = scratch / target.name
            members = write_archive(fresh, _to_copy(source, scratch), made)
            fresh.replace(target)
        sync_folder(folder)
        archives = sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
        removed = tuple(archives[: max(0, len(archives) - keep)]) if keep is not None else ()
        for path in removed:
            path.unlink()
        return Backup(path=target, size_bytes=target.stat().st_size, members=members, removed=removed)
    except (OSError, tarfile.TarError) as error:
        raise ConfigInvalid(
            f"backup of {source} into {folder}: {reason_of(error)}", hint="Check the rights and the room on its disk"
        ) from None


def check_state(*, archive: Path | None = None, state: Path | str | None = None) -> StateCheck:
    """Look through the databases of a state folder, or of a backup, for damage. Changes nothing.

    Args:
        archive: A backup; None: the state folder itself.
        state: The state folder.

    Raises:
        ConfigInvalid: It is not there, cannot be read, or is no backup of ours; or a folder without a database that
            has files in it, none of which is ours.
    """
    if archive is None:
        folder = state_folder(state)
        checked = _checked(folder)
        if not checked.looked_at:
            _check_ours(folder)
        return checked
    _check_archive(archive)
    with _unpacked(archive) as folder:
        return _checked(folder)


def put_back(archive: Path, *, state: Path | str | None = None) -> tuple[str, ...]:
    """Put a backup back into a state folder that has nothing in it yet; return the files.

    Args:
        archive: The backup. Each file in it is held against its digest, and each database looked through, before.
            Digests of images, which older backups have, are not put back: they are of files of that time.
        state: The state folder.

    Raises:
        ConfigInvalid: The folder has something in it, or the archive is damaged or none of ours; nothing was written,
            and no folder was made.
    """
    target = state_folder(state)
    _check_archive(archive)
    try:
        with _gone_unless_whole(target):
            make_private_directory(target)
            _check_empty(target)
            with _unpacked(archive, beside=target) as folder:
                members = _whole(archive, folder)
                _check_empty(target, besides=folder)
                _move(folder, target)
            sync_folder(target)
    except OSError as error:
        raise ConfigInvalid(
            f"state folder {target}: {reason_of(error)}", hint="Check its rights and the room there"
        ) from None
    return members


def _whole(archive: Path, folder: Path) -> tuple[str, ...]:
    """Look through what was unpacked of a backup; return the files that are to be put back.

    Raises:
        ConfigInvalid: A database is damaged.
    """
    if faults := _checked(folder).faults:
        raise ConfigInvalid(f"backup {archive}: {faults[0]}", hint="Take another backup")
    for name in _PASSING:
        (folder / name).unlink(missing_ok=True)
    return tuple(sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()))


@contextmanager
def _gone_unless_whole(target: Path) -> Iterator[None]:
    """Remove the folders that a block makes down to one, where it fails and leaves nothing in them."""
    fresh = [path for path in (target, *target.parents) if not path.exists()]
    try:
        yield
    except BaseException:
        for path in fresh:
            with suppress(OSError):
                path.rmdir()
        raise


def prune(days: int, *, is_dry: bool, state: Path | str | None = None) -> Pruned:
    """Remove runs that ended long ago from journal and ledger of sites; how fast copies went stays, for forecasts.

    A run that holds a device, or has not ended, stays whatever its age.

    Args:
        days: Runs that ended more days ago than this, from 1.
        is_dry: Whether they are only listed.
        state: The state folder.

    Raises:
        ConfigInvalid: Too few days, or journal or ledger cannot be used.
    """
    if days < _LEAST_DAYS:
        raise ConfigInvalid(f"expected at least {_LEAST_DAYS} day, found {days}", hint="Check --older-than")
    directory = state_folder(state)
    before = datetime.now(UTC) - timedelta(days=days)
    alive = {run for run in locked_runs(directory) if is_run_alive(directory, run)}
    runs = tuple(run for run in old_runs(directory, before.isoformat()) if run not in alive)
    if runs and not is_dry:
        remove_runs(directory, runs)
    site_runs = remove_site_runs(directory, moment(before), is_dry=is_dry)
    return Pruned(before=before, runs=runs, site_runs=site_runs)


def _check_empty(target: Path, *, besides: Path | None = None) -> None:
    """Check that a state folder has nothing in it but our own scratch folder, where we have one.

    Raises:
        ConfigInvalid: There are files in it, or another command is at work there.
        OSError: It cannot be looked at.
    """
    if any(state_entries(target, besides=besides)):
        raise ConfigInvalid(
            f"state folder {target}: expected an empty one, found files in it",
            hint="Move it away first: what it knows of devices in hand is not in the backup",
        )


def _move(folder: Path, target: Path) -> None:
    """Move all that is in a folder into another one of the same disk, or nothing; what makes it a state comes last.

    Raises:
        OSError: Something could not be moved; nothing was then.
    """
    moved: list[Path] = []
    try:
        for path in sorted(folder.iterdir(), key=lambda path: (path.name in DATABASES, path.name)):
            path.rename(target / path.name)
            moved.append(path)
    except BaseException:
        for path in moved:
            with suppress(OSError):
                (target / path.name).rename(path)
        raise


def _to_copy(source: Path, scratch: Path) -> Iterator[tuple[str, Path]]:
    """Yield what a backup has: databases as copies of one moment, then the files of ours, by their names there."""
    for name in DATABASES:
        if (source / name).is_file():
            copy_database(source / name, scratch / name)
            yield name, scratch / name
            (scratch / name).unlink()
    for path in sorted(source.rglob("*")):
        inside = path.relative_to(source)
        if inside.parts[0] in _LEFT_OUT | _PASSING or path.is_symlink() or not path.is_file() or _is_passing(path):
            continue
        yield inside.as_posix(), path


def _is_passing(path: Path) -> bool:
    """Return whether a file is a database, which is copied otherwise, or one that belongs to the living."""
    name = path.name
    return any(name.startswith(known) for known in DATABASES) or name.endswith((".lock", ".part", ".sock"))


def _checked(folder: Path) -> StateCheck:
    there = tuple(name for name in DATABASES if (folder / name).is_file())
    return StateCheck(looked_at=there, faults=tuple(fault for name in there for fault in faults_of(folder / name)))


def _check_ours(folder: Path) -> None:
    """Check that a folder without a database is a state folder: empty, or with files of ours.

    Raises:
        ConfigInvalid: It is not there, it is another program's by its contents, or it cannot be read.
    """
    try:
        names = {path.name for path in folder.iterdir()}
    except OSError as error:
        found = {errno.ENOENT: "none", errno.ENOTDIR: "something else"}.get(error.errno or 0, error.strerror)
        raise ConfigInvalid(f"state folder {folder}: expected a folder, found {found}", hint=_WHICH) from None
    if names and not any(name in _OURS or name.startswith("known_hosts") for name in names):
        raise ConfigInvalid(f"state folder {folder}: expected one of ours, found other files only", hint=_WHICH)


def _check_archive(archive: Path) -> None:
    """Check that a backup is a file, before anything is made for it.

    Raises:
        ConfigInvalid: It is not there, or a folder.
    """
    if archive.is_dir():
        names = sorted(path.name for path in archive.glob("*.tar.gz") if _NAME.fullmatch(path.name))
        hint = f"Name the archive in it: {archive / names[-1]}" if names else "There is no archive of ours in it"
        raise ConfigInvalid(f"backup {archive}: expected a file, found a folder", hint=hint)
    if not archive.exists():
        raise ConfigInvalid(f"backup {archive}: there is no such file", hint="Check its name")


def _reason_and_hint(error: Exception) -> tuple[str, str]:
    """Return what is wrong with an archive that could not be unpacked, and what to do."""
    text = str(error)
    if isinstance(error, EOFError) or "unexpected end of data" in text or "empty file" in text:
        return "the archive is cut short", "Take another backup"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror, "Make room there" if error.errno in _FULL else "Check its rights"
    if isinstance(error, OSError | tarfile.TarError | zlib.error):
        text = "it is damaged, or no archive of gzip and tar"
    return text, "Name an archive that 'flashferry state backup' made"


@contextmanager
def _unpacked(archive: Path, *, beside: Path | None = None) -> Iterator[Path]:
    """Yield a folder with the files of a backup, for the time of a block; each is what the manifest says."""
    with scratch_folder(beside or archive.absolute().parent) as folder:
        try:
            unpack(archive, folder)
        except DAMAGED as error:
            is_full = isinstance(error, OSError) and error.errno in _FULL
            where = f", unpacked into {folder.parent}" if is_full else ""
            reason, hint = _reason_and_hint(error)
            raise ConfigInvalid(f"backup {archive}{where}: {reason}", hint=hint) from None
        yield folder
