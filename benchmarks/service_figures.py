"""What a scrape of the service costs: `python -m benchmarks.service_figures [--devices N] [--runs N] [--alive N]`.

A journal is made up with so many runs of so many devices at fifty sites, and a copy of each by one of three transports.
Then it is counted, and scraped five times, each time anew. Told is processor time of the thread that answers. The exit
code is 1 if the median of the later four is over the target.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from flashferry.core.values import replace
from flashferry.service.live.collect import SnapshotReader
from flashferry.service.metrics.collector import Figures
from flashferry.service.service import Service
from flashferry.service.settings import ServiceSettings
from flashferry.store.journal import Journal, NewDevice, keep
from flashferry.store.schema import FILE, know_seals
from flashferry.store.service.database import ServiceDatabase
from flashferry.store.transfer_row import TransferEntry, row_of
from tests.unit.store.conftest import TRANSFER

MOST_S = 0.1
SITES = 50
_TRANSPORTS = ("ftp", "https", "scp")
_RECORD = {
    "outcome": "done",
    "restored": "restored",
    "transport": "ftp",
    "transfer": {"rate_bytes_per_s": 1e6, "verdict": {"kind": "cap"}},
    "check": {"facts": {"model": "C9300"}, "text": "x" * 3000},
}


def make(journal: Journal, *, runs: int, devices: int, alive: int) -> None:
    """Make up runs, the last ones under way."""
    hosts = [f"r{number}" for number in range(devices)]
    request = {"images": [{"name": "i.bin", "size_bytes": 10**9}], "image_of": dict.fromkeys(hosts, "i.bin")}
    made = []
    for _ in range(runs):
        made.append(run_id := journal.begin_run("stage", request))
        journal.add_devices(
            run_id,
            [
                NewDevice(host=host, address="192.0.2.1", port=22, platform="ios", site=f"S{number % SITES:02d}")
                for number, host in enumerate(hosts)
            ],
        )
    with closing(sqlite3.connect(journal.directory / FILE)) as database, database:
        know_seals(database)
        database.execute("UPDATE devices SET record = ?, state = 'done'", (json.dumps(_RECORD),))
        for number, run_id in enumerate(made):
            for at, host in enumerate(hosts):
                record = replace(
                    TRANSFER, ticket_id=f"{number}-{at}", transport=_TRANSPORTS[at % len(_TRANSPORTS)], samples=()
                )
                entry = TransferEntry(
                    identity=host, kind="stage", tuned=True, target="flash:x", image="x", record=record
                )
                keep(database, row_of(run_id, host, entry))
    for run_id in made[: runs - alive]:
        journal.finish_run(run_id)


def spent(what: Callable[[], object]) -> float:
    """Return the processor time of this thread that something takes, seconds."""
    began_s = time.thread_time()
    what()
    return time.thread_time() - began_s


def main() -> int:
    """Make, count, scrape, tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=500, help="of each run")
    parser.add_argument("--runs", type=int, default=12, help="how many runs")
    parser.add_argument("--alive", type=int, default=1, help="how many of them are under way")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder)) as journal:
        make(journal, runs=given.runs, devices=given.devices, alive=given.alive)
        service = Service(state=Path(folder), settings=ServiceSettings(), database=ServiceDatabase(Path(folder)))
        clock_s = [0.0]
        figures, looker = Figures(service, clock_s=lambda: clock_s[0]), SnapshotReader(service)
        counting_s = spent(figures.count)
        took_s, text = [], b""
        for _ in range(5):
            clock_s[0] += 60
            time.sleep(SnapshotReader.FRESH_S)
            took_s.append(spent(lambda: figures.text(looker, ())))
            text = figures.text(looker, ())
    later_s = statistics.median(took_s[1:])
    lines, size = text.count(b"\n"), len(text)
    print(f"{given.runs} runs of {given.devices} devices, {given.alive} under way: {lines} lines, {size} bytes")
    print(f"counted at first {counting_s:.3f} s, first scrape {took_s[0]:.3f} s, later ones {later_s:.3f} s")
    return int(later_s > MOST_S)


if __name__ == "__main__":
    sys.exit(main())
