"""The people of the demo: entered from the host, then each with a session of his own, as a browser has one."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flashferry.cli.service.opening import opened
from flashferry.lab.demo.programs import Broken

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

PATIENCE_S = 60.0
"""As long as an answer may take on a busy machine."""

_API = "/api/v1"
_PASSWORD_BYTES = 9
_PIECE_BYTES = 2_000_000


class Refused(Broken):
    """The service refused something, in its own sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A person with a local account.

    Attributes:
        name: The login.
        roles: Roles, at every site.
        password: Made anew with each demo.
        display: The full name.
    """

    name: str
    roles: tuple[str, ...]
    display: str
    # Letters, digits, `-` and `_`: to be copied by a click.
    password: str = field(default_factory=lambda: secrets.token_urlsafe(_PASSWORD_BYTES), repr=False)


def enter(state: Path, accounts: tuple[Account, ...]) -> None:
    """Enter people into the tables of a service, as `flashferry service user add` does."""
    from flashferry.service.people.accounts import NewPerson, add_person
    from flashferry.service.people.passwords import Passwords
    from flashferry.service.people.provisioning import grant_of

    with opened(None, state, is_beginning=True) as (service, actor):
        passwords = Passwords(service.settings.people)
        for one in accounts:
            grants = tuple(grant_of(role) for role in one.roles)
            new = NewPerson(name=one.name, display=one.display, password=one.password, grants=grants)
            add_person(service, actor, new, passwords)


class Person:
    """A person who is signed in over HTTP.

    Args:
        url: Where the service answers.
        account: Who.
    """

    def __init__(self, url: str, account: Account) -> None:
        import httpx

        self.name = account.name
        # What this host's variables say of proxies is nothing for loopback.
        self._client = httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False)
        session = self.post("/login", {"name": account.name, "password": account.password})
        self._client.headers.update({"Origin": url, "X-CSRF-Token": session["csrf"]})

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def get(self, path: str) -> dict[str, Any]:
        """Return an answer of the API. Raises Broken: the service refuses, or does not answer."""
        return self._asked("GET", path)

    def post(self, path: str, values: dict[str, Any]) -> dict[str, Any]:
        """Have the API do something, and return what it answers.

        Raises Broken: the service refuses, or does not answer.
        """
        return self._asked("POST", path, json=values)

    def text(self, path: str) -> str:
        """Return a file of the API. Raises Broken: the service refuses, or does not answer."""
        return self._answer("GET", path).text

    def send_image(self, name: str, content: bytes) -> dict[str, Any]:
        """Send an image in pieces, with its SHA-512 as its vendor would have published it; return what is held of it.

        Raises Broken: the service refuses, or does not answer.
        """
        digest = hashlib.sha512(content).hexdigest()
        held = self.post("/images", {"name": name, "size_bytes": len(content), "sha512": digest})
        for offset in range(0, len(content), _PIECE_BYTES):
            headers = {"Upload-Offset": str(offset)}
            piece = content[offset : offset + _PIECE_BYTES]
            held = self._asked("PATCH", f"/images/{name}", content=piece, headers=headers)
        return held

    def _asked(self, method: str, path: str, **sent: Any) -> dict[str, Any]:
        answer = self._answer(method, path, **sent).json()
        assert isinstance(answer, dict)
        return answer

    def _answer(self, method: str, path: str, **sent: Any) -> httpx.Response:
        import httpx

        try:
            answer = self._client.request(method, _API + path, **sent)
        except httpx.HTTPError as error:
            raise Broken(f"the service gave no answer to {method} {path}: {error}") from None
        if not answer.is_success:
            raise Refused(_sentence(answer))
        return answer


def _sentence(answer: httpx.Response) -> str:
    """Return what a refusal says, as people read it."""
    try:
        values = answer.json()
        return f"{values['detail']} ({answer.status_code})"
    except (ValueError, KeyError, TypeError):
        return f"status {answer.status_code}"
