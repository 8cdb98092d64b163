"""The claim on a site against a real Redis: who ends, who stays, and what whoever has the broker can do with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.sites.agent.presence import CLAIM_SCHEMA, Claim, Claimed, place_of
from flashferry.sites.agent.word_sender import Identity
from flashferry.sites.broker import Broker, BrokerUnreachable
from flashferry.sites.keys import PrivateKey
from flashferry.sites.wire import WireError, opened, sealed_word
from tests.sites_ground import Redis, redis_in
from tests.unit.sites.test_wire import WORD

KEY, OTHER = PrivateKey.make(), PrivateKey.make()
WORKS_KEY = "flashferry.agent.fra"


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    with redis_in(tmp_path_factory.mktemp("redis")) as made:
        yield made


class Site:
    """Agents that claim one site, by a clock of the test's own, and somebody who has the broker."""

    def __init__(self, redis: Redis, broker: Broker) -> None:
        self.redis, self.broker, self.now = redis, broker, datetime.now(UTC)
        self.began = self.now

    def agent(self, place: str = "here", key: PrivateKey = KEY, behind_s: float = 0.0) -> Claim:
        """Return an agent's claim, not made yet."""
        identity = Identity(agent="agent-1", site="fra", release="1.2.3", key=key)
        return Claim(
            self.broker,
            identity,
            place=place,
            beat_s=1,
            now=lambda: self.now - timedelta(seconds=behind_s),
            steady_s=self.steady_s,
        )

    def steady_s(self) -> float:
        return (self.now - self.began).total_seconds()

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    @property
    def value(self) -> Any:
        """What stands at the broker."""
        with self.broker.redis() as client:
            return client.get(WORKS_KEY)

    def put(self, value: Any) -> None:
        """Put something there, as whoever has the broker can."""
        with self.broker.redis() as client:
            client.set(WORKS_KEY, value)

    def is_by(self, key: PrivateKey = KEY) -> bool:
        """Return whether the claim that stands there is by a key."""
        try:
            return opened(self.value.decode(), CLAIM_SCHEMA, Claimed, (key.public,)).site == "fra"
        except WireError:
            return False


@pytest.fixture
def site(redis: Redis) -> Iterator[Site]:
    with closing(Broker(redis.settings, owner="agent-fra")) as broker:
        with broker.redis() as client:
            client.delete(WORKS_KEY)
        yield Site(redis, broker)


def test_the_first_has_the_site_and_a_clone_of_it_ends(site: Site) -> None:
    """It is told on which host the other is; the first goes on, and once it has given the site up another may come."""
    first, clone = site.agent(), site.agent("a copy")
    assert first.renew()
    assert not clone.renew()
    site.later(1)
    assert first.renew()
    with pytest.raises(ConfigInvalid, match=r"a copy of this agent works for it on host .*one device belongs to"):
        clone.renew()
    assert first.renew()
    first.release()
    assert site.agent("a copy").renew()


def test_the_same_agent_takes_its_site_over_at_once_from_a_process_that_was_killed(site: Site) -> None:
    """The lock of the state folder says that it is dead; what it claimed is never obeyed, whoever puts it back."""
    killed, again = site.agent(), site.agent()
    assert killed.renew()
    before = site.value
    assert again.renew()
    for _ in range(3):
        site.put(before)
        assert again.renew()
        site.later(1)


def test_a_clone_that_is_dead_is_waited_for_and_then_taken_over(site: Site) -> None:
    """A host that was restarted within a minute of its last beat: until its claim would have ended."""
    dead, restarted = site.agent("before the restart"), site.agent("behind it")
    assert dead.renew()
    assert not restarted.renew()
    site.later(restarted.ends_after_s - 1)
    assert not restarted.renew()
    site.later(1)
    assert restarted.renew()


