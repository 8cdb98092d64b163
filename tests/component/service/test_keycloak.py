"""Signing in with a real provider: Keycloak, as its makers ship it, unpacked where FLASHFERRY_KEYCLOAK says."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.subjects import free_port
from tests.browsing import Serving, browsing, context_of, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.soak

VARIABLE = "FLASHFERRY_KEYCLOAK"
PASSWORD = "kX81hsB2mq0"
CLIENTS = {"public": None, "confidential": "Zt3-client-secret"}


def realm(callback: str) -> dict:
    """Return what Keycloak imports: two people, one of them in a group, and a client of each kind."""
    mapper = {
        "name": "groups",
        "protocol": "openid-connect",
        "protocolMapper": "oidc-group-membership-mapper",
        "config": {"claim.name": "groups", "full.path": "false", "id.token.claim": "true"},
    }
    clients = [
        {
            "clientId": name,
            "publicClient": secret is None,
            "secret": secret,
            "redirectUris": [callback],
            "attributes": {"pkce.code.challenge.method": "S256"},
            "protocolMappers": [mapper],
        }
        for name, secret in CLIENTS.items()
    ]
    people = [
        {
            "username": name,
            "enabled": True,
            "email": f"{name}@staff.example",
            "emailVerified": True,
            "firstName": name.title(),
            "lastName": "Example",
            "groups": groups,
            "credentials": [{"type": "password", "value": PASSWORD}],
        }
        for name, groups in (("ann", ["/network-operators"]), ("bob", []))
    ]
    groups = [{"name": "network-operators"}]
    return {
        "realm": "staff",
        "enabled": True,
        "sslRequired": "none",
        "groups": groups,
        "clients": clients,
        "users": people,
    }


@pytest.fixture(scope="module")
def port() -> int:
    """Return where the service will listen; Keycloak knows it beforehand."""
    return free_port()


@pytest.fixture(scope="module")
def issuer(port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the issuer of a Keycloak that runs from a copy, for it writes into its own folder."""
    source = Path(os.environ.get(VARIABLE, ""))
    if VARIABLE not in os.environ or not (source / "bin" / "kc.sh").is_file() or shutil.which("java") is None:
        pytest.skip(
            f"no Keycloak here: unpack its distribution, name the folder by {VARIABLE}; it runs on Java 17 or 21"
        )
    home = tmp_path_factory.mktemp("keycloak") / "dist"
    shutil.copytree(source, home, ignore=shutil.ignore_patterns("data"))
    (home / "data" / "import").mkdir(parents=True)
    (home / "data" / "import" / "realm.json").write_text(
        json.dumps(realm(f"http://127.0.0.1:{port}/login/oidc/callback"))
    )
    listens = free_port()
    command = ["start-dev", "--import-realm", "--http-host", "127.0.0.1", "--http-port", str(listens)]
    process = subprocess.Popen(
        [home / "bin" / "kc.sh", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env=os.environ | {"JAVA_OPTS_APPEND": "-Xmx768m"},
    )
    try:
        assert process.stdout is not None
        lines = []
        while not lines or "Listening on:" not in lines[-1]:
            # It starts in minutes on a busy machine: its end is waited for, or this line.
            lines.append(process.stdout.readline())
            assert lines[-1], "".join(lines)
        yield f"http://127.0.0.1:{listens}/realms/staff"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        shutil.rmtree(home)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield a browser: Keycloak's cookies over loopback are for HTTPS, and it knows that loopback is as good."""
    with browsing() as made:
        yield made


@pytest.fixture(params=CLIENTS)
def served(request: pytest.FixtureRequest, issuer: str, port: int, tmp_path: Path) -> Iterator[Serving]:
    """Yield the service as a client of Keycloak, without and with a secret of its own."""
    secret = CLIENTS[request.param]
    lines = [
        "[listen]",
        f'url = "http://127.0.0.1:{port}"',
        "[oidc]",
        f'issuer = "{issuer}"',
        f'client_id = "{request.param}"',
    ]
    lines += [f'secret_command = ["printf", "{secret}"]'] if secret else []
    tmp_path.chmod(0o700)
    (tmp_path / "service.toml").write_text(
        "\n".join([*lines, "[oidc.roles]", 'network-operators = ["operator@AMS"]', ""])
    )
    (tmp_path / "service.toml").chmod(0o600)
    with serving(tmp_path, port) as made:
        yield made


def sign_in(page: Page, name: str, password: str = PASSWORD) -> list[str]:
    """Go to the service as a person does, and fill in Keycloak's form; return which addresses the browser asked for."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto("/login/oidc?next=/me")
    page.fill("#username", name)
    page.fill("#password", password)
    page.click("#kc-login")
    return asked


def me(page: Page) -> dict:
    """Return what the service knows of who is signed in."""
    return page.request.get("/api/v1/me").json()


def test_a_person_signs_in_with_the_roles_of_their_group(served, browser):
    """By code, PKCE and what Keycloak signs; the page asked for is shown, and the same answer is of no use again."""
    page = context_of(browser, base_url=served.url).new_page()
    asked = sign_in(page, "ann")
    page.wait_for_url("**/me")
    assert me(page)["name"] == "ann"
    assert [f"{one['role']}@{one['site']}" for one in me(page)["grants"]] == ["operator@AMS"]
    (answer,) = (one for one in asked if one.startswith(f"{served.url}/login/oidc/callback?"))
    assert page.request.get(answer).status == HTTPStatus.FORBIDDEN
    other = context_of(browser, base_url=served.url)
    assert other.request.get(answer).status == HTTPStatus.FORBIDDEN


def test_a_person_in_no_group_has_no_role(served, browser):
    """They are known, and may do nothing."""
    page = context_of(browser, base_url=served.url).new_page()
    sign_in(page, "bob")
    page.wait_for_url("**/me")
    assert (me(page)["name"], me(page)["grants"]) == ("bob", [])


def test_a_wrong_password_ends_at_the_provider(served, browser):
    """Keycloak shows its form again; the service has no session."""
    page = context_of(browser, base_url=served.url).new_page()
    sign_in(page, "ann", "wrong")
    page.wait_for_url("**/login-actions/authenticate**")
    page.wait_for_selector("#password")
    assert page.request.get("/api/v1/me").status == HTTPStatus.UNAUTHORIZED
