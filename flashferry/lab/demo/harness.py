"""A demo's programs: flashferry commands as processes in the lab's namespaces, and how they are ended.

An agent's jobs run in sessions of their own and outlive the agent; SIGTERM has it restore every router first. After
`kill -9` of the demo, a guard (`flashferry.lab.demo.guard`) finds what is left by the lab's folder in its command line.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol, TypeVar

import typer

from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import say
from flashferry.cli.view.layout import BAD, GOOD, console
from flashferry.lab.enter import inside
from flashferry.lab.errors import LabError
from flashferry.lab.helper import end_with_owner
from flashferry.lab.world import Site
from flashferry.model.exit_codes import ExitCode

RESTORE_S = 120.0
"""What is under way gets so long to put its routers back."""

_END_S = 15.0
_POLL_S = 0.05
_OURS = "FLASHFERRY_"
_OF_US = b"\0-m\0flashferry"
_NONE_LEFT = 3
"""So many looks one behind the other find nothing before nothing is left."""


class Broken(Exception):
    """The demo cannot go on: a program is gone, an answer is not what it should be, or all is to end; it says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Output of a command: its result, and what it wrote to standard error."""

    exit_code: int
    out: str
    err: str

    @property
    def last_line(self) -> str:
        """Return the last line that it said."""
        lines = (self.err + "\n" + self.out).splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "it gave no reason")


@dataclass(kw_only=True)
class Programs:
    """Programs in namespaces of a lab.

    `stop` is set when all shall end, `hurry` when at once; `running` has those that stay, in their order of start.
    """

    logs: Path
    stop: threading.Event
    hurry: threading.Event
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, pid: int, words: Sequence[str], keep: tuple[int, ...] = ()) -> None:
        """Start a command that stays until the demo ends, in the namespace of process `pid`.

        `keep` are descriptors that it inherits.
        """
        with self._log(name).open("ab") as log:
            self.running[name] = _started(pid, words, log, log, keep=keep)

    def ask(self, pid: int, words: Sequence[str], patience_s: float, *, state: Path) -> Said:
        """Run a command to its end in the namespace of process `pid` and return its output.

        Raises Broken: it takes longer than `patience_s`, or all shall end.
        """
        process = _started(pid, words, subprocess.PIPE, subprocess.PIPE, state)
        try:
            out, err = self._communicated(process, patience_s, words)
        finally:
            _kill(process)
        return Said(exit_code=process.returncode, out=out.decode(), err=err.decode())

    def trouble(self) -> str:
        """Return what has become of one that was to stay and has ended; empty where all are there."""
        for name, process in self.running.items():
            if process.poll() is not None:
                return f"the {name} has ended, exit code {process.returncode}: {self._last_line(name)}"
        return ""

    def check(self) -> None:
        """Check that what is to stay is there still, and that the demo is to go on.

        Raises Broken: one has ended, or all of it is to end.
        """
        if self.stop.is_set():
            raise Broken("it was interrupted")
        if trouble := self.trouble():
            raise Broken(trouble)

    def pause(self, seconds: float) -> None:
        """Wait for a moment. Raises Broken: a program has ended, or all of it is to end."""
        self.stop.wait(seconds)
        self.check()

    def end(self, names: Sequence[str], within_s: float = _END_S) -> None:
        """End some of those that stay beside each other, in order, and with force where that takes too long."""
        ending = [self.running.pop(name) for name in names]
        for process in ending:
            process.terminate()
        until_s = time.monotonic() + within_s
        while any(process.poll() is None for process in ending):
            if time.monotonic() > until_s or self.hurry.is_set():
                break
            time.sleep(_POLL_S)
        for process in ending:
            _kill(process)

    def _last_line(self, name: str) -> str:
        """Return the last line that one of those that stay wrote."""
        lines = self._log(name).read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line for line in reversed(lines) if line.strip()), "it gave no reason")

    def _communicated(
        self, process: subprocess.Popen[bytes], patience_s: float, words: Sequence[str]
    ) -> tuple[bytes, bytes]:
        until_s = time.monotonic() + patience_s
        while True:
            with suppress(subprocess.TimeoutExpired):
                return process.communicate(timeout=_POLL_S)
            self.check()
            if time.monotonic() > until_s:
                raise Broken(f"'flashferry {' '.join(words[:2])}' has not ended within {patience_s:g} s")

    def _log(self, name: str) -> Path:
        return self.logs / f"{name.replace(' ', '-')}.log"


@dataclass(kw_only=True)
class Followed:
    """A command that runs on meanwhile; its output is read from its files."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path
    _shown: int = 0

    @classmethod
    def start(cls, programs: Programs, name: str, pid: int, words: Sequence[str], *, state: Path) -> Followed:
        """Start it; arguments as those of `Programs.ask`, and what its files are called."""
        paths = [programs.logs / f"{name}.{end}" for end in ("out", "err")]
        with paths[0].open("wb") as out, paths[1].open("wb") as err:
            process = _started(pid, words, out, err, state)
        return cls(process=process, out=paths[0], err=paths[1])

    @property
    def is_over(self) -> bool:
        """Return whether it has ended."""
        return self.process.poll() is not None

    def new_lines(self) -> Iterator[str]:
        """Yield the whole lines that it said since the last look."""
        text = self.err.read_text(encoding="utf-8", errors="replace")
        whole = text[: text.rfind("\n") + 1]
        yield from whole[self._shown :].splitlines()
        self._shown = len(whole)

    def said(self) -> Said:
        """Return what it came to; it has ended."""
        texts = [path.read_text(encoding="utf-8", errors="replace") for path in (self.out, self.err)]
        return Said(exit_code=self.process.returncode, out=texts[0], err=texts[1])

    def kill(self) -> None:
        """End it at once; what it had others do goes on."""
        _kill(self.process)


