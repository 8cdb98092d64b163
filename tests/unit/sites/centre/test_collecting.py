"""Words taken in: whose they are, what a beat and an answer tell, and what is dropped."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flashferry.sites.broker_settings import BrokerSettings
from flashferry.sites.centre.collecting import CANARIES, OTHERS, Collector, part_of_wire, wire_run
from flashferry.sites.centre.settings import CentreSettings, SiteSettings
from flashferry.sites.keys import PrivateKey
from flashferry.sites.wire import Word, WordKind, moment_text, sealed_word
from flashferry.store.database import moment
from flashferry.store.sites.agents import AgentState, agents_by_site
from flashferry.store.sites.database import SitesDatabase
from flashferry.store.sites.runs import Part, PartDevice, SiteRun, add_run
from flashferry.store.sites.words import devices_of

NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
AMS, LIM, STRANGER = PrivateKey.make(), PrivateKey.make(), PrivateKey.make()


class Ground:
    """A ledger with a run, and a collector whose clock is ours."""

    def __init__(self, folder: Path) -> None:
        self.ledger = SitesDatabase(folder)
        keys = {"ams": AMS, "lim": LIM}
        sites = {
            name: SiteSettings(name=name, agent_key=key.public, inventory_sites=frozenset({name}))
            for name, key in keys.items()
        }
        settings = CentreSettings(
            path=Path("sites.toml"),
            key=Path("k"),
            plans_folder=Path("p"),
            broker=BrokerSettings(url="redis://127.0.0.1/0"),
            sites=sites,
        )
        self.now = NOW
        self.collector = Collector(self.ledger, settings, clock=lambda: self.now)
        at = moment(NOW)
        parts = [
            Part(run="run-1", site=name, round=1, from_wave=0, agent=f"agent-{name}", changed_at=at) for name in keys
        ]
        devices = [PartDevice(host=f"{name}-r1", site=name, round=1, wave=0) for name in keys]
        with self.ledger.writing() as database:
            add_run(
                database, SiteRun(run="run-1", digest="d", plan="{}", started_at=at, valid_until=at), parts, devices
            )

    def hear(self, *words: str) -> None:
        self.collector.take(words)

    def agent(self, site: str = "ams") -> AgentState | None:
        with self.ledger.reading() as database:
            return agents_by_site(database).get(site)

    def recorded(self) -> set[str]:
        with self.ledger.reading() as database:
            return {one.host for one in devices_of(database, "run-1") if one.record}

    def why_dropped(self) -> list[str]:
        return [one.why for one in self.collector.dropped]


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def said(site: str, kind: WordKind, data: dict[str, Any] | None = None, *, key: PrivateKey = AMS, **more: Any) -> str:
    is_beat = kind is WordKind.BEAT
    usual: dict[str, Any] = {
        "agent": f"agent-{site}",
        "run": "" if is_beat else f"run-1.{site}",
        "offset": 0 if is_beat else 1,
        "at": moment_text(NOW),
        "release": "1.0.0",
    }
    return sealed_word(Word(site=site, kind=kind, data=data or {}, **{**usual, **more}), key)


def record(host: str) -> dict[str, Any]:
    return {"record": {"host": host, "state": "done", "outcome": "done", "seconds_by_step": {}}}


def test_a_word_of_a_sites_own_agent_counts(ground: Ground) -> None:
    """Signed by the key of the site that it is about: it is in the ledger, and its agent was heard."""
    ground.hear(said("ams", WordKind.BEAT), said("ams", WordKind.RECORD, record("ams-r1")))
    assert ground.recorded() == {"ams-r1"}
    assert ground.collector.dropped == {}


@pytest.mark.parametrize(
    ("envelope", "why"),
    [
        (lambda: said("ams", WordKind.RECORD, record("ams-r1"), key=STRANGER), "expected one signed by a key that is"),
        (lambda: said("ams", WordKind.RECORD, record("ams-r1"), key=LIM), "a word about ams by another site's agent"),
        (lambda: said("cuz", WordKind.RECORD, record("ams-r1")), "a word of a site that is not in the settings"),
        (lambda: said("ams", WordKind.RECORD, record("ams-r1"), agent="agent-x"), "of an agent to which this part was"),
        (
            lambda: said("ams", WordKind.RECORD, record("ams-r1"), run="run-2.ams"),
            "of a part that the centre did not give",
        ),
        (
            lambda: said("ams", WordKind.RECORD, record("ams-r1"), run="run-1.lim"),
            "of a part that the centre did not give",
        ),
        (lambda: "no envelope", "envelope: expected a JSON object"),
        (
            lambda: said("ams", WordKind.RECORD, record("ams-r1")).replace("ams-r1", "ams-r2"),
            "envelope: its signature is not that of key",
        ),
    ],
)
def test_what_is_nobodys_word_is_dropped_with_why(ground: Ground, envelope: Callable[[], str], why: str) -> None:
    """Signed by nobody known, by another site's agent, altered, of no part: nothing of it is in the ledger."""
    ground.hear(envelope())
    assert ground.recorded() == set()
    (told,) = ground.why_dropped()
    assert why in told


