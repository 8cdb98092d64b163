"""`flashferry lab experiment|sweep|fairness`: the published experiment run again, and what surrounds it."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flashferry.cli.command_line import OUTPUT
from flashferry.cli.options.shared import OUTPUT_VARIABLE, JsonOption
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import echo, finish, say
from flashferry.core.errors import ConfigInvalid
from flashferry.lab.cli.verb import check_packages, lab_errors
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from flashferry.lab.experiment.bulk.report import Report
    from flashferry.lab.experiment.cell import Cell, Measured
    from flashferry.lab.experiment.peers.study import Found, PeersPlan, Tool
    from flashferry.lab.experiment.study import Plan


def _output_option(text: str) -> Any:
    return typer.Option(
        "--output", "-o", envvar=OUTPUT_VARIABLE, metavar="DIR", help=text, rich_help_panel=OUTPUT
    )  # fmt: skip


_KEPT = "Where results are kept; what is there is not run again"
OutputOption = Annotated[Path, _output_option(f"{_KEPT}.")]
DocsOption = Annotated[
    Path | None, typer.Option("--docs", metavar="FILE", help="Put the tables into this document, between its markers.")
]
LinksOption = Annotated[
    int,
    typer.Option(
        "--links",
        min=1,
        max=64,
        help="How many WAN links to emulate at once; of timed copies, as many as cost so many full links.",
    ),
]


@contextmanager
def _stoppable() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C sets. Raises ConfigInvalid: the lab refuses."""
    with lab_errors(), stop_on_signals() as stop:
        yield stop


def _ended(stop: threading.Event) -> ExitCode:
    return ExitCode.INTERRUPTED if stop.is_set() else ExitCode.OK


def _check_vsftpd(what: str) -> None:
    from flashferry.lab.experiment.servers import vsftpd_path

    if vsftpd_path() is None:
        raise ConfigInvalid(f"vsftpd is not installed, {what}", hint="Install it: apt install vsftpd")


def experiment(
    ctx: typer.Context,
    output: OutputOption = Path("experiment"),
    runs: Annotated[int, typer.Option("--runs", min=1, help="Runs per arm and server, each with its seed.")] = 3,
    links: LinksOption = 3,
    full: Annotated[bool, typer.Option("--full", help="Copy the whole 50 MB in the slow arms too: hours.")] = False,
    arm: Annotated[list[str] | None, typer.Option("--arm", help="Only arms whose name holds this; repeatable.")] = None,
    server: Annotated[
        list[str] | None, typer.Option("--server", help="Only servers whose name holds this; repeatable.")
    ] = None,
    loss: Annotated[
        list[float] | None,
        typer.Option(
            "--loss", min=0, max=50, help="Many seeds at this loss, in percent, instead of the article's; repeatable."
        ),
    ] = None,
    size_mb: Annotated[
        float | None,
        typer.Option(
            "--size-mb", min=1, max=4000, help="With --loss: a file of so many 10^6 bytes instead of the article's."
        ),
    ] = None,
    docs: DocsOption = None,
    json: JsonOption = False,
) -> None:
    """Run the published experiment: five clients, four servers, 100 ms, 0.01 % loss, 50 Mbit/s."""
    if ctx.invoked_subcommand is not None:
        return
    check_packages()
    from flashferry.lab.experiment import study
    from flashferry.lab.experiment.tables import conditions

    if size_mb is not None and not loss:
        raise ConfigInvalid(
            "--size-mb: expected beside --loss; the article's file has 52.4 MB",
            hint="Give --loss too, or leave --size-mb out",
        )
    cells = _experiment_cells(runs, full=full, arm=arm, server=server, loss=loss, size_mb=size_mb)
    size = None if size_mb is None else [size_mb]
    given = {"--arm": arm, "--server": server, "--loss": loss, "--size-mb": size}
    full_words = ("--full",) if full else ()
    command = _command(("--runs", str(runs), "--links", str(links), *full_words), given)
    plan = study.Plan(folder=output, links=links, minutes=None, command=command)
    with _stoppable() as stop:
        done = study.run_missing(cells, plan, log=say, interrupted=stop.is_set)
        section = ("seeds" if size_mb is None else "long") if loss else None
        rows, text = _reported(done, plan, docs, section)
    code = _ended(stop) or (ExitCode.DEVICES_FAILED if any(run.error for run in done) else ExitCode.OK)

    def human() -> None:
        typer.echo(f"{text}\n")
        typer.echo(f"Graphs and evidence: {output / 'report.html'}; figures: report.json, runs.csv, results.jsonl")

    result: dict[str, object] = {"folder": str(output), "conditions": conditions(done), "rows": rows}
    finish("lab-experiment", code, result, as_json=json, human=human)


