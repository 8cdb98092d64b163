"""Streams: all first, then what changed; what one may not see is not in them; events of a run from any offset."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import aclosing

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.jobs import JobFolder
from flashferry.monitor.event_log import event_line
from flashferry.monitor.events import Event
from flashferry.service.live.collect import SnapshotReader
from flashferry.service.live.stream import Place, Streams, tail
from flashferry.store.journal import Journal
from flashferry.store.service.jobs import Job, JobKind, JobState, add_job
from tests.patience import PATIENCE_S, until_async
from tests.unit.service.live.made import patched
from tests.unit.service.live.test_collect import AT, write
from tests.unit.store.test_status import touch


@pytest.fixture
def journal(service):
    with Journal(service.state) as made:
        yield made


def begin(service, journal, *hosts_at: tuple[str, str], job: bool = True) -> str:
    run_id = journal.begin_run("stage")
    for number, (host, site) in enumerate(hosts_at):
        journal.add_device(run_id, host=host, address=f"192.0.2.{number}", port=22, platform="ios", site=site)
    if job:
        JobFolder.of(service.state, f"job-{run_id}").make()
        made = Job(
            job_id=f"job-{run_id}", kind=JobKind.STAGE, state=JobState.RUNNING, run_id=run_id, words=("stage",),
            requested_by="system", via="system", created_at="2026-11-22T01:00:00.000Z",
        )  # fmt: skip
        with service.database.writing() as database:
            add_job(database, made)
    return run_id


def events_of(service, run_id: str):
    return JobFolder.of(service.state, f"job-{run_id}").events


def parsed(data: bytes) -> list[tuple[str, dict]]:
    found = []
    for block in data.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "data" in fields:
            found.append((fields.get("event", "message"), json.loads(fields["data"])))
    return found


async def heard(stream, count: int) -> list[tuple[str, dict]]:
    found: list[tuple[str, dict]] = []
    async with aclosing(stream) as parts:
        async for data in parts:
            found += parsed(data)
            if len(found) >= count:
                break
    return found


def streams(service, every_s: float = 0.02) -> Streams:
    looker = SnapshotReader(service)
    looker.FRESH_S = 0.0
    return Streams(looker, {}, every_s=every_s)


def test_all_first_and_then_what_changed(service, journal):
    """Put together it is what is."""
    run_id = begin(service, journal, ("r1", "AMS"))

    async def play():
        made = streams(service)
        async with aclosing(made.listen(None, (run_id,))) as parts:
            told: list[tuple[str, dict]] = []
            async for data in parts:
                told += parsed(data)
                if len(told) == 2:
                    journal.set_control(run_id, paused=True)
                if told and told[-1][1]["group"] == run_id and told[-1][0] == "news" and told[-1][1]["tables"]:
                    return told
        raise AssertionError

    told = asyncio.run(asyncio.wait_for(play(), PATIENCE_S))
    assert [(kind, one["group"]) for kind, one in told[:2]] == [("whole", "tonight"), ("whole", run_id)]
    board = told[1][1]["tables"]
    for kind, one in told[2:]:
        if one["group"] == run_id:
            assert kind == "news"
            board = patched(board, one["tables"])
    assert board["run"]["rows"]["run"]["state"] == ["paused", "warn", ""]


def test_one_who_read_too_slowly_is_told_all_again(service, journal):
    """Rather than what changed since a second that he did not hear."""
    begin(service, journal, ("r1", "AMS"))

    async def play():
        made = streams(service)
        async with aclosing(made.listen(None)) as slow, aclosing(made.listen(None)) as other:
            kinds = []
            async for data in slow:
                kinds += [kind for kind, _ in parsed(data)]
                if len(kinds) == 2:
                    return kinds
                for _ in range(5 if kinds else 0):
                    await anext(other)
        raise AssertionError

    assert asyncio.run(asyncio.wait_for(play(), PATIENCE_S)) == ["whole", "whole"]


def test_who_may_see_one_site_is_told_of_it_alone(service, journal):
    """Each sight is a board of its own."""
    run_id = begin(service, journal, ("r1", "AMS"), ("secret", "LIM"))
    told = asyncio.run(heard(streams(service).listen(frozenset({"AMS"}), (run_id,)), 2))
    text = json.dumps(told)
    assert "AMS" in text
    assert "LIM" not in text
    assert "secret" not in text


def test_nothing_is_looked_at_while_nobody_listens(service):
    """The last one out ends the clock."""

    async def play():
        made = streams(service)
        await heard(made.listen(None), 1)
        assert made.listeners == 0
        await until_async(made._clock.done, "the clock ends")

    asyncio.run(play())


def test_streams_end_with_the_service(service):
    """And within their life, so that who was put out is not told for ever."""

    async def play(stream):
        return [data async for data in stream]

    stopping = threading.Event()
    looker = SnapshotReader(service)
    made = Streams(looker, {}, stopping=stopping, every_s=0.02)
    # How much it tells within its life is the machine's affair; that it ends is ours.
    assert asyncio.run(asyncio.wait_for(play(made.listen(None, life_s=0.1)), PATIENCE_S))[0] == b"retry: 1000\n\n"
    stopping.set()
    assert asyncio.run(asyncio.wait_for(play(made.listen(None)), PATIENCE_S)) == [b"retry: 1000\n\n"]


def test_the_end_of_the_service_waits_for_no_turn(service):
    """A stream whose next look is a minute away ends at once."""

    async def play():
        stopping = threading.Event()
        made = Streams(SnapshotReader(service), {}, stopping=stopping, every_s=60.0)
        listening = made.listen(None)
        heard = [await anext(listening), await anext(listening)]
        last = asyncio.create_task(anext(listening, b"over"))
        await asyncio.sleep(0)
        stopping.set()
        made.end()
        return [*heard, await asyncio.wait_for(last, PATIENCE_S)]

    assert asyncio.run(play())[-1] == b"over"


def test_a_journal_that_cannot_be_read_is_told_with_its_age(service, monkeypatch):
    """What was known stays, and is called old."""
    looker = SnapshotReader(service)
    looker.FRESH_S = 0.0
    good = looker.read()

    def fails():
        raise ConfigInvalid("the journal in x cannot be read: no", hint="Check")

    monkeypatch.setattr(looker._status, "read", fails)
    bad = looker.read()
    assert bad.trouble == "the live state cannot be read: the journal in x cannot be read: no. Check"
    assert bad.read_at == good.at


def test_a_run_that_is_over_is_put_together_once(service, journal):
    """A hundred nights stand on the page of runs, and one of them moves."""
    over, alive = begin(service, journal, ("r1", "AMS")), begin(service, journal, ("r1", "AMS"))
    journal.finish_run(over)
    looker = SnapshotReader(service)
    looker.FRESH_S = 0.0
    before, after = looker.read(), looker.read()
    assert after.run(over) is before.run(over)
    assert after.run(alive) is not before.run(alive)
    assert [one.run_id for one in looker.statuses(1)] == [alive]


def test_what_is_asked_within_a_second_is_looked_at_once(service):
    """However many pages ask."""
    looker = SnapshotReader(service)
    assert looker.read() is looker.read()


def test_what_is_over_is_read_once(service, journal, monkeypatch):
    """A hundred old runs cost nothing each second; one that holds a device is read each time."""
    held, over = begin(service, journal, ("r1", "AMS")), begin(service, journal, ("r2", "AMS"))
    touch(journal, held, "r1")
    journal.finish_run(held)
    journal.finish_run(over)
    looker = SnapshotReader(service)
    looker.FRESH_S = 0.0
    looker.read()
    from flashferry.store import status

    read: list[str] = []
    real = status._run_status
    monkeypatch.setattr(status, "_run_status", lambda *args: read.append(args[2].run_id) or real(*args))
    assert {one.run_id for one in looker.read().runs} == {held, over}
    assert read == [held]


# The events of a run.


def rows_of(messages, group: str) -> list[str]:
    (tables,) = [data["tables"] for kind, data in messages if kind == "whole" and data["group"] == group]
    return tables["devices"]["order"]


@pytest.mark.parametrize(
    ("query", "hosts"),
    [
        ("", [f"r{number:04d}" for number in range(100)]),
        ("page=2", [f"r{number:04d}" for number in range(100, 200)]),
        ("sort=-device&page=3", [f"r{number:04d}" for number in range(49, -1, -1)]),
        ("q=r0007+ams&state=all", ["r0007"]),
        ("host=r0011", ["r0011"]),
        ("page=x&sort=none&state=odd", [f"r{number:04d}" for number in range(100)]),
    ],
)
def test_a_stream_of_a_page_has_the_devices_of_that_page(service, journal, query, hosts):
    """As the page itself shows them, whatever its query says; and how many are listed."""
    run_id = begin(service, journal, *((f"r{number:04d}", "AMS") for number in range(250)))
    found = asyncio.run(heard(streams(service).listen(None, (f"{run_id}?{query}",)), 2))
    assert rows_of(found, f"{run_id}?{query}") == hosts


def test_an_update_of_a_page_is_small_whatever_the_fleet_is(service, journal):
    """2,000 devices: a page's rows are a twentieth of all, and so are the bytes."""
    run_id = begin(service, journal, *((f"ams-branch-r{number:04d}", f"S{number % 40:02d}") for number in range(2000)))
    every, page = (
        sum(len(json.dumps(data)) for _, data in asyncio.run(heard(streams(service).listen(None, (name,)), 2)))
        for name in (run_id, f"{run_id}?")
    )
    assert page < every / 10


