"""Maintenance of the state folder: back it up while runs continue, restore it, check it, remove old runs."""

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

from flashferry.api.fleet_options import state_folder
from flashferry.core.errors import ConfigInvalid, reason_of
from flashferry.core.files import sync_folder
from flashferry.core.state_folder import make_private_directory, scratch_folder, state_entries
from flashferry.store.database import moment
from flashferry.store.reader import is_run_alive, locked_runs
from flashferry.store.sites.runs import remove_runs as remove_site_runs
from flashferry.store.upkeep import (
    DAMAGED,
    DATABASES,
    copy_database,
    faults_of,
    old_runs,
    remove_runs,
    unpack,
    write_archive,
)

_NAME = re.compile(r"flashferry-state-(\d{8}T\d{6}Z)\.tar\.gz")
_LEFT_OUT = frozenset({"runs", "scratch", "leases", "images", "jobs"})
"""Folders that no backup has: locks and scratch of the living; leases, which the journal has too; images, which are
large and had elsewhere; and what jobs printed."""
_PASSING = frozenset({"digests.json"})
"""Files left out of backups: image digests belong to this host's files, and are computed again."""
_KEPT = frozenset({"known_hosts", "link-rates.json", "ssh_preferences.json", "service.toml", "service.lock"})
_OURS = _LEFT_OUT | _PASSING | _KEPT | {"recover.lock", "depot.sock", "server_host_keys", "events"}
"""Files that a state folder without a database may contain."""
_LEAST_DAYS = 1
_FULL = (errno.ENOSPC, errno.EDQUOT)
_WHICH = "Check --state-dir; the first run makes the folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A backup.

    Attributes:
        path: The archive; only its owner may read it, since it holds host keys and user names.
        size_bytes: Its size.
        members: Its files, by name in the state folder.
        removed: Older archives that were removed.
    """

    path: Path
    size_bytes: int
    members: tuple[str, ...]
    removed: tuple[Path, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCheck:
    """Result of checking a state folder or a backup.

    Attributes:
        looked_at: The databases found.
        faults: One sentence per fault.
    """

    looked_at: tuple[str, ...]
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """Runs that were, or would be, removed.

    Attributes:
        before: Runs that ended before this time.
        runs: Runs of the journal.
        site_runs: Runs of the centre's ledger of sites.
    """

    before: datetime
    runs: tuple[str, ...]
    site_runs: tuple[str, ...] = ()


def newest_backup(folder: Path) -> datetime | None:
    """Return when the newest of our archives in a folder was made; None if there is none or it is unreadable."""
    try:
        made = [found[1] for path in folder.iterdir() if (found := _NAME.fullmatch(path.name)) is not None]
        return max((datetime.strptime(one, "%Y%m%dT%H%M%S%z") for one in made), default=None)
    except (OSError, ValueError):
        return None


def back_up(folder: Path, *, keep: int | None = None, state: Path | str | None = None) -> Backup:
    """Write a backup of a state folder to an archive, while runs and the service continue.

    Each database is copied at one moment; images, locks and output of jobs are left out.

    Args:
        folder: Folder of archives outside the state folder; created with mode 700 if missing.
        keep: Number of our archives to keep, including this one, >= 1; None: all.
        state: The state folder; None: the default.

    Raises:
        ConfigInvalid: There is no state, or the archive cannot be written; no older archive was removed.
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
            f"backup of {source} into {folder}: {reason_of(error)}",
            hint="Check the permissions and free space on its disk",
        ) from None


def check_state(*, archive: Path | None = None, state: Path | str | None = None) -> StateCheck:
    """Check the databases of a state folder, or of a backup, for damage. Changes nothing.

    Args:
        archive: A backup; None: the state folder itself.
        state: The state folder.

    Raises:
        ConfigInvalid: The folder or archive is missing, unreadable or not ours.
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
    """Restore a backup into an empty state folder, and return the restored files.

    Args:
        archive: The backup. The digest of each file and the integrity of each database are checked first. Image digests
            in
            older backups are not restored: they belong to files of that time.
        state: The state folder.

    Raises:
        ConfigInvalid: The folder is not empty, or the archive is damaged or not ours; nothing was written, and no
            folder
            was created.
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
            f"state folder {target}: {reason_of(error)}", hint="Check its permissions and free space there"
        ) from None
    return members


def _whole(archive: Path, folder: Path) -> tuple[str, ...]:
    """Check the unpacked files of a backup; return those to restore. Raises `ConfigInvalid`: A database is damaged."""
    if faults := _checked(folder).faults:
        raise ConfigInvalid(f"backup {archive}: {faults[0]}", hint="Take another backup")
    for name in _PASSING:
        (folder / name).unlink(missing_ok=True)
    return tuple(sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()))


