"""The centre's ledger: words taken once, in whatever order, and only from whom a part was given to."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.store.control_requests import Asker
from flashferry.store.database import moment
from flashferry.store.sites.agents import AgentBeat, agents_by_site, take_beat, take_depot
from flashferry.store.sites.database import FILE, SitesDatabase
from flashferry.store.sites.runs import (
    KeptOrder,
    Part,
    PartDevice,
    PartState,
    SiteRun,
    add_orders,
    add_run,
    add_steer_request,
    end_held,
    end_run,
    open_parts_at,
    open_runs,
    orders_to_send,
    part_of,
    steer_requests_of,
)
from flashferry.store.sites.words import PartWord, Taken, devices_of, news_of, outcomes_of, received_of, take_word
from flashferry.store.upkeep import DATABASES

AT = "2026-11-26T12:00:00.000Z"
RUN = SiteRun(run="run-1", digest="d" * 64, plan="{}", started_at=AT, valid_until=AT)


def part_at(site: str, run: str = "run-1") -> Part:
    return Part(run=run, site=site, round=1, from_wave=0, agent=f"agent-{site}", changed_at=AT)


def begun(ledger: SitesDatabase) -> None:
    parts = [part_at(site) for site in ("ams", "lim")]
    devices = [
        PartDevice(host=f"{site}-r{number}", site=site, round=1, wave=0) for site in ("ams", "lim") for number in (1, 2)
    ]
    with ledger.writing() as database:
        add_run(database, RUN, parts, devices)


@pytest.fixture
def ledger(tmp_path: Path) -> SitesDatabase:
    made = SitesDatabase(tmp_path)
    begun(made)
    return made


def word(offset: int, kind: str, data: dict[str, Any] | None = None, **more: str) -> PartWord:
    usual = {"run": "run-1", "site": "ams", "agent": "agent-ams", "at": AT}
    return PartWord(**{**usual, **more}, round=1, offset=offset, kind=kind, data=data or {})  # type: ignore[arg-type]


def take(ledger: SitesDatabase, *words: PartWord) -> list[Taken]:
    found = []
    for one in words:
        with ledger.writing() as database:
            found.append(take_word(database, one, at=AT))
    return found


@contextmanager
def look(ledger: SitesDatabase) -> Iterator[sqlite3.Connection]:
    with ledger.reading() as database:
        yield database


def record(host: str, outcome: str) -> dict[str, Any]:
    return {"record": {"host": host, "outcome": outcome, "seconds_by_step": {}}}


def event(host: str | None, status: str, text: str = "x") -> dict[str, Any]:
    return {"host": host, "step": "pull", "status": status, "text": text, "at_s": 1.0}


WORDS = (
    word(1, "accepted", {"order": "order-1"}),
    word(2, "event", {"events": [event("ams-r1", "started"), event("ams-r1", "progress")]}),
    word(3, "record", record("ams-r1", "failed")),
    word(4, "event", {"events": [event("ams-r1", "retry"), event("ams-r1", "done")]}),
    word(5, "record", record("ams-r1", "done")),
    word(6, "record", record("ams-r2", "done")),
    word(7, "ended", {"exit_code": 0, "interrupted": False}),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations([*WORDS, *WORDS[:3], WORDS[6]]))
def test_in_whatever_order_and_however_often_the_end_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, arrivals: list[PartWord]
) -> None:
    """Records complete and none twice: the last record of each device, all events once, the part over."""
    ledger = SitesDatabase(tmp_path_factory.mktemp("ledger"))
    begun(ledger)
    taken = take(ledger, *arrivals)
    assert taken.count(Taken.NEWS) == len(WORDS)
    assert taken.count(Taken.REPEAT) == len(arrivals) - len(WORDS)
    with look(ledger) as database:
        part = part_of(database, "run-1", "ams", 1)
        found = {one.host: one.record.get("outcome") for one in devices_of(database, "run-1")}
        lines = [line["status"] for _, line in news_of(database, "run-1").lines]
    assert part is not None
    assert (part.state, part.whole, part.end_offset, part.is_over) == (PartState.ENDED, 7, 7, True)
    assert found == {"ams-r1": "done", "ams-r2": "done", "lim-r1": None, "lim-r2": None}
    assert sorted(lines) == ["done", "retry", "started"]


def test_a_part_is_not_over_while_a_word_before_its_last_is_missing(ledger: SitesDatabase) -> None:
    """The last word alone ends nothing: the gap is known, and closed by what was missing."""
    take(ledger, *WORDS[:3], *WORDS[4:])
    with look(ledger) as database:
        part = part_of(database, "run-1", "ams", 1)
        assert part is not None
        assert part.state is PartState.ENDED
        assert not part.is_over
        heard = received_of(database, part)
    assert (heard.whole, heard.early, heard.has_gap) == (3, {5, 6, 7}, True)
    take(ledger, WORDS[3])
    with look(ledger) as database:
        part = part_of(database, "run-1", "ams", 1)
    assert part is not None
    assert part.is_over


def test_words_of_another_agent_or_of_no_part_count_for_nothing(ledger: SitesDatabase) -> None:
    """Only the agent that a part was given to may speak of it."""
    strangers = (
        word(1, "record", record("ams-r1", "done"), agent="agent-x"),
        word(1, "record", record("ams-r1", "done"), run="run-2"),
        word(1, "record", record("ams-r1", "done"), site="cuz"),
    )
    assert take(ledger, *strangers) == [Taken.OTHER_AGENT, Taken.UNKNOWN_PART, Taken.UNKNOWN_PART]
    with look(ledger) as database:
        assert not any(one.record for one in devices_of(database, "run-1"))


def test_an_agent_tells_of_no_device_of_another_site(ledger: SitesDatabase) -> None:
    """A record of a device that was not given to a site is left out, whatever its agent says."""
    take(ledger, word(1, "record", record("lim-r1", "done")), word(2, "record", {"record": "nonsense"}))
    with look(ledger) as database:
        assert not any(one.record for one in devices_of(database, "run-1"))


def test_a_refusal_stays_with_its_sentence_and_what_to_do(ledger: SitesDatabase) -> None:
    """A site that refuses its part is over; a later repeat of the acceptance does not take that back."""
    take(ledger, word(1, "refused", {"order": "o", "sentence": "the image is not proven here", "hint": "Sync it"}))
    take(ledger, word(2, "accepted", {}))
    with look(ledger) as database:
        part = part_of(database, "run-1", "ams", 1)
    assert part is not None
    assert (part.state, part.sentence) == (PartState.REFUSED, "the image is not proven here. Sync it")
    assert part.is_over


def test_a_refused_pause_is_told_and_refuses_no_part(ledger: SitesDatabase) -> None:
    """What was refused is the order that the word names."""
    take(ledger, word(1, "accepted"), word(2, "refused", {"job": "pause", "sentence": "it has ended"}))
    with look(ledger) as database:
        part = part_of(database, "run-1", "ams", 1)
        told = [line["text"] for _, line in news_of(database, "run-1").lines]
    assert part is not None
    assert part.state is PartState.ACCEPTED
    assert told == ["ams: pause refused: it has ended"]


def test_of_progress_the_latest_alone_is_kept_and_told_once(ledger: SitesDatabase) -> None:
    """Many words of progress leave one line for each device; who has seen it is not told again."""
    for offset in range(1, 6):
        take(ledger, word(offset, "event", {"events": [event("ams-r1", "progress", str(offset))]}))
    with look(ledger) as database:
        first = news_of(database, "run-1")
        again = news_of(database, "run-1", event_seq=first.event_seq, changed=first.changed)
    assert [line["text"] for _, line in first.lines] == ["5"]
    assert again.lines == ()


def test_an_order_is_sent_until_its_agent_has_it(ledger: SitesDatabase) -> None:
    """A word that names an order takes it off the list."""
    kept = [
        KeptOrder(
            order_id=f"order-{number}", run="run-1", site="ams", round=1, job="stage", valid_from=AT, valid_until=AT
        )
        for number in (1, 2)
    ]
    with ledger.writing() as database:
        add_orders(database, kept)
    take(ledger, word(1, "accepted", {"order": "order-1"}))
    with look(ledger) as database:
        assert [one.order_id for one in orders_to_send(database, "run-1")] == ["order-2"]


def test_a_device_is_in_one_part_alone(ledger: SitesDatabase) -> None:
    """The tables themselves refuse a device twice in a run."""
    with pytest.raises(sqlite3.IntegrityError), ledger.writing() as database:
        add_run(
            database,
            SiteRun(run="run-2", digest="d", plan="{}", started_at=AT, valid_until=AT),
            [part_at(site, "run-2") for site in ("ams", "lim")],
            [PartDevice(host="r1", site=site, round=1, wave=0) for site in ("ams", "lim")],
        )


def test_wishes_are_kept_with_who_and_when(ledger: SitesDatabase) -> None:
    """Who wanted what of which site, and why."""
    with ledger.writing() as database:
        add_steer_request(
            database, "run-1", "pause", Asker(actor="ann", via="command-line", reason="link"), at=AT, site="ams"
        )
    with look(ledger) as database:
        ((site, wish),) = steer_requests_of(database, "run-1")
    assert (site, wish.actor, wish.what, wish.reason, wish.at) == ("ams", "ann", "pause", "link", AT)


def test_what_has_ended_is_open_no_more(ledger: SitesDatabase) -> None:
    """Runs and parts that are over are not among the open ones."""
    with look(ledger) as database:
        assert open_runs(database) == ["run-1"]
        assert [part.run for part in open_parts_at(database, "ams")] == ["run-1"]
    take(ledger, *WORDS)
    with ledger.writing() as database:
        end_run(database, "run-1", at=AT)
    with look(ledger) as database:
        assert open_runs(database) == []
        assert open_parts_at(database, "ams") == []


def beat(ledger: SitesDatabase, agent: str, instance: str, at: str = AT) -> None:
    with ledger.writing() as database:
        take_beat(
            database,
            AgentBeat(
                site="ams", agent=agent, instance=instance, release="1.0.0", last_message_at=at, clock_ahead_s=1.5
            ),
        )


def later(seconds: float) -> str:
    return moment(datetime.fromisoformat(AT) + timedelta(seconds=seconds))


def test_an_agent_that_was_started_anew_is_alone(ledger: SitesDatabase) -> None:
    """Another process of the same agent takes the place of the one before."""
    for second, instance in enumerate(("1", "1", "2", "2")):
        beat(ledger, "agent-ams", instance, later(second))
    with ledger.writing() as database:
        take_depot(database, "ams", ["image.bin"])
    with look(ledger) as database:
        found = agents_by_site(database)["ams"]
    assert (found.agent, found.instance, found.contested_at) == ("agent-ams", "2", None)
    assert (found.images, found.clock_ahead_s) == (("image.bin",), 1.5)


def test_two_that_speak_by_turns_are_told(ledger: SitesDatabase) -> None:
    """The one before the last speaks again: both are there."""
    for second, name in enumerate(("agent-ams", "agent-x", "agent-ams")):
        beat(ledger, name, "1", later(second))
    with look(ledger) as database:
        found = agents_by_site(database)["ams"]
    assert (found.other, found.contested_at) == ("agent-x 1", later(2))


def test_the_ledger_is_looked_after_with_the_other_databases() -> None:
    """`state backup` and `state check` know it."""
    assert FILE in DATABASES


def test_a_damaged_ledger_is_told_with_its_path(tmp_path: Path) -> None:
    """What is no database is refused in a sentence that says what is untouched."""
    (tmp_path / FILE).write_bytes(b"no database at all, but long enough to look like one" * 40)
    (tmp_path / FILE).chmod(0o600)
    tmp_path.chmod(0o700)
    with pytest.raises(ConfigInvalid, match=r"the ledger of sites .*sites\.sqlite3 is damaged") as caught:
        SitesDatabase(tmp_path)
    assert "what sites have in hand goes on there" in str(caught.value)


def kept(order_id: str, job: str) -> KeptOrder:
    return KeptOrder(order_id=order_id, run="run-1", site="ams", round=1, job=job, valid_from=AT, valid_until=AT)


def refused(offset: int, order_id: str, job: str) -> PartWord:
    return word(offset, "refused", {"order": order_id, "job": job, "sentence": "its run has not begun"})


def test_what_came_too_early_is_sent_again_later_under_another_name(ledger: SitesDatabase) -> None:
    """An agent knows a refused order by its name: the same wish goes out anew, and only the last one of several."""
    with ledger.writing() as database:
        add_orders(database, [kept("order-1", "pause"), kept("order-2", "continue")])
    take(ledger, word(1, "accepted"), refused(2, "order-1", "pause"), refused(3, "order-2", "continue"))
    with look(ledger) as database:
        (again,) = orders_to_send(database, "run-1")
        told = [line["text"] for _, line in news_of(database, "run-1").lines]
    assert (again.order_id, again.job, again.valid_from > AT) == ("order-2.1", "continue", True)
    assert told == ["ams: pause refused: its run has not begun"]


def test_what_is_held_is_given_once_or_ended_without_a_word(ledger: SitesDatabase) -> None:
    """A part that is held and never given is over at once, with why."""
    held = replace(part_at("cuz"), round=1, state=PartState.HELD)
    with ledger.writing() as database:
        add_run(database, replace(RUN, run="run-3"), [replace(held, run="run-3")], [])
        end_held(database, "run-3", "not given: canaries failed", at=AT)
        found = part_of(database, "run-3", "cuz", 1)
    assert found is not None
    assert (found.state, found.sentence, found.is_over) == (PartState.ENDED, "not given: canaries failed", True)


def test_a_record_of_a_device_under_way_counts_when_it_has_ended(ledger: SitesDatabase) -> None:
    """What became of a device so far opens no gate: its record counts when it, or its part, is through."""
    early = {"record": {"host": "ams-r1", "state": "restored", "outcome": "error"}}
    late = {"record": {"host": "ams-r1", "state": "done", "outcome": "done"}}
    take(ledger, word(1, "record", early))
    with look(ledger) as database:
        assert outcomes_of(database, "run-1")[0].outcome is None
    take(ledger, word(2, "record", late))
    with look(ledger) as database:
        assert outcomes_of(database, "run-1")[0].outcome == "done"


def test_a_device_of_a_part_that_is_over_without_a_record_is_an_error(ledger: SitesDatabase) -> None:
    """A canary whose site refused its part is not good: nobody can tell."""
    take(ledger, word(1, "refused", {"job": "stage", "sentence": "no"}))
    with look(ledger) as database:
        assert [one.outcome for one in outcomes_of(database, "run-1")] == ["error", "error", None, None]
