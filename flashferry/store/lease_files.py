"""The leases a second time, in small files beside the journal: what is in hand is known though the journal is lost.

A database may be restored from an old backup, lose its write-ahead log, or be removed while dead runs' devices are
still tuned; it reads as one that knows of none. So what recovery needs is also in a file of its own for each device in
hand, written and synced before the journal's row, and removed behind it.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

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
"""What of the journal's row a file has."""

_LONGEST_NAME = 120
_NUMBER = "file"
"""The file's own number in the file system (inode): a copy has another one."""

_Mark = tuple[int, int, int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFile:
    """A lease as its file has it.

    Attributes:
        entry: The device in hand, or what is left of it.
        attempt: Which attempt of the run at the device it is, from 1.
        is_copy: Whether it is a copy of the file that the run wrote.
    """

    entry: LeasedDevice | DamagedEntry
    attempt: int
    is_copy: bool = False


class LeaseFiles:
    """The lease files of one state directory. Safe to use from all threads: each device has its own file."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / FOLDER
        self._known: dict[Path, tuple[_Mark, LeaseFile]] = {}

    def write(self, row: dict[str, Any]) -> None:
        """Write a lease, or what holds of it now; on disk when this returns.

        Args:
            row: COLUMNS of the journal's row.

        Raises:
            ConfigInvalid: Something else is in the folder's or the file's place.
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
        """Remove a lease that ended; one that comes back by a power cut is found to be over."""
        with suppress(OSError):
            self._path(run_id, host).unlink(missing_ok=True)

    def read(self, *, besides: str | None = None) -> tuple[LeaseFile, ...]:
        """Return all leases that have a file; of one that cannot be read, what its name says.

        A file that is as it was at the last call is not read again: files are written whole.

        Args:
            besides: A run whose files are not read: it has as many as it holds devices.
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
    """Return what is another one where a file was written anew; None where it is gone."""
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
