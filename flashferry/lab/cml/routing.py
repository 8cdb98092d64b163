"""From a request to its answer: values, a table of routes, who may come in, and refusals as they are written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any

from flashferry.lab.cml.access import User
from flashferry.lab.cml.controller import Controller
from flashferry.lab.cml.elements import Lab, Link, Node
from flashferry.lab.cml.texts import Refused, refused

JSON_TYPE = "application/json"
YAML_TYPE = "text/yaml; charset=utf-8"
_TRUE = frozenset({"true", "True", "1", "yes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What came in.

    Attributes:
        method: ``GET``, ...
        path: Below ``/api/v0/``, without the question.
        query: The question; the last of equal names.
        headers: By name in lower case.
        body: What came with it; empty where it was spooled.
        spool: A file with the body of an upload.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    spool: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What goes out."""

    status: int = HTTPStatus.OK
    body: bytes = b""
    content_type: str = JSON_TYPE


def said(value: object, status: int = HTTPStatus.OK) -> Answer:
    """Return an answer in JSON."""
    return Answer(status=status, body=json.dumps(value).encode())


def written(text: str, content_type: str = YAML_TYPE) -> Answer:
    """Return an answer of text."""
    return Answer(body=text.encode(), content_type=content_type)


def done() -> Answer:
    """Return the answer without a word."""
    return Answer(status=HTTPStatus.NO_CONTENT, content_type="")


@dataclass(frozen=True)
class Call:
    """A request on its way through a route.

    Attributes:
        controller: The controller.
        request: What came in.
        names: What the route's template found in the path.
        user: Whose token it carries.
    """

    controller: Controller
    request: Request
    names: Mapping[str, str]
    user: User

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
    def text(self) -> str:
        """The body as text."""
        try:
            return self.request.body.decode()
        except UnicodeDecodeError as error:
            raise refused("bad_request", why="the body is no UTF-8") from error

    @property
    def json(self) -> Any:
        """The body as JSON; nothing for an empty one."""
        if not self.request.body:
            return None
        try:
            return json.loads(self.request.body)
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
        """Whether a flag of the question is set."""
        return self.request.query.get(name) in _TRUE


Handler = Callable[[Call], Answer]


class Route:
    """One call of the interface.

    Args:
        method: ``GET``, ...
        template: The path below ``/api/v0/``, with ``{lab}`` and the like for one part of it.
        handler: What answers.
        since: The version that brought it; empty for all.
        until: The version that dropped it; empty for none.
        is_open: Whether it wants no token.
    """

    def __init__(
        self,
        method: str,
        template: str,
        handler: Handler,
        *,
        since: tuple[int, ...] = (),
        until: tuple[int, ...] = (),
        is_open: bool = False,
    ) -> None:
        self.method = method
        self.template = template
        self.handler = handler
        self.is_open = is_open
        self._since = since
        self._until = until
        self._pattern = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", template))

    def names(self, request: Request, version: tuple[int, ...]) -> Mapping[str, str] | None:
        """Return what the template finds in a request; None where it is another's."""
        if request.method != self.method or version < self._since or (self._until and version >= self._until):
            return None
        match = self._pattern.fullmatch(request.path)
        return None if match is None else match.groupdict()


_NOBODY = User(username="", password="", is_admin=False)


def answer(controller: Controller, routes: tuple[Route, ...], request: Request) -> Answer:
    """Return the answer to a request; never raises for anything that came in."""
    try:
        with controller.lock:
            return _routed(controller, routes, request)
    except Refused as error:
        return refusal(error)


def refusal(error: Refused) -> Answer:
    """Return a refusal as the interface writes it."""
    return said({"code": int(error.status), "description": error.description}, error.status)


def _routed(controller: Controller, routes: tuple[Route, ...], request: Request) -> Answer:
    for route in routes:
        names = route.names(request, controller.version)
        if names is None:
            continue
        user = _NOBODY if route.is_open else controller.access.user(request.headers.get("authorization"))
        return route.handler(Call(controller, request, names, user))
    version = controller.switches.value("version")
    raise refused("no_route", method=request.method, path=request.path, version=version)
