"""Sums that only grow: each transfer counted once, kept whole, and never lost with the journal's rows."""

from __future__ import annotations

import pytest

from flashferry.monitor.metrics import COPY_SECONDS_BUCKETS, Instruments
from flashferry.service.metrics.collector import Figures
from flashferry.service.metrics.counting import COPY_RATE_BUCKETS, Counted, counted_of
from flashferry.store.journal import Journal
from flashferry.store.service.figures import COPIES, counted, keep_counted
from flashferry.store.tables import EndedCopy
from tests.unit.store.conftest import kept  # noqa: F401 -- a fixture


def ended(number: int = 1, **more) -> EndedCopy:
    given = {
        "site": "AMS", "transport": "ftp", "tuned": 1, "outcome": "delivered", "verdict": "cap", "bytes_acked": 1000,
        "duration_s": 60.0, "rate_bytes_per_s": 125_000.0,
    }  # fmt: skip
    return EndedCopy(number=number, **given | more)


def total(found: Counted) -> int:
    return sum(one.number for one in found.copies.values())


def test_what_was_counted_is_kept_whole():
    """Written and read again it is the same."""
    found = Counted()
    found.take([ended(1), ended(2, outcome="aborted", site="LIM"), ended(7, tuned=0, transport="https")])
    again = counted_of(found.as_text())
    assert again == found
    assert (again.last, total(again)) == (7, 3)


def test_a_bucket_holds_what_is_no_more_than_its_bound():
    """What is above all of them is behind the last."""
    found = Counted()
    rates = (COPY_RATE_BUCKETS[0], COPY_RATE_BUCKETS[0] + 1, 1e12)
    found.take(ended(number, rate_bytes_per_s=rate) for number, rate in enumerate(rates))
    spread = found.rates["AMS", "ftp"]
    assert (spread.counts[0], spread.counts[1], spread.counts[-1], sum(spread.counts)) == (1, 1, 1, 3)


def test_only_delivered_copies_have_a_rate():
    """One that broke off says nothing of what its site gives; its bytes count."""
    found = Counted()
    found.take([ended(outcome="failed")])
    assert (found.rates, found.durations) == ({}, {})
    assert [one.acked_bytes for one in found.copies.values()] == [1000]


def test_transports_that_nobody_knows_are_one():
    """The journal is a file: what stands there makes no labels."""
    found = Counted()
    found.take([ended(transport="a"), ended(transport="b")])
    assert {transport for _, transport, *_ in found.copies} == {"other"}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"last":1,"copies":[],"rates":[["a","ftp",[1],1]],"durations":[]}'])
def test_what_is_damaged_is_refused(text):
    """Also what another release kept, with other buckets."""
    with pytest.raises(ValueError, match=r"damaged|buckets"):
        counted_of(text)


def test_buckets_are_those_of_a_run():
    """What a run's own histogram of durations has, so that both can be added."""
    own = Instruments().copy_seconds
    assert (*map(float, COPY_SECONDS_BUCKETS), float("inf")) == tuple(own._upper_bounds)


def test_each_transfer_is_counted_once(service, kept):  # noqa: F811
    """By whoever counts next: after a restart, and where what was counted could not be kept."""
    with Journal(service.state) as journal:
        run_id = journal.begin_run("stage")
        journal.add_transfer(run_id, "r1", kept())
        Figures(service).count()
        Figures(service).count()
        journal.add_transfer(run_id, "r1", kept(ticket_id="t2"))
        # The same once more, as a run that was gone on with may write it.
        journal.add_transfer(run_id, "r1", kept(ticket_id="t2"))
        Figures(service).count()
    assert total(of(service)) == 2


def test_another_journal_is_counted_from_its_beginning(service, kept):  # noqa: F811
    """What the first one had stays counted."""
    with Journal(service.state) as journal:
        run_id = journal.begin_run("stage")
        for number in range(3):
            journal.add_transfer(run_id, "r1", kept(ticket_id=f"t{number}"))
        Figures(service).count()
    for path in service.state.glob("journal.sqlite3*"):
        path.unlink()
    with Journal(service.state) as journal:
        journal.add_transfer(journal.begin_run("stage"), "r1", kept())
        Figures(service).count()
    assert total(of(service)) == 4


def test_damaged_sums_are_counted_anew(service, kept):  # noqa: F811
    """Of all that the journal has; nothing is refused for it."""
    with Journal(service.state) as journal:
        journal.add_transfer(journal.begin_run("stage"), "r1", kept())
    with service.database.writing() as database:
        keep_counted(database, COPIES, "{")
    Figures(service).count()
    assert total(of(service)) == 1


def test_without_a_journal_there_is_nothing_to_count(service):
    """Nor is one made."""
    Figures(service).count()
    assert not (service.state / "journal.sqlite3").exists()


def of(service) -> Counted:
    with service.database.reading() as database:
        text = counted(database, COPIES)
    assert text is not None
    return counted_of(text)
