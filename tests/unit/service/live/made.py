"""Runs as values, for tests of what is told of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from flashferry.core.values import field_names
from flashferry.model.states import RunState
from flashferry.service.live.collect import Snapshot
from flashferry.service.live.snapshot import NOTHING, EventView, Forecast, RunNow, run_now
from flashferry.store.status import DeviceStatus, FollowedRun, RunStatus
from flashferry.store.tables import RunRow

NOW = datetime(2026, 11, 22, 2, 14, tzinfo=UTC)
RUN = "20261122-010000-abcd"


def device(host: str = "r1", state: str = "planned", **more) -> DeviceStatus:
    given = {"address": "192.0.2.1", "is_held": False, "updated_at": "2026-11-22T02:00:00.000+00:00", "site": "AMS"}
    return DeviceStatus(host=host, state=state, **given | more)


def followed(*devices: DeviceStatus, state: RunState = RunState.ALIVE, sizes: int = 1000, **more) -> FollowedRun:
    until = more.pop("until", None)
    run_id = more.pop("run_id", RUN)
    waves = {"waves": more.pop("waves", ()), "policy": {"policy": {"approve": more.pop("approve", False)}}}
    control = {"approved_wave": more.pop("approved_wave", -1)}
    given = {"verb": "stage", "started_at": "2026-11-22T01:00:00.000+00:00", "finished_at": None}
    status = RunStatus(run_id=run_id, state=state, devices=devices, **given | more)
    told = {"run_id": run_id, "verb": status.verb, "started_at": status.started_at, "finished_at": status.finished_at}
    row = RunRow(**dict.fromkeys(name for name in field_names(RunRow)) | told | control)
    request = {
        "images": [{"name": "i.bin", "size_bytes": sizes}],
        "image_of": {one.host: "i.bin" for one in devices},
        "until": until,
    }
    return FollowedRun(status=status, request=request | waves, row=row)


def run(*devices: DeviceStatus, heard: EventView = NOTHING, forecast: Forecast | None = None, **more) -> RunNow:
    return run_now(followed(*devices, **more), heard, forecast or Forecast(), NOW)


def scene(*runs: RunNow, **more) -> Snapshot:
    return Snapshot(at=NOW, read_at=NOW, runs=runs, **more)


def patched(board: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Apply differences to a board, as the browser does."""
    made = dict(board)
    for name, details in change.items():
        old = made.get(name, {"order": [], "rows": {}})
        order = details.get("order", old["order"])
        rows = {key: old["rows"].get(key, {}) | details.get("rows", {}).get(key, {}) for key in order}
        made[name] = {"order": order, "rows": rows}
    return made
