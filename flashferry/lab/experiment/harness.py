"""What experiments and benchmarks share: kept results, processes that speak JSON lines, tables in documents."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from flashferry.core.codec import CodecError
from flashferry.lab.errors import LabError

Key = TypeVar("Key")
Run = TypeVar("Run")


class JsonLines(Generic[Key, Run]):
    """Results by key, one per line of a file; a line cut short by a crash is skipped.

    Raises LabError: the file holds something else.
    """

    def __init__(self, path: Path, read: Callable[[Any], tuple[Key, Run]]) -> None:
        self._path = path
        self.runs: dict[Key, Run] = {}
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                # Cut short: take it away, so that the next line stands by itself.
                os.truncate(path, path.stat().st_size - len(line))
                break
            try:
                key, run = read(json.loads(line))
            except (ValueError, KeyError, TypeError, CodecError) as error:
                raise LabError(f"{path}: line {number}: {error}; give another folder by --output.") from None
            self.runs[key] = run

    def keep(self, key: Key, run: Run, values: dict[str, Any]) -> None:
        """Keep a run, by its values."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(values, separators=(",", ":")) + "\n")
        self.runs[key] = run


class JsonChild:
    """The owner's end of a process that takes a line of JSON at a time and answers each by one."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self._name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def send(self, request: dict[str, Any]) -> None:
        """Send a request; `receive` waits for its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """Wait for the next answer and return it. Raises LabError: it ended, or answers with an error alone."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        answer = cast("dict[str, Any]", json.loads(line)) if line else {"error": "it ended"}
        if list(answer) == ["error"]:
            raise LabError(f"{self._name} failed: {str(answer['error']).rstrip('.')}.")
        return answer

    def close(self, patience_s: float = 0.0) -> None:
        """End it: by closing its input, then after the patience by a signal."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def markdown(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; nothing where there is no row."""
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    head = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return "\n".join([*head, *lines]) if lines else ""


def targets_table(targets: Iterable[tuple[str, str, bool | None]]) -> str:
    """Return a row for each target: what is wanted, what was found, and whether it is met; None: it is undecided."""
    words = {True: "met", False: "**missed**", None: "open"}
    return markdown(("target", "found", ""), ((text, found, words[met]) for text, found, met in targets))


def missed_targets(targets: Iterable[tuple[str, str, bool | None]]) -> str:
    """Return how many targets are met, then each that is missed; one that is undecided counts as neither."""
    given = list(targets)
    missed = [f"- **missed**: {text}: {found}" for text, found, met in given if met is False]
    met_count = sum(met is True for _, _, met in given)
    return "\n".join([f"{met_count} of {met_count + len(missed)} targets are met.", *([""] if missed else []), *missed])


def write(path: Path, text: str) -> Path:
    """Write a file and the folders that it needs; return its path. Raises LabError: it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        reason = f"cannot be written ({error.strerror}); give another folder by --output, or document by --docs"
        raise LabError(f"{path}: {reason}.") from None
    return path


def put(path: Path, name: str, text: str) -> None:
    """Replace what stands between `<!-- NAME: begin -->` and `<!-- NAME: end -->`.

    Raises LabError: there is no such file, or it lacks the markers.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    try:
        before = path.read_text(encoding="utf-8")
    except OSError as error:
        raise LabError(f"{path}: cannot be read ({error.strerror}); give a document with {begin} and {end}.") from None
    after, count = re.subn(f"{begin}.*?{end}", lambda _: f"{begin}\n{text.strip()}\n{end}", before, flags=re.DOTALL)
    if count != 1:
        raise LabError(f"{path}: expected {begin} and {end} once, found them {count} times; put them where it belongs.")
    path.write_text(after, encoding="utf-8")
