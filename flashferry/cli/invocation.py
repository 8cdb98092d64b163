"""Who started this process, and for which job of a service: kept in the journal with runs and requests."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from flashferry.store.control_requests import Asker, Origin

# A service that runs one of our verbs names its job and its user in the environment; both are texts and grant nothing:
# a user who can write the journal can write anything into it.

JOB_VARIABLE = "FLASHFERRY_JOB"
"""Variable for the id of the service's job that this process runs."""

ACTOR_VARIABLE = "FLASHFERRY_ACTOR"
"""Variable for the user who started the service's job."""

VIA = "command-line"
"""Origin of requests made on the command line."""


def origin(events: Path | None = None) -> Origin:
    """Return the origin of a run started by this process. events: its event file; None or `-`: no file."""
    path = None if events is None or str(events) == "-" else str(events.absolute())
    return Origin(job=os.environ.get(JOB_VARIABLE) or None, events=path, actor=actor())


def asker(reason: str) -> Asker:
    """Return the user of this process and the reason, for a request to a run."""
    return Asker(actor=actor(), via=VIA, reason=reason)


def actor() -> str:
    """Return the user for whom this process works: the one named by the service, else the system user."""
    if named := os.environ.get(ACTOR_VARIABLE):
        return named
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        # A user in a container may have no name.
        return str(os.geteuid())
