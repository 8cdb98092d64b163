"""`flashferry nightly init`: a commented description to begin with, and the check of one, up to the controller."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry.cli.options.shared import JsonOption
from flashferry.cli.terminal.output import echo, finish
from flashferry.core.errors import ConfigInvalid
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from flashferry.nightly.description.beginning import Tried

DEFAULT = Path("nightly.yaml")


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The description; it must be new.")] = DEFAULT,
    check: Annotated[bool, typer.Option("--check", help="Write nothing: check the file that is there.")] = False,
    json: JsonOption = False,
) -> None:
    """Write a commented description of a night to begin with; with --check, check one. No lab is made."""
    from flashferry.nightly.description.beginning import write_template

    if not check:
        write_template(file)
        _tell_written(file, as_json=json)
    _tell_checked(file, as_json=json)


def _tell_written(file: Path, *, as_json: bool) -> None:
    """Tell that the template is there, and what is still to be filled in."""
    from flashferry.nightly.description.beginning import tried

    try:
        tried(file)
        left = ""
    except ConfigInvalid as error:
        left = str(error)

    def human() -> None:
        echo(f"{file} is written: say in it where your controller and your image are.")
        if left:
            echo(f"First to be filled in: {left}")
        echo(f"Then: flashferry nightly init --check {file}")

    content: dict[str, object] = {"file": str(file), "is_written": True, "left": left or None}
    finish("nightly-init", ExitCode.OK, content, as_json=as_json, human=human)


def _tell_checked(file: Path, *, as_json: bool) -> None:
    """Check a description and tell what the lab will be.

    Raises:
        ConfigInvalid: Something in the description is wrong.
    """
    from flashferry.nightly.description.beginning import missing_logins, tried

    found = tried(file)
    notes = [str(error) for error in missing_logins(found.description)]

    def human() -> None:
        for line in _lines(found):
            echo(line)
        for note in notes:
            echo(f"Not ready yet: {note}")

    content = {"file": str(file), "is_written": False, "nodes": found.nodes, "links": found.links, "notes": notes}
    finish("nightly-init", ExitCode.OK, content, as_json=as_json, human=human)


def _lines(found: Tried) -> list[str]:
    description = found.description
    where = f", {description.controller.url}" if description.controller else ""
    lines = [f"{description.file}: every key is as it must be. A lab of {len(found.nodes)} routers{where}:"]
    for link in found.links:
        condition = link.condition
        rate = f"{condition.bandwidth_kbps:,} kbit/s" if condition.bandwidth_kbps else "no limit"
        told = f"{rate}, {condition.latency_ms} ms, jitter {condition.jitter_ms} ms, loss {condition.loss_percent:g} %"
        lines.append(f"  {', '.join(link.nodes)}  behind {link.label} ({link.condition_name}: {told})")
    return lines
