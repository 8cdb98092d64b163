"""Options that several verbs share; those by which devices are chosen are in `flashferry.fleet`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flashferry.hints import remember

ImageOption = Annotated[Path, typer.Option("--image", metavar="FILE", help="The image file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        metavar="DIR",
        callback=remember,
        help="Where the journal is kept (default: the XDG state folder).",
    ),
]
AnyImageOption = Annotated[
    bool,
    typer.Option(
        "--any-image",
        help="Insist on an image that is known to be for another platform, or that goes to several of them.",
    ),
]
UncappedOption = Annotated[
    bool,
    typer.Option(
        "--uncapped",
        help="Let copies run with neither a cap nor a pace, where no link rate is stated and this host grants no BBR.",
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option("--server-address", metavar="ADDRESS", help="Our address as devices reach it (default: found out)."),
]
PortOption = Annotated[
    int | None,
    typer.Option("--ftp-port", metavar="PORT", min=0, max=65535, help="FTP port (default: 21 if allowed, else 2121)."),
]
TranscriptOption = Annotated[
    Path | None,
    typer.Option(
        "--transcript",
        envvar="FLASHFERRY_TRANSCRIPT",
        metavar="DIR",
        help="Write what is sent to each device and comes from it into files of this folder, one per session: with "
        "times, secrets masked.",
    ),
]
