"""A provider, or a receiver of hooks, that never comes to an end: every other route answers, and the service ends."""

from __future__ import annotations

import itertools
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest

from tests.component.service.processes import PATIENT, running
from tests.patience import PATIENCE_S, until
from tests.unit.service.hooks.receivers import hostile_receiver

STRANGERS = 60


def answer_of(url: str) -> int:
    """Return the status of one answer; a redirection is not followed, for it leads to the provider."""
    return httpx.get(url, timeout=PATIENCE_S).status_code


def sign_in(url: str) -> httpx.Response | None:
    """Ask for the provider; return the answer where it leads there."""
    answer = httpx.get(f"{url}/login/oidc", timeout=PATIENCE_S)
    return answer if answer.status_code == 303 else None


@pytest.mark.parametrize("drip", [b"", b"HTTP/1.1 200 OK\r\n"], ids=["hangs", "drips"])
def test_sign_ins_that_hang_hold_up_nothing_else(tmp_path, drip):
    """Sixty strangers ask for the provider; other routes answer while they wait, and SIGTERM ends the service."""
    answered: list[int] = []

    def stranger(url: str) -> None:
        with suppress(httpx.HTTPError):
            answered.append(answer_of(f"{url}/login/oidc"))

    with hostile_receiver(lambda: itertools.chain([drip], itertools.repeat(drip and b"a")), every_s=0.2) as provider:
        config = tmp_path / "service.toml"
        config.write_text(f'[oidc]\nissuer = "{provider.url}"\nclient_id = "c"\n')
        command = (sys.executable, "-c", PATIENT, "service")
        with running(tmp_path / "state", "--config", config, command=command) as service:
            for _ in range(STRANGERS):
                threading.Thread(target=stranger, args=(service.url,), daemon=True).start()
            until(lambda: provider.opened >= 1, "sign-ins that wait for the provider")
            for path in ("/healthz", "/readyz", "/login", "/api/v1/openapi.json"):
                assert answer_of(service.url + path) in (200, 401, 503)
            assert len(answered) < STRANGERS, "the sign-ins are still waiting"
            assert "Traceback" not in service.end()
            assert service.process.returncode == 0


def test_a_good_answer_lets_in_while_strangers_hang(tmp_path):
    """Sixty strangers share one request to a provider that drips; once it is well, the next sign-in goes to it."""
    answered: list[int] = []
    is_well = threading.Event()

    def pieces() -> Iterator[bytes]:
        if not is_well.is_set():
            return itertools.chain([b"HTTP/1.1 200 OK\r\n"], itertools.repeat(b"a"))
        about = {name: f"{provider.url}/{name}" for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")}
        return iter([b"HTTP/1.1 200 OK\r\n\r\n", json.dumps({"issuer": provider.url} | about).encode()])

    def stranger(url: str) -> None:
        with suppress(httpx.HTTPError):
            answered.append(answer_of(f"{url}/login/oidc"))

    with hostile_receiver(pieces, every_s=0.2) as provider:
        config = tmp_path / "service.toml"
        config.write_text(f'[oidc]\nissuer = "{provider.url}"\nclient_id = "c"\n')
        with running(tmp_path / "state", "--config", config) as service:
            strangers = [threading.Thread(target=stranger, args=(service.url,), daemon=True) for _ in range(STRANGERS)]
            for one in strangers:
                one.start()
            until(lambda: provider.opened, "the request to the provider")
            is_well.set()
            until(lambda: answered, "the end of that request")
            # A request of a stranger that dripped before may be the one that is shared once more.
            answer = until(lambda: sign_in(service.url), "a sign-in that goes to the provider")
            assert answer.headers["location"].startswith(f"{provider.url}/authorization_endpoint?")
            for one in strangers:
                one.join(PATIENCE_S)
            assert provider.opened < STRANGERS / 2
            assert "Traceback" not in service.end()
