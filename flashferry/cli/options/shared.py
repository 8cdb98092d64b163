"""Options that several verbs share; those by which devices are chosen are in `flashferry.cli.options.fleet`.

One subject has one name and one environment variable, whatever the verb.
"""

from __future__ import annotations

import functools
import inspect
import os
import pwd
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from flashferry.cli.command_line import OUTPUT, SERVER
from flashferry.cli.terminal.output import JSON_VARIABLE, remember
from flashferry.store.control_requests import Asker, Origin

OUTPUT_VARIABLE = "FLASHFERRY_OUTPUT"


def carried(
    verb: Callable[..., None],
    argument: str,
    shared: Mapping[str, inspect.Parameter],
    made: Callable[[dict[str, Any], Mapping[str, Any]], object],
    *,
    come_first: bool = False,
) -> Callable[..., None]:
    """Give a verb options that several verbs share, which it takes together as one argument.

    Args:
        verb: The verb.
        argument: The argument's name.
        shared: The options, as parameters of a function that Typer could take.
        made: Makes the argument of what was given for them; it sees what was given for the verb's own options too.
        come_first: Whether they stand before the verb's own in its help.
    """
    own = inspect.signature(verb, eval_str=True)

    @functools.wraps(verb)
    def with_shared(**given: Any) -> None:
        theirs = {name: given.pop(name) for name in shared}
        verb(**{argument: made(theirs, given)}, **given)

    mine = [one for name, one in own.parameters.items() if name != argument]
    ordered = (*shared.values(), *mine) if come_first else (*mine, *shared.values())
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in ordered]
    # Typer reads the signature, and the annotations by themselves.
    with_shared.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined] # inspect's own hook
    with_shared.__annotations__ = {one.name: one.annotation for one in parameters}
    del with_shared.__wrapped__
    return with_shared


RunsOption = Annotated[int, typer.Option("--last", metavar="N", min=1, max=1000, help="How many runs to show.")]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json",
        envvar=JSON_VARIABLE,
        help="Print one JSON document on standard output.",
        rich_help_panel=OUTPUT,
    ),
]
StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        envvar="FLASHFERRY_STATE_DIR",
        metavar="DIR",
        callback=remember,
        help="Where the journal is kept (default: the XDG state folder).",
        rich_help_panel=OUTPUT,
    ),
]
CatalogueOption = Annotated[
    Path | None,
    typer.Option(
        "--catalogue",
        envvar="FLASHFERRY_CATALOGUE",
        metavar="DIR",
        help="The depot's folder of images (default: catalogue in the state folder).",
    ),
]
DepotOption = Annotated[
    str | None,
    typer.Option(
        "--depot",
        envvar="FLASHFERRY_DEPOT",
        metavar="auto|never|PATH",
        help="The file server that all runs of this host share, by its socket; never: this run brings its own "
        "(default: the one in the state folder or /run/flashferry, where there is one).",
        rich_help_panel=SERVER,
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        envvar="FLASHFERRY_ADDRESS",
        metavar="ADDRESS",
        help="Our address as devices reach it (default: found out).",
        rich_help_panel=SERVER,
    ),
]
PortOption = Annotated[
    int | None,
    typer.Option(
        "--port",
        envvar="FLASHFERRY_PORT",
        metavar="PORT",
        min=0,
        max=65535,
        help="FTP port (default: 21 if allowed, else the first free one from 2121 on).",
        rich_help_panel=SERVER,
    ),
]
TranscriptOption = Annotated[
    Path | None,
    typer.Option(
        "--transcript",
        envvar="FLASHFERRY_TRANSCRIPT",
        metavar="DIR",
        help="Write what is sent to each device and comes from it into files of this folder, one per session: with "
        "times, secrets masked.",
        rich_help_panel=OUTPUT,
    ),
]

EventsOption = Annotated[
    Path | None,
    typer.Option(
        "--events",
        metavar="FILE",
        help="Append what happens as JSON lines, for programs; - puts them on standard error in place of the view.",
        rich_help_panel=OUTPUT,
    ),
]
MetricsOption = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="[ADDRESS:]PORT",
        help="Serve metrics for Prometheus while it runs (default address: 127.0.0.1).",
        rich_help_panel=OUTPUT,
    ),
]


def is_typed(ctx: typer.Context, name: str) -> bool:
    """Return whether a parameter stands in the command line itself, not only in the environment."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


# A service that runs one of our verbs says in the environment which of its jobs that is, and for whom; both are words,
# no right: who may write the journal may write anything into it.

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
