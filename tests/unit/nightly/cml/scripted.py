"""A controller of answers that a test lays out, behind Cisco's session but without a network."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
from virl2_client.models.authentication import BlankAuth, CustomClient

from flashferry.nightly.cml.access import ControllerAccess, read_version
from flashferry.nightly.cml.controller import Controller
from flashferry.nightly.cml.trace import Trace
from tests.unit.nightly.fakes import WoundClock

PAGE_502 = httpx.Response(502, html="<html><title>502 Bad Gateway</title></html>")
LAB = "11111111-2222-4333-8444-555555555555"
TITLE = "ff-nightly-20261122T0100-3f2a"
ACCESS = ControllerAccess(url="https://cml.test", username="admin", password="a-lab's-password", retry_s=60)

Reply = Any
"""A response, an exception to raise, a function of the request, or anything else: JSON."""


class Scripted:
    """Answers by `METHOD path`, below `/api/v0/` and without the query: in turn, the last one for ever."""

    def __init__(self, answers: dict[str, Reply] | None = None) -> None:
        self.answers: dict[str, list[Reply]] = {}
        self.requests: list[httpx.Request] = []
        for name, reply in (answers or {}).items():
            self.on(name, *(reply if isinstance(reply, tuple) else (reply,)))

    def on(self, name: str, *replies: Reply) -> None:
        self.answers[name] = list(replies)

    @property
    def asked(self) -> list[str]:
        return [f"{one.method} {one.url.path.removeprefix('/api/v0/')}" for one in self.requests]

    def handle(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        replies = self.answers.get(self.asked[-1])
        if replies is None:
            return error(404, f"Nothing here: {self.asked[-1]}")
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        if isinstance(reply, Callable):  # type: ignore[arg-type]
            reply = reply(request)
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, httpx.Response) else httpx.Response(200, json=reply)


def error(status: int, description: str) -> httpx.Response:
    """Return a controller's own error."""
    return httpx.Response(status, json={"code": status, "description": description})


def controller(
    script: Scripted,
    *,
    version: str = "2.9.1+build.7",
    clock: WoundClock | None = None,
    access: ControllerAccess = ACCESS,
) -> Controller:
    """Return a controller that is logged in to, answered for by a script."""
    trace = Trace()
    session = CustomClient(
        base_url="https://cml.test/api/v0/",
        auth=BlankAuth(),
        transport=httpx.MockTransport(script.handle),
        event_hooks={"request": [trace.on_request], "response": [trace.on_response]},
    )
    told = read_version(version)
    assert told is not None
    client: Any = SimpleNamespace(session=session)
    return Controller(client, access=access, version=told, trace=trace, clock=clock or WoundClock())
