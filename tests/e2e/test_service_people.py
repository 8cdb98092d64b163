"""Signing in with a real browser: what it does by itself, and what pages of others cannot make it do."""

from __future__ import annotations

import contextlib
import http.server
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flashferry.service.people.accounts import NewPerson, add_person
from flashferry.service.people.provisioning import grant_of
from flashferry.service.people.sign_in import Passwords
from flashferry.service.service import Service
from flashferry.service.settings import ServiceSettings
from flashferry.store.service.database import ServiceDatabase
from tests.browsing import browsing, context_of, is_as_wide_as_its_window, serving
from tests.served import ADMIN, QUICK

pytestmark = pytest.mark.soak

PASSWORD = "correct horse battery"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture
def state(tmp_path: Path) -> Path:
    service = Service(state=tmp_path, settings=ServiceSettings(), database=ServiceDatabase(tmp_path))
    for name, role in (("root", "admin"), ("ann", "viewer")):
        new = NewPerson(name=name, password=PASSWORD, grants=(grant_of(role),))
        add_person(service, ADMIN, new, Passwords(QUICK))
    return tmp_path


@contextmanager
def another_site(page: str) -> Iterator[int]:
    """Yield the port of somebody else's page."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_signing_in_with_a_browser(state):
    """Led to the sign-in and back; forms work without any script; nothing is asked of anybody else."""
    from playwright.sync_api import Error

    with serving(state, free_port()) as served, browsing() as browser:
        context = context_of(browser, base_url=served.url, java_script_enabled=False)
        asked: list[str] = []
        context.on("request", lambda request: asked.append(request.url))
        page = context.new_page()
        page.goto("/admin/people/ann?x=1")
        assert page.url == f"{served.url}/login?next=/admin/people/ann%3Fx%3D1"
        page.fill("#f-name", "root")
        page.fill("#f-password", "wrong horse battery")
        page.keyboard.press("Enter")
        assert "not those of an account" in page.inner_text("[role=alert]")
        page.fill("#f-name", "root")
        page.fill("#f-password", PASSWORD)
        page.click("main button")
        assert page.url == f"{served.url}/admin/people/ann?x=1"
        (cookie,) = context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
        page.fill("#f-grants", "viewer operator@AMS")
        page.click("text=Set the roles")
        assert "operator@AMS, given by root" in page.inner_text("main")
        page.goto("/me")
        page.click("text=Create a token")
        page.fill("#f-name", "CI")
        page.click("text=Create the token")
        assert "ffy_" in page.inner_text("main")
        page.goto("/admin")
        page.click("text=Sign out")
        assert page.url == f"{served.url}/login"
        # Back is what a person presses; a page that is kept from before must not show when it is asked for anew. The
        # browser may swap processes there, and its driver lose the page meanwhile ("Not attached to an active page").
        with contextlib.suppress(Error):
            page.go_back()
        page.goto("/admin")
        assert "/login" in page.url
        assert all(url.startswith(served.url) for url in asked), asked
        context.close()


def test_pages_of_others_change_nothing(state):
    """Neither from another site, whose forms have no cookie, nor from another port of this one, whose forms have."""
    with serving(state, free_port()) as served, browsing() as browser:
        context = context_of(browser, base_url=served.url)
        page = context.new_page()
        page.goto("/login")
        page.fill("#f-name", "root")
        page.fill("#f-password", PASSWORD)
        page.click("main button")
        forms = (
            f'<form method=post action="{served.url}/admin/people/ann/disable"><input name=reason value=x></form>'
            f'<iframe src="{served.url}/admin"></iframe><script>document.forms[0].submit()</script>'
        )
        with another_site(forms) as port:
            for host in ("127.0.0.1", "localhost"):
                with page.expect_navigation(url="**/disable"):
                    page.goto(f"http://{host}:{port}/", wait_until="commit")
                page.wait_for_load_state()
                assert "Sign" in page.content() or "expected" in page.content()
                assert "active" in page.goto("/admin/people/ann").text()  # type: ignore[union-attr]
        page.goto("/admin")
        assert page.evaluate("document.cookie") == ""
        told: list[str] = []
        page.on("console", lambda message: told.append(message.text))
        page.evaluate(
            "document.body.append(Object.assign(document.createElement('script'), {text: 'window.done = 1'}))"
        )
        assert page.evaluate("window.done") is None
        assert any("Content Security Policy" in text for text in told)
        context.close()


@pytest.mark.parametrize("width", [400, 1400])
def test_pages_about_people_fit(state, width):
    """On a phone and on a wide screen nothing has to be scrolled to sideways."""
    with serving(state, free_port()) as served, browsing() as browser:
        context = context_of(browser, base_url=served.url, viewport={"width": width, "height": 900})
        page = context.new_page()
        page.goto("/login")
        assert is_as_wide_as_its_window(page)
        page.fill("#f-name", "root")
        page.fill("#f-password", PASSWORD)
        page.click("main button")
        for path in ("/me", "/admin", "/admin/people/ann"):
            page.goto(path)
            for summary in page.query_selector_all("summary"):
                summary.click()
            assert is_as_wide_as_its_window(page), path
        context.close()
