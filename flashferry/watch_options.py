"""Who else watches a run: the options for it, and what is known of its devices beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry.command_line import OUTPUT

if TYPE_CHECKING:
    from nornir.core import Nornir

    from staging.following import Roster

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


def roster_of(nornir: Nornir, sizes_bytes: int | Mapping[str, int] | None = None) -> Roster:
    """Return which devices a run has, for whoever watches it.

    Args:
        nornir: The devices.
        sizes_bytes: What each is to get, or by device what it is; one that is missing, or None, is not known.

    Raises:
        ConfigInvalid: The inventory is wrong, or two devices of a site state different links.
    """
    from inventory.view import view
    from staging.following import Expected, Roster
    from staging.serving import site_caps

    views = [view(host) for host in nornir.inventory.hosts.values()]
    return Roster(
        devices=tuple(
            Expected(
                host=one.name,
                site=one.site or "",
                size_bytes=sizes_bytes.get(one.name) if isinstance(sizes_bytes, Mapping) else sizes_bytes,
            )
            for one in views
        ),
        caps_bytes_per_s=site_caps(views),
    )
