"""What the processes of a cell do, each a fork of its own: one activation, recoveries, and a colleague's own session.

Time is short here: a minute of the device's timer, how long a device may be about to restart behind its command, and
the pause between two commits; which of them outlasts which is as ever.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

from netmiko import ConnectHandler

from flashferry.core.codec import to_json
from flashferry.images.image import Image
from flashferry.lab.state import ask
from flashferry.model.activation import ActivationLimits, Phase
from flashferry.model.waves import Wave
from flashferry.monitor.events import Event
from flashferry.run import recover as recovering
from flashferry.run.activation import following, recovery
from flashferry.run.activation.fleet import ActivationRequest, activate_fleet
from flashferry.store.journal import Journal
from flashferry.store.status import read_status
from inventory.nornir_loader import open_inventory
from tasks.check import TargetImage
from tests.e2e.matrix.activation import points
from tests.e2e.matrix.activation.cells import Job, named
from tests.e2e.matrix.activation.points import AtPhase, Mode
from tests.e2e.matrix.activation.wire import Wire
from tests.e2e.matrix.tripwire import die
from tests.patience import PATIENCE_S

STRUCK = "struck"
"""File in a cell's folder: the column's fault struck in the run."""

BOOT_LIMIT_S, AWAY_LIMIT_S = 60.0, 12.0
GOING_S = {Phase.ACTIVATING: 12.0, Phase.RELOADING: 6.0}
COMMIT_PAUSE_S = 1.0


def play(values: dict[str, Any]) -> None:
    """Do what a job says, given as JSON has it."""
    paths = {"folder", "output", "control", "image"}
    job = Job(**{name: Path(value) if name in paths else value for name, value in values.items()})
    patch.object(following, "COMMIT_PAUSE_S", COMMIT_PAUSE_S).start()
    patch.object(recovery, "GOING_S", GOING_S).start()
    {"prepare": prepare, "activate": activate, "recover": recover, "look": look}[job.act](job)


def prepare(job: Job) -> None:
    """Have the image added by hand, as it were by a run that staged it."""
    said = _by_hand(job, f"install add file bootflash:{job.image.name}")
    assert "SUCCESS: install_add" in said, said


def activate(job: Job) -> None:
    """Activate, with a fault and a kill."""
    cell = named(job.cell)
    fault = cell.fault

    def strike() -> None:
        (job.folder / STRUCK).touch()
        ask(job.control, {"do": "fault", "name": job.device, "switches": dict(fault.strikes)})

    when = points.BY_NAME[cell.mode][fault.strikes_at].trigger
    strikes = ((when, strike),) if fault.strikes and when is not None else ()
    kill = ((cell.point.trigger, die),) if cell.point.trigger is not None else ()
    wire = Wire(job, (*strikes, *kill))
    wire.watch()

    def emit(event: Event) -> None:
        _keep_event(job.output, event)
        wire.event(event)

    with wire.journal(Journal(job.folder / "state")) as journal:
        request = ActivationRequest(
            images={job.device: TargetImage(image=_image(job.image), adds=cell.mode is Mode.INSTALL)},
            rounds=(Wave(number=0, name="all", hosts=(job.device,)),),
            limits=ActivationLimits(
                timer_min=30,
                boot_limit_s=AWAY_LIMIT_S if fault.stays_away else BOOT_LIMIT_S,
                settle_s=2.0,
                look_every_s=0.3,
            ),
        )
        report = activate_fleet(open_inventory(job.folder), request, journal=journal, emit=emit)
    _keep(job, "result", to_json(report))


def recover(job: Job) -> None:
    """Recover what the journal holds; tell what `status` has before and behind it."""
    state = job.folder / "state"
    _keep(job, "status-before", bool(read_status(state, 20).to_recover))
    phases = (Phase.COMMITTING, Phase.ROLLING_BACK, Phase.TAKING_BACK) if job.dies else ()
    wire = Wire(job, tuple((AtPhase(phase=phase), die) for phase in phases))
    with wire.journal(Journal(state)) as journal:
        records = recovering.recover(
            open_inventory(job.folder),
            journal,
            emit=lambda event: _keep_event(job.output, event),
            patience_s=job.patience_s,
        )
    _keep(job, "result", to_json(records))
    _keep(job, "status-after", bool(read_status(state, 20).to_recover))


def look(job: Job) -> None:
    """Keep what a colleague sees of what the device runs."""
    commands = ["show version"] + ["show install summary"] * (named(job.cell).mode is Mode.INSTALL)
    _keep(job, "result", {command: _by_hand(job, command) for command in commands})


def _by_hand(job: Job, command: str) -> str:
    (host,) = open_inventory(job.folder).inventory.hosts.values()
    with ConnectHandler(
        device_type="cisco_ios", host=host.hostname, port=host.port, username=host.username, password=host.password
    ) as session:
        return str(session.send_command(command, read_timeout=PATIENCE_S))


def _image(path: Path) -> Image:
    content = path.read_bytes()
    return Image(
        name=path.name,
        size_bytes=len(content),
        md5=hashlib.md5(content, usedforsecurity=False).hexdigest(),
        sha512=hashlib.sha512(content).hexdigest(),
    )


def _keep(job: Job, name: str, value: Any) -> None:
    (job.output / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")


def _keep_event(folder: Path, event: Event) -> None:
    with (folder / "events.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(to_json(event)) + "\n")
