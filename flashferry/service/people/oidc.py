"""Sign-in by OpenID Connect: authorization code with PKCE; the answer must come from the same browser.

Facts
-----
* OpenID Connect Core 1.0, 3.1.3.7: issuer, audience, signature, expiry and nonce of an ID token are checked; `azp` if
  there are several audiences. `none` and shared-key algorithms are not accepted: anyone with the public key could sign.
* OpenID Connect Core 1.0, 5.3 and 5.4: a provider may give claims such as groups by its UserInfo endpoint alone. It is
  asked only if a claim that we need is missing; what the signed ID token says comes first, and `sub` must be the same.
* RFC 7636: a code is useless without the verifier.
* RFC 9207: an issuer in the answer must be the one that was asked.
* The provider's metadata and keys are checked before they are cached: an invalid answer replaces nothing.
* State, nonce and verifier are in a cookie of ten minutes, signed by a key of this process: nothing is stored for
  callers that only start, and no answer is accepted in another browser.
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

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import keep_secret, sanitize
from flashferry.service.errors import Forbidden, ProviderFailed, ServiceError
from flashferry.service.outbound import HttpRequest, NoAnswer, ask, json_object
from flashferry.service.people.provisioning import MappedPerson, grants_for
from flashferry.service.service import Service
from flashferry.service.settings import OidcSettings

if TYPE_CHECKING:
    # Late: joserfc and httpx are slow to import, and needed only with a provider.
    import httpx
    from joserfc.jwk import KeySet

T = TypeVar("T")
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
STARTED_S = 600
"""Time for the sign-in at the provider."""
KEPT_S = 3600.0
"""How long metadata and keys are cached."""
LEEWAY_S = 60
"""Allowed clock difference."""
MOST_BYTES = 2**20
TIMEOUT_S = 10.0
"""For each request, from its connection to the end of its answer."""
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_USERINFO = "userinfo_endpoint"
"""Optional in the provider's metadata."""
_SECRET_S = 30.0
CALLBACK = "/login/oidc/callback"
"""Path of this service to which the provider sends users back."""
_AGAIN = "Start again at /login; if it persists, an admin finds the reason in the audit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A sign-in that was started: URL at the provider, and the signed cookie."""

    url: str
    cookie: str = field(repr=False)


