"""People of a service with tokens, entered beside it: for programs that ask a service of a process of its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from flashferry.service.client.client import ServiceClient, ServicePlace
from flashferry.service.people.identity import digest_of, new_secret
from flashferry.store.service.database import ServiceDatabase, moment
from flashferry.store.service.people import GivenGrant, Person, TokenRow, insert_grant, insert_person, insert_token


def token_of(state: Path, name: str, *roles: str) -> str:
    """Enter somebody with roles everywhere, and return a token of his."""
    now, text = datetime.now(UTC), f"ffy_{new_secret()}"
    token = TokenRow(
        token_id=f"t{name}",
        person=name,
        name="test",
        grants=None,
        created_at=moment(now),
        expires_at=moment(now + timedelta(days=1)),
    )
    with ServiceDatabase(state).writing() as database:
        insert_person(database, Person(name=name, source="local", created_at=moment(now)), password=None)
        for role in roles:
            insert_grant(database, name, GivenGrant(role=role, site="*", given_by="system", given_at=moment(now)))
        insert_token(database, token, hash_=digest_of(text))
    return text


def client_of(url: str, token: str) -> ServiceClient:
    """Return what asks a service with a token."""
    return ServiceClient(ServicePlace(url=url, token=token))
