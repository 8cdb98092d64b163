"""The log of a process that runs for weeks: one line per record, in a file that may be rotated at any moment.

Facts
-----

- Rotation renames the file. It needs no signal: before each line we check whether the path still leads to the open
  file, as `logging.handlers.WatchedFileHandler` does, and open a new file if not. A file that is copied and truncated
  continues at its new end, because it is opened to append.
- A failure to log never stops the process: on a full disk lines are lost, which is reported once on standard error, and
  in the file when there is room again. A line that a full disk cut off is ended before the next one.
- A record is one line, whatever it contains; lines of its trace begin with spaces and a bar. Control characters are
  escaped and the secrets known to this process are masked.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import masked, redact_json, sanitize, sanitize_lines
from flashferry.core.state_folder import open_private
from flashferry.core.units import counted

OURS = "flashferry"
"""Name of the parent of all our loggers."""

FIELDS = "fields"
"""Attribute of a record with further fields for the JSON form, of JSON's types: `extra={FIELDS: {...}}`."""


class LogLines(logging.Formatter):
    """Formats records as lines.

    Args:
        is_json: Whether each line is a JSON object, with the trace in a field.
        has_time: Whether a text line starts with time, level and name; systemd's journal adds its own.
    """

    def __init__(self, *, is_json: bool = False, has_time: bool = True) -> None:
        super().__init__()
        self._is_json, self._has_time = is_json, has_time

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line; in text form the lines of its trace follow."""
        trace = self.formatException(record.exc_info) if record.exc_info else record.exc_text or ""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self._is_json:
            found = {"at": at, "level": record.levelname.lower(), "logger": record.name, "text": record.getMessage()}
            found |= getattr(record, FIELDS, {})
            return json.dumps(redact_json(found) | ({"trace": masked(trace)} if trace else {}))
        head = f"{at} {record.levelname} {record.name}: " if self._has_time else ""
        lines = [head + sanitize(record.getMessage()), *(f"  | {line}" for line in sanitize_lines(trace).splitlines())]
        return "\n".join(lines)


class LogFile(logging.Handler):
    """Writes lines to a file, and to a new one of the same path after a rotation. A file that it creates is private.

    Args:
        path: The file.
        lines: Formatter of the records.

    Raises:
        ConfigInvalid: It cannot be opened.
    """

    def __init__(self, path: Path, lines: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(lines)
        self._path = path
        self._lost, self._is_torn, self._is_in_trouble = 0, False, False
        try:
            self._file = open_private(path, "ab")
        except OSError as error:
            raise ConfigInvalid(
                f"log file {path}: cannot be opened: {error.strerror}",
                hint="Make its folder, and let this user write there; without a file the log goes to standard error",
            ) from None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; a failure is reported on standard error, once."""
        try:
            line = self.format(record)
        except Exception as error:  # noqa: BLE001 -- a failure to log is reported, not raised
            line = f"a line of {record.name} could not be made: {type(error).__name__}"
        trouble = self._followed()
        try:
            self._write(line)
        except OSError as error:
            self._lost += 1
            trouble = error.strerror or str(error)
        if trouble and not self._is_in_trouble:
            with suppress(OSError, ValueError):
                sys.stderr.write(sanitize_lines(f"flashferry: log file {self._path}: {trouble}; lines may be lost\n"))
        self._is_in_trouble = bool(trouble)

    def close(self) -> None:
        """Close the file."""
        self.acquire()
        try:
            self._file.close()
        finally:
            self.release()
            super().close()

    def _followed(self) -> str:
        """Open the file that the path leads to now; return why that fails, in which case the old one stays open."""
        try:
            found = os.stat(self._path, follow_symlinks=False)  # noqa: PTH116 -- once for each line
        except FileNotFoundError:
            found = None
        except OSError as error:
            return error.strerror or str(error)
        open_now = os.fstat(self._file.fileno())
        if found is not None and (found.st_dev, found.st_ino) == (open_now.st_dev, open_now.st_ino):
            return ""
        try:
            fresh: IO[Any] = open_private(self._path, "ab")
        except OSError as error:
            return f"cannot be opened anew: {error.strerror}"
        except ConfigInvalid as error:
            return error.message
        self._file.close()
        self._file, self._is_torn = fresh, False
        return ""

    def _write(self, line: str) -> None:
        lost = f"{counted(self._lost, 'line')} could not be written\n" if self._lost else ""
        data = (("\n" if self._is_torn else "") + lost + line + "\n").encode("utf-8", "backslashreplace")
        # Not through the file's own buffer, which would retry what a full disk refused.
        written = os.write(self._file.fileno(), data)
        if written < len(data):
            self._is_torn = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._lost, self._is_torn = 0, False


@contextmanager
def logging_to(path: Path | None, *, is_json: bool = False) -> Iterator[None]:
    """Log to a file, or to standard error, during a block.

    A file gets our records from level INFO and the warnings of libraries; standard error gets warnings only.

    Args:
        path: The file; None logs to standard error.
        is_json: Whether each line is a JSON object.

    Raises:
        ConfigInvalid: The file cannot be opened.
    """
    if path is not None:
        handler: logging.Handler = LogFile(path, LogLines(is_json=is_json))
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(LogLines(is_json=is_json, has_time=is_json))
    root, ours = logging.getLogger(), logging.getLogger(OURS)
    level = ours.level
    root.addHandler(handler)
    if path is not None:
        ours.setLevel(logging.INFO)
    try:
        yield
    finally:
        ours.setLevel(level)
        root.removeHandler(handler)
        handler.close()
