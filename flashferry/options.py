"""Options that several verbs share, and the fleet that they open."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from nornir.core import Nornir

from inventory.load import SAMPLE, open_inventory, sample_directory
from staging.credentials import apply_environment
from staging.run import selected

InventoryOption = Annotated[
    str,
    typer.Option(
        "--inventory",
        "-i",
        envvar="FLASHFERRY_INVENTORY",
        metavar="DIR",
        help=f"Folder with Nornir's hosts.yaml, groups.yaml and defaults.yaml; '{SAMPLE}' is the lab's fleet.",
    ),
]
HostOption = Annotated[
    list[str] | None, typer.Option("--host", "-H", metavar="NAME", help="Only this device; may be repeated.")
]
ImageOption = Annotated[Path, typer.Option("--image", metavar="FILE", help="The image file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
StateOption = Annotated[
    Path | None,
    typer.Option("--state-dir", metavar="DIR", help="Where the journal is kept (default: the XDG state folder)."),
]
AddressOption = Annotated[
    str | None,
    typer.Option("--server-address", metavar="ADDRESS", help="Our address as devices reach it (default: found out)."),
]
PortOption = Annotated[
    int | None,
    typer.Option("--ftp-port", metavar="PORT", min=0, max=65535, help="FTP port (default: 21 if allowed, else 2121)."),
]


def fleet(inventory: str, hosts: list[str] | None) -> Nornir:
    """Return the devices that a command is about, with their credentials.

    Raises:
        ConfigInvalid: The inventory is wrong or empty, or a device is unknown.
    """
    return selected(whole_fleet(inventory), tuple(hosts or ()))


def whole_fleet(inventory: str) -> Nornir:
    """Return all devices of an inventory, with their credentials; there may be none.

    Raises:
        ConfigInvalid: The inventory is wrong.
    """
    directory = sample_directory() if inventory == SAMPLE else Path(inventory)
    return apply_environment(open_inventory(directory))
