"""Runs at one depot: tickets are their owner's, caps and slots of sites are all runs', what one leaves goes."""

from __future__ import annotations

import os
import stat

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.depot import client, handshake
from flashferry.depot.daemon import Depot
from flashferry.depot.options import DepotOptions
from flashferry.depot.paths import DepotNotUsable
from flashferry.depot.status import find_depot
from flashferry.fileserver import FileIdentity, TicketUnknown, TransferState
from flashferry.images.errors import CatalogueInvalid, ImageUnknown, ImageUnreadable
from tests.component.depot.conftest import IMAGE, until
from tests.patience import PATIENCE_S

SITE = "AMS"


def test_a_run_s_image_is_fetched(shared_depot):
    """By its ticket, whole, with a record as of a server of one's own; every event of it is told to the run alone."""
    depot = shared_depot
    ours, other = depot.run(), depot.run()
    heard: list[str] = []
    other.events(lambda event: heard.append(event.text) if event.progress is not None else None)
    ticket = depot.ticket(ours)
    assert depot.fetch(ours, ticket) == depot.content
    seen = ours.wait_final(ticket.ticket_id, PATIENCE_S)
    assert (seen.state, seen.record.bytes_acked) == (TransferState.DELIVERED, len(depot.content))
    assert heard == []
    with pytest.raises(TicketUnknown):
        other.progress(ticket.ticket_id)
    assert ours.image(IMAGE).sha512 == other.image(IMAGE).sha512


def test_the_socket_is_the_owner_s_alone(shared_depot):
    """No other user may connect to it, and a second depot is told of the first."""
    depot = shared_depot
    assert stat.S_IMODE(depot.socket.stat().st_mode) == 0o600
    with pytest.raises(ConfigInvalid, match="another depot serves this socket"):
        Depot(DepotOptions(state=depot.folder / "state")).__enter__()


def test_readings_are_taken_as_often_as_each_run_asks(shared_depot):
    """A speed test reads four times a second beside a run that reads once: an interval is its run's."""
    depot = shared_depot
    often, seldom = depot.run("probe", sample_interval_s=0.1), depot.run(sample_interval_s=30.0)
    tickets = []
    for run in (often, seldom):
        tickets.append(depot.ticket(run, cap_bytes_per_s=2_500_000))
        depot.fetch(run, tickets[-1])
    many, few = (
        len(run.wait_final(ticket.ticket_id, PATIENCE_S).record.samples)
        for run, ticket in zip((often, seldom), tickets, strict=True)
    )
    assert many >= 5 > few


def test_a_cap_holds_over_runs(shared_depot):
    """Two runs state a site's cap: the stricter one holds for both, until its run parts."""
    depot = shared_depot
    one, two = depot.run(), depot.run()
    one.set_site_cap(SITE, 400_000, "by one")
    two.set_site_cap(SITE, 800_000, "by two")
    first, second = depot.ticket(one, site=SITE), depot.ticket(two, site=SITE)
    with depot.fetching(one, first), depot.fetching(two, second):
        depot.until_sending(one, first)
        depot.until_sending(two, second)
        (site,) = find_depot(depot.folder / "state").view.sites
        assert (site.site, site.cap_bytes_per_s) == (SITE, 400_000)
        one.close()
        until(lambda: find_depot(depot.folder / "state").view.sites[0].cap_bytes_per_s == 800_000)
        two.set_site_cap(SITE, None)
    assert two.wait_final(second.ticket_id, PATIENCE_S).state is TransferState.DELIVERED


def test_what_a_run_leaves_is_cleared_up(shared_depot):
    """Its connection ends, however: its tickets are worthless, its transfer is cut, its slot is another's."""
    depot = shared_depot
    leaver, stayer = depot.run(), depot.run()
    got: list[int] = []
    leaver.set_site_cap(SITE, 100_000)
    ticket = depot.ticket(leaver, site=SITE)
    leaver.slot_reservations.ask(SITE, 1, lambda: got.append(1))
    until(lambda: got == [1])
    stayer.slot_reservations.ask(SITE, 1, lambda: got.append(2))
    with depot.fetching(leaver, ticket) as fetched:
        depot.until_sending(leaver, ticket)
        assert got == [1]
        leaver.close()
    until(lambda: got == [1, 2])
    assert len(fetched[0]) < len(depot.content)
    (run,) = find_depot(depot.folder / "state").view.runs
    assert (run.pid, run.purpose, run.tickets, run.copies, run.waiting) == (os.getpid(), "stage", 0, 1, 0)


