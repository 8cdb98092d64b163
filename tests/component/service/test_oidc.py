"""Signing in with an OpenID Connect provider: who is vouched for gets in, and every lie is refused and written down."""

from __future__ import annotations

import json
import sys
from urllib.parse import urlencode

import httpx
import pytest
from joserfc import jws
from joserfc.jwk import ECKey

from flashferry.core.values import replace
from flashferry.service.people.oidc import MOST_BYTES, Provider
from flashferry.service.settings import OidcSettings, ServiceSettings
from flashferry.store.service import people as rows
from tests.component.service.oidc_provider import ISSUER, StandIn, unsigned
from tests.served import Browser, Served, serve

SETTINGS = OidcSettings(
    issuer=ISSUER, client_id="flashferry", roles={"noc": ("viewer", "operator@AMS"), "boss": ("approver",)}
)
CALLBACK = "https://service.example/login/oidc/callback"


@pytest.fixture
def served(tmp_path) -> Served:
    return serve(tmp_path, ServiceSettings(oidc=SETTINGS, url="https://service.example"))


@pytest.fixture
def provider(served) -> StandIn:
    made = StandIn(served.clock)
    served.app.state.provider = Provider(SETTINGS, callback=CALLBACK, now=served.clock, client=made.client)
    return made


def begin(served: Served, wanted: str = "/runs") -> tuple[str, str]:
    """Return where a browser is sent, and the cookie that it has from then on."""
    answer = served.call("GET", f"/login/oidc?next={wanted}")
    assert answer.status_code == 303, answer.text
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "Secure" in cookie
    assert "samesite=lax" in cookie.lower()
    return answer.headers["location"], cookie.split(";")[0]


def finish(served: Served, answer: dict[str, str], cookie: str) -> httpx.Response:
    return served.call("GET", f"/login/oidc/callback?{urlencode(answer)}", headers={"Cookie": cookie})


def sign_in(served: Served, provider: StandIn, wanted: str = "/runs") -> httpx.Response:
    url, cookie = begin(served, wanted)
    return finish(served, provider.authorize(url), cookie)


def session(answer: httpx.Response) -> Browser:
    cookie = next(one for one in answer.headers.get_list("set-cookie") if one.startswith("__Host-flashferry="))
    return Browser(cookie.split(";")[0].partition("=")[2], "")


def test_who_is_vouched_for_gets_in(served, provider):
    """With the roles of his groups, on the page that he wanted; and what he brought is over."""
    answer = sign_in(served, provider)
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs")
    told = served.call("GET", "/api/v1/me", session(answer)).json()
    assert told["name"] == "ann"
    assert [f"{one['role']}@{one['site']}" for one in told["grants"]] == ["operator@AMS", "viewer@*"]
    assert [one.action for one in served.audit()] == ["user.made", "user.granted", "login.ok"]
    assert provider.secrets == [None]


def test_groups_are_followed_at_each_sign_in(served, provider):
    """Who left a group has lost what it gave."""
    sign_in(served, provider)
    provider.person["groups"] = "boss"
    told = served.call("GET", "/api/v1/me", session(sign_in(served, provider))).json()
    assert [f"{one['role']}@{one['site']}" for one in told["grants"]] == ["approver@*"]


def test_claims_that_the_id_token_lacks_come_from_userinfo(served, provider):
    """Some providers name user and groups there alone; what the signed token says stays."""
    provider.person = {"sub": "u-1", "name": "Ann B"}
    provider.userinfo = {"sub": "u-1", "preferred_username": "Ann", "name": "Other", "groups": ["noc"]}
    found = served.call("GET", "/api/v1/me", session(sign_in(served, provider))).json()
    with served.service.database.reading() as database:
        assert [(one.name, one.display) for one in rows.people(database)] == [("ann", "Ann B")]
    assert [f"{one['role']}@{one['site']}" for one in found["grants"]] == ["operator@AMS", "viewer@*"]


def test_userinfo_is_not_asked_where_nothing_is_missing(served, provider):
    """One request less for each sign-in, and one answer less to trust."""
    provider.userinfo = {"sub": "u-1", "groups": ["boss"]}
    sign_in(served, provider)
    assert "/realm/userinfo" not in provider.asked


