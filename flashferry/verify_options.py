"""Options about what proves an image, for the verbs that hash one."""

from __future__ import annotations

from typing import Annotated

import typer

Md5Option = Annotated[
    str | None,
    typer.Option("--md5", metavar="HEX", help="The vendor's published MD5 of the image; another file is refused."),
]
Sha512Option = Annotated[
    str | None, typer.Option("--sha512", metavar="HEX", help="The vendor's published SHA-512 of the image.")
]
SignatureOption = Annotated[
    bool,
    typer.Option("--verify-signature", help="Have devices verify the vendor's signature in the image after the copy."),
]