def sweep(folder: Path) -> None:
    """End all processes of ours in whose command line a folder is, until there are none."""
    clean = 0
    while clean < _NONE_LEFT:
        found = list(_processes_of(folder))
        clean = 0 if found else clean + 1
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)


def until(condition: Callable[[], object], programs: Programs, what: str, within_s: float) -> None:
    """Wait until something is so.

    Raises Broken: it is not within the time, a program has ended, or all of it is to end.
    """
    until_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > until_s:
            raise Broken(f"within {within_s:g} s: expected {what}, found it is not so")
        programs.pause(_POLL_S)


def _started(
    pid: int,
    words: Sequence[str],
    out: int | IO[bytes],
    err: int | IO[bytes],
    state: Path | None = None,
    *,
    keep: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    # What the operator's own shell says of his depot, inventory or logins is nothing for the demo.
    environment = {key: value for key, value in os.environ.items() if not key.startswith(_OURS)}
    if state is not None:
        environment["FLASHFERRY_STATE_DIR"] = str(state)
    return subprocess.Popen(
        [*inside(pid), sys.executable, "-P", "-m", "flashferry", *words],
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        # The terminal's Ctrl-C is for us.
        start_new_session=True,
        pass_fds=keep,
        # Tables are as wide as our own.
        env=environment | {"COLUMNS": str(console().width)},
        preexec_fn=end_with_owner,  # noqa: PLW1509 -- one call of the kernel
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and what else is of its session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _processes_of(folder: Path) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            # Ours alone: a foreign program may be reading a log there.
            words = (entry / "cmdline").read_bytes()
            if os.fsencode(folder) in words and _OF_US in words:
                yield int(entry.name)


class Environment(Protocol):
    """What a scenario runs on: a lab, and programs in it."""

    @property
    def programs(self) -> Programs:
        """The programs that run."""


AnyEnvironment = TypeVar("AnyEnvironment", bound=Environment)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeUpImage:
    """An image of random bytes with a vendor-like name, and the model that the image rules give it to."""

    name: str
    model: str
    size_bytes: int


def write_image_rules(inventory: Path, images: Iterable[MadeUpImage]) -> None:
    """Write which model gets which image beside an inventory."""
    lines = [f'  - {{model: "{one.model}", image: "{one.name}"}}' for one in images]
    (inventory / "images.yaml").write_text("\n".join(["rules:", *lines, ""]), encoding="utf-8")


def play(
    opened: Callable[[threading.Event, threading.Event], AbstractContextManager[AnyEnvironment]],
    scenario: Callable[[AnyEnvironment], Sequence[str]],
) -> None:
    """Open an environment, run a scenario on it, end all of it, and exit with typer.Exit.

    `opened`: Yields the environment; takes the events `stop` and `hurry`. `scenario`: Returns what is wrong, in
    sentences.
    """
    hurry = threading.Event()

    def end(first: bool) -> None:
        if first:
            say("stopping; routers being staged are restored first, unless you press Ctrl-C again")
        else:
            hurry.set()

    try:
        with stop_on_signals(announce=end) as stop, opened(stop, hurry) as environment:
            code = _played(environment, scenario)
    except LabError as error:
        say(f"error: {error}")
        code = ExitCode.USAGE
    raise typer.Exit(int(code))


def _played(environment: AnyEnvironment, scenario: Callable[[AnyEnvironment], Sequence[str]]) -> ExitCode:
    try:
        wrong = scenario(environment)
    except Broken as error:
        if environment.programs.stop.is_set():
            return ExitCode.INTERRUPTED
        say(f"error: {environment.programs.trouble() or error}")
        return ExitCode.INTERNAL
    return ExitCode.DEVICES_FAILED if wrong else ExitCode.OK


def step(number: int, text: str) -> None:
    """Print the heading of a step."""
    print_line()
    print_line(f"{number}. {text}", style="bold")


def print_line(text: str = "", style: str = "") -> None:
    """Print a line."""
    console().print(text, style=style or None, soft_wrap=True)


def models_at(site: Site) -> str:
    """Return how many routers of which platform a site has, in words."""
    return ", ".join(f"{count} {platform}" for platform, count in Counter(one.platform for one in site.devices).items())


def print_checks(checks: Iterable[tuple[str, Iterable[str]]]) -> tuple[str, ...]:
    """Print what is well, then what is not; return the latter."""
    wrong: list[str] = []
    for text, sentences in checks:
        found = tuple(sentences)
        wrong += found
        if text and not found:
            print_line(text, style=GOOD)
    for sentence in wrong:
        print_line(f"WRONG: {sentence}", style=BAD)
    return tuple(wrong)
