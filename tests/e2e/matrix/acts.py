"""What the processes of a cell do: one run that may be killed, and recoveries. Each is a fork of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from flashferry.core.codec import to_json
from flashferry.fileserver import FileServer, Ticket, TicketRequest
from flashferry.lab.state import ask
from flashferry.model.policy import ServerPlace, StagePolicy
from flashferry.monitor.events import Event
from flashferry.run.recover import recover
from flashferry.run.run import RunOptions, run_fleet
from flashferry.store.journal import Journal
from inventory.nornir_loader import open_inventory
from tests.e2e.matrix.cells import Job, named
from tests.e2e.matrix.faults import HTTPS, IMAGE_BYTES, SSH_TRANSPORTS
from tests.e2e.matrix.points import BY_NAME, AtEvent, AtWrite
from tests.e2e.matrix.tripwire import Tripwire, when_on_flash

WINDOW_BYTES = 20_000
"""Small, so that what is acknowledged runs little ahead of what is on flash."""

SSH_WINDOW_BYTES = 200_000
"""More than bulk mode has by default, so that there is a line of the channel's window to set."""

_IN_RECOVERY = AtWrite(step="recover", pattern="^(end|show startup)")


def play(values: dict[str, Any]) -> None:
    """Do what a job says, given as JSON has it."""
    paths = {"folder", "output", "control", "flash_file", "image", "certificate", "key", "secrets"}
    made: dict[str, Any] = {name: Path(value) if name in paths else value for name, value in values.items()}
    made["member_files"] = tuple(Path(file) for file in values["member_files"])
    job = Job(**made)
    {"stage": stage, "recover": recover_all, "finish": finish}[job.act](job)


def stage(job: Job) -> None:
    """Take the device through a run."""
    cell = named(job.cell)
    wire = Tripwire(cell.point.trigger)
    wire.watch_writes()
    wire.watch_flash(job.flash_file, job.member_files, IMAGE_BYTES)
    strikes = dict(cell.fault.strikes)

    def strike() -> None:
        ask(job.control, {"do": "fault", "name": job.device, "switches": strikes})

    when = BY_NAME[cell.fault.strikes_at].trigger
    if strikes and cell.fault.strikes_on_flash is not None:
        when_on_flash(job.flash_file, cell.fault.strikes_on_flash.share * IMAGE_BYTES, strike)
        when = None

    def emit(event: Event) -> None:
        _keep_event(job.output, event)
        wire.event(event)
        if (event.step, event.status) == ("pull", "started"):
            _keep_command_lines(job.output)
        if strikes and when == AtEvent(step=event.step, status=event.status):
            strike()
            strikes.clear()

    _run(job, wire, emit)


def finish(job: Job) -> None:
    """Take it through another run, that may remove what the first left of a file; nothing goes wrong any more."""
    _run(job, Tripwire(None), lambda event: _keep_event(job.output, event), remove_partial=True)


def _run(job: Job, wire: Tripwire, emit: Callable[[Event], None], *, remove_partial: bool = False) -> None:
    cell = named(job.cell)
    _note_tickets(job.secrets)
    by_https = cell.fault.transport == HTTPS
    options = RunOptions(
        policy=StagePolicy(
            window_bytes=SSH_WINDOW_BYTES if cell.fault.transport in SSH_TRANSPORTS else WINDOW_BYTES,
            transport=cell.fault.transport,
            dead_man=cell.fault.dead_man,
            add=cell.fault.adds,
            ready=cell.fault.goes_on,
            remove_partial=remove_partial,
        ),
        server=ServerPlace(
            address=cell.fault.server_address,
            port=0,
            other_ports={"http": 0, "https": 0, "ssh": 0},
            certificate=job.certificate if by_https else None,
            key=job.key if by_https else None,
        ),
    )
    with wire.journal(job.folder / "state") as journal:
        report = run_fleet(open_inventory(job.folder), job.image, options, journal=journal, emit=emit)
    (job.output / "result.json").write_text(json.dumps(to_json(report)), encoding="utf-8")


def recover_all(job: Job) -> None:
    """Recover what the journal holds."""
    wire = Tripwire(_IN_RECOVERY if job.dies else None)
    wire.watch_writes()

    def emit(event: Event) -> None:
        _keep_event(job.output, event)
        wire.event(event)

    with Journal(job.folder / "state") as journal:
        accepted = frozenset({job.device} if job.accepts else ())
        records = recover(open_inventory(job.folder), journal, emit=emit, accepted=accepted)
    (job.output / "result.json").write_text(json.dumps(to_json(records)), encoding="utf-8")


def _keep_event(folder: Path, event: Event) -> None:
    with (folder / "events.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(to_json(event)) + "\n")


def _keep_command_lines(folder: Path) -> None:
    """Keep what a process list shows of us and of the processes that we started."""
    own = os.getpid()
    children = Path(f"/proc/{own}/task/{own}/children").read_text(encoding="utf-8").split()
    shown = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (str(own), *children)]
    (folder / "command_lines").write_bytes(b"\n".join(shown))


def _note_tickets(file: Path) -> None:
    issue = FileServer.issue_ticket

    def issue_ticket(server: FileServer, request: TicketRequest) -> Ticket:
        ticket = issue(server, request)
        with file.open("a", encoding="utf-8") as secrets:
            secrets.write(f"{ticket.username}\n{ticket.password}\n")
        return ticket

    patch.object(FileServer, "issue_ticket", issue_ticket).start()
