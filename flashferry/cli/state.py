"""`flashferry state backup|check|restore|prune`: maintain the state folder while runs and the service continue."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry import api
from flashferry.cli.command_line import App
from flashferry.cli.options.shared import JsonOption, StateOption
from flashferry.cli.terminal.output import command, finish
from flashferry.cli.view.layout import console
from flashferry.core.units import counted, size
from flashferry.core.values import as_dict
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from flashferry.api import Backup, Pruned, StateCheck

app = App(help="Back the state folder up, look it through, put it back, rid it of what is old.")


@app.command("backup")
def backup(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of backups, outside of the state folder.")],
    keep: Annotated[
        int | None, typer.Option("--keep", metavar="N", min=1, help="Keep only the newest N backups there.")
    ] = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Write databases, host keys and other kept files to one archive, while runs and the service continue.

    Images, locks and the output of jobs are left out. Our server's private host keys are in it: only its owner can
    read it.
    """
    made = api.back_up(folder, keep=keep, state=state_dir)
    result: dict[str, object] = as_dict(made)
    finish("state-backup", ExitCode.OK, result, as_json=json, human=lambda: _print_backup(made))


@app.command("check")
def check(
    archive: Annotated[Path | None, typer.Option("--backup", metavar="FILE", help="A backup, in its place.")] = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Check the databases for damage: pages, references, and each row of the journal by its seal."""
    found = api.check_state(archive=archive, state=state_dir)
    code = ExitCode.DEVICES_FAILED if found.faults else ExitCode.OK
    result: dict[str, object] = {"looked_at": found.looked_at, "faults": found.faults}
    finish("state-check", code, result, as_json=json, human=lambda: _print_check(found))


@app.command("restore")
def restore(
    archive: Annotated[Path, typer.Argument(metavar="FILE", help="A backup.")],
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Restore a backup into an empty state folder; the backup is checked first.

    It does not have what runs did after it was made; 'flashferry recover' checks the devices that were being staged
    then.
    """
    files = api.put_back(archive, state=state_dir)
    finish(
        "state-restore", ExitCode.OK, {"files": files}, as_json=json, human=lambda: _print_restored(files, state_dir)
    )


@app.command("prune")
def prune(
    days: Annotated[int, typer.Option("--older-than", metavar="DAYS", min=1, help="Runs that ended before.")],
    yes: Annotated[bool, typer.Option("--yes", help="Remove them; without it they are only listed.")] = False,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Remove runs that ended long ago, those at sites too; the speed of their copies is kept for forecasts.

    A run that holds a device stays whatever its age.
    """
    found = api.prune(days, is_dry=not yes, state=state_dir)
    result: dict[str, object] = {
        "before": found.before,
        "runs": found.runs,
        "site_runs": found.site_runs,
        "removed": yes,
    }
    finish("state-prune", ExitCode.OK, result, as_json=json, human=lambda: _print_pruned(found, removed=yes))


def _print_backup(made: Backup) -> None:
    out = console()
    out.print(f"{made.path}: {counted(len(made.members), 'file')}, {size(made.size_bytes)}")
    if made.removed:
        out.print(f"removed: {counted(len(made.removed), 'older backup')}")


def _print_check(found: StateCheck) -> None:
    out = console()
    for fault in found.faults:
        out.print(f"✗ {fault}")
    if not found.looked_at:
        out.print("there is no database in it yet")
    elif not found.faults:
        out.print(f"✓ {', '.join(found.looked_at)}: whole")


def _print_restored(files: tuple[str, ...], state_dir: Path | None) -> None:
    put = f"{counted(len(files), 'file')} restored into {api.state_folder(state_dir)}"
    console().print(f"{put}; '{command('status')}' shows which devices were being staged")


def _print_pruned(found: Pruned, *, removed: bool) -> None:
    out = console()
    when = found.before.astimezone().strftime("%Y-%m-%d")
    if not found.runs and not found.site_runs:
        out.print(f"no run ended before {when} that may go")
        return
    for runs, where in ((found.runs, "the journal"), (found.site_runs, "the ledger of sites")):
        if runs:
            gone = f", removed from {where}" if removed else f", in {where}"
            out.print(f"{counted(len(runs), 'run')} ended before {when}: {runs[0]} to {runs[-1]}{gone}")
    if not removed:
        out.print("nothing was removed; with --yes they are")