@pytest.mark.parametrize("is_first_behind", [False, True])
def test_of_two_that_both_have_it_the_later_ends(site: Site, is_first_behind: bool) -> None:
    """One whose line to the broker was cut comes back: exactly one of both ends, whatever their clocks say."""
    first, second = site.agent("one", behind_s=5.0 * is_first_behind), site.agent("two")
    first.renew()
    site.put("gone")
    site.later(1)
    second.renew()
    ended = []
    for _ in range(4):
        for one in (first, second):
            site.later(1)
            if one in ended:
                continue
            try:
                assert one.renew()
            except ConfigInvalid:
                ended.append(one)
    assert ended == [second]


@pytest.mark.parametrize(
    "forged",
    [
        b"agent-2/0123456789abcdef",
        b"\xff\xfe",
        b"",
        b"{}",
        lambda value: value.replace(b"agent-1", b"agent-2"),
        lambda value: value.replace(KEY.public.key_id.encode(), OTHER.public.key_id.encode()),
    ],
)
def test_a_claim_that_is_not_signed_by_our_key_is_told_and_overwritten(
    site: Site, forged: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Before we had it, and behind that: whoever has the broker ends no agent."""
    ours = site.agent()
    for _ in range(3):
        made = forged(site.value or b"agent-1") if callable(forged) else forged
        site.put(made)
        assert ours.renew()
        assert site.is_by(KEY)
        site.later(1)
    assert caplog.text.count("the claim at the broker was overwritten: it is not by this agent's key") == 1


def test_an_agent_with_another_key_ends_nobody(site: Site) -> None:
    """It says what it likes under a key of its own; whose orders are carried out stands in the orders."""
    ours, other = site.agent(), site.agent("elsewhere", OTHER)
    for _ in range(3):
        assert ours.renew()
        assert other.renew()
        assert site.is_by(OTHER)


def test_something_else_that_our_key_signed_is_no_claim(site: Site) -> None:
    """A word of ours, which everybody at the broker has read."""
    site.put(sealed_word(WORD, KEY))
    assert site.agent().renew()


def test_old_claims_of_ours_that_are_put_back_end_nobody(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Of before the host was restarted, one behind the other as they were: by their time they are dead."""
    before = site.agent("before the restart")
    old = []
    for _ in range(3):
        before.renew()
        old.append(site.value)
        site.later(1)
    site.later(120)
    before.release()
    ours = site.agent("behind it")
    for value in (*old, *old):
        assert ours.renew()
        site.later(1)
        site.put(value)
    assert ours.renew()
    assert "it is an old one of this agent's" in caplog.text


def test_one_old_claim_put_back_again_and_again_keeps_nobody_off_for_good(site: Site) -> None:
    """However fresh it is: nobody renews it."""
    site.agent("before the restart").renew()
    value = site.value
    ours = site.agent("behind it")
    for _ in range(12):
        if ours.renew():
            break
        site.put(value)
        site.later(3)
    else:
        pytest.fail("it never has the site")
    site.put(value)
    assert ours.renew()


def test_beats_and_claims_go_by_the_same_connections(site: Site) -> None:
    """No handshake of TLS for each beat; what broke is made anew by itself."""
    ours = site.agent()
    ours.renew()
    site.broker.send_word("x")

    def connections() -> int:
        with site.broker.redis() as client:
            return int(client.info("stats")["total_connections_received"])

    before = connections()
    for _ in range(20):
        assert ours.renew()
        site.broker.send_word("x")
        site.broker.waiting_words()
    assert connections() == before
    with site.broker.redis() as client:
        client.delete("centre")
        client.client_kill_filter(_type="normal", skipme=False)
    assert eventually(ours)
    assert connections() > before


def eventually(claim: Claim) -> bool:
    """Renew a claim by a connection that was broken: the next try has another."""
    for _ in range(3):
        try:
            return claim.renew()
        except BrokerUnreachable:
            continue
    return False


def test_a_place_is_a_state_folder_on_a_running_system(tmp_path: Path) -> None:
    """The same as long as it is that folder; a copy of it is another one."""
    first, copy = tmp_path / "state", tmp_path / "copy"
    first.mkdir()
    copy.mkdir()
    assert place_of(first) == place_of(first)
    assert place_of(first) != place_of(copy)
