"""The broker's module against a real Redis: delivery, its death and return, TLS with both ends proven, and secrets."""

from __future__ import annotations

import logging
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.lab.authority import Authority
from flashferry.sites.agent.presence import only_here
from flashferry.sites.broker import (
    CENTRE_QUEUE,
    ORDER_TASK,
    WORD_TASK,
    Broker,
    BrokerUnreachable,
    control_queue,
    site_queue,
)
from flashferry.sites.broker_settings import BrokerSettings
from tests.patience import PATIENCE_S, until
from tests.sites_ground import Redis, redis_in


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    with redis_in(tmp_path_factory.mktemp("redis")) as made:
        yield made


@contextmanager
def both(redis: Redis) -> Iterator[tuple[Broker, Broker]]:
    """Yield a centre's and an agent's end."""
    with (
        closing(Broker(redis.settings, owner="centre")) as centre,
        closing(Broker(redis.settings, owner="agent-ams")) as agent,
    ):
        yield centre, agent


def test_orders_and_words_arrive_and_are_not_kept(redis: Redis) -> None:
    """By both of a site's queues; acknowledged, nothing of them stays at the broker."""
    orders: list[str] = []
    words: list[str] = []
    with (
        both(redis) as (centre, agent),
        agent.worker([site_queue("ams"), control_queue("ams")], ORDER_TASK, orders.append),
        centre.worker([CENTRE_QUEUE], WORD_TASK, words.append),
    ):
        for number in range(20):
            centre.send_order("ams", f"order {number}", is_control=bool(number % 2))
            agent.send_word(f"word {number}")
        centre.send_order("rtm", "for another site")
        until(lambda: len(orders) == 20 and len(words) == 20, "all of it is there")
        assert sorted(set(orders)) == sorted(f"order {number}" for number in range(20))
        with centre.redis() as client:
            until(lambda: not client.hlen("flashferry.unacked.agent-ams"), "all is acknowledged")
            assert client.llen("site-rtm") == 1
            client.delete("site-rtm")


def test_what_a_handler_cannot_keep_comes_again_and_what_is_no_envelope_does_not(redis: Redis, caplog) -> None:
    """A full disk loses no order; another task, or other arguments, are dropped."""
    seen: list[str] = []

    def handle(envelope: str) -> None:
        seen.append(envelope)
        if len(seen) == 1:
            raise OSError(28, "No space left on device")

    with both(redis) as (centre, agent), agent.worker([site_queue("ams")], ORDER_TASK, handle):
        centre._send("os.system", site_queue("ams"), "true")
        centre.send_order("ams", "once more")
        until(lambda: len(seen) == 2, "it comes again")
    assert seen == ["once more"] * 2
    assert "could not be kept, it comes again: [Errno 28] No space left" in caplog.text


@pytest.mark.soak
def test_a_broker_that_dies_is_told_at_once_and_found_again(redis: Redis, caplog) -> None:
    """Who sends hears of it and keeps what he has; who reads goes on by himself when it is back."""
    seen: list[str] = []
    with both(redis) as (centre, agent), agent.worker([site_queue("ams")], ORDER_TASK, seen.append) as worker:
        assert worker.wait_ready(30)
        redis.kill()
        with pytest.raises(BrokerUnreachable, match="expected it to answer"):
            centre.send_order("ams", "lost")
        redis.start()
        until(lambda: _sent(centre, "back"), "it takes messages again")
        until(lambda: "back" in seen, "and they are read")
    assert "Traceback" not in caplog.text


def _sent(broker: Broker, envelope: str) -> bool:
    with suppress(BrokerUnreachable):
        broker.send_order("ams", envelope)
        return True
    return False


def test_a_state_folder_has_one_agent(tmp_path: Path) -> None:
    """The lock ends with the process, however that ends."""
    with only_here(tmp_path / "state"), pytest.raises(ConfigInvalid, match="another agent on this host"):  # noqa: SIM117
        with only_here(tmp_path / "state"):
            pass
    with only_here(tmp_path / "state"):
        pass


