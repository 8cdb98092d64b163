"""What `serve --json` costs while hundreds of slow copies run: `python -m benchmarks.event_lines [--update-docs]`.

`flashferry serve --json` sends one image to 400 clients on the loopback that read 16 kB/s each, and writes every event
to a file: a reading of each copy every second. Processor time of the command itself and of the server's process, both
as a share of one core, over 30 s, five times; a run in which a copy's lines are missing counts for nothing. Then the
same without `--json`, where a reading of a steady copy is taken every ten seconds, and the memory that a copy takes at
the end. The exit code is 1 if a target is missed.
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
MOST_SHARE_IN_ALL, MOST_BYTES = 0.025, 15_000
"""Of 400 copies without `--json`: share of a core, and memory of each, of command and server together."""
_IMAGE = "image.bin"
_IMAGE_BYTES = 1_000_000_000
_USER, _PASSWORD = "bench", "bench-of-event-lines"
_READ_BYTES, _READ_EVERY_S = 4096, 0.25
_RECEIVE_BUFFER_BYTES = 16_384
_SETTLE_S = 15.0
_START_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Processor time as shares of one core: of the command, and of the server's process; anonymous memory of a copy."""

    command: float
    server: float
    lines_per_s: float
    copy_bytes: float


@contextlib.contextmanager
def _serving(folder: Path, *, as_json: bool) -> Iterator[tuple[int, int, Path]]:
    """Run `serve`, with `--json` or not; yield its process id, its port and the file with what it prints."""
    output, port = folder / "events.jsonl", free_port()
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
            [*command, "--port", str(port), "--user", _USER, *(["--json"] if as_json else [])],
            stdout=lines,
            stderr=said,
            env=os.environ | {PASSWORD_VARIABLE: _PASSWORD},
        )
    try:
        yield process.pid, port, output
    finally:
        process.kill()
        process.wait()


def _await(port: int) -> None:
    """Wait until the server listens."""
    until_s = time.monotonic() + _START_S
    while time.monotonic() < until_s:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"expected a server on port {port} within {_START_S:.0f} s")


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


def _memory_bytes(pids: tuple[int, int]) -> int:
    return sum(procfs.pss_bytes(pid, anonymous=True) for pid in pids)


def _measured(copies: int, seconds: float, *, as_json: bool = True) -> Shares:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / _IMAGE).open("wb") as image:
            image.truncate(_IMAGE_BYTES)
        with _serving(folder, as_json=as_json) as (pid, port, output):
            _await(port)
            first, data = _opened(port)
            data.close()
            first.drop(socket.socket.close)
            (child,) = procfs.descendants(pid)
            empty_bytes = _memory_bytes((pid, child))
            clients = [_opened(port) for _ in range(copies)]
            _read_slowly(clients, _SETTLE_S)
            before, from_byte, began_s = (
                (procfs.cpu_s(pid), procfs.cpu_s(child)),
                output.stat().st_size,
                time.monotonic(),
            )
            _read_slowly(clients, seconds)
            whole_s, server_s = procfs.cpu_s(pid) - before[0], procfs.cpu_s(child) - before[1]
            took_s = time.monotonic() - began_s
            copy_bytes = (_memory_bytes((pid, child)) - empty_bytes) / copies
            lines = output.read_bytes()[from_byte:].splitlines()[1:-1] if as_json else []
            for session, data in clients:
                data.close()
                session.drop(socket.socket.close)
    reported = sum(json.loads(line)["event"] == "progress" for line in lines)
    if as_json and reported < 0.9 * copies * took_s:
        raise RuntimeError(f"expected {copies} readings a second, found {reported / took_s:.0f}: nothing was measured")
    return Shares(
        command=(whole_s - server_s) / took_s,
        server=server_s / took_s,
        lines_per_s=reported / took_s,
        copy_bytes=copy_bytes,
    )


def to_markdown(runs: list[Shares], plain: list[Shares], copies: int, about: str) -> str:
    """Return the table."""
    command, server = [run.command for run in runs], [run.server for run in runs]
    in_all, memory = [run.command + run.server for run in plain], [run.copy_bytes for run in plain]
    lines_per_s = statistics.median(run.lines_per_s for run in runs)
    return "\n".join(
        (
            about,
            "",
            f"| {copies} slow copies, {lines_per_s:.0f} lines a second | share of a core | least | most | target |",
            "|---|---|---|---|---|",
            f"| `serve --json`, the command itself | {_spread(command)} | {_target(command, MOST_SHARE)} |",
            f"| the server's process, sending and reading TCP_INFO | {_spread(server)} | |",
            f"| `serve` without `--json`, both processes | {_spread(in_all)} | {_target(in_all, MOST_SHARE_IN_ALL)} |",
            "",
            f"Memory of a copy without `--json`, in both: {_kb(memory)}; target 15.0: {_met(memory, MOST_BYTES)}.",
            "",
        )
    )


def _met(values: list[float], most: float) -> str:
    return "met" if statistics.median(values) <= most else "**missed**"


def _target(values: list[float], most: float) -> str:
    return f"{most:.1%}: {_met(values, most)}"


def _kb(sizes: list[float]) -> str:
    least, usual, most = (f"{size / 1e3:.1f}" for size in (min(sizes), statistics.median(sizes), max(sizes)))
    return f"{usual} kB, least {least}, most {most}"


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
    runs, plain = [], []
    for number in range(asked.runs):
        for kept, as_json in ((runs, True), (plain, False)):
            kept.append(_measured(asked.copies, asked.seconds, as_json=as_json))
            print_progress(f"run {number + 1}: {kept[-1]}")
    about = (
        f"`{before['command']}`, {before['at']} UTC, {time.monotonic() - began_s:.0f} s, Linux {before['kernel']}, "
        f"{before['cpus']} CPUs, Python {before['python']}, load {before['load_average']} before. Medians."
    )
    text = to_markdown(runs, plain, asked.copies, about)
    print(text)
    if asked.update_docs:
        put(DOCUMENT, "event_lines", text)
    return int("missed" in text)


if __name__ == "__main__":
    sys.exit(main())
