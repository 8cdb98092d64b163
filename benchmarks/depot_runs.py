"""Two runs at once over one site, each with a file server of its own, and with the host's depot: does the cap hold?

    python -m benchmarks.depot_runs                  # about two minutes, on the lab; prints the table
    python -m benchmarks.depot_runs --update-docs    # and puts it into docs/depot.md

What the copies put on the line is told by their packets, seen where they leave (`fleet_tap`). What a depot costs is
measured besides, without the lab: its memory, its processor time while nobody asks anything, and a ticket's way.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.fleet_ground import Controller, configurations
from benchmarks.fleet_tap import CopyTap
from benchmarks.procfs import cpu_s, descendants
from flashferry.depot.client import DepotClient
from flashferry.fileserver import FileServer, ServerSettings, TicketRequest
from flashferry.lab.world import DeviceSpec, World, WorldSpec, start_world
from flashferry.lab.world_spec import SiteSpec, write_inventory
from flashferry.model.link_rates import payload_cap_bytes_per_s
from flashferry.transports import USUAL
from flashferry.transports.transport import ListenOptions

DOCUMENT = Path(__file__).parents[1] / "docs" / "depot.md"
RUNS = (("a1", "a2", "a3", "a4"), ("b1", "b2", "b3", "b4"))
CAP_SHARE = 0.5
IMAGE_BYTES = 5_000_000
TICKETS = 300
IDLE_S = 20.0
_APART_S = 4.0
_READY_S = 30.0
_LONGEST_S = 300.0


def two_runs(*, depot: bool) -> dict[str, Any]:
    """Stage on both halves of a site at once; return what left for it, and whether all is as before."""
    sites = (
        SiteSpec(name="branch", profile="dsl", devices=tuple(DeviceSpec(name=one) for run in RUNS for one in run)),
    )
    with (
        tempfile.TemporaryDirectory(prefix="flashferry-") as name,
        start_world(WorldSpec(devices=(), sites=sites)) as world,
        ExitStack() as stack,
    ):
        folder = Path(name)
        (folder / "image.bin").write_bytes(os.urandom(IMAGE_BYTES))
        inventory = write_inventory(world, folder / "inventory", cap_share=CAP_SHARE)
        before = configurations(world)
        cap = payload_cap_bytes_per_s(world.sites[0].profile.rate_bps * CAP_SHARE)
        assert cap is not None
        if depot:
            daemon = Controller(world, folder, "depot")
            stack.callback(daemon.kill, controller=True, server=True)
            _until_there(folder / "state" / "depot.sock")
        began_s = time.monotonic()
        with CopyTap(world) as tap:
            runs = []
            for number, hosts in enumerate(RUNS):
                runs.append(_staging(world, folder, inventory, number, hosts))
                # Two servers that look for a free port in the same moment may find the same one.
                time.sleep(_APART_S)
            for run in runs:
                assert run.ended_within(_LONGEST_S), run.said()
        return {
            "most_of_cap_1_s": round(tap.most_bytes_per_s("branch", 1) / cap, 3),
            "most_of_cap_5_s": round(tap.most_bytes_per_s("branch", 5) / cap, 3),
            "mean_of_cap": round(tap.mean_bytes_per_s("branch") / cap, 3),
            "seconds": round(time.monotonic() - began_s, 1),
            "exit_codes": [run.process.returncode for run in runs],
            "as_before": configurations(world) == before,
        }


def _staging(world: World, folder: Path, inventory: Path, number: int, hosts: tuple[str, ...]) -> Controller:
    place = folder / f"run{number}"
    place.mkdir()
    # One state folder: it is one host.
    (place / "state").symlink_to(folder / "state")
    (folder / "state").mkdir(mode=0o700, exist_ok=True)
    named = [word for host in hosts for word in ("--host", host)]
    what = ("--image", str(folder / "image.bin"), "--inventory", str(inventory), "--no-canary")
    return Controller(world, place, "stage", *what, *named)


def _until_there(path: Path) -> None:
    deadline_s = time.monotonic() + _READY_S
    while not path.exists():
        assert time.monotonic() < deadline_s, "the depot did not come up"
        time.sleep(0.05)
    time.sleep(0.5)


def costs() -> dict[str, Any]:
    """Return what a depot takes while it is idle, and how long a ticket is on its way, beside a server of one's own."""
    with tempfile.TemporaryDirectory(prefix="flashferry-") as name, _depot(Path(name)) as (pid, socket):
        image = Path(name) / "image.bin"
        image.write_bytes(os.urandom(100_000))
        before_s = cpu_s(pid)
        time.sleep(IDLE_S)
        idle = (cpu_s(pid) - before_s) / IDLE_S
        with closing(DepotClient(socket, "stage")) as run:
            run.open((image,))
            by_depot = _ticket_ms(run)
        settings = ServerSettings(
            image_paths=(image,), listeners=(USUAL.listener(ListenOptions(address="127.0.0.1", port=0)),)
        )
        with FileServer(settings) as own:
            by_own = _ticket_ms(own)
        memory = sum(_pss_mb(one) for one in (pid, *descendants(pid)))
    return {
        "idle_share_of_a_core": round(idle, 4),
        "pss_mb": round(memory, 1),
        "ticket_ms": by_depot,
        "ticket_ms_own": by_own,
    }


