"""Our controller, to be measured: `python -m benchmarks.fleet_ours INVENTORY IMAGE STATE LIMIT`; see fleet_waiting.

It is `flashferry stage` without its table: the same run, with a watcher that counts who is copying and writes down
when each step began and ended.
"""

import sys
import threading
import time
from pathlib import Path

from benchmarks.fleet_watch import say
from inventory.load import open_inventory
from staging.events import Event
from staging.journal import Journal
from staging.record import RunReport
from staging.run import RunOptions, run_fleet


class Watcher:
    """Counts the devices that copy, and keeps when each step of each device began and ended."""

    def __init__(self, devices: int) -> None:
        self._devices = devices
        self._lock = threading.Lock()
        self._copying: set[str] = set()
        self.began: dict[tuple[str, str], float] = {}
        self.took_s: dict[str, list[float]] = {}

    def take(self, event: Event) -> None:
        """Take an event of the run."""
        if event.host is None or event.status not in {"started", "progress", "done"}:
            return
        now = time.time()
        with self._lock:
            key = (event.host, event.step)
            if event.status == "started":
                self.began[key] = now
            elif event.status == "done" and key in self.began:
                self.took_s.setdefault(event.step, []).append(now - self.began[key])
            elif event.step == "pull" and event.host not in self._copying:
                self._copying.add(event.host)
                if len(self._copying) == self._devices:
                    say("all copying")


def reactions_s(report: RunReport, watcher: Watcher) -> list[float]:
    """Return for each device the time from its last acknowledged byte to our next step, the hash, in seconds.

    In it are the device's own end of the copy, its prompt, and the quarter of a second for which a prompt must stand.
    """
    found = []
    for device in report.devices:
        began, record = watcher.began.get((device.host, "verify")), device.transfer
        if began is not None and record is not None and record.last_ack_s is not None:
            found.append(began - (record.started_at + record.last_ack_s))
    return sorted(found)


def main(inventory: str, image: str, state: str, limit: str) -> None:
    """Run a fleet to its end."""
    from tasks import driver  # noqa: F401 -- its second of imports and its memory belong to no device

    nornir = open_inventory(Path(inventory), workers=int(limit))
    watcher = Watcher(len(nornir.inventory.hosts))
    say("ready")
    sys.stdin.readline()
    with Journal(Path(state)) as journal:
        report = run_fleet(nornir, Path(image), RunOptions(), journal=journal, emit=watcher.take)
    outcomes: dict[str, int] = {}
    for device in report.devices:
        words = device.failure.reason if device.failure else str(device.outcome)
        outcomes[words] = outcomes.get(words, 0) + 1
    steps = {step: sorted(values) for step, values in watcher.took_s.items()}
    say("done", outcomes=outcomes, reactions_s=reactions_s(report, watcher), steps_s=steps)


if __name__ == "__main__":
    main(*sys.argv[1:])