@pytest.mark.parametrize(
    ("userinfo", "status"),
    [({"sub": "u-2", "groups": ["noc"]}, 403), ({"groups": ["noc"]}, 403), ({"sub": "u-1", "groups": {"noc": 1}}, 403)],
    ids=str,
)
def test_userinfo_of_another_user_signs_in_no_one(served, provider, userinfo, status):
    """OpenID Connect Core 5.3.2: the subject must be that of the ID token."""
    provider.person = {"sub": "u-1", "preferred_username": "Ann"}
    provider.userinfo = userinfo
    assert sign_in(served, provider).status_code == status
    assert [(one.action, one.outcome) for one in served.audit()] == [("login.failed", "refused")]


def test_the_scopes_of_the_settings_are_asked_for(served, provider):
    """A provider such as dex gives groups only for a scope of its own."""
    settings = replace(SETTINGS, scopes=("openid", "email", "groups"))
    served.app.state.provider = Provider(settings, callback=CALLBACK, now=served.clock, client=provider.client)
    url, _ = begin(served)
    assert "scope=openid+email+groups&" in url


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "other"},
        {"nonce": None},
        {"aud": "somebody-else"},
        {"aud": ["flashferry", "other"]},
        {"aud": ["flashferry", "other"], "azp": "other"},
        {"azp": "other"},
        {"aud": None},
        {"iss": "https://id.example/other"},
        {"iss": None},
        {"exp": 1},
        {"exp": None},
        {"exp": "soon"},
        {"iat": 4_000_000_000},
        {"sub": None},
        {"groups": {"noc": True}},
        {"preferred_username": "system"},
        {"preferred_username": "<script>"},
    ],
    ids=str,
)
def test_a_claim_that_is_wrong_lets_nobody_in(served, provider, claims):
    """Nonce, audience, issuer, end: each is held; the refusal is in the audit, and nobody is entered."""
    provider.claims = claims
    answer = sign_in(served, provider)
    assert answer.status_code == 403
    assert "__Host-flashferry=" not in str(answer.headers.get_list("set-cookie"))
    assert [(one.action, one.outcome) for one in served.audit()] == [("login.failed", "refused")]
    with served.service.database.reading() as database:
        assert rows.people(database) == ()


def test_a_clock_a_little_apart_is_no_lie(served, provider):
    """Half a minute is nothing between two hosts."""
    at = int(served.clock().timestamp())
    provider.claims = {"iat": at + 30, "exp": at - 30}
    assert sign_in(served, provider).status_code == 303


@pytest.mark.parametrize("lie", ["none", "shared", "other", "cut", "same-kid"])
def test_a_signature_that_is_not_the_providers_lets_nobody_in(served, provider, lie):
    """Unsigned, signed with the public key as a secret, with another key, with one of the same name, or cut off."""
    other = ECKey.generate_key("P-256", parameters={"kid": "k2"})
    same = ECKey.generate_key("P-256", parameters={"kid": "k1"})
    provider.signed = {
        "none": unsigned,
        "shared": provider.sign_by_public_key,
        "other": replace(provider, key=other).sign,
        "same-kid": replace(provider, key=same).sign,
        "cut": lambda claims: provider.sign(claims)[:-10],
    }[lie]
    assert sign_in(served, provider).status_code == 403


def test_a_secret_among_the_published_keys_is_no_key(served, provider):
    """Whoever can read it could sign."""
    provider.published = [{"kty": "oct", "k": "c2VjcmV0", "kid": "k1"}, provider.key.as_dict(private=False)]
    assert sign_in(served, provider).status_code == 303


def test_keys_that_changed_are_fetched_again(served, provider):
    """A provider rolls its keys while ours are kept for an hour."""
    sign_in(served, provider)
    provider.key = ECKey.generate_key("P-256", parameters={"kid": "k2"})
    assert sign_in(served, provider).status_code == 303
    assert provider.asked.count("/realm/keys") == 2
    assert provider.asked.count("/realm/.well-known/openid-configuration") == 1


@pytest.mark.parametrize(
    "change",
    [{"state": "other"}, {"state": ""}, {"iss": "https://evil.example"}, {"error": "access_denied"}, {"code": ""}],
)
def test_an_answer_to_something_else_is_refused(served, provider, change):
    """Another state, another provider (mix-up), an error, no code."""
    url, cookie = begin(served)
    assert finish(served, {**provider.authorize(url), **change}, cookie).status_code == 403


