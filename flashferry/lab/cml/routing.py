"""From a request to its answer: the calls of the interface, whose token a request carries, and how refusals read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from flashferry.lab.cml.controller import Controller, User
from flashferry.lab.cml.definitions import Refused, refused
from flashferry.lab.cml.elements import Lab, Link, Node

BASE = "/api/v0/"
"""Where the interface begins."""


def as_json(value: object, status: int = HTTPStatus.OK) -> Response:
    """Return an answer in JSON."""
    return Response(json.dumps(value), status, media_type="application/json")


def as_yaml(text: str) -> Response:
    """Return an answer of YAML."""
    return Response(text, media_type="text/yaml")


def refusal(error: Refused) -> Response:
    """Return a refusal as the interface writes it."""
    return as_json({"code": int(error.status), "description": error.description}, error.status)


@dataclass(frozen=True)
class Call:
    """A request that has found its handler.

    `names`: What stands in the path for the names of the template. `spool`: A file with the body of an upload.
    """

    controller: Controller
    request: Request
    names: dict[str, str]
    user: User
    body: bytes = b""
    spool: Path | None = None

    @cached_property
    def lab(self) -> Lab:
        """The lab of the path."""
        return self.controller.lab(self.names["lab"], self.user)

    @cached_property
    def node(self) -> Node:
        """The node of the path."""
        return self.lab.node(self.names["node"])

    @cached_property
    def link(self) -> Link:
        """The link of the path."""
        return self.lab.link(self.names["link"])

    @property
    def query(self) -> dict[str, str]:
        """What follows the question mark; the last of equal names."""
        return dict(self.request.query_params)

    @property
    def text(self) -> str:
        """The body as text."""
        try:
            return self.body.decode()
        except UnicodeDecodeError as error:
            raise refused("bad_request", why="the body is no UTF-8") from error

    @property
    def json(self) -> Any:
        """The body as JSON; None for an empty one."""
        if not self.body:
            return None
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise refused("bad_request", why="the body is no JSON") from error

    @property
    def object(self) -> dict[str, Any]:
        """The body as an object."""
        value = self.json
        if not isinstance(value, dict):
            raise refused("bad_request", why="expected an object")
        return value

    def asks(self, name: str) -> bool:
        """Return whether a flag of the query is set."""
        return self.query.get(name) in {"true", "True", "1", "yes"}


Handler = Callable[[Call], object]
"""Returns a response, what is answered in JSON, or None for an answer without a body."""


class ApiRoute(Route):
    """One call of the interface.

    `template`: The path below ``/api/v0/``, with ``{lab}`` and the like for one part of it. `since`: The version that
    brought it; empty for all. `is_open`: Whether it needs no token.
    """

    def __init__(
        self, method: str, template: str, handler: Handler, *, since: tuple[int, ...] = (), is_open: bool = False
    ) -> None:
        super().__init__(BASE + template, handler, methods=[method])
        self.method, self.template, self.handler = method, template, handler
        self.since, self.is_open = since, is_open


_NO_USER = User(username="", password="", is_admin=False)


def answer(
    controller: Controller, routes: tuple[ApiRoute, ...], request: Request, body: bytes = b"", spool: Path | None = None
) -> Response:
    """Return the answer to a request; a refusal is one, too."""
    try:
        with controller.lock:
            for route in routes:
                match, scope = route.matches(request.scope)
                if match is Match.FULL and controller.version >= route.since:
                    token = request.headers.get("authorization")
                    user = _NO_USER if route.is_open else controller.access.user(token)
                    found = route.handler(Call(controller, request, scope["path_params"], user, body, spool))
                    return _response(found)
            version = controller.switches.value("version")
            raise refused("no_route", method=request.method, path=below_base(request), version=version)
    except Refused as error:
        return refusal(error)


def _response(found: object) -> Response:
    if isinstance(found, Response):
        return found
    return Response(status_code=HTTPStatus.NO_CONTENT) if found is None else as_json(found)


def below_base(request: Request) -> str:
    """Return the path of a request below ``/api/v0/``; empty for any other."""
    path: str = request.scope["path"]
    return path.removeprefix(BASE) if path.startswith(BASE) else ""
