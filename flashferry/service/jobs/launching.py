"""How a job's process is begun: told what to do by files of its folder, then started, as often as need be.

By systemd where the settings name a template of units, so that the end of the service, of its unit and of all its
processes is not the end of a run; else as a process in a session of its own. Either way the first one that begins does
the job, and any other finds it taken (`flashferry.service.jobs.child`).
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
    """Return the unit that runs a job: `flashferry-run@j1.service` of `flashferry-run@.service`; None: no template."""
    return template.replace("@.", f"@{job_id}.", 1) if template else None


def prepare(service: Service, job: Job) -> None:
    """Write what a job's process needs into its folder; written again it says the same.

    Raises:
        ConfigInvalid: The folder is somebody else's.
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
    told = {"job": job.job_id, "actor": job.requested_by, "words": list(job.words)}
    folder.tell(folder.command, json.dumps(told, indent=1) + "\n")


def start(service: Service, job: Job) -> subprocess.Popen[bytes] | None:
    """Begin the process of a job whose folder is prepared; return it where it is a child of ours.

    Raises:
        ConfigInvalid: systemd does not begin its unit.
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
    """Return whether a depot is there that serves all runs, so that several may be at work at once.

    It is asked: one that was killed leaves its socket behind, and runs that find nobody there bring their own servers.
    """
    found = socket_of(depot_wish(service), service.state)
    return found is not None and is_served(found)


def depot_wish(service: Service) -> str:
    """Return which depot jobs are to use: `auto`, `never`, or the path of a socket."""
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
        raise _not_begun(unit, str(error)) from None
    if done.returncode != 0:
        raise _not_begun(unit, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])


def _not_begun(unit: str, why: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"systemd did not begin {unit}: {why}",
        hint="Install the template, and let this user start it (docs/service.md), or take 'unit' out of [runs]",
    )
