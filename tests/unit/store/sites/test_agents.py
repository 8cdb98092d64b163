"""The agent's ledger and spool: each order once, each word until it is heard, whoever is killed or comes twice."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from flashferry.store.sites import ledger, spool
from flashferry.store.sites.agents import AgentDatabase, agent_name
from flashferry.store.sites.ledger import OrderState

AT = "2026-11-26T12:00:00.000Z"


@pytest.fixture
def database(tmp_path: Path) -> AgentDatabase:
    return AgentDatabase(tmp_path / "state")


def entered(database: AgentDatabase, order_id: str, work: str = "w", job: str = "stage") -> bool:
    with database.writing() as writing:
        return ledger.enter(writing, order_id=order_id, job=job, run="run-1", work=work, body="{}", at=AT)


def told(database: AgentDatabase, run: str = "run-1", data: str = "{}") -> int:
    with database.writing() as writing:
        return spool.add(writing, run=run, kind="event", at=AT, data=data)


def test_of_many_copies_of_an_order_at_once_one_is_new(database: AgentDatabase) -> None:
    """From as many threads as like."""
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: entered(database, "o1"), range(40))) == 1


def test_of_copies_in_several_processes_one_is_new(database: AgentDatabase) -> None:
    """Two workers that were given the same message do not both believe it theirs."""
    script = (
        "import sys; from pathlib import Path; from flashferry.store.sites import ledger; "
        "from flashferry.store.sites.agents import AgentDatabase\n"
        "database = AgentDatabase(Path(sys.argv[1]))\n"
        "with database.writing() as writing:\n"
        "    print(ledger.enter(writing, order_id='o1', job='stage', run='r', work='w', body='{}', at='x'))\n"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", script, str(database.directory)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert sorted(one.communicate()[0].strip() for one in started) == ["False", "False", "True"]


def test_an_order_is_through_once(database: AgentDatabase) -> None:
    """Whoever closes it second does not tell its end again."""
    entered(database, "o1")
    with database.writing() as writing:
        ledger.begin(writing, "o1")
        assert ledger.close(writing, "o1", OrderState.ENDED, {"exit_code": 0}, AT)
        assert not ledger.close(writing, "o1", OrderState.REFUSED, {}, AT)
    with database.reading() as reading:
        found = ledger.entry_of(reading, "o1")
        assert found is not None
        assert (found.state, found.answer, found.tries) == (OrderState.ENDED, {"exit_code": 0}, 1)
        assert ledger.unfinished(reading, ["stage"]) == []


def test_the_same_work_under_another_name_is_found_and_what_was_refused_is_none(database: AgentDatabase) -> None:
    """A part that was refused may be ordered again, set right."""
    entered(database, "o1", work="a")
    entered(database, "o2", work="a")
    with database.writing() as writing:
        assert ledger.first_of_work(writing, "a").id == "o1"
        ledger.close(writing, "o1", OrderState.REFUSED, {}, AT)
        assert ledger.first_of_work(writing, "a").id == "o2"
        assert ledger.first_of_work(writing, "b") is None


def test_unfinished_orders_come_in_the_order_in_which_they_were_given(database: AgentDatabase) -> None:
    """Those in hand when the agent was killed first; of other jobs none."""
    for name in ("o1", "o2", "o3"):
        entered(database, name)
    entered(database, "l1", job="look")
    with database.writing() as writing:
        ledger.begin(writing, "o1")
        ledger.close(writing, "o2", OrderState.ENDED, {}, AT)
    with database.reading() as reading:
        assert [one.id for one in ledger.unfinished(reading, ["stage", "sync"])] == ["o1", "o3"]


def test_offsets_of_a_run_have_no_gap_whoever_tells(database: AgentDatabase) -> None:
    """From several threads; each run has its own."""
    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(lambda _: told(database), range(40))) == list(range(1, 41))
    assert told(database, "run-2") == 1


def test_what_is_heard_goes_and_the_rest_is_sent_again(database: AgentDatabase) -> None:
    """Offsets go on where they were, also when all is heard; a number beyond what was said takes nothing of later."""
    for _ in range(3):
        told(database)
    with database.writing() as writing:
        assert spool.acknowledge(writing, "run-1", 2) == 2
        assert [one.offset for one in spool.waiting(writing, {})] == [3]
        assert spool.waiting(writing, {"run-1": 3}) == []
        assert spool.acknowledge(writing, "run-1", 99) == 1
        assert spool.acknowledge(writing, "run-9", 1) == 0
        assert spool.size(writing) == 0
    assert told(database) == 4
    with database.reading() as reading:
        assert [one.offset for one in spool.waiting(reading, {})] == [4]


def test_what_was_cut_off_in_a_transaction_is_told_again_once(database: AgentDatabase) -> None:
    """Words and how far the file was read stand or fall together."""
    with suppress(KeyboardInterrupt), database.writing() as writing:
        spool.add(writing, run="run-1", kind="event", at=AT, data="{}")
        spool.set_position(writing, "job", 100)
        raise KeyboardInterrupt
    with database.reading() as reading:
        assert (spool.position_of(reading, "job"), spool.size(reading)) == (0, 0)


def test_a_record_is_news_once(database: AgentDatabase) -> None:
    """And again when it changed."""
    with database.writing() as writing:
        assert [spool.is_news(writing, "o1", "r1", digest) for digest in ("a", "a", "b", "a")] == [
            True,
            False,
            True,
            True,
        ]
        spool.forget(writing, ("o1",), AT)
        assert spool.is_news(writing, "o1", "r1", "a")


def test_an_agent_keeps_its_name(database: AgentDatabase) -> None:
    """For its state folder; which site that was, too."""
    with database.writing() as writing:
        first = agent_name(writing, "ams")
    with AgentDatabase(database.directory).writing() as writing:
        assert agent_name(writing, "rtm") == first
    assert first[1] == "ams"


def test_what_nobody_hears_is_forgotten_with_its_orders(tmp_path: Path) -> None:
    """A centre that is gone for good does not fill the disk: words, offsets and tails of old parts go; others stay."""
    store = AgentDatabase(tmp_path)
    with store.writing() as database:
        for run, at in (("old", "2026-01-01T00:00:00.000Z"), ("new", "2026-03-01T00:00:00.000Z")):
            spool.add(database, run=run, kind="event", at=at, data="{}")
            spool.set_position(database, f"order-{run}", 7)
            spool.is_news(database, f"order-{run}", "r1", "digest")
        spool.forget(database, ("order-old",), "2026-02-01T00:00:00.000Z")
    with store.reading() as database:
        assert [one.run for one in spool.waiting(database, {})] == ["new"]
        assert [spool.position_of(database, f"order-{run}") for run in ("old", "new")] == [0, 7]
        assert [row["run"] for row in database.execute("SELECT run FROM offsets")] == ["new"]
        assert [row["job"] for row in database.execute("SELECT job FROM sent_records")] == ["order-new"]