async def told_by(looker, run_id, place, sites=None) -> list[tuple[str, str]]:
    """Return id and data of all that is told until the run's end."""
    found = []
    async with aclosing(tail(looker, run_id, place, sites, stopping=threading.Event(), life_s=5)) as parts:
        async for data in parts:
            for block in data.decode().split("\n\n"):
                fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
                if "id" in fields:
                    found.append((fields["id"], fields["data"]))
    return found


@pytest.fixture
def ended(service, journal):
    """Return a looker and a run that is over, with six events; the third half is not one."""
    run_id = begin(service, journal, ("r1", "AMS"), ("r2", "LIM"))
    for number in range(6):
        write(
            events_of(service, run_id),
            Event(
                host=f"r{number % 2 + 1}",
                step="check",
                status="done",
                text="ok",
                at_s=number,
                site=("AMS", "LIM")[number % 2],
            ),
        )
    journal.finish_run(run_id)
    with events_of(service, run_id).open("ab") as file:
        file.write(b'{"half')
    return SnapshotReader(service), run_id


def test_events_go_on_behind_the_last_one_that_was_heard(ended):
    """From each event, by its id: without gap or repeat, half lines never."""
    looker, run_id = ended
    everything = asyncio.run(told_by(looker, run_id, Place()))
    assert [json.loads(data)["at_s"] for _, data in everything] == [0, 1, 2, 3, 4, 5]
    for number, (event_id, _) in enumerate(everything):
        assert asyncio.run(told_by(looker, run_id, Place.of(event_id, 0))) == everything[number + 1 :]