def _experiment_cells(
    runs: int,
    *,
    full: bool,
    arm: list[str] | None,
    server: list[str] | None,
    loss: list[float] | None,
    size_mb: float | None,
) -> list[Cell]:
    """Return the cells that the options leave. Raises ConfigInvalid: they leave none."""
    from flashferry.lab.experiment import published

    losses = [round(each / 100, 9) for each in loss] if loss else [published.LINK.loss_ratio]
    file_bytes = published.FILE_BYTES if size_mb is None else round(size_mb * 1e6)
    cells = [
        cell
        for cell in published.cells(range(1, runs + 1), full=full, losses=losses, file_bytes=file_bytes)
        if _named(cell.arm, arm) and _named(cell.sender.name, server)
    ]
    if not cells:
        arms = ", ".join(each.name for each in published.ARMS)
        servers = ", ".join(each.name for each in published.SENDERS)
        raise ConfigInvalid(
            f"--arm, --server: expected part of an arm ({arms}) and a server ({servers}), found none",
            hint="Give part of one of these names, or leave both out for all",
        )
    return cells


def _reported(
    done: Sequence[Measured], plan: Plan, docs: Path | None, seeds_section: str | None
) -> tuple[list[dict[str, Any]], str]:
    """Write the reports and the document's section; return the rows for programs and the text for people.

    `docs`: The document, or None. `seeds_section`: Its section for many seeds; None where this is the article's
    experiment. Raises LabError: the document lacks the markers, or cannot be written.
    """
    from flashferry.lab.experiment import documents, study
    from flashferry.lab.experiment.harness import put

    if seeds_section is not None:
        by_loss = study.write_seeds(done, plan)
        text = documents.seeds_text(by_loss, done, plan)
        if docs is not None:
            put(docs, seeds_section, text)
        return [study.row_json(row) for rows in by_loss.values() for row in rows], text
    found = study.write_published(done, plan)
    if docs is not None:
        documents.document_published(docs, found, done, plan)
    text = documents.published_text(found, done, plan)
    return [study.row_json(row) for row in found], text


def sweep(
    output: OutputOption = Path("sweep"),
    runs: Annotated[int, typer.Option("--runs", min=1, help="Runs per cell, each with its seed.")] = 5,
    links: LinksOption = 4,
    seconds: Annotated[float, typer.Option("--seconds", min=2, help="How long each copy lasts.")] = 10.0,
    minutes: Annotated[float | None, typer.Option("--minutes", min=0, help="Begin no run after so long.")] = None,
    loss: Annotated[list[float] | None, typer.Option("--loss", help="Only this loss, in percent; repeatable.")] = None,
    rtt: Annotated[list[float] | None, typer.Option("--rtt", help="Only this round trip, in ms; repeatable.")] = None,
    window: Annotated[
        list[str] | None, typer.Option("--window", help="Only this window: default, 64 kB, auto; repeatable.")
    ] = None,
    sack: Annotated[bool | None, typer.Option("--sack/--no-sack", help="Only with, or only without, SACK.")] = None,
    docs: DocsOption = None,
    json: JsonOption = False,
) -> None:
    """Run loss x round trip x SACK x window x sender, and say how far `auto` is from the best sender."""
    from flashferry.lab.experiment import documents, study
    from flashferry.lab.experiment import sweep as grid

    if unknown := [each for each in window or () if each not in grid.WINDOWS]:
        raise ConfigInvalid(
            f"--window: expected one of {', '.join(grid.WINDOWS)}, found {unknown[0]!r}",
            hint="Give one of these words, or leave it out for all",
        )
    cells = grid.cells(
        range(1, runs + 1),
        seconds=seconds,
        losses=[each / 100 for each in loss] if loss else grid.LOSSES,
        rtts_s=[each / 1000 for each in rtt] if rtt else grid.RTTS_S,
        windows=window or grid.WINDOWS,
        sacks=grid.SACKS if sack is None else (sack,),
    )
    command = f"flashferry lab sweep --runs {runs} --seconds {seconds:g}"
    plan = study.Plan(folder=output, links=links, minutes=minutes, command=command)
    with _stoppable() as stop:
        done = study.run_missing(cells, plan, log=say, interrupted=stop.is_set)
        text = grid.write_sweep(done, plan)
        if docs is not None:
            documents.document_sweep(docs, text, done)
    if len(done) < len(cells):
        text += f"\n\n{len(done)} of {len(cells)} runs are done; the same command goes on with the rest."
    result: dict[str, object] = {"folder": str(output), "runs": len(done), "planned": len(cells)}
    finish("lab-sweep", _ended(stop), result, as_json=json, human=lambda: typer.echo(text))