def test_an_answer_is_good_in_the_browser_that_asked(served, provider):
    """Nobody is signed in as somebody else by a link that is sent to him."""
    url, cookie = begin(served)
    answer = provider.authorize(url)
    _, others = begin(served)
    for wrong in ("", others, cookie[:-1] + ("0" if cookie[-1] != "0" else "1"), "__Host-flashferry-oidc=x.y"):
        assert finish(served, answer, wrong).status_code == 403
    assert finish(served, answer, cookie).status_code == 303
    assert finish(served, answer, cookie).status_code == 502  # the provider takes no code twice


def test_an_answer_comes_in_time(served, provider):
    """After ten minutes nobody knows who sits there."""
    url, cookie = begin(served)
    answer = provider.authorize(url)
    served.clock.forward(601)
    assert finish(served, answer, cookie).status_code == 403


def test_who_is_disabled_here_does_not_get_in(served, provider):
    """Whatever the provider says."""
    sign_in(served, provider)
    with served.service.database.writing() as database:
        rows.set_state(database, "ann", "disabled")
    assert sign_in(served, provider).status_code == 403
    assert served.audit()[-1].action == "login.failed"


def test_a_local_name_is_not_had_from_outside(served, provider):
    """The provider's `root` is not the admin here."""
    served.person("root", "admin")
    provider.person["preferred_username"] = "root"
    assert sign_in(served, provider).status_code == 403


@pytest.mark.parametrize("wanted", ["//evil.example", "https://evil.example", "/%5Cevil.example", "/%09/evil.example"])
def test_nobody_is_led_elsewhere(served, provider, wanted):
    """The way back leads to a page of ours."""
    assert sign_in(served, provider, wanted).headers["location"] == "/"


def test_a_slash_at_the_end_of_an_issuer_is_the_providers(served, provider):
    """Some have one, and their tokens with it; settings may leave it out, tokens may not."""
    provider.document = {"issuer": f"{ISSUER}/"}
    provider.claims = {"iss": f"{ISSUER}/"}
    url, cookie = begin(served)
    answer = provider.authorize(url)
    assert finish(served, {**answer, "iss": f"{ISSUER}/"}, cookie).status_code == 303
    provider.claims = {"iss": ISSUER}
    url, cookie = begin(served)
    assert finish(served, {"code": "", **provider.authorize(url), "iss": f"{ISSUER}/"}, cookie).status_code == 403


ENDPOINT = f"{ISSUER}/token"
BAD_DOCUMENTS = (
    {"issuer": "https://id.example/other"},
    {"issuer": None},
    {"issuer": ["x"]},
    {"authorization_endpoint": None},
    {"authorization_endpoint": "http://id.example/realm/authorize"},
    {"token_endpoint": ENDPOINT.replace("https", "http")},
    {"token_endpoint": ENDPOINT.replace("example", "example:99999")},
    {"token_endpoint": [ENDPOINT]},
    {"jwks_uri": ""},
    {"jwks_uri": "https://[/keys"},
    {"jwks_uri": "https:///keys"},
    {"jwks_uri": f"{ISSUER}/keys\n"},
)


@pytest.mark.parametrize("document", BAD_DOCUMENTS, ids=str)
def test_a_bad_document_is_not_kept(served, provider, document):
    """It is refused as a whole, where it is asked for; the good one after it signs people in at once."""
    provider.document = document
    assert served.call("GET", "/login/oidc").status_code == 502
    provider.document = {}
    assert sign_in(served, provider).status_code == 303


BAD_KEYS = ("no list", {}, 5, [], [5], [{"kty": "oct", "k": "c2VjcmV0"}], [{"kty": ["EC"]}], [{"kty": "EC", "x": "AA"}])


@pytest.mark.parametrize("keys", BAD_KEYS, ids=str)
def test_bad_keys_are_not_kept(served, provider, keys):
    """Neither where there were none, nor in the place of good ones; the good ones after them sign people in at once."""
    provider.lies["/realm/keys"] = httpx.Response(200, json={"keys": keys})
    assert sign_in(served, provider).status_code == 502
    provider.lies.clear()
    assert sign_in(served, provider).status_code == 303
    # A signature that is not theirs has the keys asked for anew.
    provider.lies["/realm/keys"] = httpx.Response(200, json={"keys": keys})
    provider.signed = replace(provider, key=ECKey.generate_key("P-256", parameters={"kid": "k2"})).sign
    assert sign_in(served, provider).status_code == 502
    provider.signed = None
    assert sign_in(served, provider).status_code == 303, "the good ones were kept"


