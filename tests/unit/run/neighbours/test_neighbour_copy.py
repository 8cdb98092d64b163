"""A device that serves: what is on disk before a line is typed, and what stays there of lines that were not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from flashferry.core.values import replace
from flashferry.devices.platforms.ios import IOS_XE
from flashferry.run.device import device_run
from flashferry.run.device.device_run import DeviceRun
from flashferry.run.neighbours.board import SiteBoard
from flashferry.run.neighbours.neighbour_copy import NeighbourService
from tasks.neighbours import ServicePlan, ServiceReport, entries_for
from tests.unit.run.device.scripted import Journal, Steps, context

SESSION = cast("Any", SimpleNamespace(platform=IOS_XE, peer_address="10.0.0.1"))
FIRST, SECOND = (entries_for(SESSION, 99, (address,)) for address in ("10.0.0.2", "10.0.0.3"))
PLAN = ServicePlan(number=99, changes=FIRST)


@pytest.fixture(autouse=True)
def one_session(monkeypatch):
    monkeypatch.setattr(device_run, "session_of", lambda task: SESSION)


def serving(**scripts: Any) -> tuple[NeighbourService, Journal]:
    """Return what has a device serve, and the journal that it writes."""
    board = SiteBoard(("r1", "r2", "r3"))
    given = replace(context(), board=board)
    run = DeviceRun(cast("Any", Steps(**scripts)), given)
    return NeighbourService(run, board, "bootflash:x.bin"), cast("Any", given.journal)


def test_admitted_devices_are_on_disk_before_their_lines_are_sent():
    """The first ones with the list itself, later ones one by one; afterwards as the device shows them."""
    on_disk: list[tuple[str, ...]] = []

    def serve(task: Any, **given: Any) -> ServicePlan | ServiceReport:
        on_disk.append(journal.changes)
        if "path" in given:
            return PLAN
        return ServiceReport(changes=given.get("entries", PLAN.changes))

    service, journal = serving(serve=serve)
    assert service.admit(("10.0.0.2",)) == ""
    assert service.admit(("10.0.0.3", "10.0.0.2")) == ""
    lines = [one[0].ours for one in (FIRST, SECOND)]
    assert on_disk == [(), (lines[0],), tuple(lines)]
    assert journal.changes == tuple(lines)
    assert service.plan is not None
    assert service.plan.changes == (*FIRST, *SECOND)


def test_devices_that_are_not_admitted_are_not_kept_on_disk():
    """Its lines were gone, so nothing was typed; where the device refused, the journal keeps what may be there."""
    answers = iter((ServiceReport(reason="gone"), ServiceReport(changes=SECOND, reason="refused")))
    service, journal = serving(serve=lambda task, **given: next(answers))
    service.plan = PLAN
    for left in ((), (SECOND[0].ours,)):
        assert service.admit(("10.0.0.3",))
        assert journal.changes == left
    assert service.plan is PLAN
