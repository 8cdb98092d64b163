"""Sending images to a service that is a process of its own, by hand: in pieces, cut short, two at once."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from flashferry.service.people.identity import digest_of, new_secret
from flashferry.store.service.database import ServiceDatabase, moment
from flashferry.store.service.people import GivenGrant, Person, TokenRow, insert_grant, insert_person, insert_token
from tests.patience import PATIENCE_S

IMAGES = "/api/v1/images"


def token_for(state: Path, name: str, role: str) -> str:
    """Enter somebody with a role into the database of a service, and return a token of his."""
    now, text = datetime.now(UTC), f"ffy_{new_secret()}"
    with ServiceDatabase(state).writing() as database:
        insert_person(database, Person(name=name, source="local", created_at=moment(now)), password=None)
        insert_grant(database, name, GivenGrant(role=role, site="*", given_by="system", given_at=moment(now)))
        row = TokenRow(
            token_id=name,
            person=name,
            name="",
            grants=None,
            created_at=moment(now),
            expires_at=moment(now + timedelta(days=1)),
        )
        insert_token(database, row, hash_=digest_of(text))
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """A program that sends images.

    Attributes:
        url: Where the service answers.
        token: Its token.
    """

    url: str
    token: str

    def call(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any, Any]:
        """Ask for something; return status, headers and what JSON says."""
        connection = self._connection()
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, {"Authorization": f"Bearer {self.token}", **sent})
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, answer.headers, json.loads(content) if content else None
        finally:
            connection.close()

    def announce(self, name: str, size_bytes: int) -> int:
        """Announce an image; return where to go on."""
        body = json.dumps({"name": name, "size_bytes": size_bytes}).encode()
        status, headers, told = self.call("POST", IMAGES, body, Content_Type="application/json")
        assert status in (200, 201), told
        return int(headers["Upload-Offset"])

    def offset(self, name: str) -> int:
        """Return how much has arrived."""
        return int(self.call("HEAD", f"{IMAGES}/{name}")[1]["Upload-Offset"])

    def send(self, name: str, content: bytes, offset: int) -> tuple[int, Any]:
        """Send what is behind an offset; return status and what JSON says."""
        status, _, told = self.call("PATCH", f"{IMAGES}/{name}", content[offset:], Upload_Offset=str(offset))
        return status, told

    def begin(self, name: str, content: bytes, offset: int, until: int) -> http.client.HTTPConnection:
        """Begin to send all that is behind an offset, and stop before its end; return the open connection."""
        connection = self._connection()
        connection.putrequest("PATCH", f"{IMAGES}/{name}")
        for header, value in (
            ("Authorization", f"Bearer {self.token}"),
            ("Upload-Offset", str(offset)),
            ("Content-Length", str(len(content) - offset)),
        ):
            connection.putheader(header, value)
        connection.endheaders()
        connection.send(content[offset:until])
        return connection

    def _connection(self) -> http.client.HTTPConnection:
        host = urlsplit(self.url)
        return http.client.HTTPConnection(str(host.hostname), host.port, timeout=PATIENCE_S)
