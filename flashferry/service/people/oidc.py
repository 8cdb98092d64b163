"""Signing in with an OpenID Connect provider: authorization code with PKCE, the answer bound to this very browser.

Facts
-----
* OpenID Connect Core 1.0, 3.1.3.7: of an ID token the issuer, the audience, the signature by one of the provider's
  keys, the end and the nonce are checked; `azp` where there are several audiences. `none` and shared-key algorithms are
  not among those that are taken: with them whoever knows the public key, or nothing at all, could sign.
* RFC 7636: the code is worth something only together with the verifier, which never left this host and the browser.
* RFC 9207: a provider that says in its answer who it is must be the one that was asked.
* What the provider says of itself, and its keys, are judged before they are kept: a bad answer refuses the sign-in that
  asked for it, and replaces nothing.
* What must come back (state, nonce, verifier) is in a cookie of ten minutes, signed by a key that this process made at
  its start: nothing is kept here for somebody who only asks, and nobody's answer is taken in another's browser.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar, cast
from urllib.parse import urlencode, urlsplit

from flashferry.service.errors import Forbidden, ProviderFailed, ServiceError, listed
from flashferry.core.errors import ConfigInvalid
from flashferry.core.outside import keep_secret, shown
from flashferry.service.outbound import HttpRequest, NoAnswer, ask, json_object
from flashferry.service.people.provisioning import MappedPerson, grants_for
from flashferry.service.service import Service
from flashferry.service.settings import OidcSettings

if TYPE_CHECKING:
    # Late: a service whose people sign in here starts without what signs tokens, and what comes with a client of HTTP.
    import httpx
    from joserfc.jwk import KeySet

T = TypeVar("T")

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
BEGUN_S = 600
"""So long somebody has at the provider."""
KEPT_S = 3600.0
"""So long what the provider says of itself, and its keys, are not asked for again."""
LEEWAY_S = 60
"""So far the provider's clock and ours may be apart."""
MOST_BYTES = 2**20
TIMEOUT_S = 10.0
"""For each request, from its connection to the end of its answer."""
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_SECRET_S = 30.0
_AGAIN = "Begin again at /login; where it keeps on, an admin finds the reason in the audit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A sign-in that goes on at the provider.

    Attributes:
        url: Where the browser is sent.
        cookie: What it is to bring back, signed.
    """

    url: str
    cookie: str = field(repr=False)


class Provider:
    """The provider. Safe to use from all threads.

    Args:
        settings: Which one, and what its groups mean.
        callback: Where it sends browsers back to, a URL of ours.
        now: What time it is.
        client: Makes what asks it; for tests.
    """

    def __init__(
        self,
        settings: OidcSettings,
        *,
        callback: str,
        now: Callable[[], datetime],
        client: Callable[[], httpx.Client] | None = None,
    ) -> None:
        self._settings = settings
        self._callback = callback
        self._now = now
        self._client = client or _client
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[datetime, object]] = {}

    def about(self) -> Mapping[str, str]:
        """Return the provider's issuer and endpoints, asked of it where they are not kept.

        Raises:
            ServiceError: The provider cannot be reached, or is not what the settings say.
        """
        url = f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration"
        return self._known("about", url, self._judged_about)

    def known_about(self) -> Mapping[str, str] | None:
        """Return the same where it is kept, without a word to the provider."""
        return cast("Mapping[str, str] | None", self._kept_of("about"))

    def is_begun_here(self, answer: Mapping[str, str], cookie: str | None) -> bool:
        """Return whether an answer is to a sign-in that this browser began; the provider is not asked."""
        try:
            self._check_begun(answer, cookie)
        except ServiceError:
            return False
        return True

    def begin(self, next_: str, endpoint: str) -> Begun:
        """Return where to send a browser that wants to sign in; the provider is not asked.

        Args:
            next_: The page that it wants, a path of ours.
            endpoint: The provider's `authorization_endpoint`.
        """
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        asked = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._callback,
            "scope": "openid profile email",
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        joint = "&" if urlsplit(endpoint).query else "?"
        begun = {"state": state, "nonce": nonce, "verifier": verifier, "next": next_, "at": self._now().timestamp()}
        return Begun(url=f"{endpoint}{joint}{urlencode(asked)}", cookie=self._signed(begun))

    def finish(self, answer: Mapping[str, str], cookie: str | None) -> tuple[MappedPerson, str]:
        """Return who signed in at the provider, and which page he wants.

        Args:
            answer: What the provider sent in the query.
            cookie: What the browser brought back.

        Raises:
            ServiceError: The answer is not to what this browser asked, or the provider does not vouch for anybody.
        """
        begun = self._check_begun(answer, cookie)
        if answer.get("iss", self._issuer()) != self._issuer():
            raise _refused("expected an answer of the provider that was asked, found one of another")
        if "error" in answer:
            raise _refused(f"the provider refused: {shown(answer['error'][:100])}")
        if not answer.get("code"):
            raise _refused("expected a code in the provider's answer, found none")
        try:
            claims = self._claims(self._id_token(answer["code"], str(begun["verifier"])), str(begun["nonce"]))
            return self._person(claims), str(begun["next"])
        except (RecursionError, UnicodeError) as error:
            raise _refused(f"the provider's ID token is not good: {type(error).__name__}") from None

    def _id_token(self, code: str, verifier: str) -> str:
        # The code is not masked from now on: whoever asks chooses it, and could have any words taken off every page.
        sent = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._callback,
            "code_verifier": verifier,
            "client_id": self._settings.client_id,
        }
        if self._settings.secret_command:
            sent["client_secret"] = _secret(self._settings.secret_command)
        token = self._fetch("POST", self._endpoint("token_endpoint"), sent).get("id_token")
        if not isinstance(token, str):
            raise _refused("expected an ID token from the provider, found none")
        return token

    def _claims(self, token: str, nonce: str) -> Mapping[str, object]:
        from joserfc import jwt
        from joserfc.errors import JoseError

        try:
            try:
                decoded = jwt.decode(token, self._keys(), algorithms=list(ALGORITHMS))
            except (JoseError, ValueError):
                # The provider may have changed its keys since they were fetched.
                decoded = jwt.decode(token, self._keys(is_anew=True), algorithms=list(ALGORITHMS))
            jwt.JWTClaimsRegistry(
                now=lambda: int(self._now().timestamp()),
                leeway=LEEWAY_S,
                iss={"essential": True, "value": self._issuer()},
                aud={"essential": True, "value": self._settings.client_id},
                sub={"essential": True},
                exp={"essential": True},
                iat={"essential": True},
                nonce={"essential": True, "value": nonce},
            ).validate(decoded.claims)
        except (JoseError, ValueError, TypeError) as error:
            raise _refused(f"the provider's ID token is not good: {type(error).__name__}") from None
        claims: Mapping[str, object] = decoded.claims
        audiences = claims["aud"]
        azp = claims.get("azp")
        if azp not in (None, self._settings.client_id) or (
            isinstance(audiences, list) and len(audiences) > 1 and azp is None
        ):
            raise _refused("the provider's ID token is not good: it is for another client")
        return claims

    def _person(self, claims: Mapping[str, object]) -> MappedPerson:
        name = claims.get("preferred_username") or claims.get("email") or claims["sub"]
        groups = claims.get(self._settings.groups_claim) or ()
        words = [groups] if isinstance(groups, str) else groups
        if not isinstance(words, list | tuple):
            raise _refused(f"expected a list of groups in {self._settings.groups_claim!r}, found something else")
        return MappedPerson(
            source="oidc",
            subject=f"{self._settings.issuer} {_text(claims['sub'])}",
            name=_text(name).lower(),
            display=_text(claims.get("name") or "")[:200],
            email=_text(claims.get("email") or "")[:200],
            grants=grants_for([str(one) for one in words], self._settings.roles) if self._settings.roles else None,
        )

    def _judged_about(self, document: Mapping[str, object]) -> Mapping[str, str]:
        """Return what a provider says of itself.

        Raises:
            ServiceError: It is not the one of the settings, or cannot be used.
        """
        issuer = document.get("issuer")
        if not isinstance(issuer, str) or issuer.rstrip("/") != self._settings.issuer.rstrip("/"):
            raise _unusable("it calls itself by another issuer than the settings do")
        return {"issuer": issuer, **{name: self._judged_endpoint(document, name) for name in _ENDPOINTS}}

    def _judged_endpoint(self, document: Mapping[str, object], name: str) -> str:
        url = document.get(name)
        if not isinstance(url, str) or not _leads_to(url, urlsplit(self._settings.issuer).scheme):
            raise _unusable(f"it names no {name} of the issuer's scheme")
        return url

    def _issuer(self) -> str:
        """Return the issuer as the provider writes it: some have a slash at the end, and all their tokens with it."""
        return self.about()["issuer"]

    def _endpoint(self, name: str) -> str:
        return self.about()[name]

    def _keys(self, *, is_anew: bool = False) -> KeySet:
        return self._known("keys", self._endpoint("jwks_uri"), _judged_keys, is_anew=is_anew)

    def _known(self, what: str, url: str, judged: Callable[[Mapping[str, object]], T], *, is_anew: bool = False) -> T:
        """Return what was kept of the provider, or asked of it now; only what was judged good is kept."""
        if not is_anew and (kept := self._kept_of(what)) is not None:
            return cast("T", kept)
        now, found = self._now(), judged(self._fetch("GET", url))
        with self._lock:
            self._kept[what] = (now, found)
        return found

    def _kept_of(self, what: str) -> object | None:
        with self._lock:
            kept = self._kept.get(what)
        is_fresh = kept is not None and 0 <= (self._now() - kept[0]).total_seconds() < KEPT_S
        return kept[1] if kept is not None and is_fresh else None

    def _fetch(self, method: str, url: str, form: Mapping[str, str] | None = None) -> Mapping[str, object]:
        request = HttpRequest(method=method, url=url, headers={"Accept": "application/json"}, form=form)
        host = urlsplit(url).netloc
        try:
            answer = ask(self._client(), request, most_s=TIMEOUT_S, most_bytes=MOST_BYTES)
            if answer.status != HTTPStatus.OK:
                raise _unusable(f"{host} answers {answer.status} to {method}")
            return json_object(answer.body)
        except NoAnswer as error:
            raise _unusable(f"{host}: {error.sentence}") from None

    def _signed(self, begun: Mapping[str, object]) -> str:
        body = base64.urlsafe_b64encode(json.dumps(begun).encode()).decode()
        return f"{body}.{self._mark(body)}"

    def _check_begun(self, answer: Mapping[str, str], cookie: str | None) -> Mapping[str, object]:
        begun = self._read(cookie)
        if not hmac.compare_digest(answer.get("state", "").encode(), str(begun["state"]).encode()):
            raise _refused("expected the state of a sign-in that this browser began, found another one")
        return begun

    def _read(self, cookie: str | None) -> Mapping[str, object]:
        body, _, mark = (cookie or "").rpartition(".")
        if not hmac.compare_digest(mark.encode(), self._mark(body).encode()):
            raise _refused("expected a sign-in that this browser began, found none")
        begun: dict[str, object] = json.loads(base64.urlsafe_b64decode(body))
        if not 0 <= self._now().timestamp() - float(str(begun["at"])) <= BEGUN_S:
            raise _refused(f"expected an answer within {BEGUN_S // 60} min, found a later one")
        return begun

    def _mark(self, body: str) -> str:
        return hmac.new(self._key, body.encode(), hashlib.sha256).hexdigest()


def provider_of(service: Service, *, callback: str) -> Provider | None:
    """Return the provider that the settings name, or None.

    Args:
        service: The service.
        callback: The path of ours that it sends browsers back to.
    """
    settings = service.settings
    if settings.oidc is None:
        return None
    return Provider(settings.oidc, callback=settings.base_url + callback, now=service.now)


def _client() -> httpx.Client:
    import httpx

    return httpx.Client(timeout=TIMEOUT_S, follow_redirects=False)


def _text(claim: object) -> str:
    """Return a claim as text.

    Raises:
        UnicodeError: It has half of a surrogate pair, which JSON can write and no table keeps.
    """
    return str(claim).encode().decode()


def _leads_to(url: str, scheme: str) -> bool:
    """Return whether an address can be asked by a scheme; `urlsplit` raises ValueError where port or host is none."""
    try:
        parts = urlsplit(url)
        return parts.scheme == scheme and bool(parts.hostname) and parts.port != 0 and url.isprintable()
    except ValueError:
        return False


def _judged_keys(document: Mapping[str, object]) -> KeySet:
    """Return the keys of a set that may sign; those that cannot be used are passed over (RFC 7517, 5).

    Raises:
        ServiceError: There are none.
    """
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    listed = document.get("keys")
    keys = []
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and one.get("kty") != "oct" and one.get("use", "sig") == "sig":
            with suppress(JoseError, ValueError, TypeError, KeyError, RecursionError):
                keys += KeySet.import_key_set({"keys": [one]}).keys
    if not keys:
        raise _unusable("its keys are no list of keys that sign")
    return KeySet(keys)


def _secret(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=_SECRET_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigInvalid(
            f"the program that has our secret at the provider: {type(error).__name__}",
            hint="Run it by hand as the service's user; it prints the secret and nothing else",
        ) from None
    secret = done.stdout.decode("utf-8", "replace").strip()
    keep_secret(secret)
    return secret


def _refused(sentence: str) -> ServiceError:
    return Forbidden(sentence, hint=_AGAIN)


def _unusable(sentence: str) -> ServiceError:
    return ProviderFailed(
        f"the OpenID Connect provider cannot be used: {sentence}", hint="Check 'issuer', and the way there"
    )
