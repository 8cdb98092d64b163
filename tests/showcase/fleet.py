"""A fleet's weeks in a journal, made up: for pictures of pages and for tests that look at every page.

Three weeks of nights in which devices were staged, records of real lab runs with other figures; a run that died with
devices in its hands, one that waits for approval and lives as long as this process, and a night's series of a lab.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from flashferry.nightly.history import keep
from flashferry.nightly.night import Fault
from flashferry.store.grouped_writer import open_database
from flashferry.store.journal import Journal
from flashferry.store.reader import taken_lock
from tests.unit.nightly.conftest import BEGUN, made_night, played, steps
from tests.unit.reports.conftest import real_record
from tests.unit.store.test_status import touch

SITES = {"AMS": "Amsterdam", "LIM": "Limerick", "GVA": "Geneva", "OSL": "Oslo", "TRN": "Turin works"}
IMAGES = ("cat9k_iosxe.17.12.04.SPA.bin", "isr4300-universalk9.17.09.05a.SPA.bin")
LONG = "tren-distribution-switch-building-17-floor-03-cabinet-b-behind-the-stairs.access.campus.example.net"
"""A name as long as some networks have them."""

_HISTORY_NIGHTS = 14
_INSERT_RUN = (
    "INSERT INTO runs (run_id, verb, started_at, finished_at, approved_wave, waiting_wave, request, job, plan_digest, "
    "actor) VALUES (?, 'stage', ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_DEVICE = (
    "INSERT INTO devices (run_id, host, address, port, platform, site, wave, image, state, identity, record, "
    "updated_at) VALUES (?, ?, ?, 22, 'iosxe', ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_REQUEST = "INSERT INTO steer_requests (run_id, at, actor, via, what, wave, reason) VALUES (?, ?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """The runs that pages are looked at with.

    Attributes:
        good: Ended well, last night.
        mixed: Ended with devices that failed.
        dead: Died with two devices in its hands.
        waiting: Lives, and waits for somebody to approve its second wave.
        device: A device of `good` with the readings of its copy.
        alive: One under way, where there is one: a process of its own makes it up.
    """

    good: str
    mixed: str
    dead: str
    waiting: str
    device: str
    alive: str = ""


def hosts() -> list[tuple[str, str]]:
    """Return devices with their sites."""
    made = [(f"{site.lower()}-sw{number:02}", site) for number in range(1, 8) for site in SITES]
    return [*made, (LONG, "TRN")]


@contextmanager
def fleet(state: Path, now: datetime, *, digest: str | None = None, names: Sequence[str] = ()) -> Iterator[Runs]:
    """Make it; the run that waits lives for the time of the block.

    Args:
        state: The state folder, which is there.
        now: What time it is.
        digest: The plan that the runs of this night carry out.
        names: Further devices of this night's runs: hostile ones, say.
    """
    luck = Random(20)
    with Journal(state) as journal, closing(open_database(state)) as database:
        with database:
            for nights_ago in range(_HISTORY_NIGHTS, 1, -1):
                _night(database, luck, now - timedelta(days=nights_ago * 1.5), digest=None)
            mixed = _night(database, luck, now - timedelta(hours=26), digest=None, is_mixed=True)
            good = _night(database, luck, now - timedelta(hours=9), digest=digest, names=names)
        dead = _dead(journal, database, now - timedelta(hours=2), names)
        waiting = _waiting(database, now - timedelta(minutes=52), digest)
        held = taken_lock(state, waiting)
        try:
            yield Runs(good=good, mixed=mixed, dead=dead, waiting=waiting, device="ams-sw01")
        finally:
            held.close()


def lab_nights(state: Path, now: datetime, count: int = 24) -> None:
    """Keep nights of a lab: most good, one slow, one that is not compared, one that failed."""
    shift = now - timedelta(days=count) - BEGUN
    made = []
    for number in range(count):
        night = made_night(number, factor=0.62 if number == count - 4 else 1.0, spread=0.02)
        began = night.started_at + shift
        changes: dict[str, Any] = {"started_at": began, "ended_at": night.ended_at + shift, "steps": steps(began)}
        if number == count - 9:
            changes |= {"steps": steps(began, Fault.LAB), "copies": (), "figures": ()}
        if number == count - 6:
            changes |= {"is_comparable": False, "not_comparable_because": "the host's load was 9 on 4 processors"}
        made.append(made_night(number, factor=0.62 if number == count - 4 else 1.0, spread=0.02, **changes))
    judged, _ = played(*made)
    for night in judged:
        keep(state, night)


def _night(
    database: sqlite3.Connection,
    luck: Random,
    began: datetime,
    *,
    digest: str | None,
    is_mixed: bool = False,
    names: Sequence[str] = (),
) -> str:
    run_id = f"{began:%Y%m%d-%H%M%S}-{luck.randrange(1 << 16):04x}"
    had = hosts() if digest or is_mixed else luck.sample(hosts(), 9)
    had += [(name, name) for name in names]
    ended = began + timedelta(minutes=4 * len(had))
    request = _request([host for host, _ in had], began + timedelta(hours=6), digest)
    actor = luck.choice(("anna", "jan"))
    database.execute(_INSERT_RUN, (run_id, _at(began), _at(ended), 9, None, json.dumps(request), None, digest, actor))
    for number, (host, site) in enumerate(had):
        at = began + timedelta(minutes=4 * number, seconds=luck.randrange(200))
        kind = "xe_wrong_hash" if is_mixed and number in (4, 11) else "ios_slow" if site == "LIM" else "xe_staged"
        record = _record(kind, host, at, luck, is_tuned=luck.random() < 0.75)
        image = IMAGES[site in ("LIM", "GVA")]
        values = (run_id, host, _address(number), site, int(number > 4), image, record["state"])
        database.execute(_INSERT_DEVICE, (*values, f"SN{number}/{host}", json.dumps(record), _at(at)))
    return run_id


def _record(kind: str, host: str, at: datetime, luck: Random, *, is_tuned: bool) -> dict[str, Any]:
    record = real_record(kind, host=host)
    stretch = luck.uniform(0.8, 1.4) * (1.0 if is_tuned else luck.uniform(2.5, 5.0))
    transfer = record["transfer"]
    transfer["started_at"] = at.timestamp()
    transfer["duration_s"] *= stretch
    transfer["rate_bytes_per_s"] /= stretch
    if record["pull"] and record["pull"]["device"]:
        record["pull"]["device"]["duration_s"] *= stretch
    for sample in transfer["samples"]:
        sample["at_s"] *= stretch
    if not is_tuned:
        record["changes"] = []
        record["tune"] = None
    return record


def _dead(journal: Journal, database: sqlite3.Connection, began: datetime, names: Sequence[str]) -> str:
    """Enter a run of which only the journal is left: nobody ever held its lock, as after a crash nobody does."""
    had = [("gva-sw01", "GVA"), ("gva-sw02", "GVA"), ("osl-sw03", "OSL"), ("osl-sw04", "OSL"), ("osl-sw05", "OSL")]
    had += [(name, name) for name in names]
    run_id = f"{began:%Y%m%d-%H%M%S}-dead"
    request = json.dumps(_request([host for host, _ in had], began + timedelta(hours=6), None))
    with database:
        database.execute(_INSERT_RUN, (run_id, _at(began), None, 0, None, request, None, None, "jan"))
    for number, (host, site) in enumerate(had):
        journal.add_device(
            run_id, host=host, address=_address(number), port=22, platform="iosxe", site=site, image=IMAGES[1]
        )
    for host, _ in [*had[:2], *had[5:]]:
        touch(journal, run_id, host)
    with database:
        at = _at(began + timedelta(minutes=9))
        database.execute("UPDATE devices SET updated_at = ? WHERE run_id = ?", (at, run_id))
    return run_id


def _waiting(database: sqlite3.Connection, began: datetime, digest: str | None) -> str:
    run_id = f"{began:%Y%m%d-%H%M%S}-b0a7"
    had = [one for one in hosts() if one[1] in ("AMS", "TRN")]
    waves = [{"number": n, "name": name} for n, name in enumerate(("canary", "site AMS", "site TRN"))]
    request = {**_request([host for host, _ in had], began + timedelta(hours=5), digest), "waves": waves}
    with database:
        values = (run_id, _at(began), None, 0, 1, json.dumps(request), None, digest, "anna")
        database.execute(_INSERT_RUN, values)
        had.sort(key=lambda one: (one[1] == "TRN", one[0]))
        for number, (host, site) in enumerate(had):
            at, is_first = began + timedelta(minutes=6 + number), number < 3
            record = json.dumps(_record("xe_staged", host, at, Random(number), is_tuned=True)) if is_first else None
            state = "done" if is_first else "planned"
            row = (run_id, host, _address(number), site, 0 if is_first else 1 + (site == "TRN"), IMAGES[0], state)
            database.execute(_INSERT_DEVICE, (*row, None, record, _at(at)))
        wishes = (
            (began + timedelta(minutes=3), "jan", "session", "pause", None, "spanning tree trouble on the core"),
            (began + timedelta(minutes=5), "jan", "session", "continue", None, "core is quiet again"),
        )
        for at, *told in wishes:
            database.execute(_INSERT_REQUEST, (run_id, _at(at), *told))
    return run_id


def _request(had: Sequence[str], until: datetime, digest: str | None) -> Mapping[str, object]:
    images = [{"name": name, "size_bytes": 25_000_000, "path": f"/srv/{name}", "md5": "0" * 32} for name in IMAGES]
    return {
        "schema": "flashferry.request/1",
        "images": images,
        "image_of": dict.fromkeys(had, IMAGES[0]),
        "until": until.isoformat(),
        **({"plan": {"digest": digest}} if digest else {}),
    }


def _address(number: int) -> str:
    return f"192.0.2.{10 + number}"


def _at(when: datetime) -> str:
    return when.astimezone(UTC).isoformat(timespec="milliseconds")
