"""The service without a network: people with grants, who call its routes as browsers and as programs do."""

from __future__ import annotations

import json as json_module
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import anyio
import httpx
from fastapi import FastAPI
from markupsafe import Markup

from flashferry.core.codec import to_json
from flashferry.core.values import replace
from flashferry.service.app import build_app
from flashferry.service.pages import frame
from flashferry.service.people.identity import begin_session, cookie_name, digest_of, new_secret
from flashferry.service.principal import Actor, Grant, Role, Via
from flashferry.service.service import Service
from flashferry.service.settings import PeopleSettings, ServiceSettings
from flashferry.store.service import people as rows
from flashferry.store.service.audit import AuditEntry, entries
from flashferry.store.service.database import ServiceDatabase, moment
from flashferry.store.service.people import TokenRow, insert_token

BEGIN = datetime(2026, 11, 23, 20, 0, tzinfo=UTC)
QUICK = PeopleSettings(argon2_rounds=1, argon2_memory_kib=8, argon2_lanes=1)
"""Passwords that are hashed in no time."""
URL = "http://service.example"

ADMIN = Actor(name="root", via=Via.SESSION, address="192.0.2.1", grants=frozenset({Grant(role=Role.ADMIN)}))


@dataclass
class Clock:
    """A clock that a test turns."""

    now: datetime = BEGIN

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass(frozen=True)
class Browser:
    """A browser that is signed in."""

    session_id: str
    csrf: str


@dataclass(frozen=True)
class Token:
    """A program with a token."""

    text: str


@dataclass
class Served:
    """The application of a service in a folder."""

    service: Service
    app: FastAPI
    clock: Clock
    address: str = "192.0.2.1"
    is_loud: bool = True
    made: int = field(default=0)

    def person(self, name: str, *grants: str, source: str = "local", state: str = "active") -> str:
        """Enter somebody with grants, `operator` or `operator@AMS`."""
        with self.service.database.writing() as database:
            rows.insert_person(
                database,
                rows.Person(name=name, source=source, created_at=moment(self.clock())),
                password=None,
            )
            for word in grants:
                role, _, site = word.partition("@")
                new = rows.GivenGrant(role=role, site=site or "*", given_by="system", given_at=moment(self.clock()))
                rows.insert_grant(database, name, new)
            rows.set_state(database, name, state)
        return name

    def browser(self, name: str) -> Browser:
        """Return a browser in which somebody is signed in."""
        with self.service.database.writing() as database:
            made = begin_session(self.service, database, name, address=self.address)
        return Browser(made.session_id, made.csrf)

    def token(self, name: str, *grants: str, days: float = 30) -> Token:
        """Return a token of somebody, limited to some grants where some are named."""
        self.made += 1
        text = f"ffy_{new_secret()}"
        limits = [[role, site or "*"] for role, _, site in (word.partition("@") for word in grants)]
        row = TokenRow(
            token_id=f"t{self.made}",
            person=name,
            name="test",
            grants=json_module.dumps(limits) if limits else None,
            created_at=moment(self.clock()),
            expires_at=moment(self.clock() + timedelta(days=days)),
        )
        with self.service.database.writing() as database:
            insert_token(database, row, hash_=digest_of(text))
        return Token(text)

    def call(
        self,
        method: str,
        path: str,
        by: Browser | Token | None = None,
        *,
        json: Any = None,
        form: dict[str, str] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        address: str | None = None,
    ) -> httpx.Response:
        """Call a route as a browser or a program does: with what shows who it is, and what a change demands."""
        sent = {}
        if isinstance(by, Token):
            sent["Authorization"] = f"Bearer {by.text}"
        elif isinstance(by, Browser):
            sent["Cookie"] = f"{cookie_name(self.service.settings)}={by.session_id}"
            if method not in ("GET", "HEAD"):
                sent |= {"Origin": self.service.settings.url or URL, "Sec-Fetch-Site": "same-origin"}
                if form is None:
                    sent["X-CSRF-Token"] = by.csrf
                else:
                    form = {"csrf": by.csrf, **form}
        own = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
        pairs = [*((name, value) for name, value in sent.items() if name not in dict(own)), *own]
        raw = [(name.encode(), value.encode("latin-1")) for name, value in pairs if value]
        request = httpx.Request(method, URL + path, json=json, data=form, content=content, headers=raw)
        return anyio.run(self._answer, request, address or self.address)

    async def _answer(self, request: httpx.Request, address: str) -> httpx.Response:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=self.is_loud, client=(address, 40000))
        answer = await transport.handle_async_request(request)
        answer.request = request
        await answer.aread()
        return answer

    def view(self, path: str, by: Browser | Token | None = None) -> Any:
        """Return what a page shows, as JSON types; it must be there."""

        def get() -> None:
            answer = self.call("GET", path, by)
            assert answer.status_code == 200, answer.text

        return view_of(get)

    def audit(self) -> list[AuditEntry]:
        """Return what the audit has, the oldest first."""
        with self.service.database.reading() as database:
            return [one.entry for one in entries(database)]


def view_of(get: Callable[[], object]) -> Any:
    """Return the view of the page that a function gets, as JSON types and without its HTML."""
    with patch.object(frame, "page", wraps=frame.page) as made:
        get()
    view = made.call_args.args[2]
    if isinstance(view, Mapping):
        view = {key: value for key, value in view.items() if not isinstance(value, Markup)}
    return json_module.loads(json_module.dumps(to_json(view)))


def serve(folder: Path, settings: ServiceSettings | None = None, **others: Any) -> Served:
    """Return the service in a folder.

    Args:
        folder: Its state folder.
        settings: What it is told; passwords are quick in any case.
        others: For `build_app`: routers and the table.
    """
    clock = Clock()
    told = settings or ServiceSettings()
    if told.people == PeopleSettings():
        told = replace(told, people=QUICK)
    service = Service(state=folder, settings=told, database=ServiceDatabase(folder), now=clock)
    return Served(service=service, app=build_app(service, **others), clock=clock)
