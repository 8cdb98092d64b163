"""`flashferry nightly reap`: remove labs left by killed nights; meant for an hourly timer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry import api
from flashferry.cli.nightly.begin import DEFAULT
from flashferry.cli.options.shared import JsonOption, StateOption
from flashferry.cli.terminal.output import echo, finish
from flashferry.model.exit_codes import ExitCode
from flashferry.nightly.backend import Deadline
from flashferry.nightly.clean_up import ReapRules
from flashferry.nightly.clean_up import reap as reap_labs
from flashferry.nightly.description.reading import load_description
from flashferry.nightly.runner import locks_of, open_backend

if TYPE_CHECKING:
    from flashferry.nightly.clean_up import Reaped

_WHOLE_S = 3600.0
"""Time limit: a timer starts the command again every hour."""


def reap(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The description, of which only the controller counts.")
    ] = DEFAULT,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Remove labs that killed nights left. Others' labs, and those of nights that run, are left alone."""
    state = api.state_folder(state_dir)
    with open_backend(load_description(file)) as backend:
        found = reap_labs(backend, ReapRules.of(locks_of(state)), deadline=Deadline.after(_WHOLE_S))
    code = ExitCode.CLEANUP if any(one.failure for one in found) else ExitCode.OK
    content: dict[str, object] = {"labs": [_content(one) for one in found]}
    finish("nightly-reap", code, content, as_json=json, human=lambda: _print(found))


def _content(one: Reaped) -> dict[str, object]:
    return {
        "lab": one.lab.lab_id,
        "title": one.lab.title,
        "state": one.lab.state,
        "is_removed": one.is_removed,
        "why": one.why,
        "failure": one.failure or None,
    }


def _print(found: tuple[Reaped, ...]) -> None:
    if not found:
        echo("No lab of a night is there.")
    for one in found:
        became = "removed" if one.is_removed else "STILL THERE" if one.failure else "left alone"
        echo(f"{one.lab.title}: {became}: {one.why}" + (f"; {one.failure}" if one.failure else ""))
