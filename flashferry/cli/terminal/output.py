"""Terminal output: results on standard output, everything else on standard error.

All text is sanitized by `flashferry.core.redaction`. Only this module and the tables (`flashferry.cli.view.layout`)
print; the copy lines of `flashferry serve` are the one output that is not masked.
"""

from __future__ import annotations

import errno
import json
import os
import re
import select
import shlex
import shutil
import sys
import termios
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import typer

from flashferry.cli.command_line import SERVICE_VARIABLE, words_from_verb
from flashferry.core.codec import to_json
from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.core.redaction import redact_json, sanitize
from flashferry.model.exit_codes import ExitCode
from flashferry.monitor.events import Event

_QUOTED = re.compile(r"'flashferry ((?:recover|report|status|stage --resume|run (?!list)\w+)\b[^']*)'")
"""A flashferry command that reads the journal, as quoted in messages."""


class _CliState:
    """The state folder or service given on the command line; commands suggested in results and errors repeat it."""

    state_dir: Path | None = None
    service: str = ""


def remember(state_dir: Path | None) -> Path | None:
    """Store and return the value of `--state-dir`. Called by typer without the option, too.

    A value from the environment is not stored: the next command of the same shell has it as well.

    Raises:
        ConfigInvalid: It is not a folder.
    """
    if state_dir is not None and state_dir.exists() and not state_dir.is_dir():
        raise ConfigInvalid(
            f"--state-dir {state_dir}: expected a folder, found a file",
            hint="Name a folder; one that is not there is made",
        )
    is_everywhere = state_dir is not None and str(state_dir) == os.environ.get("FLASHFERRY_STATE_DIR")
    _CliState.state_dir = None if is_everywhere else state_dir
    return state_dir


def remember_service(url: str) -> str:
    """Store and return the value of `--service`, see `remember`."""
    _CliState.service = "" if url == os.environ.get(SERVICE_VARIABLE) else url
    return url


def command(words: str) -> str:
    """Return the command line to type for a verb that reads the journal, such as `report RUN`."""
    where = f" --service {shlex.quote(_CliState.service)}" if _CliState.service else ""
    return f"flashferry{where} {words}{_option()}"


def here(text: str) -> str:
    """Add the state folder or service of this command to the commands quoted in a sentence."""
    return _QUOTED.sub(lambda found: found[0] if "--state-dir" in found[1] else f"'{command(found[1])}'", text)


def _option() -> str:
    return f" --state-dir {shlex.quote(str(_CliState.state_dir))}" if _CliState.state_dir is not None else ""


SCHEMA_VERSION = 1
JSON_VARIABLE = "FLASHFERRY_JSON"
_YES = frozenset({"1", "true", "t", "yes", "y", "on"})
"""Values of an environment variable that typer reads as true."""

_FAMILIES = (["run"], ["images"], ["service"], ["sites"], ["nightly"], ["lab"])
_OF_DEPOT = (["sync"], ["probe"], ["list"], ["verify"])
"""Subcommands of `depot`, which is a command itself and has options with values."""
_PROGRESS_EVERY_S = 2.0
HASHING_EVERY_S = 30.0
_ANSWER_POLL_S = 0.2
GONE = frozenset({errno.EPIPE, errno.EIO})
"""Error numbers of writing to a closed pipe or terminal."""


def echo(text: str = "", *, err: bool = False) -> None:
    """Print a line."""
    _write_line(sanitize(text), err=err)


def copy_line(text: str, *, err: bool = False) -> None:
    """Print a copy command for a router, including its login: the one text that is not masked."""
    _write_line(text, err=err)


def _write_line(text: str, *, err: bool) -> None:
    # Not typer's echo: it writes UTF-8 to an ASCII stream, past our error handler for encoding.
    stream = sys.stderr if err else sys.stdout
    _StatusLine.clear()
    stream.write(f"{text}\n")
    stream.flush()


class _StatusLine:
    """Line at the end of the terminal that is updated in place until other text is printed."""

    is_shown = False

    @classmethod
    def show(cls, text: str) -> None:
        columns = shutil.get_terminal_size().columns
        sys.stderr.write(f"\r\033[K{sanitize(text)[: columns - 1]}")
        sys.stderr.flush()
        cls.is_shown = True

    @classmethod
    def clear(cls) -> None:
        if cls.is_shown:
            cls.is_shown = False
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def is_live_terminal() -> bool:
    """Return whether standard error is a terminal on which a line can be updated in place."""
    is_plain = "FLASHFERRY_PLAIN" in os.environ or os.environ.get("TERM", "dumb") in {"dumb", "unknown"}
    return sys.stderr.isatty() and not is_plain


def agreed(above: Sequence[str], question: str, interrupted: Callable[[], bool]) -> bool:
    """Ask a yes/no question on standard error. Everything but yes, including end of input, is no.

    Args:
        above: Lines printed above the question.
        question: The question.
        interrupted: Whether the operator wants to stop; polled during the wait.
    """
    return typed(above, f"{question} [y/N]", interrupted).casefold() in {"y", "yes"}