def fairness(
    output: OutputOption = Path("fairness"),
    runs: Annotated[int, typer.Option("--runs", min=1, help="Runs per cell, each with its seed.")] = 3,
    links: LinksOption = 2,
    seconds: Annotated[float, typer.Option("--seconds", min=5, help="How long each pair of flows lasts.")] = 30.0,
    docs: DocsOption = None,
    json: JsonOption = False,
) -> None:
    """Run a copy of ours beside a foreign CUBIC flow, and print what that one keeps."""
    from flashferry.lab.experiment import fairness as pairs
    from flashferry.lab.experiment import study
    from flashferry.lab.experiment.harness import put

    _check_vsftpd("which sends the other flow")
    command = f"flashferry lab fairness --runs {runs} --seconds {seconds:g}"
    plan = study.Plan(folder=output, links=links, minutes=None, command=command)
    cells = pairs.cells(range(1, runs + 1), seconds=seconds)
    with _stoppable() as stop:
        done = study.run_missing(cells, plan, log=say, interrupted=stop.is_set)
        text = pairs.write_fairness(done, plan)
        if docs is not None:
            put(docs, "fairness", text)
    result: dict[str, object] = {"folder": str(output), "runs": len(done), "planned": len(cells)}
    finish("lab-fairness", _ended(stop), result, as_json=json, human=lambda: typer.echo(text))


def _named(name: str, requested: list[str] | None) -> bool:
    return not requested or any(each.lower() in name.lower() for each in requested)


def _command(words: Sequence[str], options: Mapping[str, Sequence[str] | Sequence[float] | None]) -> str:
    words = ["flashferry", "lab", "experiment", *words]
    for option, values in options.items():
        for value in values or ():
            words += [option, f"{value:g}" if isinstance(value, float) else value]
    return shlex.join(words)


