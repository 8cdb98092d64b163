"""A provider, or a receiver of hooks, that never comes to an end: every other route answers, and the service ends."""

from __future__ import annotations

import itertools
import threading
import urllib.error
import urllib.request
from contextlib import suppress

import pytest

from tests.component.service.processes import running
from tests.patience import PATIENCE_S, until
from tests.unit.service.hooks.receivers import hostile_receiver

STRANGERS = 60


def answer_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize("drip", [b"", b"HTTP/1.1 200 OK\r\n"], ids=["hangs", "drips"])
def test_sign_ins_that_hang_hold_up_nothing_else(tmp_path, drip):
    """Sixty strangers ask for the provider; other routes answer while they wait, and SIGTERM ends the service."""
    answered: list[int] = []

    def stranger(url: str) -> None:
        with suppress(OSError):
            answered.append(answer_of(f"{url}/login/oidc"))

    with hostile_receiver(lambda: itertools.chain([drip], itertools.repeat(drip and b"a")), every_s=0.2) as provider:
        config = tmp_path / "service.toml"
        config.write_text(f'[oidc]\nissuer = "{provider.url}"\nclient_id = "c"\n')
        with running(tmp_path / "state", "--config", config) as service:
            for _ in range(STRANGERS):
                threading.Thread(target=stranger, args=(service.url,), daemon=True).start()
            until(lambda: provider.opened >= 8, "sign-ins that wait for the provider")
            for path in ("/healthz", "/readyz", "/login", "/api/v1/openapi.json"):
                assert answer_of(service.url + path) in (200, 401, 503)
            assert len(answered) < STRANGERS, "the sign-ins are still waiting"
            assert "Traceback" not in service.end()
            assert service.process.returncode == 0
