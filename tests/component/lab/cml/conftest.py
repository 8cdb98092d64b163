"""Stand-in controllers over real HTTPS, and a plain way to ask them."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from flashferry.lab.cml.standin import Identity, RunningController, new_identity, standin_controller
from tests.patience import PATIENCE_S
from tests.unit.lab.cml.topologies import ONE_ROUTER

StartController = Callable[..., RunningController]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A status, a content type, and what came with it."""

    status: int
    content_type: str
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Plain:
    """Asks a controller with nothing but the standard library; logged in once, on a new connection for each."""

    def __init__(self, running: RunningController) -> None:
        self._running = running
        self._tls = ssl.create_default_context(cafile=str(running.ca_file))
        self.token = ""

    def log_in(self, username: str | None = None) -> None:
        login = {"username": username or self._running.username, "password": self._running.password}
        self.token = self.ask("POST", "authenticate", login).json

    def ask(self, method: str, path: str, body: object = None, *, headers: dict[str, str] | None = None) -> Said:
        parts = urlsplit(self._running.url)
        connection = http.client.HTTPSConnection(str(parts.hostname), parts.port, context=self._tls, timeout=PATIENCE_S)
        try:
            content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            sent = {"Authorization": f"Bearer {self.token}", **(headers or {})}
            connection.request(method, f"/api/v0/{path}", content, sent)
            response = connection.getresponse()
            kind = response.headers.get("Content-Type", "")
            return Said(status=response.status, content_type=kind, body=response.read())
        finally:
            connection.close()

    def take(self) -> str:
        """Import the topology and return the lab's id."""
        return str(self.ask("POST", "import", ONE_ROUTER.encode()).json["id"])


@pytest.fixture(scope="session")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    """One for all: making keys takes longest."""
    return new_identity(tmp_path_factory.mktemp("cml"))


@pytest.fixture
def start_controller(identity: Identity) -> Iterator[StartController]:
    """Start controllers that end with the test."""
    with ExitStack() as stack:
        started: list[RunningController] = []

        def start(**options: Any) -> RunningController:
            started.append(stack.enter_context(standin_controller(identity=identity, **options)))
            return started[-1]

        yield start
    assert [error for running in started for error in running.web.errors] == []


@pytest.fixture
def running(start_controller: StartController) -> RunningController:
    """A controller of the default version."""
    return start_controller()


@pytest.fixture
def plain(running: RunningController) -> Plain:
    """Somebody who is logged in."""
    asker = Plain(running)
    asker.log_in()
    return asker
