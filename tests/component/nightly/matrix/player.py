"""Plays nights by the command itself: real flow, real client, HTTPS; routers and product are faked, waiting is free."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typer.testing import CliRunner

from flashferry.cli.program import build
from flashferry.core.values import replace
from flashferry.lab.cml.standin import Exchange
from flashferry.nightly import runner
from flashferry.nightly.backend import Clock, Deadline, StoppableClock
from flashferry.nightly.clean_up import ReapRules, reap
from flashferry.nightly.cml import access as accessing
from flashferry.nightly.cml.backend import CmlBackend
from flashferry.nightly.night import Fault, Night, NightStep, StepName, StepOutcome
from flashferry.nightly.step_log import Watcher
from flashferry.nightly.steps import NightParts, run_night
from tests.component.nightly.matrix.faults import HURRY, LATE_S, PATIENT_S, ControllerFault, Span
from tests.component.nightly.matrix.ground import HOSTS, Ground, LabProduct, LabRouters
from tests.patience import PATIENCE_S, until

RETRY_S = 6.0
"""So long a call is repeated, in short; where answers are late, as long as in any night."""

DESCRIPTION = """\
controller: {{url: '{url}', ca_file: '{ca_file}'}}
topology:
  sites:
    - name: wan50
      condition: {{bandwidth_kbps: 50000, latency_ms: 50, loss_percent: 0.01}}
      nodes: [{{node_definition: csr1000v, count: 2}}]
