"""Back up, check and prune the databases of a state folder while they are in use; the format of the archives.

A backup is a consistent copy (sqlite.org/backup.html) that does not hold up writers and needs no log beside it; a plain
copy of the file is not.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sqlite3
import tarfile
import zlib
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import datetime
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import IO

from flashferry.core.errors import ConfigInvalid, reason_of
from flashferry.core.files import sync_folder
from flashferry.store import nights, schema
from flashferry.store.database import OtherSchema, make_private, open_to_read
from flashferry.store.grouped_writer import open_database
from flashferry.store.reader import reading
from flashferry.store.service import database as service
from flashferry.store.sites import database as sites
from flashferry.store.tables import runs_ended_before, unsound_rows

SCHEMA = "flashferry.backup/1"

MANIFEST = "manifest.json"

DAMAGED = (OSError, EOFError, tarfile.TarError, zlib.error, ValueError, KeyError, TypeError)
"""Errors of an archive that is truncated, altered, or of another kind."""

_PIECE_BYTES = 1 << 18

_MOST_MANIFEST_BYTES = 64 << 20
"""Limit of a manifest, which is read at once: some 600,000 files."""

_LEVEL = 6
"""Compression level; 9 takes twice the time and saves one percent."""


def write_archive(target: Path, files: Iterable[tuple[str, Path]], made: datetime) -> tuple[str, ...]:
    """Write files into a new private archive, synced to disk; return their names in it.

    Args:
        target: The archive; must not exist.
        files: Name and path of each. A vanished file is left out; a growing one is cut at its first size.
        made: Time of the backup.

    Raises:
        OSError: A file cannot be read or was truncated meanwhile, or the archive cannot be written.
        tarfile.TarError: Likewise.
    """
    sums: dict[str, str] = {}
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:  # noqa: PTH123 -- a descriptor
        with tarfile.open(fileobj=out, mode="w:gz", compresslevel=_LEVEL, format=tarfile.PAX_FORMAT) as archive:
            for name, path in files:
                try:
                    # A link that has replaced the file meanwhile is not followed.
                    content = open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")  # noqa: PTH123, SIM115
                except FileNotFoundError:
                    continue
                with content:
                    sums[name] = _add(archive, name, content, os.fstat(content.fileno()).st_size, made)
            manifest = {"schema": SCHEMA, "made_at": made.isoformat(), "by": version("flashferry"), "sha256": sums}
            content_of_manifest = json.dumps(manifest, indent=1, sort_keys=True).encode()
            _add(archive, MANIFEST, io.BytesIO(content_of_manifest), len(content_of_manifest), made)
        out.flush()
        os.fsync(out.fileno())
    return tuple(sums)


def unpack(path: Path, folder: Path) -> tuple[str, ...]:
    """Unpack an archive into an empty folder, check its files against the manifest, and return their names.

    Args:
        path: The archive.
        folder: The folder; its content is unusable after an error. Files are private, and on disk.

    Raises:
        OSError: The archive cannot be read, or a file cannot be written; the other errors of `DAMAGED`: it is no
            backup.
    """
    sums: dict[str, str] = {}
    content_of_manifest = b"{}"
    with tarfile.open(path, mode="r:gz") as archive:
        for member in archive:
            content = _opened(archive, member)
            if member.name == MANIFEST:
                content_of_manifest = _manifest(content, member.size)
            else:
                sums[member.name] = _write(content, folder / member.name)
    manifest = json.loads(content_of_manifest)
    if manifest.get("schema") != SCHEMA:
        raise ValueError(f"expected the schema {SCHEMA}, found {manifest.get('schema') or 'none'}")
    if sums != manifest["sha256"]:
        raise ValueError("its files are not those that its manifest names")
    for inside in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        sync_folder(inside)
    return tuple(sums)


class _Hashed:
    """A file that hashes what is read or written through it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._sum = file, hashlib.sha256()

    def read(self, most: int) -> bytes:
        """Return the next bytes; empty at the end."""
        piece = self._file.read(most)
        self._sum.update(piece)
        return piece

    @property
    def digest(self) -> str:
        """SHA-256 in hex."""
        return self._sum.hexdigest()


def _add(archive: tarfile.TarFile, name: str, content: IO[bytes], size_bytes: int, made: datetime) -> str:
    """Add a file of a given size; return its digest."""
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = size_bytes, 0o600, int(made.timestamp())
    hashed = _Hashed(content)
    try:
        archive.addfile(member, hashed)  # type: ignore[arg-type]  # it is read, and no more
    except tarfile.ReadError:
        raise OSError(f"{name} became shorter while it was read") from None
    return hashed.digest


