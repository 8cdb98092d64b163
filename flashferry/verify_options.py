"""Options about what proves an image, for the verbs that hash one."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from flashferry.command_line import IMAGE

_option = partial(typer.Option, rich_help_panel=IMAGE)

Md5Option = Annotated[
    str | None,
    _option(
        "--md5",
        metavar="HEX",
        help="The vendor's published MD5 of the image; another file is refused.",
    ),
]
Sha512Option = Annotated[
    str | None,
    _option("--sha512", metavar="HEX", help="The vendor's published SHA-512 of the image."),
]
SignatureOption = Annotated[
    bool,
    _option(
        "--verify-signature",
        help="Have devices verify the vendor's signature in the image after the copy.",
    ),
]