def test_slots_of_a_site_are_shared(shared_depot):
    """Two runs with two copies each have two at the site in all, one each; another site waits for nobody."""
    depot = shared_depot
    one, two = depot.run(), depot.run()
    got: list[str] = []
    numbers = [one.slot_reservations.ask(SITE, 2, lambda: got.append("one")) for _ in range(3)]
    until(lambda: got == ["one", "one"])
    two.slot_reservations.ask(SITE, 2, lambda: got.append("two"))
    two.slot_reservations.ask("LIM", 2, lambda: got.append("elsewhere"))
    until(lambda: got == ["one", "one", "elsewhere"])
    one.slot_reservations.free(numbers[0])
    until(lambda: got[3:] == ["two"])
    one.slot_reservations.free(numbers[1])
    until(lambda: got[4:] == ["one"])


def test_an_image_that_the_depot_cannot_see_is_told(shared_depot, monkeypatch, tmp_path):
    """It is missing, another one, or nobody may read it: a sentence that names the depot's user."""
    depot = shared_depot
    with pytest.raises(ImageUnknown):
        depot.run().image("other.bin")
    stranger = depot.stranger()
    identity = FileIdentity(device=1, inode=2, size_bytes=3, mtime_ns=4, ctime_ns=5)
    monkeypatch.setattr(FileIdentity, "of", lambda _status: identity)
    with pytest.raises(ImageUnreadable, match=r"the depot \(user \w+\) sees another file there"):
        stranger.open((depot.image,))
    monkeypatch.undo()
    with pytest.raises(CatalogueInvalid, match=r"by the depot, user \w+"):
        depot.stranger().open((tmp_path,))


def test_hashing_reports_how_far_it_is_and_ends_at_once(depot):
    """A depot's as one's own; who stops waiting is not kept, and the depot serves on."""
    os.truncate(depot.image, 64 << 30)
    seen: list[tuple[int, int]] = []

    def stop_later(done_bytes: int, size_bytes: int) -> None:
        seen.append((done_bytes, size_bytes))
        raise KeyboardInterrupt

    run = depot.run()
    with pytest.raises(KeyboardInterrupt):
        run.image(IMAGE, on_progress=stop_later)
    run.close()
    ((done_bytes, size_bytes),) = seen
    assert 0 < done_bytes < size_bytes == 64 << 30
    os.truncate(depot.image, 8)
    again: list[tuple[int, int]] = []
    depot.run().image(IMAGE, on_progress=lambda *given: again.append(given))
    assert again == [(8, 8)]


def test_an_image_that_changes_gets_no_ticket(shared_depot):
    """Its digests, which devices are held against, are those of another file."""
    depot = shared_depot
    run = depot.run()
    run.image(IMAGE)
    depot.image.write_bytes(b"somebody wrote another one")
    with pytest.raises(ImageUnreadable, match="changed on disk since the run began"):
        depot.ticket(run)


def test_another_release_is_refused(shared_depot, monkeypatch):
    """By the run, in a sentence with both releases; the depot serves on."""
    depot = shared_depot
    ours = handshake.release()
    monkeypatch.setattr(handshake, "release", lambda: "0.0.1")
    with pytest.raises(ConfigInvalid, match=rf"expected flashferry 0\.0\.1, as this command is, found {ours}"):
        depot.stranger()
    found = find_depot(depot.folder / "state")
    assert (found.view, "0.0.1" in found.trouble) == (None, True)
    monkeypatch.undo()
    assert find_depot(depot.folder / "state").view.release == ours


def test_a_depot_in_another_network_is_none(shared_depot, monkeypatch):
    """Its ports are where this run's devices may never come: a lab's namespace shares files with the host."""
    monkeypatch.setattr(client, "network", lambda: "net:[1]")
    with pytest.raises(DepotNotUsable, match="another network than this command"):
        shared_depot.stranger()


def test_another_user_s_depot_is_not_believed(shared_depot, monkeypatch):
    """Its digests would decide what devices keep: a depot of a user who is neither we nor root is none."""
    depot = shared_depot
    monkeypatch.setattr(handshake, "peer", lambda _line: (1, 4711))
    with pytest.raises(DepotNotUsable, match="it is of user 4711"):
        depot.stranger()
