"""Who begins a run, or wants something of one, from the command line: for the journal, which keeps it.

A service that runs one of our verbs says in the environment which of its jobs that is, and for whom; both are words,
no right: who may write the journal may write anything into it.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Annotated

import typer

from flashferry.store.wishes import Asker, Origin

JOB_VARIABLE = "FLASHFERRY_JOB"
"""The job of a service that this process is."""

ACTOR_VARIABLE = "FLASHFERRY_ACTOR"
"""Who asked the service for it."""

VIA = "command-line"
"""How whoever types a command came."""

ReasonOption = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why, for the journal, which keeps who wanted it and when.")
]


def origin(events: Path | None = None) -> Origin:
    """Return from where a run of this process comes.

    Args:
        events: Where its events go; None, or standard error: into no file.
    """
    path = None if events is None or str(events) == "-" else str(events.absolute())
    return Origin(job=os.environ.get(JOB_VARIABLE) or None, events=path, actor=actor())


def asker(reason: str) -> Asker:
    """Return who wants something of a run by a command, and why."""
    return Asker(actor=actor(), via=VIA, reason=reason)


def actor() -> str:
    """Return for whom this process works: whom the service names, else the user of the system."""
    if named := os.environ.get(ACTOR_VARIABLE):
        return named
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        # A container's user need not have a name.
        return str(os.geteuid())
