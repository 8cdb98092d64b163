"""A stand-in of an OpenID Connect provider: it signs in whoever comes, and lies where a test tells it to."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
from joserfc import jwt
from joserfc.jwk import ECKey

ISSUER = "https://id.example/realm"


@dataclass
class StandIn:
    """The provider. Its endpoints check what they are sent as the standards say."""

    now: Callable[[], datetime]
    client_id: str = "flashferry"
    person: dict[str, Any] = field(
        default_factory=lambda: {"sub": "u-1", "preferred_username": "Ann", "name": "Ann B", "groups": ["noc"]}
    )
    key: ECKey = field(default_factory=lambda: ECKey.generate_key("P-256", parameters={"kid": "k1"}))
    claims: dict[str, Any] = field(default_factory=dict)
    userinfo: dict[str, Any] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict)
    signed: Callable[[dict[str, Any]], str] | None = None
    published: list[Any] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    secrets: list[str | None] = field(default_factory=list)
    lies: dict[str, httpx.Response] = field(default_factory=dict)

    def authorize(self, url: str) -> dict[str, str]:
        """Return what the browser brings back from the page of the provider."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query, strict_parsing=True).items()}
        assert url.startswith(f"{ISSUER}/authorize?")
        assert (asked["response_type"], asked["client_id"]) == ("code", self.client_id)
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        return {"code": code, "state": asked["state"], "iss": ISSUER}

    def client(self) -> httpx.Client:
        """Return a client that reaches nothing but this provider."""
        return httpx.Client(transport=httpx.MockTransport(lambda request: unread(self._answer(request))))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        self.asked.append(path)
        if path in self.lies:
            return self.lies[path]
        if path == "/realm/.well-known/openid-configuration":
            about = {
                "issuer": ISSUER,
                "authorization_endpoint": f"{ISSUER}/authorize",
                "token_endpoint": f"{ISSUER}/token",
                "jwks_uri": f"{ISSUER}/keys",
                **({"userinfo_endpoint": f"{ISSUER}/userinfo"} if self.userinfo else {}),
            }
            return httpx.Response(200, json=about | self.document)
        if path == "/realm/keys":
            return httpx.Response(200, json={"keys": self.published or [self.key.as_dict(private=False)]})
        if path == "/realm/userinfo":
            is_ours = request.headers.get("Authorization") == "Bearer a"
            return httpx.Response(200, json=self.userinfo) if is_ours else httpx.Response(401)
        if path == "/realm/token":
            return self._token(dict(parse_qsl(request.content.decode())))
        return httpx.Response(404)

    def _token(self, form: dict[str, str]) -> httpx.Response:
        self.secrets.append(form.get("client_secret"))
        asked = self.codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or asked["code_challenge"] != challenge or asked["redirect_uri"] != form["redirect_uri"]:
            return httpx.Response(400, json={"error": "invalid_grant"})
        at = int(self.now().timestamp())
        claims = {
            "iss": ISSUER,
            "aud": self.client_id,
            "iat": at,
            "exp": at + 300,
            "nonce": asked["nonce"],
            **self.person,
            **self.claims,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        token = (self.signed or self.sign)(claims)
        return httpx.Response(200, json={"access_token": "a", "token_type": "Bearer", "id_token": token})

    def sign(self, claims: dict[str, Any]) -> str:
        """Sign claims as a provider does."""
        return jwt.encode({"alg": "ES256", "kid": self.key.kid}, claims, self.key)

    def sign_by_public_key(self, claims: dict[str, Any]) -> str:
        """Sign claims with the public key as if it were a shared secret, which everybody can."""
        signed = ".".join(_part(part) for part in ({"alg": "HS256", "kid": self.key.kid}, claims))
        mark = hmac.new(self.key.as_pem(private=False), signed.encode(), hashlib.sha256).digest()
        return f"{signed}.{base64.urlsafe_b64encode(mark).rstrip(b'=').decode()}"


class _Pieces(httpx.SyncByteStream):
    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        yield self._content


def unread(answer: httpx.Response) -> httpx.Response:
    """Return an answer as it comes from a network, its body still to be read."""
    return httpx.Response(answer.status_code, headers=answer.headers, stream=_Pieces(answer.content))


def unsigned(claims: dict[str, Any]) -> str:
    """Return claims that nobody signed."""
    return ".".join(_part(part) for part in ({"alg": "none", "typ": "JWT"}, claims)) + "."


def _part(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
