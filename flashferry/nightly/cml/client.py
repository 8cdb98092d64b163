"""Wrap Cisco's client so that it takes no login from the environment and shows every request. Needs the extra `cml`.

Facts
-----
virl2-client 2.10.1, by its source and measured against a stand-in:

* Values that it is not given it takes from the environment (`VIRL2_JWT` before a password), then from `.virlrc` in the
  working and home directory, then from a terminal prompt. An empty token counts as given.
* Its constructor sends three requests: `system_information`, `authenticate`, and the user's name. Between making its
  session and the first request it calls `check_controller_version`, where a subclass can reach the session.
* After a 401 it logs in again and repeats the request once; a wrong password is 403. Transport errors are the HTTP
  library's, except those of the third request, which are wrapped.
* It refuses controllers by its own version's rules; ours are in `flashferry.nightly.cml.access`.
* Proxy variables apply even to 127.0.0.1; they are read when the session is made.
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
    """Receive every request and every answer."""

    def on_request(self, request: httpx.Request) -> None:
        """Receive a request before it is sent."""

    def on_response(self, response: httpx.Response) -> None:
        """Receive an answer."""


class VersionUnusable(Exception):
    """The controller's version cannot be parsed."""


class NightClient(ClientLibrary):
    """A logged-in client whose session is observed from the first request on.

    Args:
        access: The controller and its login.
        watchers: Receive every request and answer.
        accept: Called with the version before the login is sent; raises to refuse it.

    Raises:
        ConfigInvalid: The certificate file is invalid.
        VersionUnusable: The controller reports no version.
        VirlException: An error of Cisco's client.
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
        """The HTTP session; its paths are relative to `/api/v0/`."""
        session: httpx.Client = self._session
        return session

    def check_controller_version(self) -> Version:
        """Add the watchers to the session, then request and check the version.

        Raises:
            VersionUnusable: It cannot be parsed.
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
    """Have a session token masked from the moment it arrives."""
    if response.request.url.path == _AUTHENTICATE and response.is_success:
        response.read()
        keep_secret(response.text.strip().strip('"'), is_random=True)


@contextmanager
def _proxies(access: ControllerAccess) -> Iterator[None]:
    """Disable the environment's proxies for the controller while its session is made, unless they are used."""
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
