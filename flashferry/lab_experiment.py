"""`flashferry lab experiment`: the published experiment run again, beside its own figures and those of peers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flashferry.interrupt import stop_on_signals
from flashferry.options import JsonOption
from flashferry.output import finish, say
from inventory.errors import ConfigInvalid
from staging.exit_codes import ExitCode

OutputOption = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Where results are kept; what is there is not run again.")
]
LinksOption = Annotated[int, typer.Option("--links", min=1, max=64, help="How many WAN links to emulate at once.")]


def experiment(
    output: OutputOption = Path("experiment"),
    runs: Annotated[int, typer.Option("--runs", min=1, help="Runs per arm and server, each with its seed.")] = 3,
    links: LinksOption = 3,
    full: Annotated[bool, typer.Option("--full", help="Copy the whole 50 MB in the slow arms too: hours.")] = False,
    arm: Annotated[list[str] | None, typer.Option("--arm", help="Only arms whose name holds this; repeatable.")] = None,
    server: Annotated[
        list[str] | None, typer.Option("--server", help="Only servers whose name holds this; repeatable.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run the published experiment: five clients, four servers, 100 ms, 0.01 % loss, 50 Mbit/s."""
    from lab.errors import LabError
    from lab.experiment import published, study
    from lab.experiment.tables import conditions, published_table, syn_table

    cells = [
        cell
        for cell in published.cells(range(1, runs + 1), full=full)
        if _named(cell.arm, arm) and _named(cell.sender.name, server)
    ]
    if not cells:
        arms = ", ".join(each.name for each in published.ARMS)
        servers = ", ".join(each.name for each in published.SENDERS)
        raise ConfigInvalid(f"--arm, --server: expected part of an arm ({arms}) and a server ({servers}), found none")
    plan = study.Plan(folder=output, links=links, minutes=None, command=_command(runs, full))
    try:
        with stop_on_signals() as stop:
            done = study.run_missing(cells, plan, tell=say, interrupted=stop.is_set)
        rows = study.write_published(done, plan)
    except LabError as error:
        raise ConfigInvalid(str(error).rstrip(".")) from None
    code = ExitCode.INTERRUPTED if stop.is_set() else ExitCode.OK
    if any(run.error for run in done):
        code = code or ExitCode.DEVICES_FAILED

    def human() -> None:
        typer.echo(f"{conditions(done)}\n\n{published_table(rows)}\n\n{syn_table(rows)}\n")
        typer.echo(f"Graphs and evidence: {output / 'report.html'}; figures: report.json, runs.csv, results.jsonl")

    result: dict[str, object] = {
        "folder": str(output),
        "conditions": conditions(done),
        "rows": [study.row_json(row) for row in rows],
    }
    finish("lab-experiment", code, result, as_json=json, human=human)


def _named(name: str, wanted: list[str] | None) -> bool:
    return not wanted or any(each.lower() in name.lower() for each in wanted)


def _command(runs: int, full: bool) -> str:
    return f"flashferry lab experiment --runs {runs}{' --full' if full else ''}"