def test_what_is_dropped_hides_no_word_beside_it(ground: Ground) -> None:
    """Many words are taken together; one that is no word is nobody else's loss."""
    ground.hear("rubbish", said("ams", WordKind.RECORD, record("ams-r1")), "{}")
    assert ground.recorded() == {"ams-r1"}


def test_a_beat_tells_release_and_depot(ground: Ground) -> None:
    """What an agent says of itself; of its clock it tells nothing, for nobody knows how long it was under way."""
    ground.now = NOW + timedelta(seconds=20)
    ground.hear(said("ams", WordKind.BEAT, {"started_at": "then", "depot": [{"name": "image.bin"}, {"name": 7}]}))
    found = ground.agent()
    assert found is not None
    assert (found.agent, found.instance, found.release) == ("agent-ams", "then", "1.0.0")
    assert (found.clock_ahead_s, found.images) == (None, ("image.bin",))


FETCHING = {"image": "image.bin", "phase": "copying", "done_bytes": 430, "size_bytes": 1000}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (FETCHING, "image.bin: copying, 43%"),
        (FETCHING | {"done_bytes": 999}, "image.bin: copying, 99%"),
        (FETCHING | {"phase": "proving", "done_bytes": 5000}, "image.bin: proving, 100%"),
        (FETCHING | {"phase": "asking", "size_bytes": 0, "done_bytes": -1}, "image.bin: asking, 0%"),
        (FETCHING | {"image": 7}, None),
        (None, None),
    ],
)
def test_a_beat_tells_which_image_comes_into_the_depot(ground: Ground, told: object, words: str | None) -> None:
    """Its name and how far it is; the next beat takes it back once it is there."""
    ground.hear(said("ams", WordKind.BEAT, {"fetching": told}))
    found = ground.agent()
    assert found is not None
    assert (found.fetching.in_words if found.fetching else None) == words
    ground.hear(said("ams", WordKind.BEAT, {"fetching": None}, at=moment_text(NOW + timedelta(seconds=15))))
    found = ground.agent()
    assert found is not None
    assert found.fetching is None


def test_a_beat_of_a_time_to_come_proves_a_clock_that_is_ahead(ground: Ground) -> None:
    """Whatever its way took, it was said before it was heard."""
    ground.now = NOW - timedelta(seconds=40)
    ground.hear(said("ams", WordKind.BEAT))
    found = ground.agent()
    assert found is not None
    assert (found.clock_ahead_s, found.clock_off_s) == (40.0, 40.0)


@pytest.mark.parametrize("old", [timedelta(hours=3), timedelta(seconds=31)])
def test_a_beat_that_lay_somewhere_tells_when_its_agent_lived(ground: Ground, old: timedelta) -> None:
    """At the broker, or in the hands of somebody who sends it again: the agent was heard then, not now."""
    ground.hear(said("ams", WordKind.BEAT, at=moment_text(NOW - old)))
    found = ground.agent()
    assert found is not None
    assert (found.last_message_at, found.clock_ahead_s) == (moment(NOW - old), None)


def test_beats_that_are_played_again_keep_nobody_alive(ground: Ground) -> None:
    """The broker's owner has all of them: whichever he sends again, when it was heard last and what it has stay."""
    beats = [
        said("ams", WordKind.BEAT, {"started_at": start, "depot": [start]}, at=moment_text(NOW + timedelta(seconds=at)))
        for start, at in (("1", 0), ("1", 15), ("2", 25), ("2", 40))
    ]
    for number, one in enumerate(beats):
        ground.now = NOW + timedelta(seconds=(0, 15, 25, 40)[number])
        ground.hear(one)
    before = ground.agent()
    assert before is not None
    assert (before.last_message_at, before.instance, before.contested_at) == (moment(ground.now), "2", None)
    for seconds in (1, 10, 29, 3600):
        ground.now = NOW + timedelta(seconds=40 + seconds)
        ground.hear(*beats, *reversed(beats))
        assert ground.agent() == before
    assert ground.collector.taken["beat said again"] == 32