@contextmanager
def _depot(folder: Path) -> Iterator[tuple[int, Path]]:
    command = (sys.executable, "-P", "-m", "flashferry", "depot", "--json", "--listen", "127.0.0.1", "--port", "0")
    environment = os.environ | {"FLASHFERRY_STATE_DIR": str(folder / "state")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        yield process.pid, Path(ready["socket"])
        process.terminate()


def _ticket_ms(server: Any) -> tuple[float, float]:
    """Return the median and the longest time to make a ticket and take it back, in milliseconds."""
    spent = []
    for _ in range(TICKETS):
        began_s = time.perf_counter()
        server.revoke(server.issue_ticket(TicketRequest(image_name="image.bin")).ticket_id)
        spent.append((time.perf_counter() - began_s) * 1000)
    return round(statistics.median(spent), 2), round(max(spent), 1)


def _pss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def table(own: dict[str, Any], shared: dict[str, Any], cost: dict[str, Any]) -> str:
    """Return all figures as Markdown."""
    today = datetime.now(UTC).date().isoformat()
    rows = [
        ("most payload in any 5 s, of the cap", "most_of_cap_5_s"),
        ("mean payload, of the cap", "mean_of_cap"),
        ("both runs, s", "seconds"),
        ("exit codes", "exit_codes"),
        ("configurations as before", "as_before"),
    ]
    how = (
        f"`python -m benchmarks.depot_runs`, {today}: two `flashferry stage` at once, four routers each, "
        f"{IMAGE_BYTES:,} bytes to each, over one line of 16 Mbit/s (profile dsl) of which copies may take "
        f"{CAP_SHARE:.0%}; by the packets of the copies where they leave."
    )
    besides = (
        f"An idle depot takes {cost['idle_share_of_a_core']:.2%} of a core and {cost['pss_mb']} MB (PSS, "
        f"its serving process included, after {TICKETS} tickets). Making a ticket and taking it back takes "
        f"{cost['ticket_ms'][0]} ms, {cost['ticket_ms_own'][0]} ms by a server of the run's own."
    )
    rows_shown = [f"| {title} | {own[key]} | {shared[key]} |" for title, key in rows]
    lines = [how, "", "| | a server of each run's own | the depot |", "|---|---|---|", *rows_shown, "", besides]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and put it where it is asked to."""
    parser = argparse.ArgumentParser(description="Two runs at once, without and with a depot")
    parser.add_argument("--update-docs", action="store_true", help="put the table into docs/depot.md")
    given = parser.parse_args()
    found = table(two_runs(depot=False), two_runs(depot=True), costs())
    print(found)
    if given.update_docs:
        begin, end = "<!-- depot_runs: begin -->\n", "<!-- depot_runs: end -->"
        text = DOCUMENT.read_text(encoding="utf-8")
        head, tail = text[: text.index(begin) + len(begin)], text[text.index(end) :]
        DOCUMENT.write_text(head + found + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
