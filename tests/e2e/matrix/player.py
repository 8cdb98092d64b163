"""Play a cell: stage with a fault and a kill, recover until there is nothing left to do, and look."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from ruamel.yaml import YAML

from tests.e2e.matrix.cells import Cell, Job, slowest_first
from tests.e2e.matrix.faults import FLASH_BYTES_PER_S, IMAGE_BYTES, INSTALL_BYTES_PER_S, PUSH
from tests.e2e.matrix.finding import Ending, Finding, NextRun, Recovery
from tests.e2e.matrix.ground import Ground, Router
from tests.e2e.matrix.leaks import INVENTORY, SECRETS, leaks
from tests.e2e.matrix.points import AtFlash
from tests.e2e.matrix.rules import expected, strikes_at_kill

_MOST_RECOVERIES = 12
_MOST_RUNS = 3
_PAUSE_S = 1.0
_PACE = {"slow_flash_bytes_per_s": FLASH_BYTES_PER_S, "install_bytes_per_s": INSTALL_BYTES_PER_S}


def play_all(ground: Ground, cells: Iterable[Cell], *, workers: int) -> Iterator[tuple[Cell, Finding]]:
    """Play cells, several at a time; each is yielded as its turn comes."""
    ordered = slowest_first(tuple(cells))
    with ThreadPoolExecutor(max_workers=workers) as pool:
        yield from zip(ordered, pool.map(lambda cell: play(ground, cell), ordered), strict=True)


def play(ground: Ground, cell: Cell) -> Finding:
    """Play one cell on a router of its own."""
    return _Play(ground, cell).play()


class _Play:
    def __init__(self, ground: Ground, cell: Cell) -> None:
        self._ground = ground
        self._cell = cell
        self._router: Router = ground.router_for(cell)
        self._name = self._router.access.name
        self._folder = ground.folder / self._name
        self._folder.mkdir()
        self._secrets = self._folder / SECRETS
        self._secrets.write_text(f"{self._router.access.password}\n{self._router.access.enable_secret}\n")

    def play(self) -> Finding:
        ground, fault = self._ground, self._cell.fault
        started = time.monotonic()
        self._write_inventory()
        before = ground.configurations(self._router)
        ground.world.fault(self._name, **_PACE, **fault.switches, hold_copy_at_bytes=self._held_at_bytes())
        ending = ground.play(self._job("stage"))
        ground.world.fault(self._name, hold_copy_at_bytes=None)
        if ending is Ending.KILLED and (strikes := strikes_at_kill(self._cell.point, fault)):
            ground.world.fault(self._name, **strikes)
        alone = ground.configurations(self._router) if ending is Ending.KILLED else None
        # Before a recovery keeps its own record in the journal.
        record = self._record()
        recoveries = tuple(self._recoveries())
        after, box = ground.configurations(self._router), ground.box(self._router)
        still_held = self._journal_row("SELECT count(*) FROM devices WHERE touched = 1")[0]
        next_run = self._next_run() if fault.goes_on else None
        secrets = self._secrets.read_text(encoding="utf-8").split()
        return Finding(
            ending=ending,
            said=self._said("stage"),
            record=record,
            recoveries=recoveries,
            before=before,
            alone=alone,
            after=after,
            box=box,
            left=ground.world.guesses(self._name).get("copy: text of a member that left", 0),
            next_run=next_run,
            still_held=still_held,
            tickets=len(secrets) // 2 - 1,  # but for the login: a user and a password each
            leaks=leaks(self._folder, secrets),
            seconds=time.monotonic() - started,
        )

    def _held_at_bytes(self) -> int | None:
        """Return where the copy stands still for a kill that comes by what is on flash."""
        trigger, point = self._cell.point.trigger, self._cell.point.name
        if not isinstance(trigger, AtFlash) or trigger.on_member or point in self._cell.fault.never:
            return None  # a kill that never comes would never release the copy
        return int(trigger.share * IMAGE_BYTES)

    def _recoveries(self) -> Iterator[Recovery]:
        """Recover until there is nothing left to do, as an operator would."""
        wanted = expected(self._cell.point, self._cell.fault)
        is_killed_first = self._cell.fault.kills_recovery and wanted.pending
        accepts = False
        for number in range(_MOST_RECOVERIES):
            name = f"recover{number}"
            dies = is_killed_first and number == 0
            ending = self._ground.play(self._job("recover", output=name, dies=dies, accepts=accepts))
            records = self._result(name) if ending is Ending.DONE else ()
            yield Recovery(ending=ending, records=tuple(records), said=self._said(name), is_accepted=accepts)
            # The operator reads what is left, and takes it; once.
            hints = [str((record["failure"] or {}).get("hint")) for record in records]
            accepts = any("recover --accept" in hint for hint in hints)
            if ending is Ending.CRASHED or (ending is Ending.DONE and not records):
                return
            if self._cell.fault.mended:
                # Each time: a recovery may have come while the router was away; a save then keeps our lines again.
                self._ground.world.fault(self._name, **self._cell.fault.mended)
            if any(record["restored"] == "incomplete" for record in records):
                time.sleep(_PAUSE_S)

    def _next_run(self) -> NextRun:
        """Stage again, with what went wrong mended; later once more, where the device is still adding."""
        self._ground.world.fault(self._name, **self._cell.fault.mended)
        for number in range(_MOST_RUNS):
            output = f"finish{number}"
            ending = self._ground.play(self._job("finish", output=output))
            report = self._result(output)
            record = report["devices"][0] if report is not None else None
            if record is None or "in progress" not in str(record["failure"]):
                break
            time.sleep(_PAUSE_S)
        return NextRun(
            ending=ending, said=self._said(output), record=record,
            after=self._ground.configurations(self._router), box=self._ground.box(self._router),
        )  # fmt: skip

    def _job(self, act: str, *, output: str = "", dies: bool = False, accepts: bool = False) -> Job:
        return Job(
            act=act,
            cell=self._cell.name,
            folder=self._folder,
            output=self._folder / (output or act),
            device=self._name,
            control=self._ground.control,
            flash_file=self._router.flash_file,
            member_files=self._router.member_files,
            image=self._ground.folder / self._cell.image_name,
            certificate=self._ground.certificate.certificate,
            key=self._ground.certificate.key,
            secrets=self._secrets,
            dies=dies,
            accepts=accepts,
        )

    def _write_inventory(self) -> None:
        access = self._router.access
        host: dict[str, Any] = {
            "hostname": access.address, "port": access.port, "platform": "ios",
            "username": access.username, "password": access.password,
            "data": {"enable_secret": access.enable_secret},
        }  # fmt: skip
        if self._cell.fault.transport == PUSH:
            host["data"] |= {"transports": [PUSH]}  # never taken where the inventory does not name it
        YAML().dump({access.name: host}, self._folder / INVENTORY)

    def _said(self, output: str) -> str:
        return (self._folder / output / "stderr").read_text(encoding="utf-8")[-500:].strip()

    def _result(self, output: str) -> Any:
        path = self._folder / output / "result.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def _record(self) -> dict[str, Any] | None:
        """Return the device's record: of the run, or from the journal where the run did not live to give it."""
        if (report := self._result("stage")) is not None:
            (record,) = report["devices"]
            return dict(record)
        row = self._journal_row("SELECT record FROM devices")
        return json.loads(row[0]) if row and row[0] else None

    def _journal_row(self, statement: str) -> Any:
        with closing(sqlite3.connect(self._folder / "state" / "journal.sqlite3")) as database:
            return database.execute(statement).fetchone()