@contextmanager
def _gone_unless_whole(target: Path) -> Iterator[None]:
    """If the block fails, remove the folders that it created down to `target`, as far as they are empty."""
    fresh = [path for path in (target, *target.parents) if not path.exists()]
    try:
        yield
    except BaseException:
        for path in fresh:
            with suppress(OSError):
                path.rmdir()
        raise


def prune(days: int, *, is_dry: bool, state: Path | str | None = None) -> Pruned:
    """Remove old runs from the journal and the ledger of sites; copy speeds stay, as forecasts need them.

    A run that leases a device or has not ended stays whatever its age.

    Args:
        days: Remove runs that ended more than this many days ago, >= 1.
        is_dry: Whether to only list them.
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
    """Check that a state folder is empty except for our own scratch folder, if we have one.

    Raises:
        ConfigInvalid: There are files in it, or another command is using it.
        OSError: It cannot be read.
    """
    if any(state_entries(target, besides=besides)):
        raise ConfigInvalid(
            f"state folder {target}: expected an empty one, found files in it",
            hint="Move it away first: what it records of devices being staged is not in the backup",
        )


def _move(folder: Path, target: Path) -> None:
    """Move all files of a folder to another one on the same disk, or none; the journal comes last.

    Raises:
        OSError: A file could not be moved; nothing was moved then.
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
    """Yield name and file of a backup's members: snapshots of databases, then our other files."""
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
    """Return whether a file is left out: a database, which is copied as a snapshot, or one of a running process."""
    name = path.name
    return any(name.startswith(known) for known in DATABASES) or name.endswith((".lock", ".part", ".sock"))


def _checked(folder: Path) -> StateCheck:
    there = tuple(name for name in DATABASES if (folder / name).is_file())
    return StateCheck(looked_at=there, faults=tuple(fault for name in there for fault in faults_of(folder / name)))


def _check_ours(folder: Path) -> None:
    """Check that a folder without a database is a state folder: empty, or with files of ours.

    Raises:
        ConfigInvalid: It is missing, unreadable, or has the content of another program.
    """
    try:
        names = {path.name for path in folder.iterdir()}
    except OSError as error:
        found = {errno.ENOENT: "none", errno.ENOTDIR: "something else"}.get(error.errno or 0, error.strerror)
        raise ConfigInvalid(f"state folder {folder}: expected a folder, found {found}", hint=_WHICH) from None
    if names and not any(name in _OURS or name.startswith("known_hosts") for name in names):
        raise ConfigInvalid(f"state folder {folder}: expected one of ours, found other files only", hint=_WHICH)


def _check_archive(archive: Path) -> None:
    """Check that a backup is a file. Raises `ConfigInvalid`: it is missing, or a folder."""
    if archive.is_dir():
        names = sorted(path.name for path in archive.glob("*.tar.gz") if _NAME.fullmatch(path.name))
        hint = f"Name the archive in it: {archive / names[-1]}" if names else "There is no archive of ours in it"
        raise ConfigInvalid(f"backup {archive}: expected a file, found a folder", hint=hint)
    if not archive.exists():
        raise ConfigInvalid(f"backup {archive}: there is no such file", hint="Check its name")


def _reason_and_hint(error: Exception) -> tuple[str, str]:
    """Return why an archive could not be unpacked, and what to do."""
    text = str(error)
    if isinstance(error, EOFError) or "unexpected end of data" in text or "empty file" in text:
        return "the archive is cut short", "Take another backup"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror, "Free some space there" if error.errno in _FULL else "Check its permissions"
    if isinstance(error, OSError | tarfile.TarError | zlib.error):
        text = "it is damaged, or no archive of gzip and tar"
    return text, "Name an archive that 'flashferry state backup' made"


@contextmanager
def _unpacked(archive: Path, *, beside: Path | None = None) -> Iterator[Path]:
    """Yield a temporary folder with the files of a backup, checked against its manifest."""
    with scratch_folder(beside or archive.absolute().parent) as folder:
        try:
            unpack(archive, folder)
        except DAMAGED as error:
            is_full = isinstance(error, OSError) and error.errno in _FULL
            where = f", unpacked into {folder.parent}" if is_full else ""
            reason, hint = _reason_and_hint(error)
            raise ConfigInvalid(f"backup {archive}{where}: {reason}", hint=hint) from None
        yield folder