def test_a_word_of_a_part_that_is_played_again_keeps_nobody_alive(ground: Ground) -> None:
    """What an agent said an hour ago is no sign that it lives, though it may be news here."""
    ground.hear(said("ams", WordKind.BEAT), said("ams", WordKind.ACCEPTED))
    ground.now = NOW + timedelta(hours=1)
    ground.hear(said("ams", WordKind.ACCEPTED), said("ams", WordKind.RECORD, record("ams-r1"), offset=2))
    found = ground.agent()
    assert found is not None
    assert found.last_message_at == moment(NOW)
    assert ground.recorded() == {"ams-r1"}


@pytest.mark.parametrize(
    ("off_s", "took_s", "clock"),
    [
        (1.5, 3, (0.0, 1.5)),
        (0, 3, (-1.5, 1.5)),
        (-50, 3, (-51.5, 1.5)),
        (70, 3, (68.5, 1.5)),
        (5, 58, (-24.0, 29.0)),
        (5, 600, (None, None)),
        (0, -5, (None, None)),
    ],
)
def test_an_answer_tells_how_far_a_clock_is_off(
    ground: Ground, off_s: float, took_s: float, clock: tuple[float | None, float | None]
) -> None:
    """By half of the time that question and answer took, give or take as much; what waited long tells nothing."""
    ground.collector.ask("look-1")
    ground.now = NOW + timedelta(seconds=took_s)
    at = moment_text(NOW + timedelta(seconds=off_s))
    ground.hear(said("ams", WordKind.DEPOT, {"images": ["image.bin"]}, run="look-1", at=at))
    found = ground.agent()
    assert found is not None
    assert (found.last_message_at, found.images) == (moment(ground.now), ("image.bin",))
    assert (found.clock_ahead_s, found.clock_within_s) == clock
    assert ground.collector.answers() == {"ams": ("look-1", 1)}
    assert ground.collector.answers() == {}, "each answer is acknowledged once"


def test_an_answer_that_is_played_again_is_none(ground: Ground) -> None:
    """Its agent lived when it was heard first, and its clock was what it was then."""
    ground.collector.ask("look-1")
    answer = said("ams", WordKind.DEPOT, {"images": []}, run="look-1")
    ground.hear(answer)
    before = ground.agent()
    ground.now = NOW + timedelta(seconds=20)
    ground.hear(answer)
    assert ground.agent() == before


def test_an_answer_and_a_beat_are_of_one_agent(ground: Ground) -> None:
    """An answer that does not say of which process it is makes no second agent."""
    for number in range(2):
        ground.collector.ask(f"look-{number}")
        at = moment_text(NOW + timedelta(seconds=number))
        ground.hear(
            said("ams", WordKind.BEAT, {"started_at": "then"}, at=at),
            said("ams", WordKind.DEPOT, {"images": []}, run=f"look-{number}"),
        )
    found = ground.agent()
    assert found is not None
    assert (found.instance, found.contested_at) == ("then", None)


@pytest.mark.parametrize("number", [CANARIES, OTHERS])
@pytest.mark.parametrize("site", ["ams", "a.b", "canary", "x.canary"])
def test_a_parts_name_tells_its_run_and_round(site: str, number: int) -> None:
    """Whatever a site is called, the name of its part is read as it was written."""
    assert part_of_wire(wire_run("20261126-120000-ab12", site, number), site) == ("20261126-120000-ab12", number)


def test_a_parts_name_is_of_its_own_site_alone() -> None:
    """The name of another site's part names no run."""
    assert part_of_wire("run-1.lim", "ams")[0] == ""


def test_an_agent_cannot_speak_for_another_site_by_naming_two_keys(ground: Ground) -> None:
    """The signature is its own, whatever else stands in the envelope: the other site's part is as it was."""
    word = Word(
        agent="agent-ams",
        site="ams",
        run="run-1.ams",
        offset=1,
        kind=WordKind.RECORD,
        at=moment_text(NOW),
        release="0.1.0",
        data={"host": "ams-r1", "record": {"outcome": "done"}},
    )
    ground.hear('{"key":"' + AMS.public.key_id + '",' + sealed_word(word, LIM)[1:])
    assert ground.recorded() == set()
    assert len(ground.why_dropped()) == 1


def test_what_is_no_word_fills_neither_the_log_nor_the_memory(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever has the broker can send so much of it, each signed by another key, as he likes."""
    word = Word(
        agent="a", site="ams", run="", offset=0, kind=WordKind.BEAT, at=moment_text(NOW), release="0.1.0", data={}
    )
    for _ in range(60):
        ground.hear(*(sealed_word(word, PrivateKey.make()) for _ in range(10)))
    assert len(ground.collector.dropped) <= 200
    assert sum(ground.collector.dropped.values()) == 600
    assert len(caplog.records) <= 200