class Provider:
    """OpenID Connect provider, which redirects to the URL `callback` of this service. Thread-safe.

    `client` creates an HTTP client; for tests.
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
        """Return issuer and endpoints, cached. Raises `ProviderFailed`."""
        url = f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration"
        return self._known("about", url, self._judged_about)

    def known_about(self) -> Mapping[str, str] | None:
        """Return issuer and endpoints if they are cached, else None."""
        return cast("Mapping[str, str] | None", self._kept_of("about"))

    def is_started_here(self, answer: Mapping[str, str], cookie: str | None) -> bool:
        """Return whether this browser started the sign-in of an answer; the provider is not contacted."""
        try:
            self._check_started(answer, cookie)
        except ServiceError:
            return False
        return True

    def begin(self, next_: str, endpoint: str) -> Started:
        """Return URL and cookie that start a sign-in; the provider is not contacted.

        `next_` is the requested page, a path of this service; `endpoint` the provider's `authorization_endpoint`.
        """
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        asked = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._callback,
            "scope": " ".join(self._settings.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        joint = "&" if urlsplit(endpoint).query else "?"
        started = {"state": state, "nonce": nonce, "verifier": verifier, "next": next_, "at": self._now().timestamp()}
        return Started(url=f"{endpoint}{joint}{urlencode(asked)}", cookie=self._signed(started))

    def finish(self, answer: Mapping[str, str], cookie: str | None) -> tuple[MappedPerson, str]:
        """Check the provider's answer and the cookie; return the user and the requested page.

        Raises:
            Forbidden: The answer belongs to another browser's sign-in, or is a refusal or not valid.
            ProviderFailed: The provider cannot be used.
        """
        started = self._check_started(answer, cookie)
        if answer.get("iss", self._issuer()) != self._issuer():
            raise _refused("expected an answer of the provider that was asked, found one of another")
        if "error" in answer:
            raise _refused(f"the provider refused: {sanitize(answer['error'][:100])}")
        if not answer.get("code"):
            raise _refused("expected a code in the provider's answer, found none")
        try:
            tokens = self._tokens(answer["code"], str(started["verifier"]))
            claims = self._claims(str(tokens["id_token"]), str(started["nonce"]))
            return self._person(self._completed(claims, tokens.get("access_token"))), str(started["next"])
        except (RecursionError, UnicodeError) as error:
            raise _refused(f"the provider's ID token is not good: {type(error).__name__}") from None

    def _tokens(self, code: str, verifier: str) -> Mapping[str, object]:
        """Exchange the code; return the answer, which has an `id_token`."""
        # Do not mask the code: its sender chooses it, and could mask any word on every page.
        sent = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._callback,
            "code_verifier": verifier,
            "client_id": self._settings.client_id,
        }
        if self._settings.secret_command:
            sent["client_secret"] = _secret(self._settings.secret_command)
        tokens = self._fetch("POST", self._endpoint("token_endpoint"), sent)
        if not isinstance(tokens.get("id_token"), str):
            raise _refused("expected an ID token from the provider, found none")
        return tokens

    def _completed(self, claims: Mapping[str, object], access_token: object) -> Mapping[str, object]:
        """Return the claims with those of the UserInfo endpoint, if one that we need is missing and there is one."""
        has_name = bool(claims.get("preferred_username") or claims.get("email"))
        has_groups = not self._settings.roles or self._settings.groups_claim in claims
        endpoint = self.about().get(_USERINFO)
        if (has_name and has_groups) or endpoint is None or not isinstance(access_token, str):
            return claims
        more = self._fetch("GET", endpoint, headers={"Authorization": f"Bearer {access_token}"})
        if more.get("sub") != claims["sub"]:
            raise _refused("the provider's UserInfo is of another user than its ID token")
        return {**more, **claims}

    def _claims(self, token: str, nonce: str) -> Mapping[str, object]:
        # Late: slow to import, and needed only with a provider.
        from joserfc import errors, jwt

        try:
            try:
                decoded = jwt.decode(token, self._keys(), algorithms=list(ALGORITHMS))
            except (errors.JoseError, ValueError):
                # The provider may have rotated its keys since they were fetched.
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
        except (errors.JoseError, ValueError, TypeError) as error:
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
        """Check the provider's metadata and return them. Raises `ProviderFailed`."""
        issuer = document.get("issuer")
        if not isinstance(issuer, str) or issuer.rstrip("/") != self._settings.issuer.rstrip("/"):
            raise _unusable("it calls itself by another issuer than the settings do")
        names = (*_ENDPOINTS, *((_USERINFO,) if _USERINFO in document else ()))
        return {"issuer": issuer, **{name: self._judged_endpoint(document, name) for name in names}}

    def _judged_endpoint(self, document: Mapping[str, object], name: str) -> str:
        url = document.get(name)
        if not isinstance(url, str) or not _leads_to(url, urlsplit(self._settings.issuer).scheme):
            raise _unusable(f"it names no {name} of the issuer's scheme")
        return url

    def _issuer(self) -> str:
        """Return the issuer exactly as the provider writes it: some end it with a slash, also in tokens."""
        return self.about()["issuer"]

    def _endpoint(self, name: str) -> str:
        return self.about()[name]

    def _keys(self, *, is_anew: bool = False) -> KeySet:
        return self._known("keys", self._endpoint("jwks_uri"), _judged_keys, is_anew=is_anew)

    def _known(self, what: str, url: str, judged: Callable[[Mapping[str, object]], T], *, is_anew: bool = False) -> T:
        """Return a cached document, or fetch and check it now."""
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

    def _fetch(
        self,
        method: str,
        url: str,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Mapping[str, object]:
        request = HttpRequest(
            method=method, url=url, headers={"Accept": "application/json", **(headers or {})}, form=form
        )
        host = urlsplit(url).netloc
        try:
            answer = ask(self._client(), request, most_s=TIMEOUT_S, most_bytes=MOST_BYTES)
            if answer.status != HTTPStatus.OK:
                raise _unusable(f"{host} answers {answer.status} to {method}")
            return json_object(answer.body)
        except NoAnswer as error:
            raise _unusable(f"{host}: {error.sentence}") from None

    def _signed(self, started: Mapping[str, object]) -> str:
        body = base64.urlsafe_b64encode(json.dumps(started).encode()).decode()
        return f"{body}.{self._mark(body)}"

    def _check_started(self, answer: Mapping[str, str], cookie: str | None) -> Mapping[str, object]:
        started = self._read(cookie)
        if not hmac.compare_digest(answer.get("state", "").encode(), str(started["state"]).encode()):
            raise _refused("expected the state of a sign-in that this browser began, found another one")
        return started

    def _read(self, cookie: str | None) -> Mapping[str, object]:
        body, _, mark = (cookie or "").rpartition(".")
        if not hmac.compare_digest(mark.encode(), self._mark(body).encode()):
            raise _refused("expected a sign-in that this browser began, found none")
        started: dict[str, object] = json.loads(base64.urlsafe_b64decode(body))
        if not 0 <= self._now().timestamp() - float(str(started["at"])) <= STARTED_S:
            raise _refused(f"expected an answer within {STARTED_S // 60} min, found a later one")
        return started

    def _mark(self, body: str) -> str:
        return hmac.new(self._key, body.encode(), hashlib.sha256).hexdigest()


def provider_of(service: Service) -> Provider | None:
    """Return the configured provider, or None."""
    settings = service.settings
    if settings.oidc is None:
        return None
    return Provider(settings.oidc, callback=settings.base_url + CALLBACK, now=service.now)


def _client() -> httpx.Client:
    # Late: slow to import, and needed only with a provider.
    import httpx

    return httpx.Client(timeout=TIMEOUT_S, follow_redirects=False)


def _text(claim: object) -> str:
    """Return a claim as text. Raises `UnicodeError` for a lone surrogate."""
    return str(claim).encode().decode()


def _leads_to(url: str, scheme: str) -> bool:
    """Return whether a URL is valid and has a given scheme."""
    try:
        parts = urlsplit(url)
        return parts.scheme == scheme and bool(parts.hostname) and parts.port != 0 and url.isprintable()
    except ValueError:
        return False


def _judged_keys(document: Mapping[str, object]) -> KeySet:
    """Return the signing keys of a JWK set; unusable ones are ignored (RFC 7517, 5). Raises `ProviderFailed`."""
    # Late: slow to import, and needed only with a provider.
    from joserfc import errors, jwk

    listed = document.get("keys")
    keys = []
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and one.get("kty") != "oct" and one.get("use", "sig") == "sig":
            with suppress(errors.JoseError, ValueError, TypeError, KeyError, RecursionError):
                keys += jwk.KeySet.import_key_set({"keys": [one]}).keys
    if not keys:
        raise _unusable("its keys are no list of keys that sign")
    return jwk.KeySet(keys)


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
        f"the OpenID Connect provider cannot be used: {sentence}", hint="Check 'issuer', and the network path to it"
    )
