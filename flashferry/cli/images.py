"""`flashferry images list|hash`: the images of a folder and their digests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from flashferry import api
from flashferry.cli.command_line import App
from flashferry.cli.options.shared import JsonOption, StateOption
from flashferry.cli.terminal.output import finish, say
from flashferry.cli.view.layout import ShownTable, console
from flashferry.core.errors import ConfigInvalid
from flashferry.images.errors import ImageError
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from flashferry.images.catalogue import Catalogue
    from flashferry.images.image import ImageFile

app = App(help="What a folder of images offers.")
FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of images, or one image file.")]


@app.command("list")
def list_images(folder: FolderArgument, state_dir: StateOption = None, json: JsonOption = False) -> None:
    """List names and sizes, as routers may ask for them. Reads no file."""
    catalogue = api.image_catalogue(folder, state=state_dir)
    root = folder if folder.is_dir() else folder.parent
    found = [{"name": name, "size_bytes": (root / name).stat().st_size} for name in catalogue.names()]
    print_left_out(catalogue)
    content = {"images": found, "left_out": list(catalogue.left_out)}
    finish("images", ExitCode.OK, content, as_json=json, human=lambda: _print_names(found))


@app.command("hash")
def hash_images(folder: FolderArgument, state_dir: StateOption = None, json: JsonOption = False) -> None:
    """Compute MD5 and SHA-512 of every image, once: digests are kept until a file changes."""
    catalogue = api.image_catalogue(folder, state=state_dir)
    print_left_out(catalogue)
    images = hashed(catalogue)
    rows = [{"name": i.name, "size_bytes": i.size_bytes, "md5": i.md5, "sha512": i.sha512} for i in images]
    content = {"images": rows, "left_out": list(catalogue.left_out)}
    finish("images", ExitCode.OK, content, as_json=json, human=lambda: _print_digests(images))


def print_left_out(catalogue: Catalogue) -> None:
    """Print which files of a folder are not offered, and why."""
    for reason in catalogue.left_out:
        say(f"warning: not offered: {reason}")


def hashed(catalogue: Catalogue) -> tuple[ImageFile, ...]:
    """Return all images with their digests; show a progress bar for those that are hashed now.

    Raises:
        ConfigInvalid: An image cannot be read.
    """
    with file_bars() as progress:
        return tuple(_hashed(catalogue, name, progress) for name in catalogue.names())


def file_bars() -> Progress:
    """Return progress bars on standard error, disabled if it is not a terminal."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
        disable=not console(stderr=True).is_terminal,
    )


def _hashed(catalogue: Catalogue, name: str, progress: Progress) -> ImageFile:
    bar = progress.add_task(name, total=None)
    try:
        return catalogue.image(name, on_progress=lambda done, size: progress.update(bar, completed=done, total=size))
    except ImageError as error:
        raise ConfigInvalid(error.message, hint=error.hint) from None


def _print_names(found: list[dict[str, object]]) -> None:
    table = ShownTable(box=None, pad_edge=False, header_style="bold")
    table.add_column("image")
    table.add_column("bytes", justify="right")
    for one in found:
        table.add_row(str(one["name"]), f"{one['size_bytes']:,}")
    console().print(table)


def _print_digests(images: tuple[ImageFile, ...]) -> None:
    for one in images:
        console().print(f"{one.name}, {one.size_bytes:,} bytes", style="bold")
        console().print(f"  md5    {one.md5}")
        console().print(f"  sha512 {one.sha512}", soft_wrap=True)
