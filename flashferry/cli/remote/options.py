"""Options that several verbs of a remote service share, and what their words come to in a request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Annotated

import typer

from flashferry.cli.command_line import DEVICES, OUTPUT, SERVER
from flashferry.core.errors import ConfigInvalid

HostOption = Annotated[
    list[str] | None,
    typer.Option("--host", "-H", metavar="NAME", help="Only this device; may be repeated.", rich_help_panel=DEVICES),
]
GroupOption = Annotated[
    list[str] | None,
    typer.Option(
        "--group", "-g", metavar="NAME", help="Only devices of this group; may be repeated.", rich_help_panel=DEVICES
    ),
]
FilterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="KEY=VALUE",
        help="Only devices with this in the service's inventory, such as site=branch1; may be repeated: values of one "
        "key are alternatives, several keys must all fit.",
        rich_help_panel=DEVICES,
    ),
]
ImageOption = Annotated[
    str | None, typer.Option("--image", metavar="NAME", help="An image of the service's, by its name there.")
]
TransportOption = Annotated[
    str | None,
    typer.Option(
        "--transport",
        metavar="NAMES",
        help="By what devices fetch: a name, several by commas in order, or auto.",
        rich_help_panel=SERVER,
    ),
]
WhyOption = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why, for the service's audit and for who reads the run.")
]
TitleOption = Annotated[
    str, typer.Option("--title", metavar="TEXT", help="What the plan is called there; plans of one title follow.")
]
DetachOption = Annotated[
    bool, typer.Option("--detach", help="Have it begun, and do not wait for its end.", rich_help_panel=OUTPUT)
]
_SITE = "site"


def image_name(given: str | None) -> str:
    """Return the name of an image at the service; empty where none is named.

    Raises:
        ConfigInvalid: It is a path of this host.
    """
    if given is None:
        return ""
    if PurePath(given).name != given:
        raise ConfigInvalid(
            f"--image: expected the name of an image at the service, found the path {given!r}",
            hint=f"Send it there first, by the page Images, then give --image {PurePath(given).name}",
        )
    return given


def selected(
    hosts: Sequence[str] | None, groups: Sequence[str] | None, filters: Sequence[str] | None
) -> dict[str, object]:
    """Return which devices are meant, as the API takes it: sites by themselves.

    Raises:
        ConfigInvalid: A filter is none.
    """
    sites, others = [], []
    for one in filters or ():
        key, equals, value = one.partition("=")
        if not equals or not key.strip():
            raise ConfigInvalid(f"--filter: expected KEY=VALUE, found {one!r}", hint="Write it as site=branch1")
        if key.strip().lower() == _SITE:
            sites.append(value.strip())
        else:
            others.append(one)
    return {"sites": sites, "hosts": list(hosts or ()), "groups": list(groups or ()), "filters": others}