def test_events_go_on_at_each_offset(ended, service):
    """In the middle of a line, that line is told whole."""
    looker, run_id = ended
    size = events_of(service, run_id).stat().st_size
    line = len(
        event_line(Event(host="r1", step="check", status="done", text="ok", at_s=0, site="AMS"), run_id="run", at=AT)
    )
    for offset in (1, line - 1, line, line + 1, size - 7, size, size + 1000):
        told = asyncio.run(told_by(looker, run_id, Place.of(None, offset)))
        assert len(told) == max(0, 6 - offset // line)


def test_the_events_of_another_file_are_told_from_their_beginning(ended, service):
    """A run that was gone on with writes another one."""
    looker, run_id = ended
    (last, _) = asyncio.run(told_by(looker, run_id, Place()))[-1]
    path = events_of(service, run_id)
    other = path.with_name("other")
    write(other, Event(host="r1", step="check", status="done", text="new", at_s=9, site="AMS"))
    other.rename(path)
    assert [json.loads(data)["text"] for _, data in asyncio.run(told_by(looker, run_id, Place.of(last, 0)))] == ["new"]


def test_events_of_other_sites_are_not_told(ended):
    """What concerns the run itself is."""
    looker, run_id = ended
    told = asyncio.run(told_by(looker, run_id, Place(), frozenset({"LIM"})))
    assert {json.loads(data)["site"] for _, data in told} == {"LIM"}
    assert len(told) == 3


@pytest.mark.parametrize("event_id", ["", "x", "-", "a-b", "\u0663", "1" * 40])
def test_an_id_that_is_none_of_ours_begins_where_was_asked(event_id):
    """And breaks nothing."""
    assert Place.of(event_id, 12) == Place(offset=12)
