"""Stored runs made of records of real lab runs: an IOS-XE staged, an IOS with a slow flash, a wrong hash, a probe."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flashferry.model.states import RunState
from flashferry.reports.build import build_report
from flashferry.reports.model import Report, Speed
from flashferry.store.stored_run import StoredDevice, StoredRun, transfers_in

RECORDS = Path(__file__).parent / "records"
BEGUN = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)
WRITTEN = "2026-11-22T05:00:00+00:00"
WORDS = ("amsterdam", "berlin", "cairo", "dublin", "essen", "florence", "geneva", "hanoi", "istanbul", "jena")


def real_record(name: str, **changes: Any) -> dict[str, Any]:
    """Return a record as a lab run left it, with top-level fields changed."""
    return json.loads((RECORDS / f"{name}.json").read_text()) | changes


def stored_device(host: str = "xe1", record: dict[str, Any] | None = None, **changes: Any) -> StoredDevice:
    """Return a device of a stored run."""
    found = real_record("xe_staged") if record is None else record
    values: dict[str, Any] = {
        "host": host,
        "address": "198.18.1.11",
        "site": "berlin",
        "wave": 0,
        "image": "isr-image.17.12.04.SPA.bin",
        "state": found.get("state", "planned"),
        "attempt": 1,
        "is_held": False,
        "identity": "9LABSTANDIN/xe1",
        "record": found,
        "transfers": transfers_in(found, updated_at=WRITTEN),
    }
    return StoredDevice(**values | changes)


def stored_run(*devices: StoredDevice, **changes: Any) -> StoredRun:
    """Return a stored run of some devices."""
    values: dict[str, Any] = {
        "run_id": "20261121-220000-abcd",
        "verb": "stage",
        "state": RunState.FINISHED,
        "started_at": BEGUN.isoformat(),
        "finished_at": (BEGUN + timedelta(hours=1)).isoformat(),
        "request": {},
        "devices": devices,
    }
    return StoredRun(**values | changes)


def reported(run: StoredRun, before: dict[str, Speed] | None = None) -> Report:
    """Return the report of a stored run."""
    return build_report(run, written_at=WRITTEN, written_by="flashferry 0", before=before or {})


def three_devices() -> StoredRun:
    """Return a run of three: staged, slow, and one whose hash is wrong."""
    return stored_run(
        stored_device("xe1"),
        stored_device("ios1", real_record("ios_slow")),
        stored_device("xe2", real_record("xe_wrong_hash"), site="oslo"),
    )


def fleet_run(count: int, sites: int = 10, seed: int = 1) -> StoredRun:
    """Return a run of many devices: real records, their copies stretched in time and begun one after another."""
    random = Random(seed)
    devices = tuple(_one_of_many(number, sites, random) for number in range(count))
    return stored_run(*devices, finished_at=(BEGUN + timedelta(hours=6)).isoformat())


def _one_of_many(number: int, sites: int, random: Random) -> StoredDevice:
    host, site = f"r{number:04d}", f"{WORDS[number % sites % len(WORDS)]}-{number % sites}"
    draw = random.random()
    name = "xe_wrong_hash" if draw < 0.01 else "ios_slow" if draw < 0.1 else "xe_staged"
    record = real_record(name, host=host)
    _stretch(record, factor=random.uniform(0.7, 6.0), begun_s=number // sites * 30.0 + random.random())
    device = stored_device(host, record, site=site, address=f"10.{number % sites}.{number // 250}.{number % 250 + 1}")
    if 0.1 <= draw < 0.12:
        return _refused(device)
    if 0.12 <= draw < 0.125:
        return _left_tuned(device)
    return device


def _stretch(record: dict[str, Any], *, factor: float, begun_s: float) -> None:
    transfer = record["transfer"]
    transfer["started_at"] = (BEGUN + timedelta(seconds=begun_s)).timestamp()
    transfer["duration_s"] *= factor
    transfer["rate_bytes_per_s"] /= factor
    record["pull"]["device"]["duration_s"] *= factor
    for sample in transfer["samples"]:
        sample["at_s"] *= factor


def _refused(device: StoredDevice) -> StoredDevice:
    record = deepcopy(device.record) | {"outcome": "refused", "restored": "untouched", "state": "checked"}
    record |= {"transfer": None, "pull": None, "tune": None, "verify": None, "restore": None, "changes": []}
    reason = "bootflash: has 12 MB free, the image takes 25 MB"
    record["failure"] = {"step": "check", "reason": reason, "hint": "Make room", "kind": "PolicyViolation"}
    return stored_device(device.host, record, site=device.site, address=device.address)


def _left_tuned(device: StoredDevice) -> StoredDevice:
    record = deepcopy(device.record) | {
        "outcome": "failed",
        "restored": "incomplete",
        "state": "failed",
        "restore": None,
    }
    lost = {"step": "restore", "reason": "no answer on port 22 for 138 s", "hint": None, "kind": "DeviceUnreachable"}
    record |= {"failure": lost | {"step": "verify", "reason": "the session was lost"}, "restore_failure": lost}
    return stored_device(device.host, record, site=device.site, address=device.address, is_held=True)


@pytest.fixture
def record() -> Callable[..., dict[str, Any]]:
    """Give records of real runs."""
    return real_record


@pytest.fixture
def device() -> Callable[..., StoredDevice]:
    """Make devices of a stored run."""
    return stored_device


@pytest.fixture
def run() -> Callable[..., StoredRun]:
    """Make stored runs."""
    return stored_run


@pytest.fixture
def report() -> Callable[..., Report]:
    """Make reports of stored runs."""
    return reported


@pytest.fixture
def three() -> StoredRun:
    """A run of three: staged, slow, wrong hash."""
    return three_devices()


@pytest.fixture
def fleet() -> Callable[..., StoredRun]:
    """Make runs of many devices."""
    return fleet_run