night: {{image: image.bin, copies: 1, capture_node: wan50-csr1000v-1}}
limits: {{start_minutes: 5, reach_minutes: 4, clean_minutes: {clean_minutes}}}
artefacts: {{folder: nights}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A fault that strikes from the beginning of a step."""

    fault: ControllerFault
    step: StepName

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.step} x {self.fault.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a night came to.

    Attributes:
        exit_code: Of the command.
        failed: Steps that failed, each with whose fault it was, and what was said of it.
        labs: Labs that were there when the command had ended: title and state by id.
        labs_later: Those that are there when the next reap is over.
        title: Tonight's lab.
        has_struck: Whether the fault was set.
        leaks: Where a secret was found.
        harmed: Orders to a lab that is not ours to touch.
        broken: What broke the stand-in itself.
        seconds: How long it took.
    """

    exit_code: int
    failed: tuple[tuple[StepName, Fault | None, str], ...]
    labs: dict[str, tuple[str, str]]
    labs_later: dict[str, tuple[str, str]]
    title: str
    has_struck: bool
    leaks: tuple[str, ...]
    harmed: tuple[str, ...]
    broken: tuple[str, ...]
    seconds: float


class Striking:
    """Tells on, and strikes when its step begins."""

    def __init__(self, told: Watcher, ground: Ground, cell: Cell) -> None:
        self._told, self._ground, self._cell = told, ground, cell
        self.has_struck = False

    def began(self, name: StepName) -> None:
        if name is StepName.IMPORT:
            self._ground.begin_another()
        if name is self._cell.step:
            self._ground.standin.faults.set(**self._cell.fault.switches)
            self.has_struck = True
        self._told.began(name)

    def ended(self, step: NightStep) -> None:
        if self._cell.fault.span is Span.STEP and step.name is self._cell.step:
            self._ground.standin.faults.clear()
        self._told.ended(step)


@contextmanager
def played_with(
    *, backend: Callable[[], CmlBackend], clock: Clock, change: Callable[[NightParts], dict[str, Any]]
) -> Iterator[list[Night]]:
    """Have nights of `flashferry nightly run` played with other parts; yield those that were played."""
    nights: list[Night] = []

    @contextmanager
    def opened(description: object, clock_: object = None) -> Iterator[CmlBackend]:
        with backend() as made:
            yield made

    def run(parts: NightParts) -> Night:
        nights.append(run_night(replace(parts, clock=clock, **change(parts))))
        return nights[-1]

    with patch.object(runner, "open_backend", opened), patch.object(runner, "run_night", run):
        yield nights


def write_description(folder: Path, url: str, ca_file: Path, *, clean_minutes: int = 1) -> Path:
    """Write the description of a night of two routers into a folder, and its image."""
    (folder / "image.bin").write_bytes(b"image")
    path = folder / "nightly.yaml"
    path.write_text(DESCRIPTION.format(url=url, ca_file=ca_file, clean_minutes=clean_minutes), encoding="utf-8")
    return path


def quick_backend(ground: Ground, *, is_late: bool = False) -> CmlBackend:
    """Return what takes labs up, by the controller's own login."""
    standin = ground.standin
    access = accessing.ControllerAccess(
        url=standin.url,
        username=standin.username,
        password=ground.password,
        ca_file=standin.ca_file,
        timeout_s=PATIENT_S if is_late else PATIENCE_S,
        retry_s=accessing.RETRY_S if is_late else RETRY_S,
    )
    return CmlBackend(access, clock=StoppableClock(ground.clock, lambda: False), poll_s=1.0)


def play(ground: Ground, cell: Cell, folder: Path) -> Finding:
    """Play a cell in an empty folder."""
    began_s = time.monotonic()
    ground.begin()
    first = len(ground.standin.exchanges)
    watchers: list[Striking] = []

    def change(parts: NightParts) -> dict[str, Any]:
        ground.node_passwords.append(parts.settings.login.password)
        watchers.append(Striking(parts.watcher, ground, cell))
        return {
            "watcher": watchers[0],
            "routers": LabRouters(ground=ground),
            "product": lambda scratch, inventory: LabProduct(ground=ground, hosts=HOSTS),
        }

    is_late = cell.fault.what.startswith("slow")
    ground.clock.hurry(HURRY if is_late else 1.0)
    # A clean-up outlasts one answer that does not come.
    standin, clean_minutes = ground.standin, 5 if is_late else 1
    file = write_description(folder, standin.url, standin.ca_file, clean_minutes=clean_minutes)
    words = ("nightly", "run", str(file), "--state-dir", str(folder / "state"), "--json")
    login = {"FLASHFERRY_CML_USERNAME": ground.standin.username, "FLASHFERRY_CML_PASSWORD": ground.password}
    with (
        patch.dict(os.environ, login),
        played_with(
            backend=lambda: quick_backend(ground, is_late=is_late), clock=ground.clock, change=change
        ) as nights,
    ):
        done = CliRunner().invoke(build(), words)
    if not nights:
        raise done.exception or AssertionError(done.output)
    # A late order is carried out before labs are counted.
    ground.clock.sleep(LATE_S)
    until(lambda: not ground.standin.web.held, "late orders to be carried out")
    labs = ground.labs()
    ground.standin.faults.clear()
    leaked = tuple(leaks(ground, folder, done.stdout, done.stderr))
    _reap(ground)
    night = nights[0]
    assert json.loads(done.stdout)["night"]["night_id"] == night.night_id
    return Finding(
        exit_code=done.exit_code,
        failed=tuple((s.name, s.fault, s.sentence) for s in night.steps if s.outcome is StepOutcome.FAILED),
        labs=labs,
        labs_later=ground.labs(),
        title=night.night_id,
        has_struck=watchers[0].has_struck,
        leaks=leaked,
        harmed=tuple(harmed(ground, ground.standin.exchanges[first:])),
        broken=tuple(ground.standin.web.errors),
        seconds=time.monotonic() - began_s,
    )


def _reap(ground: Ground) -> None:
    """Do what the next reap does, on a host where tonight's process is gone and the other night's lives."""
    if not ground.running:
        ground.begin_another()
    running = ground.labs()[ground.running][0]
    with quick_backend(ground) as backend:
        deadline = Deadline.after(3600, ground.clock)
        reap(backend, ReapRules(is_alive=lambda notes: notes.run == running), deadline=deadline)


def leaks(ground: Ground, folder: Path, *said: str) -> Iterator[str]:
    """Yield where a password or a token is found: in files below a folder, and in what was said."""
    places = {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    places |= {f"output {number}": text.encode() for number, text in enumerate(said, start=1)}
    for place, content in places.items():
        yield from (f"a secret in {place}" for one in ground.secrets if one.encode() in content)


def harmed(ground: Ground, exchanges: Sequence[Exchange]) -> Iterator[str]:
    """Yield orders to a stranger's lab, or to that of a night that runs."""
    for one in exchanges:
        if one.method != "GET" and any(lab and f"labs/{lab}" in one.path for lab in (ground.strangers, ground.running)):
            yield f"{one.method} {one.path}"
