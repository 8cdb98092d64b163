"""A real browser at a real service: Debian's Chromium, driven by Playwright's package, and somebody who is signed in.

`python -m tests.screenshots` and the tests of pages share it. Where there is no Chromium a test skips with the reason;
in CI, which installs it, that is a failure.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

from flashferry.service.people.identity import begin_session, cookie_name
from flashferry.service.principal import Role
from flashferry.service.service import Service
from flashferry.service.settings import ServiceSettings
from flashferry.store.service.database import ServiceDatabase, moment
from flashferry.store.service.people import GivenGrant, Person, insert_grant, insert_person, person
from tests.needs import lacking
from tests.patience import PATIENCE_S, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

_NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """Return the program, or None where the distribution's is not installed."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


@contextmanager
def browsing() -> Iterator[Browser]:
    """Yield a browser for the time of a block; skip the test where there is none, fail in CI."""
    program = chromium()
    if program is None:
        lacking("no Chromium here: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass(slots=True)
class Serving:
    """The service as a process of its own, which may be killed and begun again on its port.

    Attributes:
        state: The state folder.
        port: Where it listens.
        process: The process, or None while there is none.
    """

    state: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Begin it, and wait until it answers."""
        command = [sys.executable, "-m", "flashferry", "service", "--listen", f"127.0.0.1:{self.port}"]
        with (self.state / "service.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--state-dir", str(self.state)], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        log_of = lambda: f"the service to begin: {(self.state / 'service.log').read_text()}"  # noqa: E731
        until(lambda: self._answers() or self.process is None or self.process.poll() is not None, log_of)
        assert self.process.poll() is None, log_of()

    def kill(self) -> None:
        """End it as a crash does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/healthz", timeout=PATIENCE_S) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextmanager
def serving(state: Path, port: int) -> Iterator[Serving]:
    """Yield the service over a state folder for the time of a block."""
    made = Serving(state=state, port=port)
    try:
        made.start()
        yield made
    finally:
        made.kill()


def cookie_of(state: Path, *roles: Role, name: str = "ada", site: str = "*") -> tuple[str, str]:
    """Enter somebody with roles, sign him in, and return name and value of his cookie."""
    settings = ServiceSettings()
    service = Service(state=state, settings=settings, database=ServiceDatabase(state))
    with service.database.writing() as database:
        if person(database, name) is None:
            insert_person(database, Person(name=name, source="local", created_at=moment(service.now())), password=None)
        for role in roles:
            given = GivenGrant(role=role.value, site=site, given_by="system", given_at=moment(service.now()))
            insert_grant(database, name, given)
        session = begin_session(service, database, name, address="127.0.0.1")
    return cookie_name(settings), session.session_id


def signed_in(browser: Browser, url: str, cookie: tuple[str, str], **options: object) -> BrowserContext:
    """Return a context of a browser, whose pages are somebody's; options are those of `Browser.new_context`."""
    context = context_of(browser, base_url=url, **options)
    context.add_cookies([{"name": cookie[0], "value": cookie[1], "url": url}])
    return context


def context_of(browser: Browser, **options: object) -> BrowserContext:
    """Return a new context whose pages wait with the patience of all tests; Playwright's own limit is 30 s."""
    context = browser.new_context(**options)  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE_S * 1000)
    return context


def is_as_wide_as_its_window(page: Page) -> bool:
    """Return whether nothing of a page has to be scrolled to sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


__all__ = [
    "Serving",
    "browsing",
    "chromium",
    "context_of",
    "cookie_of",
    "is_as_wide_as_its_window",
    "serving",
    "signed_in",
]
