"""What `status` and `run list` cost after many large runs: `python -m benchmarks.journal_views [--runs 12 200]`.

The journals are written by the product's own journal; every device has the record of a router that was staged on a lab
(`tests/contract/journals`). Each command is a process of its own, started several times: printed are the medians of
its wall and processor time, and the processor time of reading alone, by `read_status` in one process.
"""

import argparse
import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from benchmarks.lab_driver import conditions, head, row
from flashferry.store.journal import Journal, NewDevice
from flashferry.store.status import read_status

_STORED = Path(__file__).parents[1] / "tests" / "contract" / "journals" / "journal.json"
_COMMANDS = (("status",), ("run", "list"), ("status", "--json"))
_COLUMNS = ("after", "subject", "wall, s", "processor, s")
_SITES = 10


def fill(state: Path, runs: int, devices: int) -> None:
    """Write a journal with so many finished runs of so many devices each."""
    content = json.loads(_STORED.read_text(encoding="utf-8"))
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript("\n".join(content["sql"]))
        query = "SELECT request, record FROM runs JOIN devices USING (run_id) WHERE state = 'done' AND verb = 'stage'"
        request, record = map(json.loads, database.execute(query).fetchone())
    hosts = [f"branch-{number:04}" for number in range(devices)]
    with Journal(state) as journal:
        for _ in range(runs):
            run_id = journal.begin_run("stage", request)
            journal.add_devices(run_id, (_device(number, host) for number, host in enumerate(hosts)))
            journal.record_all(run_id, {host: record | {"host": host} for host in hosts})
            journal.finish_run(run_id)


def _device(number: int, host: str) -> NewDevice:
    address = f"198.18.{number // 250}.{number % 250}"
    return NewDevice(host=host, address=address, port=22, platform="ios", site=f"site-{number % _SITES}")


def measured(state: Path, *command: str, times: int) -> tuple[float, float]:
    """Return the medians of a command's wall and processor time in seconds, with its modules compiled before."""
    walls, processor = [], []
    # A package that was installed has its bytecode; to compile 90 modules at each start takes 0.1 s more.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(times + 1):
        before, started_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run(
            [sys.executable, "-P", "-m", "flashferry", *command],
            check=True,
            stdout=subprocess.DEVNULL,
            env=environment | {"FLASHFERRY_STATE_DIR": str(state)},
        )
        walls.append(time.monotonic() - started_s)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(walls[1:]), statistics.median(processor[1:])


def _reading_s(state: Path, times: int) -> float:
    found = []
    for _ in range(times):
        started_s = time.process_time()
        read_status(state)
        found.append(time.process_time() - started_s)
    return statistics.median(found)


def main() -> None:
    """Fill the journals, measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, nargs="+", default=[12, 200])
    parser.add_argument("--devices", type=int, default=500)
    parser.add_argument("--times", type=int, default=5)
    given = parser.parse_args()
    head(f"What reading the journal costs. {conditions()}.", *_COLUMNS)
    for runs in given.runs:
        with tempfile.TemporaryDirectory(prefix="flashferry-") as folder:
            state = Path(folder) / "state"
            fill(state, runs, given.devices)
            name = f"{runs} runs of {given.devices}"
            for command in _COMMANDS:
                wall_s, processor_s = measured(state, *command, times=given.times)
                row(name, f"`{' '.join(command)}`", f"{wall_s:.2f}", f"{processor_s:.2f}")
            row(name, "reading, without the start", "", f"{_reading_s(state, given.times):.2f}")


if __name__ == "__main__":
    main()
