"""The end of a depot: told to, killed, or its serving process; what runs hear of it, and how they go on."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from flashferry.depot.status import find_depot
from flashferry.fileserver import ServerGone
from flashferry.service.live.collect import SnapshotReader
from flashferry.service.metrics.collector import Figures
from flashferry.service.service import Service
from flashferry.service.settings import ServiceSettings
from flashferry.store.service.database import ServiceDatabase
from tests.component.depot.conftest import until
from tests.patience import PATIENCE_S

SITE = "AMS"


@pytest.mark.soak
def test_a_ticket_ends_with_its_run(depot):
    """Nobody is let in with it any more, as with one that was revoked."""
    run, stayer = depot.run(), depot.run()
    ticket = depot.ticket(run)
    run.close()
    until(lambda: len(find_depot(depot.folder / "state").view.runs) == 1)
    assert depot.fetch_refused(stayer, ticket)


def test_it_ends_with_its_last_transfer(depot):
    """Asked to end it takes nothing new in, lets the copy finish, and has status 0; its socket is gone then."""
    run = depot.run()
    run.set_site_cap(SITE, 1_000_000)
    ticket = depot.ticket(run, site=SITE)
    with depot.fetching(run, ticket) as fetched:
        depot.until_sending(run, ticket)
        depot.process.send_signal(signal.SIGTERM)
        until(lambda: find_depot(depot.folder / "state").view.is_ending)
        with pytest.raises(ServerGone, match="the depot is ending"):
            depot.ticket(run)
        got: list[int] = []
        run.slot_reservations.ask(SITE, 1, lambda: got.append(1))
    assert fetched == [depot.content]
    assert (depot.process.wait(PATIENCE_S), got, depot.socket.exists()) == (0, [], False)
    depot.process.communicate()


def test_a_process_that_hangs_is_reported_and_holds_up_no_end(depot):
    """It is among the depot's notices; asked to end, it kills the process and has status 3."""
    children = Path(f"/proc/{depot.process.pid}/task/{depot.process.pid}/children").read_text(encoding="ascii")
    os.kill(int(children.split()[0]), signal.SIGSTOP)
    state = depot.folder / "state"
    until(lambda: any("has not answered" in text for text in find_depot(state).view.notices))
    assert depot.end(signal.SIGTERM) == 3


def _only_site(depot):
    (site,) = find_depot(depot.folder / "state").view.sites
    return site


def test_killed_it_takes_its_tickets_along_and_runs_go_on(depot):
    """Who waits hears of it; once it is back, caps and slots hold as before, and new tickets are good."""
    run, other = depot.run(), depot.run()
    run.set_site_cap(SITE, 300_000)
    got: list[str] = []
    run.slot_reservations.ask(SITE, 1, lambda: got.append("held"))
    until(lambda: got == ["held"])
    other.slot_reservations.ask(SITE, 1, lambda: got.append("other"))
    ticket, unused = depot.ticket(run, site=SITE), depot.ticket(run)
    with depot.fetching(run, ticket) as fetched:
        depot.until_sending(run, ticket)
        depot.end(signal.SIGKILL)
        for one in (ticket, unused):
            with pytest.raises(ServerGone, match="the connection to it broke"):
                run.wait(one.ticket_id, PATIENCE_S)
    assert len(fetched[0]) < len(depot.content)
    run.revoke(ticket.ticket_id)
    depot.start()
    again = depot.ticket(run, site=SITE)
    # Each run is back in its own time: the one that waited gets the free slot where it is back first, and the slot that
    # was held is held on all the same.
    until(lambda: (seen := _only_site(depot)).copies + seen.waiting == 2)
    site = _only_site(depot)
    assert (site.limit, site.cap_bytes_per_s) == (1, 300_000)
    assert (site.copies, site.waiting, got) in ((1, 1, ["held"]), (2, 0, ["held", "other"]))
    run.set_site_cap(SITE, None)
    assert depot.fetch(run, again) == depot.content


@pytest.mark.soak
def test_one_that_does_not_come_back_is_gone_for_good(depot):
    """After the time that was stated: whatever is asked next says so, and nobody waits for a slot any more."""
    run = depot.run(return_s=0.5)
    got: list[str] = []
    run.slot_reservations.ask(SITE, 1, lambda: got.append("held"))
    until(lambda: got == ["held"])
    run.slot_reservations.ask(SITE, 1, lambda: got.append("let in"))
    depot.end(signal.SIGKILL)
    with pytest.raises(ServerGone, match=r"did not come back within 0 s|within 1 s|within 0\.5 s"):
        depot.ticket(run)
    until(lambda: got == ["held", "let in"])
    with pytest.raises(ServerGone):
        _ = run.port
    assert run.slot_reservations.ask(SITE, 1, lambda: None) is None


@pytest.mark.soak
def test_its_serving_process_may_die(depot):
    """It is replaced; runs hear that their tickets are void, and new ones are good."""
    run = depot.run()
    ticket = depot.ticket(run)
    (child,) = _children(depot.process.pid)
    os.kill(child, signal.SIGKILL)
    with pytest.raises(ServerGone, match="killed by SIGKILL"):
        run.wait(ticket.ticket_id, PATIENCE_S)
    again = depot.ticket(run)
    assert depot.fetch(run, again) == depot.content


def _children(pid: int) -> list[int]:
    """Return the processes that serve for a depot."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [int(one) for one in listed if b"fileserver.process" in Path(f"/proc/{one}/cmdline").read_bytes()]


@pytest.mark.soak
def test_its_log_is_rotated_and_its_figures_end_with_it(depot):
    """What it says of itself is in the file of that name; the service tells it as up, and as down once it is killed."""
    log, told = depot.folder / "depot.log", []
    depot.end(signal.SIGTERM)
    depot.more = ("--log-file", str(log), "--log-format", "json")
    depot.start()
    assert json.loads(log.read_text())["text"].startswith(f"depot at {depot.socket}: process {depot.process.pid}, ftp")
    service = Service(
        state=depot.folder / "state", settings=ServiceSettings(), database=ServiceDatabase(depot.folder / "state")
    )
    run = depot.run()
    run.set_site_cap(SITE, 1_000_000)
    ticket = depot.ticket(run, site=SITE)
    with depot.fetching(run, ticket):
        depot.until_sending(run, ticket)
        told.append(figures_of(service))
        log.rename(log.with_suffix(".1"))
        depot.process.send_signal(signal.SIGTERM)
        until(log.exists)
        depot.end(signal.SIGKILL)
    told.append(figures_of(service))
    assert json.loads(log.read_text())["text"].startswith("nothing new; waiting for 1 running transfers")
    assert [line for line in told[0] if line.startswith(("flashferry_depot_up", "flashferry_depot_runs"))] == [
        "flashferry_depot_up 1.0",
        "flashferry_depot_runs 1.0",
    ]
    assert "flashferry_depot_up 0.0" in told[1]


def figures_of(service: Service) -> list[str]:
    figures = Figures(service)
    figures.check_depot()
    return figures.text(SnapshotReader(service), ()).decode().splitlines()
