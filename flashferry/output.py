"""What goes to the terminal: results on standard output, everything else on standard error.

All of it passes the door to the outside (`inventory.outside`): no other module of the command line writes by itself,
but for tables (`flashferry.layout`). The copy lines of `flashferry serve` are what was asked for: they go out as they
are.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import typer

from flashferry.hints import here
from inventory.errors import FlashferryError
from inventory.outside import shown, told
from staging.codec import to_json
from staging.events import Event
from staging.exit_codes import ExitCode

SCHEMA_VERSION = 1
_PROGRESS_EVERY_S = 2.0
_GONE = frozenset({errno.EPIPE, errno.EIO})
"""What writing to a closed pipe or terminal ends in."""


def echo(text: str = "", *, err: bool = False) -> None:
    """Print a line."""
    typer.echo(shown(text), err=err)


def copy_line(text: str, *, err: bool = False) -> None:
    """Print a line to be pasted into a router, with the login in it that it needs: the one text that is not masked."""
    typer.echo(text, err=err)


def say(text: str) -> None:
    """Print a line for people on standard error; a closed terminal is no error."""
    with suppress(OSError):
        echo(f"flashferry: {here(text)}", err=True)


def complain(error: FlashferryError, code: ExitCode) -> None:
    """Print an error in one sentence on standard error, and as JSON on standard output where that was asked for."""
    with suppress(OSError):
        echo(f"flashferry: error: {here(str(error))}", err=True)
        if "--json" in sys.argv:
            print(result_document("error", code, {"error": str(error)}))  # noqa: T201


def finish(verb: str, code: ExitCode, result: dict[str, object], *, as_json: bool, human: Callable[[], None]) -> None:
    """Print a result as one JSON document or for people, and leave with its exit code."""
    is_out = printed((lambda: typer.echo(result_document(verb, code, result))) if as_json else human)
    raise typer.Exit(int(code if is_out else code or ExitCode.INTERNAL))


def printed(write: Callable[[], object]) -> bool:
    """Write to standard output; return whether it is there, or nobody wants it any more.

    A reader that went away, as `head` does, is no error: what was done is done, and the exit code tells it. A result
    that a full disk swallowed is one: an empty file and a zero would pass for a report.
    """
    try:
        write()
        sys.stdout.flush()
    except OSError as error:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 -- for the interpreter's last flush
        if error.errno in _GONE or isinstance(error, BrokenPipeError):
            return True
        say(f"error: the result could not be written to standard output: {error.strerror or error}")
        return False
    return True


def result_document(verb: str, code: ExitCode, result: dict[str, object]) -> str:
    """Return a result as the JSON document that `--json` prints: schema with version, exit code, then the result."""
    head = {"schema": f"flashferry.{verb}/{SCHEMA_VERSION}", "exit_code": int(code), "meaning": code.meaning}
    return json.dumps(told(head | to_json(result)), indent=2)


class EventLines:
    """Prints events as plain lines on standard error; of progress at most one line per device every two seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._progress_at: dict[str | None, float] = {}

    def say(self, text: str) -> None:
        """Print a line for people."""
        say(text)

    def __call__(self, event: Event) -> None:
        """Print an event."""
        if event.status == "started" and not event.text:
            return
        if event.status == "progress":
            if event.at_s - self._progress_at.get(event.host, -_PROGRESS_EVERY_S) < _PROGRESS_EVERY_S:
                return
            self._progress_at[event.host] = event.at_s
        who = event.host or "run"
        mark = {"failed": "FAILED "}.get(event.status, "")
        with self._lock:
            echo(f"{event.at_s:7.1f} s  {who:<12} {event.step:<8} {mark}{event.text}".rstrip(), err=True)
