"""Options about the centre of sites, and how its settings, ledger and agents are opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry.api.fleet_options import state_folder
from flashferry.cli.command_line import OUTPUT
from flashferry.sites.centre.centre import Centre, open_centre
from flashferry.sites.centre.settings import USUAL_NAME, CentreSettings, load_centre
from flashferry.store.sites.database import SitesDatabase

if TYPE_CHECKING:
    from pathlib import Path

    from flashferry.sites.centre.centre import Centre

SITES_VARIABLE = "FLASHFERRY_SITES"


SettingsOption = Annotated[
    Path | None,
    typer.Option(
        "--sites",
        envvar=SITES_VARIABLE,
        metavar="FILE",
        help=f"The centre's settings of sites (default: {USUAL_NAME} in the state folder).",
        rich_help_panel=OUTPUT,
    ),
]


SiteOption = Annotated[
    str | None, typer.Option("--site", metavar="NAME", help="This site alone (default: all that are not through).")
]


RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Its identifier, the beginning or end of it, or 'latest'.")
]


def settings_of(given: Path | None, state_dir: Path | None) -> CentreSettings:
    """Read the centre's settings.

    Raises:
        ConfigInvalid: They cannot be read or are invalid.
    """
    return load_centre(given if given is not None else state_folder(state_dir) / USUAL_NAME)


@contextmanager
def centre_of(given: Path | None, state_dir: Path | None) -> Iterator[Centre]:
    """Open the centre for a block; errors as in `open_centre`."""
    with open_centre(settings_of(given, state_dir), state_folder(state_dir)) as centre:
        yield centre


def ledger_of(state_dir: Path | None) -> SitesDatabase:
    """Open the ledger of runs at sites, read-only.

    Raises:
        ConfigInvalid: The ledger cannot be used.
    """
    return SitesDatabase(state_folder(state_dir))
