"""`flashferry docs [TOPIC]`: the documents that came with this installation."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from pathlib import Path
from pydoc import pager
from typing import Annotated

import typer

import flashferry
from flashferry.cli.terminal.output import echo
from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import sanitize

_PACKAGE = Path(flashferry.__file__).parent
_PLACES = (_PACKAGE / "manual", _PACKAGE.parent / "docs")
"""In a wheel, and in a checkout."""


def docs(
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="A page, such as 'plan'; without it, all are listed.")
    ] = None,
) -> None:
    """Print a page of the documents, by a pager on a terminal; without a topic, list all pages."""
    pages = _pages()
    if topic is None:
        width = max(map(len, pages))
        for name, path in pages.items():
            echo(f"{name:{width}}  {_title(path)}")
        return
    name = topic.removeprefix("docs/").removesuffix(".md")
    if name not in pages:
        close = get_close_matches(name, pages, n=1)
        meant = f"; did you mean '{close[0]}'?" if close else ""
        raise ConfigInvalid(
            f"docs: expected a topic, found {sanitize(topic[:40])!r}{meant}", hint="'flashferry docs' lists all topics"
        )
    text = pages[name].read_text(encoding="utf-8")
    if sys.stdout.isatty():
        pager(text)
        return
    for line in text.splitlines():
        echo(line)


def _pages() -> dict[str, Path]:
    folder = next((one for one in _PLACES if one.is_dir()), None)
    if folder is None:
        raise ConfigInvalid(
            "docs: this installation has no documents", hint="Install flashferry's wheel, or run it from its checkout"
        )
    return {path.stem: path for path in sorted(folder.glob("*.md")) if path.stem != "README"}


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return next((line.strip("# \n").replace("`", "") for line in file if line.startswith("# ")), "")
