"""`flashferry stage`: tune, copy, verify, restore."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from flashferry.cli.approval import asking
from flashferry.cli.command_line import TUNING
from flashferry.cli.options.fleet import FleetOptions, fleet_options, transcripts_told_by
from flashferry.cli.options.shared import (
    AddressOption,
    AnyImageOption,
    JsonOption,
    Md5Option,
    PortOption,
    Sha512Option,
    SignatureOption,
    StateOption,
    UncappedOption,
)
from flashferry.cli.options.watch import EventsOption, MetricsOption, roster_of
from flashferry.cli.options.waves import TuneOption, WaveOptions, wave_options
from flashferry.cli.stage_request import Job, Wish, job_for_image, job_for_plan, job_for_resume, kept_as_begun
from flashferry.cli.terminal.interrupt import graceful_interrupt, looking
from flashferry.cli.terminal.output import EventLines, complain, finish, say
from flashferry.cli.view.device_tables import print_run
from flashferry.cli.view.dry_run import print_dry_run
from flashferry.cli.view.layout import names
from flashferry.cli.view.live import watching
from flashferry.core.described import counted
from flashferry.core.errors import ConfigInvalid
from flashferry.devices.errors import Interrupted, RestoreIncomplete
from flashferry.images.digests import published
from flashferry.model.exit_codes import ExitCode, exit_code, run_exit_code
from flashferry.model.fleet_plan import TuneMode
from flashferry.model.links import LinkRates, told_pace
from flashferry.run.context import DeviceOptions
from flashferry.run.dry_run import dry_run_fleet
from flashferry.run.options import RunOptions
from flashferry.run.recover import pending
from flashferry.run.request import FleetRequest
from flashferry.run.run import run_waves
from flashferry.store.journal import Journal, state_directory
from flashferry.store.status import last_as_is
from inventory.view import view
from tasks.tcp_config import EXTRAS


@fleet_options
@wave_options
def stage(
    which: FleetOptions,
    waves: WaveOptions,
    image: Annotated[Path | None, typer.Option("--image", metavar="FILE", help="The image file.")] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="Carry out what 'flashferry plan --output' wrote.")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="RUN", help="Go on with a run that died or was stopped; recovers it first."),
    ] = None,
    window_bytes: Annotated[
        int | None,
        typer.Option(
            "--window-bytes",
            min=16_384,
            max=1_073_741_823,
            metavar="BYTES",
            rich_help_panel=TUNING,
            help="TCP window to set (default: twice the bandwidth-delay product); above 65535 to be scaled.",
        ),
    ] = None,
    no_tune: Annotated[
        bool,
        typer.Option("--no-tune", help="Copy with the device's TCP settings as they are.", rich_help_panel=TUNING),
    ] = False,
    tune: TuneOption = None,
    extra: Annotated[
        list[str] | None,
        typer.Option(
            "--extra",
            metavar="NAME",
            help=f"Set this TCP option too for the time of the copy: {' or '.join(EXTRAS)}; may be repeated.",
            rich_help_panel=TUNING,
        ),
    ] = None,
    remove_partial: Annotated[
        bool,
        typer.Option("--remove-partial", help="Remove what a broken copy of ours left on flash, and copy once more."),
    ] = False,
    retries: Annotated[
        int | None,
        typer.Option(
            "--retries",
            min=0,
            max=10,
            metavar="N",
            help="Tries after a failure that may pass, such as a lost session (default: 2).",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be sent to each device; change nothing.")
    ] = False,
    any_image: AnyImageOption = False,
    uncapped: UncappedOption = False,
    md5: Md5Option = None,
    sha512: Sha512Option = None,
    verify_signature: SignatureOption = False,
    server_address: AddressOption = None,
    ftp_port: PortOption = None,
    state_dir: StateOption = None,
    events: EventsOption = None,
    metrics: MetricsOption = None,
    json: JsonOption = False,
) -> None:
    """Have devices pull an image: tune TCP, copy, verify the hash, put the configuration back, prove it."""
    tune = _tune(tune, no_tune=no_tune)
    wish = Wish(
        image=image,
        plan=plan,
        resume=resume,
        waves=waves,
        tune=tune,
        retries=retries,
        remove_partial=remove_partial,
    )
    wish.check()
    tunes = tune is not TuneMode.NEVER
    options = RunOptions(
        verb="stage",
        device=DeviceOptions(
            tune=tunes,
            window_bytes=window_bytes,
            extras=_extras(extra, tune=tunes),
            remove_partial=remove_partial,
            verify_signature=verify_signature,
            server_address=server_address,
            any_image=any_image,
            uncapped=uncapped,
        ),
        port=ftp_port,
        vendor=published(md5, sha512),
    )
    directory = state_directory(state_dir)
    if resume is not None:
        kept_as_begun(options, tune=tune, dry_run=dry_run)
        _resume(which, wish, options, directory, events, metrics, as_json=json)
    job = job_for_plan(which, wish, options) if plan is not None else job_for_image(which, wish, options, directory)
    pace = _pace(job, directory)
    if dry_run:
        for text in pace:
            say(text)
        _dry_run(job, directory, as_json=json)
    with Journal(directory) as journal:
        _run(job, journal, events, metrics, (*pace, *_dead_run(journal)), as_json=json)


def _run(
    job: Job, journal: Journal, events: Path | None, metrics: str | None, first: Sequence[str], *, as_json: bool
) -> None:
    """Do it, report, and leave with the exit code.

    What is to be said first goes the way of all that is said of the run: where events take the place of what is for
    people, nothing else may stand among them.
    """
    taking_part = job.nornir.filter(filter_func=lambda host: host.name in job.request.images)
    sizes = {host: path.stat().st_size for host, path in job.request.images.items() if path.is_file()}
    roster = roster_of(taking_part, sizes)
    was = last_as_is(journal.directory)
    with (
        watching("restore", devices=len(roster.devices), roster=roster, events=events, metrics=metrics) as emit,
        graceful_interrupt(emit.say) as stop,
    ):
        for text in (*first, *_left_out(job.request)):
            emit.say(text)
        transcripts_told_by(job.nornir, emit.say)
        report = run_waves(
            job.nornir,
            job.request,
            job.options,
            journal=journal,
            emit=emit,
            interrupted=stop.is_set,
            approve=asking(emit.say),
        )
    finish("stage", run_exit_code(report), {"run": report}, as_json=as_json, human=lambda: print_run(report, was))


def _dead_run(journal: Journal) -> Iterator[str]:
    """Yield a warning where a dead run had devices in its hands."""
    if left := pending(journal):
        hosts = ", ".join(device.host for device in left)
        yield f"warning: a dead run had {hosts} in its hands; run 'flashferry recover'"


def _left_out(request: FleetRequest) -> Iterator[str]:
    """Yield how many devices a plan does not have touched; why stands in the report."""
    if request.left_out:
        count, hosts = len(request.left_out), names([device.host for device, _ in request.left_out])
        yield f"the plan leaves {counted(count, 'device')} alone: {hosts}; the report says why"


def _resume(
    which: FleetOptions,
    wish: Wish,
    options: RunOptions,
    directory: Path,
    events: Path | None,
    metrics: str | None,
    *,
    as_json: bool,
) -> None:
    """Restore what the run left in its hands, go on with it, and leave with the exit code."""
    with Journal(directory) as journal:
        lines = EventLines()
        try:
            with graceful_interrupt(lines.say) as stop:
                job = job_for_resume(which, wish, options, journal, lines, interrupted=stop.is_set)
        except RestoreIncomplete as failed:
            complain(failed, ExitCode.RESTORE_INCOMPLETE)
            raise typer.Exit(int(ExitCode.RESTORE_INCOMPLETE)) from None
        except Interrupted as stopped:
            code = ExitCode.RESTORE_INCOMPLETE if pending(journal) else ExitCode.INTERRUPTED
            complain(stopped, code)
            raise typer.Exit(int(code)) from None
        _run(job, journal, events, metrics, _pace(job, directory), as_json=as_json)


def _pace(job: Job, directory: Path) -> tuple[str, ...]:
    """Return which links have no cap; refuse before any device is asked, where copies could find no pace either."""
    devices = [view(job.nornir.inventory.hosts[name]) for name in job.request.images]
    told = told_pace(devices, LinkRates(directory), uncapped=job.options.device.uncapped)
    return (told,) if told else ()


def _dry_run(job: Job, directory: Path, *, as_json: bool) -> None:
    """Print what would be sent, and leave with the exit code."""
    with looking("a dry run") as stop:
        records = dry_run_fleet(
            job.nornir,
            job.request.images,
            job.options,
            state_directory=directory,
            untuned=frozenset(job.request.untuned),
            emit=EventLines(),
            interrupted=stop.is_set,
        )
    code = exit_code((record.outcome for record in records), interrupted=stop.is_set())
    finish("dry-run", code, {"devices": records}, as_json=as_json, human=lambda: print_dry_run(records))


def _tune(tune: TuneMode | None, *, no_tune: bool) -> TuneMode | None:
    if no_tune and tune not in (None, TuneMode.NEVER):
        raise ConfigInvalid(f"--no-tune cannot be combined with --tune {tune}: it means --tune never")
    return TuneMode.NEVER if no_tune else tune


def _extras(names: list[str] | None, *, tune: bool) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(names or ()))
    if unknown := [name for name in found if name not in EXTRAS]:
        raise ConfigInvalid(f"--extra: expected {' or '.join(EXTRAS)}, found {unknown[0]!r}")
    if found and not tune:
        raise ConfigInvalid("--no-tune cannot be combined with --extra: an extra is tuning")
    return found
