"""What stands between the broker's engine and a handler: messages that are none fill no log, and reach nobody."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from flashferry.sites.broker import in_words, unreachable
from flashferry.sites.celery_app import guarded


@pytest.mark.parametrize("message", [{"envelope": "x"}, 7, None])
def test_what_is_no_envelope_is_dropped_and_told_once(message: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever has the broker can send so much of it as he likes."""
    taken: list[str] = []
    task = guarded(taken.append)
    with caplog.at_level(logging.WARNING):
        for _ in range(300):
            task(message)
            task("an envelope", "and more")
    assert taken == []
    assert len(caplog.records) == 1
    task("an envelope")
    assert taken == ["an envelope"]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Error 111 connecting to r:6380. Connection refused.", "connection refused"),
        ("[Errno 111] Connection refused", "connection refused"),
        ("WRONGPASS invalid username-password pair", "WRONGPASS invalid username-password pair"),
        (
            "[SSL: CERTIFICATE_VERIFY_FAILED] not valid for 'r'. (_ssl.c:1006).",
            "[SSL: CERTIFICATE_VERIFY_FAILED] not valid for 'r'",
        ),
        ("", "OSError"),
    ],
)
def test_what_a_driver_says_is_told_without_its_source_and_its_last_dot(said: str, told: str) -> None:
    """It stands in a sentence of ours, which has a dot of its own."""
    assert in_words(OSError(said)) == told


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("certificate verify failed: self-signed (_ssl.c:1006).", "by an issuer that is trusted, found: self-signed"),
        ("certificate verify failed: not for 'r'. (_ssl.c:1006)", "by an issuer that is trusted, found: not for 'r'"),
        ("[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] x (_ssl.c:2580)", "it refuses: certificate required"),
        ("Connection refused.", "broker h:6380: expected it to answer, found: connection refused"),
    ],
)
def test_a_certificate_that_will_not_do_is_told_in_words(said: str, told: str) -> None:
    """Which end's it is, and what is wrong with it, by whatever OpenSSL says of it."""
    assert unreachable(OSError(said), "h:6380").message.endswith(told)