@dataclass(frozen=True)
class Guarded:
    """A Redis by TLS alone, which asks for certificates and a password."""

    settings: BrokerSettings
    stranger: Path


@pytest.fixture(scope="module")
def guarded(redis: Redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("tls")
    ours, strangers = Authority("Sites CA"), Authority("Somebody's CA")
    for name in ("server", "client", "stranger"):
        (folder / name).mkdir()
    server = ours.issue(folder / "server", ["127.0.0.1"])
    client = ours.issue(folder / "client", ["agent-ams"])
    other = strangers.issue(folder / "stranger", ["agent-ams"])
    (folder / "ca.pem").write_text(ours.pem)
    (folder / "strangers.pem").write_text(strangers.pem)
    (folder / "password").write_text("very&secret/word\n")
    (folder / "password").chmod(0o600)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "redis.conf"
    config.write_text(
        f"port 0\ntls-port {port}\nbind 127.0.0.1\ndir {folder}\nsave ''\ntls-cert-file {server.certificate}\n"
        f"tls-key-file {server.key}\ntls-ca-cert-file {folder / 'ca.pem'}\ntls-auth-clients yes\n"
        "user default off\nuser ams on >very&secret/word ~site-ams* ~centre* ~flashferry.* ~_kombu.* +@all -@admin\n"
    )
    with ExitStack() as stack:
        log = stack.enter_context((folder / "log").open("wb"))
        process = stack.enter_context(subprocess.Popen(["redis-server", str(config)], stdout=log, stderr=log))
        stack.callback(process.kill)
        until(lambda: _listens(port), (folder / "log").read_text() or "redis listens")
        yield Guarded(
            settings=BrokerSettings(
                url=f"rediss://127.0.0.1:{port}/0",
                user="ams",
                password_file=folder / "password",
                ca=folder / "ca.pem",
                certificate=client.certificate,
                key=client.key,
            ),
            stranger=other.certificate.parent,
        )


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S):
        return True
    return False


def test_both_ends_are_proven_and_the_password_is_told_nobody(guarded: Guarded, caplog) -> None:
    """By TLS with certificates of both, and a user with rights on its own keys alone."""
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []
    with closing(Broker(guarded.settings, owner="agent-ams")) as broker:
        with broker.worker([site_queue("ams")], ORDER_TASK, seen.append):
            broker.send_order("ams", "by TLS")
            until(lambda: seen == ["by TLS"], "it arrives")
        with pytest.raises(BrokerUnreachable, match=r"No permissions|NOPERM|permission"):
            broker.send_order("rtm", "for another site")
    assert "secret" not in caplog.text


@pytest.mark.soak
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("ca", "expected a certificate for its name in the URL, by an issuer that is trusted, found: self-signed"),
        ("certificate", "expected it to take our certificate, found that it"),
        ("none", "expected it to take our certificate, found that it"),
        ("name", "is trusted, found: Hostname mismatch, certificate is not valid for 'localhost'"),
        ("password", "expected it to answer, found: .*username-password"),
    ],
)
def test_whoever_is_not_proven_is_refused(guarded: Guarded, wrong: str, told: str, tmp_path: Path) -> None:
    """A broker of another authority or name, and a client of another, of none, or with another password."""
    settings = guarded.settings
    secret = tmp_path / "password"
    secret.write_text("guessed")
    secret.chmod(0o600)
    changed = {
        "ca": {"ca": guarded.stranger.parent / "strangers.pem"},
        "certificate": {"certificate": guarded.stranger / "server.pem", "key": guarded.stranger / "server.key"},
        "none": {"certificate": None, "key": None},
        "name": {"url": settings.url.replace("127.0.0.1", "localhost")},
        "password": {"password_file": secret},
    }[wrong]
    with closing(Broker(replace(settings, **changed), owner="agent-ams")) as broker:
        with pytest.raises(BrokerUnreachable, match=told) as caught:
            broker.send_order("ams", "x")
        assert "guessed" not in str(caught.value)
