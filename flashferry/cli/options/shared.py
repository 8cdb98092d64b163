"""Options of several verbs, with one name and one environment variable each."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flashferry.api.report_format import ReportFormat
from flashferry.cli.command_line import AT_SERVICE, HERE, OUTPUT, SERVER, Offered
from flashferry.cli.terminal.output import JSON_VARIABLE, remember
from flashferry.reports.thresholds import THRESHOLDS

if TYPE_CHECKING:
    pass

OUTPUT_VARIABLE = "FLASHFERRY_OUTPUT"

DEPOT_PASSWORD_VARIABLE = "FLASHFERRY_DEPOT_PASSWORD"  # noqa: S105 -- the name of a variable
"""Variable for the password at another depot; not an option, since any user can read command lines."""


def options_of(kind: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the fields of a dataclass as options to a verb, passed together as its argument `asked`.

    Args:
        kind: The dataclass; its fields are annotated as Typer parameters.
    """

    def with_options(verb: Callable[..., None]) -> Callable[..., None]:
        fields = inspect.signature(kind, eval_str=True).parameters
        return carried(verb, "asked", fields, lambda given, _own: kind(**given))

    return with_options


def carried(
    verb: Callable[..., None],
    argument: str,
    shared: Mapping[str, inspect.Parameter],
    made: Callable[[dict[str, Any], Mapping[str, Any]], object],
    *,
    come_first: bool = False,
) -> Callable[..., None]:
    """Add shared options to a verb, passed together as one argument.

    Args:
        verb: The verb's function.
        argument: Name of the argument that receives them.
        shared: The options as function parameters.
        made: Makes the argument from the values of these options; its second parameter has the verb's own options.
        come_first: Whether help shows them before the verb's own.
    """
    own = inspect.signature(verb, eval_str=True)

    @functools.wraps(verb)
    def with_shared(**given: Any) -> None:
        theirs = {name: given.pop(name) for name in shared}
        verb(**{argument: made(theirs, given)}, **given)

    mine = [one for name, one in own.parameters.items() if name != argument]
    ordered = (*shared.values(), *mine) if come_first else (*mine, *shared.values())
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in ordered]
    # Typer reads both the signature and the annotations.
    with_shared.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined] # inspect's own hook
    with_shared.__annotations__ = {one.name: one.annotation for one in parameters}
    del with_shared.__wrapped__
    return with_shared


RunsOption = Annotated[
    int,
    typer.Option("--last", metavar="N", min=1, max=1000, help="How many runs to show."),
    Offered(help="How many runs to show; at a service 200 at most."),
]

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
    HERE,
]

CatalogueOption = Annotated[
    Path | None,
    typer.Option(
        "--catalogue",
        envvar="FLASHFERRY_CATALOGUE",
        metavar="DIR",
        help="The depot's folder of images (default: catalogue in the state folder).",
    ),
    HERE,
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
    HERE,
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
    HERE,
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
    HERE,
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
    HERE,
]

EventsOption = Annotated[
    Path | None,
    typer.Option(
        "--events",
        metavar="FILE",
        help="Append what happens as JSON lines, for programs; - puts them on standard error in place of the view.",
        rich_help_panel=OUTPUT,
    ),
    HERE,
]

MetricsOption = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="[ADDRESS:]PORT",
        help="Serve metrics for Prometheus while it runs (default address: 127.0.0.1).",
        rich_help_panel=OUTPUT,
    ),
    HERE,
]


ReasonOption = Annotated[
    str,
    typer.Option("--reason", metavar="TEXT", help="Why, for the journal, which keeps who asked for it and when."),
    Offered(help="Why, for the service's audit and for the readers of the run."),
]

ServiceReasonOption = Annotated[
    str,
    typer.Option("--reason", metavar="TEXT", help="Why, for the service's audit and for the readers of the run."),
    AT_SERVICE,
]

TitleOption = Annotated[
    str,
    typer.Option(
        "--title", metavar="TEXT", help="What the plan is called there; plans of one title follow each other."
    ),
    AT_SERVICE,
]

ImageFileOption = Annotated[
    Path | None,
    typer.Option("--image", metavar="FILE", help="The image file."),
    Offered(metavar="NAME", help="An image of the service's, by its name there."),
]


ReportedRun = Annotated[str, typer.Argument(metavar="RUN|latest", help="The run; shortened where that is unique.")]

FormatOption = Annotated[
    ReportFormat | None, typer.Option("--format", help="How to write it (default: table).", rich_help_panel=OUTPUT)
]

ReportFileOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        envvar=OUTPUT_VARIABLE,
        metavar="FILE",
        help="Write to a file (default: standard output).",
        rich_help_panel=OUTPUT,
    ),
]

ThresholdOption = Annotated[
    list[str] | None,
    typer.Option(
        "--threshold",
        metavar="NAME=VALUE",
        help=f"Hold every device against this; may be repeated. {', '.join(THRESHOLDS)}. Shown by junit and table.",
    ),
]

CheckOption = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Leave with 3 where an image, a configuration or a threshold is not as it must be, or that is not known "
        "(default: 0 once the report is written, whatever it says).",
    ),
]
