"""A file for each leased device beside the journal, so that held devices are known even if the journal is lost.

A journal that was restored from a backup, lost its write-ahead log, or was removed shows no leases. So what recovery
needs is written and synced to a file before the journal's row, and removed after it.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from flashferry.core.files import sync_folder, write_whole
from flashferry.core.state_folder import check_regular, make_private_directory, open_private
from flashferry.model.lease import DamagedEntry, LeasedDevice, leased_device
from flashferry.store.schema import seal_of

SCHEMA = "flashferry.lease/1"
FOLDER = "leases"
COLUMNS = (
    "run_id",
    "host",
    "address",
    "port",
    "platform",
    "state",
    "identity",
    "snapshot",
    "changes",
    "target",
    "members",
    "attempt",
    "activation",
)
"""Columns of the journal's row that a file has."""

_LONGEST_NAME = 120
_NUMBER = "file"
"""The file's inode: a copy has another one."""

_Mark = tuple[int, int, int, int] | None


class LeaseFile(Struct, frozen=True, kw_only=True):
    """A lease by its file.

    Attributes:
        entry: The leased device, or what the name of a damaged file says.
        attempt: Number of the run's attempt at the device, from 1.
        is_copy: Whether the file is a copy: its inode differs from the stored one.
    """

    entry: LeasedDevice | DamagedEntry
    attempt: int
    is_copy: bool = False


class LeaseFiles:
    """The lease files of one state directory. Safe to use from all threads, one per device."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / FOLDER
        self._known: dict[Path, tuple[_Mark, LeaseFile]] = {}

    def write(self, row: dict[str, Any]) -> None:
        """Write or replace a lease; on disk when this returns.

        Args:
            row: The columns COLUMNS of the journal's row.

        Raises:
            ConfigInvalid: The folder or the file is a link or of another type.
            OSError: It cannot be written.
        """
        make_private_directory(self._folder)

        def sealed(number: int) -> str:
            kept = {"schema": SCHEMA, _NUMBER: number} | row
            return json.dumps(kept | {"seal": seal_of(*(kept[key] for key in sorted(kept)))})

        path = self._path(row["run_id"], row["host"])
        check_regular(path)
        write_whole(path, sealed, is_private=True)
        sync_folder(self._folder)

    def remove(self, run_id: str, host: str) -> None:
        """Remove an ended lease; a file that reappears after a power cut is recognised as over."""
        with suppress(OSError):
            self._path(run_id, host).unlink(missing_ok=True)

    def read(self, *, besides: str | None = None) -> tuple[LeaseFile, ...]:
        """Return all lease files; unchanged files are not read again.

        Args:
            besides: A run whose files are skipped.
        """
        left_out = None if besides is None else _stem(besides, "")
        try:
            with os.scandir(self._folder) as found:
                names = sorted(one.name for one in found if one.name.endswith(".json"))
        except OSError:
            return ()
        paths = (self._folder / name for name in names if left_out is None or not name.startswith(left_out))
        marks = {path: _mark(path) for path in paths}
        known = self._known
        self._known = {
            path: known[path] if path in known and known[path][0] == mark else (mark, _read(path))
            for path, mark in marks.items()
        }
        return tuple(file for _, file in self._known.values())

    def _path(self, run_id: str, host: str) -> Path:
        name = _stem(run_id, host)
        if len(name) > _LONGEST_NAME:
            name = f"{name[:_LONGEST_NAME]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
        return self._folder / f"{name}.json"


def _stem(run_id: str, host: str) -> str:
    return quote(f"{run_id}@{host}", safe=" ")


def _mark(path: Path) -> _Mark:
    """Return inode, size and times of a file, which change when it is rewritten; None if it is gone."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read(path: Path) -> LeaseFile:
    try:
        with open_private(path, "r") as file:
            kept, number = json.load(file), os.fstat(file.fileno()).st_ino
        seal = kept.pop("seal")
        if kept["schema"] != SCHEMA or seal != seal_of(*(kept[key] for key in sorted(kept))):
            raise ValueError("not what was written")
        is_copy = kept.get(_NUMBER, number) != number
        row = {key: kept[key] for key in COLUMNS}
        return LeaseFile(entry=leased_device(row), attempt=int(kept["attempt"]), is_copy=is_copy)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        run_id, _, host = path.stem.partition("%40")
        return LeaseFile(entry=DamagedEntry(run_id=run_id, host=host or path.stem, address="?"), attempt=0)
