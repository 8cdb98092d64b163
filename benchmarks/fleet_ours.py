"""Our controller, to be measured: `python -m benchmarks.fleet_ours INVENTORY IMAGE STATE ENOUGH`; see fleet_waiting.

It is `flashferry stage` without its table: the same run, with a watcher that counts who is copying and writes down
when each step began and ended. It says so when ENOUGH devices are through with their hash run.
"""

import threading
import time
from contextlib import suppress
from pathlib import Path

from benchmarks.fleet_watch import await_go, say
from flashferry.model.limits import Limits, RetryPolicy
from flashferry.model.policy import StagePolicy
from flashferry.monitor.events import Event
from flashferry.run.request import FleetRequest
from flashferry.run.run import RunOptions, run_waves
from flashferry.store.journal import Journal
from inventory.nornir_loader import open_inventory


class Watcher:
    """Counts the devices that copy, and keeps when each step of each device began and how long it took.

    Args:
        devices: How many there are.
        enough: So many hash runs are to end before it says that it has seen enough.
    """

    def __init__(self, devices: int, enough: int) -> None:
        self._devices, self._enough = devices, enough
        self._lock = threading.Lock()
        self._copying: set[str] = set()
        self._began: dict[tuple[str, str], float] = {}
        self._took_s: dict[str, list[float]] = {}

    def take(self, event: Event) -> None:
        """Take an event of the run."""
        if event.host is None or event.status not in {"started", "progress", "done"}:
            return
        now = time.time()
        with self._lock:
            key = (event.host, event.step)
            if event.status == "started":
                self._began[key] = now
            elif event.status == "done" and key in self._began:
                self._took_s.setdefault(event.step, []).append(now - self._began[key])
                if event.step == "verify" and len(self._took_s["verify"]) == self._enough:
                    self._tell()
            elif event.step == "pull" and event.host not in self._copying:
                self._copying.add(event.host)
                if len(self._copying) == self._devices:
                    say("all copying", ended=len(self._took_s.get("pull", ())))

    def _tell(self) -> None:
        verify_at = {host: at for (host, step), at in self._began.items() if step == "verify"}
        say("enough", verify_at=verify_at, steps_s=self._took_s)


def main(inventory: str, image: str, state: str, enough: str) -> None:
    """Run a fleet to its end."""
    # Their second of imports and their memory belong to no device.
    from flashferry.devices import netmiko_driver  # noqa: F401
    from templates.version import parse_version

    with suppress(Exception):
        parse_version("Cisco IOS Software")

    nornir = open_inventory(Path(inventory))
    devices = len(nornir.inventory.hosts)
    watcher = Watcher(devices, int(enough))
    say("ready")
    await_go()
    request = FleetRequest(images=dict.fromkeys(nornir.inventory.hosts, Path(image)))
    policy = StagePolicy(limits=Limits(copies=devices, site_copies=devices), retry=RetryPolicy(times=0))
    with Journal(Path(state)) as journal:
        report = run_waves(nornir, request, RunOptions(policy=policy), journal=journal, emit=watcher.take)
    say("done", outcomes=[str(device.outcome) for device in report.devices])


if __name__ == "__main__":
    import sys

    main(*sys.argv[1:])