def _opened(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    parts = PurePosixPath(member.name).parts
    if not member.isreg() or not parts or parts[0] == "/" or ".." in parts:
        raise ValueError(f"expected plain files below a folder, found {member.name!r}")
    found = archive.extractfile(member)
    assert found is not None
    return found


def _manifest(content: IO[bytes], size_bytes: int) -> bytes:
    if size_bytes > _MOST_MANIFEST_BYTES:
        raise ValueError(f"expected a manifest of {_MOST_MANIFEST_BYTES} bytes at most, found {size_bytes}")
    return content.read()


def _write(content: IO[bytes], path: Path) -> str:
    """Write a new file; return its digest."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    hashed = _Hashed(content)
    # A duplicate name is refused: one file would be lost.
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as out:  # noqa: PTH123
        while piece := hashed.read(_PIECE_BYTES):
            out.write(piece)
        out.flush()
        os.fsync(out.fileno())
    return hashed.digest


DATABASES = {
    schema.FILE: schema.SCHEMA_VERSION,
    nights.FILE: nights.SCHEMA_VERSION,
    service.FILE: service.SCHEMA_VERSION,
    sites.FILE: sites.SCHEMA_VERSION,
}
"""File names, and the newest known schema of each."""

_PAGES = 1024

_MOST_FAULTS = 20


def copy_database(source: Path, target: Path) -> None:
    """Copy a database in one consistent state; the copy is private and has no log.

    Args:
        source: The database's file; only read.
        target: The copy; must not exist.

    Raises:
        OSError: The copy cannot be created.
        ConfigInvalid: The database cannot be read, or the copy cannot be written.
    """
    make_private(target)
    try:
        with open_to_read(source) as found, closing(sqlite3.connect(target, isolation_level=None)) as copy:
            if found is None:
                raise FileNotFoundError(f"there is no {source}")
            found.backup(copy, pages=_PAGES, sleep=0.01)
            # No log beside the copy, which will be moved.
            copy.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise ConfigInvalid(
            f"copy of {source} to {target}: {error}",
            hint="Check free space there; 'flashferry state check' looks at it",
        ) from None


def faults_of(path: Path) -> tuple[str, ...]:
    """Return the faults of a database, one sentence each.

    Checks pages, indexes and foreign keys (sqlite.org/pragma.html, `integrity_check`), and the seals of a journal's
    rows.
    """
    try:
        with open_to_read(path) as database:
            if database is None:
                return (f"{path.name} is not there",)
            found = _structure(database, DATABASES[path.name])
        return tuple(f"{path.name}: {fault}" for fault in (*found, *(() if found else _unsound(path))))
    except (OSError, sqlite3.Error) as error:
        return (f"{path.name}: {reason_of(error)}",)


def _structure(database: sqlite3.Connection, newest: int) -> list[str]:
    version = int(database.execute("PRAGMA user_version").fetchone()[0])
    if version > newest:
        return [str(OtherSchema(version, newest))]
    lines = [str(row[0]) for row in database.execute(f"PRAGMA integrity_check({_MOST_FAULTS})")]
    found = [] if lines == ["ok"] else lines
    lost = {str(row[0]) for row in database.execute("PRAGMA foreign_key_check")}
    return found + [f"rows of {table} refer to rows that are not there" for table in sorted(lost)]


def _unsound(path: Path) -> list[str]:
    if path.name != schema.FILE:
        return []
    with reading(path.parent) as database:
        assert database is not None
        schema.know_seals(database)
        rows = unsound_rows(database)
    return [f"{count} of the rows of {table} are not what was written" for table, count in rows.items()]


def old_runs(directory: Path, before: str) -> tuple[str, ...]:
    """Return the runs that ended before a time (ISO 8601, UTC) and hold no device, the oldest first.

    Raises:
        ConfigInvalid: The journal cannot be read.
    """
    with reading(directory) as database:
        return () if database is None else tuple(runs_ended_before(database, before))


def remove_runs(directory: Path, runs: Sequence[str]) -> None:
    """Remove runs from the journal in one transaction; their transfer figures stay, for forecasts.

    Args:
        directory: State directory.
        runs: Runs to remove; one that is not finished, or holds a device, is left.

    Raises:
        ConfigInvalid: The journal cannot be used.
    """
    with closing(open_database(directory)) as database, database:
        database.execute("BEGIN IMMEDIATE")
        # Checked again within the transaction: one may have been resumed meanwhile.
        still = set(runs_ended_before(database, "9999")) & set(runs)
        for table in ("steer_requests", "attempts", "devices", "summaries", "runs"):
            database.executemany(f"DELETE FROM {table} WHERE run_id = ?", [(run,) for run in still])  # noqa: S608 -- ours
