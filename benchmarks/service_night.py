"""A night that is made up, in a state folder of the service: `python -m benchmarks.service_night STATE [--devices N]`.

One process stands for a run: it holds the run's lock, moves its devices through the journal and writes its events, some
fifty lines a second as a run with many devices does. Nothing is copied and no device is there. The service sees what it
would see of a real one; `kill -9` leaves what a dead run leaves.
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.live_view import IMAGE_BYTES, SITE_COPIES, SITES, Night
from flashferry.core.state_folder import make_private_directory
from flashferry.core.values import replace
from flashferry.model.record import DeviceRecord, Failure
from flashferry.model.states import Outcome, Restored, State
from flashferry.monitor.event_log import EventLog, event_log
from flashferry.monitor.events import Event
from flashferry.store.journal import Journal, NewDevice
from flashferry.store.service.database import ServiceDatabase, moment
from flashferry.store.service.jobs import Job, JobKind, JobState, add_job
from tasks.read_config import Fingerprint
from tasks.snapshot import Snapshot
from tasks.tcp_config import Change, TcpLines

IMAGE = "c2900-universalk9-mz.SPA.157-3.M8.bin"
_SNAPSHOT = Snapshot(
    running=TcpLines(lines=()),
    startup=TcpLines(lines=()),
    running_fingerprint=Fingerprint(whole="w", lines=()),
    salt="s",
)
_CHANGE = Change(keyword="window-size", before=None, ours="ip tcp window-size 1250000")
_MOVES = {
    ("check", "done"): State.CHECKED,
    ("tune", "done"): State.TUNED,
    ("pull", "started"): State.COPYING,
    ("pull", "done"): State.COPIED,
    ("verify", "done"): State.VERIFIED,
    ("restore", "done"): State.RESTORED,
}


class Keeping:
    """Keeps the made-up night in a journal and tells its events.

    Args:
        journal: The journal.
        night: The night.
        log: The file of its events.
        until: When it must have ended, or None.
        waves: How many waves its devices are in.
    """

    def __init__(self, journal: Journal, night: Night, until: datetime | None, *, waves: int = 1) -> None:
        self.journal, self.log = journal, None
        hosts = [made for site in SITES for made in night.waiting[site]]
        request = {
            "schema": "flashferry.request/1",
            "images": [{"name": IMAGE, "size_bytes": IMAGE_BYTES, "path": f"/srv/{IMAGE}", "md5": "0" * 32}],
            "image_of": {made.host: IMAGE for made in hosts},
            "until": until.isoformat() if until is not None else None,
        }
        self.run_id = journal.begin_run("stage", request)
        each = max(1, len(hosts) // waves)
        journal.add_devices(
            self.run_id,
            [
                NewDevice(
                    host=made.host, address=f"192.0.2.{number % 250}", port=22, platform="ios", site=made.site,
                    wave=min(waves - 1, number // each), image=IMAGE,
                )
                for number, made in enumerate(hosts)
            ],
        )  # fmt: skip

    def take(self, event: Event) -> None:
        """Take an event of the night."""
        if event.run_id:
            event = replace(event, run_id=self.run_id, text=self.run_id)
        if self.log is not None:
            self.log(event)
        if event.host is None:
            return
        if (state := _MOVES.get((event.step, event.status))) is not None:
            self._move(event.host, state)
        elif (event.step, event.status) == ("snapshot", "done"):
            self.journal.acquire_lease(
                self.run_id,
                event.host,
                identity=event.host,
                snapshot=_SNAPSHOT,
                changes=(_CHANGE,),
                target=f"flash:{IMAGE}",
            )
        elif event.step == "device":
            self._end(event.host, is_done=event.status == "done")

    def _move(self, host: str, state: State) -> None:
        # A device whose copy failed is restored without what lies between.
        with suppress(ValueError):
            self.journal.move(self.run_id, host, state)

    def _end(self, host: str, *, is_done: bool) -> None:
        failure = Failure(
            step="pull", reason="no progress for 60 s; the device still answers", hint=None, kind="TransferStalled"
        )
        self._move(host, State.DONE if is_done else State.FAILED)
        record = DeviceRecord(
            host=host,
            state=State.DONE if is_done else State.FAILED,
            outcome=Outcome.DONE if is_done else Outcome.FAILED,
            restored=Restored.RESTORED,
            failure=None if is_done else failure,
            image=IMAGE,
            seconds_by_step={"pull": 90.0},
        )
        self.journal.release(self.run_id, host, record)


def begin(
    state: Path,
    *,
    devices: int,
    faster: float = 1.0,
    window_s: float | None = 3 * 3600.0,
    skip_s: int = 0,
    site_copies: int = SITE_COPIES,
    waves: int = 1,
) -> None:
    """Make a night and live through it at the pace of the clock.

    Args:
        state: The state folder.
        devices: How many devices.
        faster: How many times as fast its copies go.
        window_s: So long from now it must have ended; None: no end.
        skip_s: So many seconds of it pass at once, so that something is done already.
        site_copies: So many copies run at a site at the same time.
        waves: In so many waves its devices are.
    """
    until = None if window_s is None else datetime.now(UTC) + timedelta(seconds=window_s)
    with Journal(state) as journal:

        def keep(event: Event) -> None:
            kept.take(event)  # made a line below, of the night

        night = Night(devices, keep, faster, site_copies)
        kept = Keeping(journal, night, until, waves=waves)
        with event_log(job_of(state, kept.run_id, devices), devices=devices) as log:
            _live(night, kept, log, skip_s)
        journal.finish_run(kept.run_id)


def job_of(state: Path, run_id: str, devices: int) -> Path:
    """Enter a job of the service that has a run in hand; return where it writes events."""
    job_id = f"job-{run_id}"
    folder = state / "jobs" / job_id
    make_private_directory(state / "jobs")
    make_private_directory(folder)
    now = moment(datetime.now(UTC))
    job = Job(
        job_id=job_id, kind=JobKind.STAGE, state=JobState.RUNNING, run_id=run_id, words=("stage",), sites=SITES,
        requested_by="system", via="system", created_at=now, started_at=now, sentence=f"{devices} devices, made up",
    )  # fmt: skip
    with ServiceDatabase(state).writing() as database:
        add_job(database, job)
    return folder / "events.jsonl"


def _live(night: Night, kept: Keeping, log: EventLog, skip_s: int) -> None:
    began_s = time.monotonic()
    for number, _ in enumerate(night.seconds()):
        if number == skip_s:
            kept.log, began_s = log, time.monotonic() - number
            log(Event(host=None, step="run", status="started", text=kept.run_id, at_s=night.now_s, run_id=kept.run_id))
            print(json.dumps({"run_id": kept.run_id}), flush=True)
        if number >= skip_s:
            time.sleep(max(0.0, began_s + number + 1 - time.monotonic()))


def main() -> None:
    """Make a night."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("state", type=Path)
    parser.add_argument("--devices", type=int, default=500)
    parser.add_argument("--faster", type=float, default=1.0)
    parser.add_argument("--window", type=float, default=3 * 3600.0, help="seconds")
    parser.add_argument("--skip", type=int, default=0, help="seconds of it that pass at once")
    parser.add_argument("--site-copies", type=int, default=SITE_COPIES)
    parser.add_argument("--waves", type=int, default=1)
    given = parser.parse_args()
    begin(
        given.state,
        devices=given.devices,
        faster=given.faster,
        window_s=given.window,
        skip_s=given.skip,
        site_copies=given.site_copies,
        waves=given.waves,
    )


if __name__ == "__main__":
    main()
