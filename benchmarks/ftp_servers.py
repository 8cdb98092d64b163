"""Measures our server beside stock pyftpdlib and vsftpd: `python -m benchmarks.ftp_servers`; see docs/benchmarks.md."""

import argparse
import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from benchmarks import isolation, measures, report, subjects
from benchmarks.measures import Bench, Crowd, Load
from benchmarks.summary import Summary
from benchmarks.workers import MeasureFailed
from flashferry.lab.experiment.harness import put

if TYPE_CHECKING:
    from benchmarks.subjects import Subject

_Item = TypeVar("_Item")
_MODULE = "benchmarks.ftp_servers"
_RESULTS = Path(__file__).parent / "results"
_DOCUMENT = Path(__file__).parent.parent / "docs" / "benchmarks.md"
_LOGINS = 400
_CROWDS = (1, 100, 1000)
_HOLD_S = 52.0
_LAST_START_S = 270.0
# Each load moves 2 GiB, so that the kernel's 10 ms ticks of processor time are right within a few percent.
_LOADS = (
    Load(clients=1, path="large.bin"),
    Load(clients=4, path="middle.bin"),
    Load(clients=32, path="small.bin"),
    Load(clients=4, path="middle.bin", copying=True),
)
_SIZES_BYTES = {"large.bin": 2 << 30, "middle.bin": 512 << 20, "small.bin": 64 << 20}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be measured.

    Attributes:
        makers: Servers by name.
        repeats: Repeats of everything; each goes round all servers before the next begins.
        loads: Fetches.
        crowds: Numbers of sessions to hold.
        hold_s: How long to hold our last crowd.
    """

    makers: "dict[str, Callable[[Path], Subject]]"
    repeats: int
    loads: tuple[Load, ...] = _LOADS
    crowds: tuple[int, ...] = _CROWDS
    hold_s: float = _HOLD_S


@dataclass(kw_only=True)
class Run:
    """A session under way."""

    plan: Plan
    bench: Bench
    notices: list[str]
    started_s: float = field(default_factory=time.monotonic)
    congestion_controls: dict[str, str] = field(default_factory=dict)

    def attempt(self, what: str, measure: "Callable[[], None]") -> None:
        """Take a measurement; if it fails, say so and go on."""
        self._say(what)
        try:
            measure()
        except (MeasureFailed, OSError) as error:
            self.notices.append(f"{what}: {error}")

    def speeds(self) -> None:
        """Throughput and logins, all servers running, one measured at a time."""
        with contextlib.ExitStack() as stack:
            running = [stack.enter_context(started(self.bench, make)) for make in self.plan.makers.values()]
            for subject in running:
                self._prepare(subject)
            for repeat in range(self.plan.repeats):
                self._round(_turned(running, repeat), repeat)

    def _round(self, running: "list[Subject]", repeat: int) -> None:
        for load in self.plan.loads:
            for subject in running:
                what = f"repeat {repeat + 1}: {subject.name}, {load.clients} clients"
                self.attempt(what, partial(measures.throughput, self.bench, subject, load, repeat))
        for subject in running:
            what = f"repeat {repeat + 1}: {subject.name}, logins"
            self.attempt(what, partial(measures.logins, self.bench, subject, _LOGINS, repeat, "small.bin"))

    def crowds(self) -> None:
        """Memory, each time of a fresh server that runs alone."""
        for repeat in range(self.plan.repeats):
            if repeat and time.monotonic() - self.started_s > _LAST_START_S:
                self.notices.append(f"memory: {repeat} of {self.plan.repeats} repeats, the time was up")
                return
            names = [name for name in self.plan.makers if name != subjects.OursWithParent.name]
            for name in _turned(names, repeat):
                for transfer in (False, True):
                    hold_s = self.plan.hold_s if transfer and name == subjects.Ours.name and not repeat else 0.0
                    crowd = Crowd(counts=self.plan.crowds, path="small.bin", transfer=transfer, hold_s=hold_s)
                    what = f"repeat {repeat + 1}: {name}, {crowd.kind} sessions"
                    self.attempt(what, partial(self._crowd, name, crowd, repeat))

    def _prepare(self, subject: "Subject") -> None:
        report.print_progress(
            f"{time.monotonic() - self.started_s:5.0f} s  {subject.name}: reading and hashing the files"
        )
        for path in _SIZES_BYTES:
            subject.credentials(path, 1)
        self.congestion_controls[subject.name] = measures.congestion_control(self.bench, subject, "small.bin")

    def _say(self, what: str) -> None:
        report.print_progress(f"{time.monotonic() - self.started_s:5.0f} s  {what}")

    def _crowd(self, name: str, crowd: Crowd, repeat: int) -> None:
        with started(self.bench, self.plan.makers[name]) as subject:
            subject.credentials(crowd.path, 1)
            measures.memory(self.bench, subject, crowd, repeat)


@contextlib.contextmanager
def started(bench: Bench, make: "Callable[[Path], Subject]") -> "Iterator[Subject]":
    """Start a server on its processors and stop it in the end."""
    subject = make(bench.directory)
    try:
        measures.pin(bench, subject)
        yield subject
    finally:
        subject.close()


def _turned(items: "list[_Item]", by: int) -> "list[_Item]":
    """Return the same in another order, so that nobody always comes first."""
    return items[by % len(items) :] + items[: by % len(items)]


def _files(directory: Path) -> None:
    # Files with holes: reading them fills the page cache with zeroes as any data would, writing them takes no time.
    directory.chmod(0o755)
    for name, size_bytes in _SIZES_BYTES.items():
        with (directory / name).open("wb") as file:
            file.truncate(size_bytes)


def _measure(options: argparse.Namespace, directory: Path) -> report.Session:
    _files(directory)
    ground = isolation.prepare(options.congestion_control)
    makers, notices = subjects.available()
    bench = Bench(ground=ground, directory=directory)
    plan = Plan(makers=makers, repeats=options.repeats, hold_s=0.0 if options.quick else _HOLD_S)
    run = Run(plan=plan, bench=bench, notices=[*ground.notices, *notices])
    run.speeds()
    if not options.quick:
        run.crowds()
    return report.Session(
        command=" ".join(("python -m", _MODULE, *sys.argv[1:])),
        ground=ground,
        versions=subjects.versions(),
        congestion_controls=run.congestion_controls,
        clients=tuple(load.clients for load in plan.loads if not load.copying),
        crowds=plan.crowds,
        figures=tuple(bench.figures),
        notices=tuple(run.notices),
        took_s=time.monotonic() - run.started_s,
    )


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="repeats of everything (default: 5)")
    parser.add_argument("--quick", action="store_true", help="throughput and logins only, no sessions held")
    parser.add_argument(
        "--congestion-control",
        default="cubic",
        metavar="NAME",
        help="for all servers alike, by route in a namespace of our own; 'host' leaves the default (default: cubic)",
    )
    parser.add_argument("--results", type=Path, default=_RESULTS, help="directory for the JSON and Markdown files")
    parser.add_argument("--update-docs", action="store_true", help="put the table into docs/benchmarks.md too")
    return parser.parse_args(arguments)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    """Run the command; return its exit code."""
    options = _options(arguments)
    isolation.enter_namespace(_MODULE, arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with tempfile.TemporaryDirectory(prefix="ferry-bench-") as directory:
            session = _measure(options, Path(directory))
    except KeyboardInterrupt:
        report.print_progress("interrupted; every server and client was stopped, nothing was written")
        return 130
    markdown = report.to_markdown(session)
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "ftp_servers.json").write_text(report.to_json(session))
    (options.results / "ftp_servers.md").write_text(markdown)
    if options.update_docs:
        put(_DOCUMENT, "ftp_servers", report.to_markdown(session, for_document=True))
    print(markdown)
    missed = [target for target in Summary(session.figures).targets() if target.met is False]
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