def typed(above: Sequence[str], question: str, interrupted: Callable[[], bool]) -> str:
    """Ask a question on standard error and return the answer; empty at end of input or on interrupt.

    Input typed before the question was printed is discarded.

    Args:
        above: Lines printed above the question.
        question: The question.
        interrupted: Whether the operator wants to stop; polled during the wait.
    """
    for text in above:
        echo(text, err=True)
    with suppress(termios.error, OSError, ValueError):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    sys.stderr.write(f"{sanitize(question)} ")
    sys.stderr.flush()
    _Question.is_open = True
    answer = ""
    while not interrupted():
        if select.select([sys.stdin], (), (), _ANSWER_POLL_S)[0]:
            answer = sys.stdin.readline()
            break
    if not answer.endswith("\n"):
        _end_question()
    _Question.is_open = False
    return answer.strip()


class _Question:
    """Whether an unanswered question is the last line of the terminal."""

    is_open = False


def _end_question() -> None:
    """Start a new line if an unanswered question is the terminal's last line."""
    if _Question.is_open:
        _Question.is_open = False
        echo(err=True)


def say(text: str) -> None:
    """Print a line on standard error; a closed terminal is not an error."""
    with suppress(OSError):
        _end_question()
        echo(f"flashferry: {here(text)}", err=True)


def print_error(error: FlashferryError, code: ExitCode) -> None:
    """Print an error as one sentence on standard error, and as JSON on standard output if that was asked for."""
    with suppress(OSError):
        echo(f"flashferry: error: {here(str(error))}", err=True)
    report_to_programs(str(error), code)


def report_to_programs(error: str, code: ExitCode, meaning: str | None = None) -> None:
    """Print an error as JSON on standard output if that was asked for; arguments as for `finish`."""
    if wants_json():
        with suppress(OSError):
            verb = verb_given()
            content: dict[str, object] = {"verb": verb, "error": error}
            document = result_document("error", code, content, meaning or code.meaning_for(verb))
            print(document)  # noqa: T201


def verb_given() -> str:
    """Return the verb of this process as results name it, or an empty string."""
    words = [word for word in words_from_verb(sys.argv[1:]) if not word.startswith("-")]
    if words[:1] == ["stage"] and "--dry-run" in sys.argv:
        return "dry-run"
    has_command = words[:1] in _FAMILIES or (words[:1] == ["depot"] and words[1:2] in _OF_DEPOT)
    return "-".join(words[: 2 if has_command else 1])


def wants_json() -> bool:
    """Return whether the command line or the environment asks for JSON."""
    words = sys.argv[1:]
    is_form = "--format=json" in words or ("--format", "json") in pairwise(words)
    return "--json" in words or is_form or os.environ.get(JSON_VARIABLE, "").lower() in _YES


def finish(
    verb: str,
    code: ExitCode,
    result: dict[str, object],
    *,
    as_json: bool,
    human: Callable[[], None],
    meaning: str | None = None,
) -> None:
    """Print a result as JSON or for people, and exit with its code.

    Args:
        verb: The verb as results name it.
        code: The exit code.
        result: Further content of the JSON document.
        as_json: Whether to print JSON.
        human: Prints the result for people.
        meaning: What the code means here; None: what it always means for this verb.
    """
    is_out = printed((lambda: typer.echo(result_document(verb, code, result, meaning))) if as_json else human)
    raise typer.Exit(int(code if is_out else code or ExitCode.INTERNAL))


def printed(write: Callable[[], object]) -> bool:
    """Write to standard output; return whether the output arrived or its reader closed the pipe.

    A closed reader, as with `head`, is not an error. Output lost to a full disk is: an empty file with exit code 0
    would pass for a report.
    """
    try:
        write()
        sys.stdout.flush()
    except OSError as error:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 -- for the interpreter's last flush
        if error.errno in GONE or isinstance(error, BrokenPipeError):
            return True
        say(f"error: the result could not be written to standard output: {error.strerror or error}")
        return False
    return True


def print_json_line(document: Mapping[str, object]) -> None:
    """Print a JSON document on a line of its own, with known secrets masked."""
    echo(json.dumps(redact_json(dict(document))))


def result_document(verb: str, code: ExitCode, result: dict[str, object], meaning: str | None = None) -> str:
    """Return the JSON document that `--json` prints: schema version, exit code, then the result."""
    head = {
        "schema": f"flashferry.{verb}/{SCHEMA_VERSION}",
        "exit_code": int(code),
        "meaning": meaning or code.meaning_for(verb),
    }
    return json.dumps(redact_json(head | to_json(result)), indent=2)


def print_document(document: Mapping[str, object]) -> None:
    """Print a JSON document that came from a service."""
    typer.echo(json.dumps(redact_json(dict(document)), indent=2))


class EventLines:
    """Prints events as plain lines on standard error; progress at most every two seconds per device.

    Hashing progress is one line updated in place, or a line every 30 seconds if the terminal cannot do that.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._progress_at: dict[str | None, float] = {}

    def say(self, text: str) -> None:
        """Print a line."""
        say(text)

    def __call__(self, event: Event) -> None:
        """Print an event."""
        if event.status == "started" and not event.text:
            return
        if event.status == "progress":
            if event.host is None and is_live_terminal():
                with self._lock:
                    _StatusLine.show(event.text)
                return
            every_s = HASHING_EVERY_S if event.host is None else _PROGRESS_EVERY_S
            if event.at_s - self._progress_at.get(event.host, -every_s) < every_s:
                return
            self._progress_at[event.host] = event.at_s
        who = event.host or "run"
        mark = {"failed": "FAILED "}.get(event.status, "")
        with self._lock:
            echo(f"{event.at_s:7.1f} s  {who:<12} {event.step:<8} {mark}{event.text}".rstrip(), err=True)
