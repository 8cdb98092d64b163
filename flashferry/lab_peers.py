"""`flashferry lab peers`: tools that stage images, side by side on the same stand-in and WAN."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flashferry.interrupt import stop_on_signals
from flashferry.lab_experiment import DocsOption
from flashferry.options import JsonOption
from flashferry.output import finish, say
from inventory.errors import ConfigInvalid
from staging.exit_codes import ExitCode


def peers(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where results go.")] = Path("peers"),
    python: Annotated[
        Path | None,
        typer.Option("--python", help="Python of the peers' environment, see lab/experiment/peers-requirements.txt."),
    ] = None,
    size_mb: Annotated[float, typer.Option("--size-mb", min=1, help="Size of the image in 10^6 bytes.")] = 5.0,
    ceiling: Annotated[float, typer.Option("--ceiling", min=10, help="Wait at most so many seconds.")] = 180.0,
    tool: Annotated[list[str] | None, typer.Option("--tool", help="Only tools whose name holds this.")] = None,
    situation: Annotated[
        list[str] | None, typer.Option("--situation", help="Only situations whose name holds this.")
    ] = None,
    docs: DocsOption = None,
    json: JsonOption = False,
) -> None:
    """Play each tool in each situation: success, again, kill -9, unreachable server, full flash, stall."""
    from lab.errors import LabError
    from lab.experiment.evidence import put
    from lab.experiment.peers import play
    from lab.experiment.peers.report import write_peers
    from lab.experiment.servers import vsftpd_path
    from lab.experiment.tables import conditions

    if vsftpd_path() is None:
        raise ConfigInvalid("vsftpd is not installed, from which the peers' devices pull; apt install vsftpd")
    found: list[play.Found] = []
    with stop_on_signals() as stop:
        for each in play.TOOLS:
            if tool and not any(word.lower() in each.name.lower() for word in tool):
                continue
            if not play.available(each, python):
                say(f"{each.name} is not installed, so it is left out; give its environment by --python")
                continue
            for name in play.SITUATIONS:
                wanted = not situation or any(word.lower() in name for word in situation)
                if stop.is_set() or not wanted or (name == "unreachable" and not each.pulls):
                    continue
                try:
                    one = play.play(each, name, python=python, size_bytes=int(size_mb * 1e6), ceiling_s=ceiling)
                except LabError as error:
                    say(f"{each.name}, {name}: {error}")
                    continue
                say(f"{each.name}, {name}: {one.outcome} after {one.seconds:.1f} s")
                found.append(one)
    command = f"flashferry lab peers --size-mb {size_mb:g} --ceiling {ceiling:g}"
    text = write_peers(found, output, command=command, conditions=conditions(()))
    if docs is not None:
        try:
            put(docs, "peers", text)
        except LabError as error:
            raise ConfigInvalid(str(error).rstrip(".")) from None
    code = ExitCode.INTERRUPTED if stop.is_set() else ExitCode.OK
    result: dict[str, object] = {"folder": str(output), "found": found}
    finish("lab-peers", code, result, as_json=json, human=lambda: typer.echo(text))
