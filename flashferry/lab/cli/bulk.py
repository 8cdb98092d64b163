"""`flashferry lab experiment ssh|bulk`: four published studies of bulk copies, run again between two namespaces."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry.cli.command_line import OUTPUT
from flashferry.cli.options.shared import OUTPUT_VARIABLE, JsonOption
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import echo, finish, say
from flashferry.core.errors import ConfigInvalid
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from flashferry.lab.experiment.bulk.report import Report

_OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        envvar=OUTPUT_VARIABLE,
        metavar="DIR",
        help="Where results are kept; what is there is not run again (default: experiment-ssh, experiment-bulk).",
        rich_help_panel=OUTPUT,
    ),
]
_RoundsOption = Annotated[int, typer.Option("--runs", min=1, max=100, help="Rounds that count, each in its own order.")]
_SizeOption = Annotated[
    int, typer.Option("--size-mb", min=1, max=4096, help="MiB of a file; slow methods copy a part of it.")
]
_SeedOption = Annotated[int, typer.Option("--seed", help="Seeds the orders of the rounds.")]
_SeriesOption = Annotated[
    list[str] | None, typer.Option("--series", help="Only series whose name holds this; repeatable.")
]
_DocsOption = Annotated[
    Path | None,
    typer.Option("--docs", metavar="FILE", help="Put tables and graph into this document, between its markers."),
]


def ssh(
    output: _OutputOption = None,
    runs: _RoundsOption = 5,
    size_mb: _SizeOption = 128,
    seed: _SeedOption = 1,
    series: _SeriesOption = None,
    docs: _DocsOption = None,
    json: JsonOption = False,
) -> None:
    """Run the studies of scp again: ciphers, MACs, compression, and a board without AES instructions."""
    _run("ssh", output, runs, size_mb, seed, series, docs, json=json)


def bulk(
    output: _OutputOption = None,
    runs: _RoundsOption = 5,
    size_mb: _SizeOption = 128,
    seed: _SeedOption = 1,
    series: _SeriesOption = None,
    docs: _DocsOption = None,
    json: JsonOption = False,
) -> None:
    """Run the study of dd through ssh and nc again: block sizes, compressing pipes, ciphers."""
    _run("bulk", output, runs, size_mb, seed, series, docs, json=json)


def _run(
    name: str,
    output: Path | None,
    runs: int,
    size_mb: int,
    seed: int,
    series: list[str] | None,
    docs: Path | None,
    *,
    json: bool,
) -> None:
    from flashferry.lab.errors import LabError
    from flashferry.lab.experiment.bulk.report import Asked, run

    folder = output or Path(f"experiment-{name}")
    asked = Asked(
        experiment=name,
        folder=folder,
        rounds=runs,
        size_mib=size_mb,
        seed=seed,
        only=tuple(series or ()),
        document=docs,
        command=_bulk_command(name, runs, size_mb, series),
    )
    try:
        with stop_on_signals() as stop:
            report = run(asked, log=say, interrupted=stop.is_set)
    except LabError as error:
        raise ConfigInvalid(str(error).rstrip(".")) from None
    code = ExitCode.INTERRUPTED if stop.is_set() else ExitCode.OK if report.is_whole else ExitCode.DEVICES_FAILED
    finish(f"lab-experiment-{name}", code, report.to_json(), as_json=json, human=lambda: _print(report, folder))


def _print(report: Report, folder: Path) -> None:
    echo(f"{report.text}\n")
    if not report.is_whole:
        echo("Some copies are not done; the same command goes on with the rest.")
    echo(f"Figures: {folder / 'report.json'}, results.jsonl, conditions.json; graph: {folder / report.graph_name}")


def _bulk_command(name: str, runs: int, size_mb: int, series: list[str] | None) -> str:
    words = ["flashferry", "lab", "experiment", name, "--runs", str(runs), "--size-mb", str(size_mb)]
    for one in series or ():
        words += ["--series", one]
    return shlex.join(words)
