"""Start of a job's process: files of its folder say what to do; starting it twice is harmless.

By systemd if a template unit is configured, so that runs survive the end of the service's unit; else as a process in a
session of its own. The first process claims the job (`flashferry.service.jobs.child`).
"""

from __future__ import annotations

import json
import subprocess
import sys

from flashferry.core.apart.folder import JobFolder
from flashferry.core.errors import ConfigInvalid
from flashferry.core.state_folder import open_private
from flashferry.depot.paths import AUTO, is_served, socket_of
from flashferry.service.service import Service
from flashferry.store.service.jobs import Job, JobKind
from flashferry.store.service.plans import text_of

_SYSTEMCTL_S = 20.0
_DEPOT = "--depot"
_HAVE_A_PLAN = frozenset({JobKind.STAGE, JobKind.DRY_RUN})


def unit_of(template: str, job_id: str) -> str | None:
    """Return the unit of a job: `flashferry-run@j1.service` for `flashferry-run@.service`; None without a template."""
    return template.replace("@.", f"@{job_id}.", 1) if template else None


def prepare(service: Service, job: Job) -> None:
    """Write what a job's process needs into its folder; idempotent.

    Raises:
        ConfigInvalid: The folder belongs to another user.
        OSError: It cannot be written.
    """
    folder = JobFolder.of(service.state, job.job_id)
    folder.make()
    if job.kind in _HAVE_A_PLAN and job.digest is not None:
        with service.database.reading() as database:
            text = text_of(database, job.digest)
        folder.tell(folder.plan, text)
    if job.rules:
        folder.tell(folder.rules, job.rules)
    details = {"job": job.job_id, "actor": job.requested_by, "words": list(job.words)}
    folder.tell(folder.command, json.dumps(details, indent=1) + "\n")


def start(service: Service, job: Job) -> subprocess.Popen[bytes] | None:
    """Start the process of a prepared job; return it if it is our child.

    Raises:
        ConfigInvalid: systemd does not start its unit.
        OSError: It cannot be started.
    """
    folder = JobFolder.of(service.state, job.job_id)
    if job.unit is not None:
        _start_unit(job.unit)
        return None
    with open_private(folder.stderr, "ab") as stderr:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "flashferry.service.jobs.child", str(folder.path)],
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
            start_new_session=True,
        )


def has_depot(service: Service) -> bool:
    """Return whether a depot answers that serves all runs, so that several may run at once."""
    found = socket_of(depot_option(service), service.state)
    return found is not None and is_served(found)


def depot_option(service: Service) -> str:
    """Return which depot jobs use: `auto`, `never`, or the path of a socket."""
    options = service.settings.runs.options
    return next((options[at + 1] for at, word in enumerate(options[:-1]) if word == _DEPOT), AUTO)


def _start_unit(unit: str) -> None:
    try:
        done = subprocess.run(
            ["systemctl", "start", "--no-block", "--", unit],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SYSTEMCTL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _not_started(unit, str(error)) from None
    if done.returncode != 0:
        raise _not_started(unit, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])


def _not_started(unit: str, why: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"systemd did not start {unit}: {why}",
        hint="Install the template, and let this user start it (docs/service.md), or take 'unit' out of [runs]",
    )
