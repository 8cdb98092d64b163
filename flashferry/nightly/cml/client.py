"""Cisco's client of the controller's interface, kept from what it would do by itself. Needs the extra `cml`.

Facts
-----
virl2-client 2.10.1, by its source and measured against a stand-in:

* What it is not given it takes from the environment (`VIRL2_JWT` before a password), then from `.virlrc` in the working
  directory and at home, then by asking on the terminal. An empty token is a given one, and counts as none.
* Its constructor asks three things: `system_information`, `authenticate`, and who is logged in. Between making its
  session and the first question it calls `check_controller_version`: there a subclass can get hold of the session.
* A 401 has it log in again and repeat the request once; a wrong password is 403. Errors of transport come out of it as
  the HTTP library's, but for those of the third question, which are wrapped.
* It refuses controllers by its own version's rules; ours are the facts' (`flashferry.nightly.cml.access`).
* Proxy variables count, even for 127.0.0.1; they are read when the session is made, and then no more.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import httpx
from virl2_client import ClientLibrary
from virl2_client.utils import Version

from flashferry.core.json_access import Node
from flashferry.core.redaction import keep_secret
from flashferry.nightly.cml.access import ControllerAccess

# What it warns of (a port that is not 443, a login renewed) would end on the terminal without a log.
logging.getLogger("virl2_client").addHandler(logging.NullHandler())

_CONNECT_S = 10.0
_ENVIRONMENT = threading.Lock()
_AUTHENTICATE = "/api/v0/authenticate"


class Watcher(Protocol):
    """What sees every request and every answer."""

    def on_request(self, request: httpx.Request) -> None:
        """Look at a request before it is sent."""

    def on_response(self, response: httpx.Response) -> None:
        """Look at an answer before anybody else does."""


class VersionUnusable(Exception):
    """What a controller says of its version is none."""


class NightClient(ClientLibrary):
    """A logged in client whose session is watched from the first request on.

    Args:
        access: The controller and its login.
        watchers: What sees every exchange.
        accept: Takes the controller's version, before the login is sent; raises to refuse it.

    Raises:
        ConfigInvalid: The file of certificates cannot be used.
        VersionUnusable: The controller reports no version.
        VirlException: As Cisco's client raises them.
        httpx.HTTPError: The controller cannot be reached.
    """

    def __init__(self, access: ControllerAccess, *, watchers: Iterable[Watcher], accept: Any) -> None:
        self._watchers = tuple(watchers)
        self._accept = accept
        timeout = httpx.Timeout(access.timeout_s, connect=min(_CONNECT_S, access.timeout_s))
        trust = access.trust()
        try:
            with _proxies(access):
                super().__init__(
                    access.url,
                    access.username,
                    access.password,
                    jwtoken="",
                    ssl_verify=trust,
                    raise_for_auth_failure=True,
                    timeout=timeout,
                    client_type="flashferry",
                )
        except BaseException:
            if (session := getattr(self, "_session", None)) is not None:
                session.close()
            raise

    @property
    def session(self) -> httpx.Client:
        """What requests are made with; its paths begin below `/api/v0/`."""
        session: httpx.Client = self._session
        return session

    def check_controller_version(self) -> Version:
        """Have the session watched, ask for the version and have it accepted: nothing was sent before.

        Raises:
            VersionUnusable: It reports none.
        """
        hooks = self.session.event_hooks
        hooks["request"] += [one.on_request for one in self._watchers]
        # Answers are recorded with their tokens masked already.
        hooks["response"] += [_keep_token, *(one.on_response for one in self._watchers)]
        self.session.event_hooks = hooks
        text = Node(self.system_info()).text("version") or ""
        self._accept(text)
        try:
            return Version(text)
        except (TypeError, ValueError):
            raise VersionUnusable(text) from None


def _keep_token(response: httpx.Response) -> None:
    """Have a token masked wherever it turns up, from the moment it is dealt out."""
    if response.request.url.path == _AUTHENTICATE and response.is_success:
        response.read()
        keep_secret(response.text.strip().strip('"'), is_random=True)


@contextmanager
def _proxies(access: ControllerAccess) -> Iterator[None]:
    """Keep the environment's proxies from a controller, unless they are wanted, while its session is made."""
    if access.is_proxy_used:
        yield
        return
    with _ENVIRONMENT:
        # Where both spellings are set, the lower one counts.
        before = os.environ.get("no_proxy")
        others = before if before is not None else os.environ.get("NO_PROXY", "")
        os.environ["no_proxy"] = ",".join(filter(None, (others, access.host)))
        try:
            yield
        finally:
            if before is None:
                del os.environ["no_proxy"]
            else:
                os.environ["no_proxy"] = before
