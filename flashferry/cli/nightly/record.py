"""`flashferry nightly record`: record the shape of a real controller's answers, for developers without one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry.cli.nightly.begin import DEFAULT
from flashferry.cli.options.shared import OUTPUT_VARIABLE, JsonOption
from flashferry.cli.terminal.output import echo, finish
from flashferry.core.errors import ConfigInvalid
from flashferry.core.units import counted
from flashferry.model.exit_codes import ExitCode
from flashferry.nightly.cml.record import record as record_answers
from flashferry.nightly.cml.record import write_record
from flashferry.nightly.description.logins import controller_access
from flashferry.nightly.description.reading import load_description

if TYPE_CHECKING:
    from flashferry.nightly.cml.record import Recorded

_MOST_SHOWN = 40


def record(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The description, of which only the controller counts.")
    ] = DEFAULT,
    output: Annotated[
        Path, typer.Option("--output", "-o", envvar=OUTPUT_VARIABLE, metavar="FILE", help="The file to write.")
    ] = Path("cml-record.json"),
    with_lab: Annotated[
        bool, typer.Option("--with-lab", help="Make a lab of two switches, start it, and remove it again.")
    ] = False,
    node: Annotated[
        str | None,
        typer.Option("--node", metavar="DEFINITION", help="With --with-lab: boot one node of a definition in it."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Record the shape of a controller's answers, and what in it was unknown. By default nothing is changed there.

    The file has figures, states and the controller's refusals, but no names, addresses, accounts or configurations.
    """
    if node is not None and not with_lab:
        raise ConfigInvalid("--node: expected --with-lab with it, found none", hint="Give both, or leave both out")
    found = record_answers(controller_access(load_description(file).controller), has_lab=with_lab, node=node)
    write_record(output, found)
    content: dict[str, object] = {
        "file": str(output),
        "answers": found.answers,
        "differences": list(found.differences),
        "failures": list(found.failures),
    }
    finish("nightly-record", ExitCode.OK, content, as_json=json, human=lambda: _print(output, found))


def _print(output: Path, found: Recorded) -> None:
    kinds, differ = counted(found.answers, "kind"), counted(len(found.differences), "difference")
    echo(f"{output}: {kinds} of answers, {differ} from what is known. Read it, then send it to us.")
    for line in found.differences[:_MOST_SHOWN]:
        echo(f"  {line}")
    if len(found.differences) > _MOST_SHOWN:
        echo(f"  ... and {len(found.differences) - _MOST_SHOWN} more, in the file")
    for line in found.failures:
        echo(f"  not asked: {line}")
