"""What `serve --json` costs while hundreds of slow copies run: `python -m benchmarks.event_lines [--update-docs]`.

`flashferry serve --json` sends one image to 400 clients on the loopback that read 16 kB/s each, and writes every event
to a file: a reading of each copy every second. Processor time of the command itself and of the server's process, both
as a share of one core, over 30 s, five times; a run in which a copy's lines are missing counts for nothing. The exit
code is 1 if the target is missed.
"""

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import procfs
from benchmarks.client import Session
from benchmarks.isolation import enter_namespace, prepare
from benchmarks.report import conditions, print_progress
from benchmarks.subjects import free_port
from flashferry.cli.serve import PASSWORD_VARIABLE
from flashferry.lab.experiment.harness import put

DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks.md"
MOST_SHARE = 0.07
_IMAGE = "image.bin"
_IMAGE_BYTES = 1_000_000_000
_USER, _PASSWORD = "bench", "bench-of-event-lines"
_READ_BYTES, _READ_EVERY_S = 4096, 0.25
_RECEIVE_BUFFER_BYTES = 16_384
_SETTLE_S = 5.0
_START_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Processor time as shares of one core: of the command, and of the server's process."""

    command: float
    server: float
    lines_per_s: float


@contextlib.contextmanager
def _serving(folder: Path) -> Iterator[tuple[int, Path]]:
    """Run `serve --json`; yield its process id and the file with its lines."""
    output = folder / "events.jsonl"
    command = [
        sys.executable,
        "-m",
        "flashferry",
        "serve",
        "--image-dir",
        str(folder / _IMAGE),
        "--listen",
        "127.0.0.1",
    ]
    with output.open("wb") as lines, (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            [*command, "--port", str(free_port()), "--user", _USER, "--json"],
            stdout=lines,
            stderr=said,
            env=os.environ | {PASSWORD_VARIABLE: _PASSWORD},
        )
    try:
        yield process.pid, output
    finally:
        process.kill()
        process.wait()


def _port(output: Path) -> int:
    """Return the port in the copy line of the first offer."""
    until_s = time.monotonic() + _START_S
    while time.monotonic() < until_s:
        for text in output.read_text().splitlines()[:1]:
            return int(json.loads(text)["copy"][0].partition("@")[2].partition(":")[2].partition("/")[0])
        time.sleep(0.1)
    raise TimeoutError(f"expected an offer within {_START_S:.0f} s, found {output.read_text()!r}")


def _opened(port: int) -> tuple[Session, socket.socket]:
    session = Session("127.0.0.1", port, [_USER, _PASSWORD])
    session.ask("TYPE I", "200")
    data = session.data_connection(_RECEIVE_BUFFER_BYTES)
    session.ask(f"RETR {_IMAGE}", "1")
    data.setblocking(False)
    return session, data


def _read_slowly(clients: list[tuple[Session, socket.socket]], seconds: float) -> None:
    began_s = time.monotonic()
    turn = 0
    while time.monotonic() - began_s < seconds:
        for _, data in clients:
            with contextlib.suppress(BlockingIOError):
                if not data.recv(_READ_BYTES):
                    raise ConnectionError("a copy has ended before its time")
        turn += 1
        time.sleep(max(0.0, began_s + turn * _READ_EVERY_S - time.monotonic()))


def _measured(copies: int, seconds: float) -> Shares:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / _IMAGE).open("wb") as image:
            image.truncate(_IMAGE_BYTES)
        with _serving(folder) as (pid, output):
            port = _port(output)
            clients = [_opened(port) for _ in range(copies)]
            _read_slowly(clients, _SETTLE_S)
            (child,) = procfs.descendants(pid)
            before, from_byte, began_s = (
                (procfs.cpu_s(pid), procfs.cpu_s(child)),
                output.stat().st_size,
                time.monotonic(),
            )
            _read_slowly(clients, seconds)
            whole_s, server_s = procfs.cpu_s(pid) - before[0], procfs.cpu_s(child) - before[1]
            took_s = time.monotonic() - began_s
            lines = output.read_bytes()[from_byte:].splitlines()[1:-1]
            for session, data in clients:
                data.close()
                session.drop(socket.socket.close)
    told = sum(json.loads(line)["event"] == "progress" for line in lines)
    if told < 0.9 * copies * took_s:
        raise RuntimeError(f"expected {copies} readings a second, found {told / took_s:.0f}: nothing was measured")
    return Shares(command=(whole_s - server_s) / took_s, server=server_s / took_s, lines_per_s=told / took_s)


def to_markdown(runs: list[Shares], copies: int, about: str) -> str:
    """Return the table."""
    command, server = [run.command for run in runs], [run.server for run in runs]
    word = "met" if statistics.median(command) <= MOST_SHARE else "**missed**"
    lines_per_s = statistics.median(run.lines_per_s for run in runs)
    return "\n".join(
        (
            about,
            "",
            f"| {copies} slow copies, {lines_per_s:.0f} lines a second | share of a core | least | most | target |",
            "|---|---|---|---|---|",
            f"| `serve --json`, the command itself | {_spread(command)} | {MOST_SHARE:.0%}: {word} |",
            f"| the server's process, sending and reading TCP_INFO | {_spread(server)} | |",
            "",
        )
    )


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.1%} | {min(values):.1%} | {max(values):.1%}"


def main() -> int:
    """Measure, print and keep."""
    arguments = sys.argv[1:]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.event_lines", description=__doc__)
    parser.add_argument("--copies", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--update-docs", action="store_true", help=f"put the table into {DOCUMENT.name}")
    asked = parser.parse_args(arguments)
    enter_namespace("benchmarks.event_lines", arguments)
    prepare("cubic")
    before, began_s = conditions(" ".join(("python -m benchmarks.event_lines", *arguments))), time.monotonic()
    runs = []
    for number in range(asked.runs):
        runs.append(_measured(asked.copies, asked.seconds))
        print_progress(f"run {number + 1}: {runs[-1]}")
    about = (
        f"`{before['command']}`, {before['at']} UTC, {time.monotonic() - began_s:.0f} s, Linux {before['kernel']}, "
        f"{before['cpus']} CPUs, Python {before['python']}, load {before['load_average']} before. Medians."
    )
    text = to_markdown(runs, asked.copies, about)
    print(text)
    if asked.update_docs:
        put(DOCUMENT, "event_lines", text)
    return int(statistics.median(run.command for run in runs) > MOST_SHARE)


if __name__ == "__main__":
    sys.exit(main())