def bulk_study(
    ctx: typer.Context,
    output: Annotated[Path | None, _output_option(f"{_KEPT} (default: experiment-ssh, experiment-bulk).")] = None,
    runs: Annotated[int, typer.Option("--runs", min=1, max=100, help="Rounds that count, each in its own order.")] = 5,
    size_mb: Annotated[
        int, typer.Option("--size-mb", min=1, max=4096, help="MiB of a file; slow methods copy a part of it.")
    ] = 128,
    seed: Annotated[int, typer.Option("--seed", help="Seeds the orders of the rounds.")] = 1,
    series: Annotated[
        list[str] | None, typer.Option("--series", help="Only series whose name holds this; repeatable.")
    ] = None,
    docs: Annotated[
        Path | None,
        typer.Option("--docs", metavar="FILE", help="Put tables and graph into this document, between its markers."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run the published studies of `ssh` or of `bulk` copies again, whichever word the command was called by."""
    from flashferry.lab.experiment.bulk.report import Asked, run

    name = str(ctx.info_name)
    folder = output or Path(f"experiment-{name}")
    asked = Asked(
        experiment=name,
        folder=folder,
        rounds=runs,
        size_mib=size_mb,
        seed=seed,
        only=tuple(series or ()),
        document=docs,
        command=_command((name, "--runs", str(runs), "--size-mb", str(size_mb)), {"--series": series}),
    )
    with _stoppable() as stop:
        report = run(asked, log=say, interrupted=stop.is_set)
    code = _ended(stop) or (ExitCode.OK if report.is_whole else ExitCode.DEVICES_FAILED)
    finish(f"lab-experiment-{name}", code, report.to_json(), as_json=json, human=lambda: _print(report, folder))


def _print(report: Report, folder: Path) -> None:
    echo(f"{report.text}\n")
    if not report.is_whole:
        echo("Some copies are not done; the same command goes on with the rest.")
    echo(
        f"Figures: {folder / 'report.json'}, report.md, results.jsonl, conditions.json; "
        f"graph: {folder / report.graph_name}"
    )


def peers(
    output: OutputOption = Path("peers"),
    python: Annotated[
        Path | None,
        typer.Option("--python", help="Python of the peers' environment, see lab/experiment/peers-requirements.txt."),
    ] = None,
    size_mb: Annotated[float, typer.Option("--size-mb", min=1, help="Size of the image in 10^6 bytes.")] = 3.0,
    ceiling: Annotated[float, typer.Option("--ceiling", min=10, help="Wait at most so many seconds.")] = 420.0,
    parallel: Annotated[int, typer.Option("--parallel", min=1, max=8, help="How many worlds at a time.")] = 5,
    tool: Annotated[list[str] | None, typer.Option("--tool", help="Only tools whose name holds this.")] = None,
    situation: Annotated[
        list[str] | None, typer.Option("--situation", help="Only situations whose name holds this.")
    ] = None,
    docs: DocsOption = None,
    json: JsonOption = False,
) -> None:
    """Play each tool in each situation: success, again, kill -9, unreachable server, full flash, stall."""
    from flashferry.lab.experiment.harness import put
    from flashferry.lab.experiment.peers.study import PeersPlan

    _check_vsftpd("from which the peers' devices pull")
    plan = PeersPlan(python=python, size_bytes=int(size_mb * 1e6), ceiling_s=ceiling, parallel=parallel)
    installed = _installed(tool, python)
    requested = [(each, name) for each in installed for name in each.situations if _named(name, situation)]
    command = f"flashferry lab peers --size-mb {size_mb:g} --ceiling {ceiling:g} --parallel {parallel}"
    with _stoppable() as stop:
        found, text = _play(requested, plan, output, f"`{command}`; {_conditions(installed)}", stop)
        if docs is not None:
            put(docs, "peers", text)
    result: dict[str, object] = {"folder": str(output), "found": found}
    finish("lab-peers", _ended(stop), result, as_json=json, human=lambda: typer.echo(text))


def _play(
    requested: list[tuple[Tool, str]], plan: PeersPlan, output: Path, heading: str, stop: threading.Event
) -> tuple[list[Found], str]:
    """Play what is missing; every result is on disk as soon as it is there."""
    from flashferry.lab.experiment.peers.study import play_missing, read_found, write_peers

    found = read_found(output / "peers.json", plan)
    tools = list(dict.fromkeys(tool for tool, _ in requested))
    lock = threading.Lock()

    def write() -> str:
        return write_peers(found, tools, output, settings=plan.settings, heading=heading)

    def keep(one: Found) -> None:
        with lock:
            found.append(one)
            write()

    play_missing(requested, plan, tuple(found), keep=keep, log=say, interrupted=stop.is_set)
    return found, write()


def _installed(names: list[str] | None, python: Path | None) -> dict[Tool, dict[str, str]]:
    """Return the tools that are asked for and there, with their packages' versions; say which are not there."""
    from flashferry.lab.experiment.peers.study import TOOLS, versions

    there = {}
    for each in TOOLS:
        if not _named(each.name, names):
            continue
        its_versions = versions(each, python)
        if its_versions is None:
            say(f"{each.name} is not installed, so it is left out; give its environment by --python")
        else:
            there[each] = its_versions
    return there


def _conditions(installed: dict[Tool, dict[str, str]]) -> str:
    from flashferry.lab.experiment.tables import conditions

    packages = {name: version for each in installed.values() for name, version in each.items()}
    return ", ".join((conditions(()), *(f"{name} {version}" for name, version in packages.items())))
