"""Conversion of jobs and runs to JSON types. Pure."""

from __future__ import annotations

from collections import Counter

from flashferry.core.values import as_dict
from flashferry.service.run_visibility import sites_of_run
from flashferry.store.control import ControlRequest
from flashferry.store.service.jobs import Job
from flashferry.store.status import RunStatus
from flashferry.store.stored_run import StoredDevice, StoredRun
from flashferry.store.summaries import restore_source

JOBS = "/api/v1/jobs"
RUNS = "/api/v1/runs"


def job_json(job: Job) -> dict[str, object]:
    """Return a job as JSON types, without its command line."""
    hidden = {"words", "rules", "pid", "process_started"}
    details = {name: value for name, value in as_dict(job).items() if name not in hidden}
    links = {"self": f"{JOBS}/{job.job_id}", "result": f"{JOBS}/{job.job_id}/result"} | (
        {"run": f"{RUNS}/{job.run_id}"} if job.run_id is not None else {}
    )
    return details | {"is_open": job.is_open, "links": links}


def _state_json(run: RunStatus | StoredRun) -> dict[str, object]:
    return {
        "run_id": run.run_id,
        "verb": run.verb,
        "state": run.state.value,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "resumed": run.resumed,
    }


def run_row_json(run: RunStatus) -> dict[str, object]:
    """Return a run in a list as JSON types."""
    return _state_json(run) | {
        "is_paused": run.is_paused,
        "is_stopping": run.is_stopping,
        "waiting_wave": run.waiting_wave,
        "actor": run.actor,
        "job": run.job,
        "sites": list(sites_of_run(run)),
        "devices": len(run.devices),
        "held": sum(device.is_held for device in run.devices),
        "outcomes": dict(Counter(device.outcome or device.state for device in run.devices)),
    }


def run_json(run: StoredRun, control: ControlRequest, jobs: list[Job]) -> dict[str, object]:
    """Return a run as JSON types, without its devices."""
    return _state_json(run) | {
        "actor": run.actor,
        "plan_digest": run.plan_digest,
        "sites": list(sites_of_run(run)),
        "control": as_dict(control),
        "wishes": [as_dict(one) for one in run.steer_requests],
        "waves": [_wave_json(run, number) for number in sorted({device.wave for device in run.devices})],
        "damaged": list(run.damaged),
        "jobs": [job_json(job) for job in jobs],
    }


def device_json(device: StoredDevice) -> dict[str, object]:
    """Return a device of a run as JSON types, without its transfer records."""
    return device.status() | {
        "outcome": device.record.get("outcome"),
        "restored": restore_source(device.record, device.attempts).restored,
        "updated_at": device.updated_at,
    }


def _wave_json(run: StoredRun, number: int) -> dict[str, object]:
    devices = [device for device in run.devices if device.wave == number]
    outcomes = Counter(str(device.record.get("outcome") or device.state) for device in devices)
    return {"wave": number, "devices": len(devices), "outcomes": dict(outcomes)}