def test_a_key_that_cannot_be_used_spoils_no_other(served, provider):
    """RFC 7517, 5: a provider may have keys of kinds that we do not know."""
    provider.published = [
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "new"},
        5,
        provider.key.as_dict(),
    ]
    assert sign_in(served, provider).status_code == 303


HEAD = {"Content-Type": "application/json"}
LIES = {
    "a redirect": httpx.Response(302, headers={"Location": "https://evil.example/"}),
    "a failure": httpx.Response(503, json={}),
    "deep": httpx.Response(200, content=b"[" * 200_000, headers=HEAD),
    "deep object": httpx.Response(200, content=b'{"a":' * 150_000, headers=HEAD),
    "no text": httpx.Response(200, content=b"\xff\xfe", headers=HEAD),
    "empty": httpx.Response(200, content=b"", headers=HEAD),
    "long": httpx.Response(200, content=b" " * (MOST_BYTES + 1), headers=HEAD),
    "large number": httpx.Response(200, content=b'{"issuer": ' + b"9" * 10_000 + b"}", headers=HEAD),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("path", ["/realm/.well-known/openid-configuration", "/realm/token", "/realm/keys"])
def test_a_lie_at_any_step_is_one_refusal(served, provider, lie, path):
    """The sign-in after it is good."""
    provider.lies[path] = LIES[lie]
    url = served.call("GET", "/login/oidc")
    if url.status_code == 303:
        cookie = url.headers["set-cookie"].split(";")[0]
        url = finish(served, provider.authorize(url.headers["location"]), cookie)
    assert url.status_code == 502
    provider.lies.clear()
    assert sign_in(served, provider).status_code == 303


@pytest.mark.parametrize(
    "claims",
    [
        {"name": "\ud800"},
        {"sub": "\udfff"},
        {"email": "\ud800@example"},
        {"preferred_username": ["ann"]},
        {"preferred_username": "\0"},
    ],
    ids=ascii,
)
def test_a_claim_that_is_no_text_is_refused(served, provider, claims):
    """Half of a surrogate pair is a refusal, not a failure of ours."""
    provider.claims = claims
    header = {"alg": "ES256", "kid": "k1"}
    provider.signed = lambda made: jws.serialize_compact(header, json.dumps(made).encode(), provider.key)
    assert sign_in(served, provider).status_code == 403


def test_claims_that_are_nested_too_deep_are_refused(served, provider):
    """They are signed, and no more to be trusted for that."""
    deep = b'{"a":' * 9_000
    provider.signed = lambda _: jws.serialize_compact({"alg": "ES256", "kid": "k1"}, deep, provider.key)
    assert sign_in(served, provider).status_code == 403


def test_a_provider_that_is_away_is_told(served, provider):
    """In a sentence, and people with local accounts sign in as ever."""
    served.app.state.provider._client = lambda: httpx.Client(
        transport=httpx.MockTransport(lambda _: httpx.Response(500, text="oops"))
    )
    answer = served.call("GET", "/login/oidc")
    assert answer.status_code == 502
    assert "id.example" in answer.json()["detail"]
    assert served.call("GET", "/login", headers={"Accept": "text/html"}).status_code == 200


def test_our_secret_comes_from_a_program(served, provider):
    """Without a shell, at each sign-in; it is nowhere else."""
    settings = replace(SETTINGS, secret_command=(sys.executable, "-c", "print('hush' * 5)"))
    served.app.state.provider = Provider(settings, callback=CALLBACK, now=served.clock, client=provider.client)
    assert sign_in(served, provider).status_code == 303
    assert provider.secrets == ["hush" * 5]
    settings = replace(SETTINGS, secret_command=("/nonexistent",))
    served.app.state.provider = Provider(settings, callback=CALLBACK, now=served.clock, client=provider.client)
    assert sign_in(served, provider).status_code == 422


def test_without_a_provider_there_is_no_such_way(tmp_path):
    """The page does not offer it either."""
    served = serve(tmp_path)
    assert served.call("GET", "/login/oidc").status_code == 404
    assert "oidc" not in served.call("GET", "/login", headers={"Accept": "text/html"}).text
