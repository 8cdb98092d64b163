"""A device that serves: what is on disk before a line is typed, and what stays there of lines that were not."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from flashferry.devices.platforms.ios import IOS_XE
from flashferry.run.device.workflow import parts_of
from flashferry.run.neighbours.board import SiteBoard
from flashferry.run.neighbours.parent import NeighbourServing
from tasks.neighbours.serve import ServicePlan, ServiceReport, entries_for
from tests.unit.run.device.scripted import Journal, Steps, context

SESSION = cast("Any", SimpleNamespace(platform=IOS_XE, peer_address="10.0.0.1"))
FIRST, SECOND = (entries_for(SESSION, 99, (address,)) for address in ("10.0.0.2", "10.0.0.3"))
PLAN = ServicePlan(number=99, changes=FIRST)


def serving(**scripts: Any) -> tuple[NeighbourServing, Journal]:
    """Return what has a device serve, and the journal that it writes."""
    given = replace(context(), board=SiteBoard(("r1", "r2", "r3")))
    parts = parts_of(Steps(**scripts), given)
    login = SimpleNamespace(session=lambda: SESSION, is_logged_out=False)
    made = NeighbourServing(
        given, parts.host, parts.events, parts.keeper, parts.steps, cast("Any", login), parts.tuning
    )
    return made, cast("Any", given.journal)


def test_whom_it_lets_in_is_on_disk_before_that_is_typed():
    """The first ones with the list itself, later ones one by one; how the device shows them stands there behind it."""
    on_disk: list[tuple[str, ...]] = []

    def serve(task: Any, **given: Any) -> ServicePlan | ServiceReport:
        on_disk.append(journal.changes)
        if "path" in given:
            return PLAN
        return ServiceReport(changes=given.get("entries", PLAN.changes))

    made, journal = serving(serve=serve)
    assert made._opened("bootflash:x.bin", ("10.0.0.2",)) == ""
    assert made._plan is not None
    assert made._let_in(made._plan, ("10.0.0.3", "10.0.0.2")) == ""
    lines = [one[0].ours for one in (FIRST, SECOND)]
    assert on_disk == [(), (lines[0],), tuple(lines)]
    assert journal.changes == tuple(lines)
    assert made._plan.changes == (*FIRST, *SECOND)


def test_whom_it_does_not_let_in_is_not_kept_on_disk():
    """Its lines were gone, so nothing was typed; where the device refused, the journal keeps what may be there."""
    answers = iter((ServiceReport(reason="gone"), ServiceReport(changes=SECOND, reason="refused")))
    made, journal = serving(serve=lambda task, **given: next(answers))
    for left in ((), (SECOND[0].ours,)):
        assert made._let_in(PLAN, ("10.0.0.3",))
        assert journal.changes == left
    assert made._plan is None
