"""`flashferry nightly init`: write a commented description of a nightly run, or check one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry.cli.options.shared import JsonOption
from flashferry.cli.terminal.output import echo, finish, print_error
from flashferry.core.errors import ConfigInvalid
from flashferry.core.units import counted
from flashferry.model.exit_codes import ExitCode
from flashferry.nightly.artefacts.report import condition_words
from flashferry.nightly.description.check import asked, missing_logins, tried, write_template
from flashferry.nightly.night import NightFault

if TYPE_CHECKING:
    from flashferry.nightly.backend import Preflight
    from flashferry.nightly.description.check import Tried

DEFAULT = Path("nightly.yaml")
"""Default description file."""


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The description; it must be new.")] = DEFAULT,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing: check the file that is there, then ask its controller.")
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", help="With --check: ask no controller.")] = False,
    json: JsonOption = False,
) -> None:
    """Write a commented description of a night to begin with; with --check, check one. No lab is made."""
    if offline and not check:
        raise ConfigInvalid("--offline: expected --check with it, found none", hint="Give it too, or leave both out")
    if not check:
        write_template(file)
        _print_written(file, as_json=json)
    try:
        _print_checked(file, is_offline=offline, as_json=json)
    except NightFault as error:
        print_error(error, error.exit_code)
        raise typer.Exit(int(error.exit_code)) from None


def _print_written(file: Path, *, as_json: bool) -> None:
    """Print that the template was written, and what must be filled in."""
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


def _print_checked(file: Path, *, is_offline: bool, as_json: bool) -> None:
    """Check a description, ask its controller if a login is known, and print what the lab will be.

    Raises:
        ConfigInvalid: The description is invalid.
        NightFault: The controller could not take the lab.
    """
    found = tried(file)
    notes = [str(error) for error in missing_logins(found.description)]
    said = None if is_offline or notes else asked(found)
    lab = {"nodes": found.topology.nodes, "links": found.topology.links}
    content: dict[str, object] = {"file": str(file), "is_written": False, **lab, "notes": notes, "controller": said}
    lines = [*_lines(found), *_said(said), *(f"Not ready yet: {note}" for note in notes)]
    finish("nightly-init", ExitCode.OK, content, as_json=as_json, human=lambda: _echo(lines))


def _echo(lines: list[str]) -> None:
    for line in lines:
        echo(line)


def _said(said: Preflight | None) -> list[str]:
    """Return the controller's findings as lines."""
    if said is None:
        return ["Its controller was not asked."]
    free = "" if said.nodes_free is None else f", {counted(said.nodes_free, 'node')} free"
    return [f"{said.controller}, version {said.version}{free}: it could take this lab up.", *said.notes]


def _lines(found: Tried) -> list[str]:
    description, topology = found.description, found.topology
    count = counted(len(topology.nodes), "router")
    lines = [f"{description.file}: every key is as it must be. A lab of {count}, {description.controller.url}:"]
    names = [", ".join(link.nodes) for link in topology.links]
    wide = max((len(name) for name in names), default=0)
    for name, link in zip(names, topology.links, strict=True):
        condition = f"{link.condition_name}: {condition_words(link.condition)}"
        lines.append(f"  {name:<{wide}}  behind {link.label} ({condition})")
    return lines
