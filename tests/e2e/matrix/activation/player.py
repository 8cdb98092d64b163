"""Play a cell: activate with a fault and a kill, recover until there is nothing left to do, and look."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any

from ruamel.yaml import YAML

from tests.e2e.matrix.activation.acts import STRUCK
from tests.e2e.matrix.activation.cells import Cell, Job
from tests.e2e.matrix.activation.finding import Finding, Truth
from tests.e2e.matrix.activation.ground import Ground
from tests.e2e.matrix.activation.points import Mode
from tests.e2e.matrix.finding import Ending, Recovery
from tests.e2e.matrix.leaks import INVENTORY, leaks
from tests.patience import until

_MOST_RECOVERIES = 20
_PAUSE_S = 1.0
_LOOK_EVERY_S = 0.1
_LONGEST_BEGIN_S = 8.0
"""So long behind its command a stand-in may still go down."""


def play_all(ground: Ground, cells: Iterable[Cell], *, workers: int) -> Iterator[tuple[Cell, Finding]]:
    """Play cells, several at a time; each is yielded as its turn comes, those that wait for a timer first."""
    ordered = sorted(cells, key=lambda cell: not cell.fault.rolls_back)
    with ThreadPoolExecutor(max_workers=workers) as pool:
        yield from zip(ordered, pool.map(lambda cell: _Play(ground, cell).play(), ordered), strict=True)


class _Play:
    def __init__(self, ground: Ground, cell: Cell) -> None:
        self._ground, self._cell = ground, cell
        self._router = ground.router_of(cell)
        self._name = self._router.name
        self._folder = ground.folder / self._name
        self._folder.mkdir()
        self._is_over = threading.Event()

    def play(self) -> Finding:
        started = time.monotonic()
        self._prepare()
        before = self._truth()
        fault = self._cell.fault
        self._ground.world.fault(self._name, boot_s=1.5, seconds_per_minute=fault.minute_s, **fault.switches)
        helper = threading.Thread(target=self._clear_ports, daemon=True)
        helper.start()
        ending = self._ground.play(self._job("activate"))
        if fault.strikes and ending is Ending.KILLED and not (self._folder / STRUCK).exists():
            self._ground.world.fault(self._name, **fault.strikes)
        ended = self._truth()
        alone = self._left_alone() if fault.alone else None
        record = self._record()
        recoveries = tuple(self._recoveries())
        self._until_up()
        seen = self._result("look") if self._ground.play(self._job("look")) is Ending.DONE else None
        self._is_over.set()
        helper.join()
        return Finding(
            ending=ending,
            said=self._said("activate"),
            record=record,
            recoveries=recoveries,
            statuses=tuple(self._statuses(len(recoveries))),
            before=before,
            ended=ended,
            alone=alone,
            after=self._truth(),
            seen=seen or {},
            still_held=self._journal_row("SELECT count(*) FROM devices WHERE touched = 1")[0],
            leaks=leaks(self._folder, (self._router.password, self._router.enable_secret)),
            seconds=time.monotonic() - started,
        )

    def _prepare(self) -> None:
        """Have the image staged: on flash, and in install mode added."""
        access, image = self._router, self._ground.folder / self._cell.start.image
        host: dict[str, Any] = {
            "hostname": access.address, "port": access.port, "platform": "ios",
            "username": access.username, "password": access.password,
            "data": {"enable_secret": access.enable_secret},
        }  # fmt: skip
        YAML().dump({access.name: host}, self._folder / INVENTORY)
        flash, *_ = self._ground.world.flashes(self._name).values()
        (flash / image.name).write_bytes(image.read_bytes())
        if self._cell.mode is Mode.INSTALL:
            ending = self._ground.play(self._job("prepare"))
            assert ending is Ending.DONE, self._said("prepare")

    def _clear_ports(self) -> None:
        """Have ports come up again at the restart behind the one that took them down: they went with the new image."""
        if "ports_down_after_boot" not in self._cell.fault.switches:
            return
        while not self._is_over.wait(_LOOK_EVERY_S):
            if any(one.startswith("port down: ") for one in self._ground.world.happened(self._name)):
                self._ground.world.fault(self._name, ports_down_after_boot=())
                return

    def _left_alone(self) -> Truth:
        """Return the device when its own timer has brought the old image back, or there is nothing to wait for."""
        deadline_s = time.monotonic() + _LONGEST_BEGIN_S
        while time.monotonic() < deadline_s and not self._truth().count("restart: "):
            time.sleep(_LOOK_EVERY_S)

        def has_rolled_back() -> bool:
            found = self._truth()
            return found.is_up and "U" not in found.packages.values()

        with suppress(AssertionError):  # what it is instead is judged by its cell
            until(has_rolled_back, "the old image by the device's own timer", poll_s=_LOOK_EVERY_S)
        # Once more: what it runs was asked for before what had happened.
        return self._truth()

    def _until_up(self) -> None:
        with suppress(AssertionError):  # what it is instead is judged by its cell
            until(lambda: self._truth().is_up, "a device that is up", poll_s=_LOOK_EVERY_S)

    def _recoveries(self) -> Iterator[Recovery]:
        """Recover until there is nothing left to do, as an operator would."""
        fault, is_mended = self._cell.fault, False
        for number in range(_MOST_RECOVERIES):
            name = f"recover{number}"
            dies = fault.kills_recovery and number == 0
            patience_s = 90.0 if is_mended else fault.patience_s
            ending = self._ground.play(self._job("recover", output=name, patience_s=patience_s, dies=dies))
            records = self._result(name) if ending is Ending.DONE else ()
            yield Recovery(ending=ending, records=tuple(records), said=self._said(name))
            if ending is Ending.CRASHED or (ending is Ending.DONE and not records):
                return
            if any(record["restored"] == "incomplete" for record in records):
                is_mended = self._mend() or is_mended
                time.sleep(_PAUSE_S)

    def _mend(self) -> bool:
        """Do what somebody does behind a recovery that could not end it; a device that is up is not switched on."""
        fault, found = self._cell.fault, self._truth()
        if fault.stays_away and (found.is_up or not found.count(fault.mended_behind)):
            return False
        if fault.mended:
            self._ground.world.fault(self._name, **fault.mended)
        return bool(fault.mended)

    def _job(self, act: str, *, output: str = "", patience_s: float = 90.0, dies: bool = False) -> Job:
        return Job(
            act=act,
            cell=self._cell.name,
            folder=self._folder,
            output=self._folder / (output or act),
            device=self._name,
            control=self._ground.control,
            image=self._ground.folder / self._cell.start.image,
            patience_s=patience_s,
            dies=dies,
        )

    def _truth(self) -> Truth:
        return self._ground.truth(self._name)

    def _said(self, output: str) -> str:
        return (self._folder / output / "stderr").read_text(encoding="utf-8")[-500:].strip()

    def _kept(self, output: str, name: str) -> Any:
        path = self._folder / output / f"{name}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def _result(self, output: str) -> Any:
        return self._kept(output, "result")

    def _statuses(self, count: int) -> Iterator[bool]:
        for number in range(count):
            yield bool(self._kept(f"recover{number}", "status-before"))
        yield bool(self._kept(f"recover{count - 1}", "status-after"))

    def _record(self) -> dict[str, Any] | None:
        """Return the device's record: of the run, or from the journal where the run did not live to give it."""
        if (report := self._result("activate")) is not None:
            (record,) = report["devices"]
            return dict(record)
        row = self._journal_row("SELECT record FROM devices")
        return json.loads(row[0]) if row and row[0] else None

    def _journal_row(self, statement: str) -> Any:
        with closing(sqlite3.connect(self._folder / "state" / "journal.sqlite3")) as database:
            return database.execute(statement).fetchone()
