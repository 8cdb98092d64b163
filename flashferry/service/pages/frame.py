"""What is around every page: the base template, who is signed in, where else to go.

A page is a function that returns a view: a mapping or a dataclass. `view_page` makes a route of it. Everything that a
template prints is escaped, has known secrets masked and control characters made visible: names of devices, banners and
comments stay text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, wraps
from http import HTTPStatus
from importlib.resources import files
from inspect import Parameter, signature
from typing import ParamSpec
from urllib.parse import quote

from fastapi import APIRouter, Request
from jinja2 import Environment
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from flashferry.core.outside import shown
from flashferry.model.states import label_of
from flashferry.reports import words
from flashferry.reports.pages import page_templates
from flashferry.service.access import ROUTES
from flashferry.service.api.depends import csrf_of, service_of
from flashferry.service.pages.assets import asset
from flashferry.service.people.identity import asked_of, identify
from flashferry.service.principal import Actor, Via
from flashferry.service.problems import Problem, problem_document
from flashferry.service.site_centre import has_centre
from flashferry.store.service.database import moment

Given = ParamSpec("Given")

_FOLDER = "templates.service"
_ASKED = "request_of_the_page"

NAVIGATION = (
    ("Tonight", "/tonight"),
    ("Plans", "/plans"),
    ("Runs", "/runs"),
    ("Devices", "/devices"),
    ("Sites", "/sites"),
    ("Images", "/images"),
    ("Schedules", "/schedules"),
    ("Trends", "/trends"),
    ("Audit", "/audit"),
    ("Admin", "/admin"),
)
"""In this order; one that has no route, or that somebody may not call, is not shown to him. Nor are sites where the
service has no centre of sites beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A page in the navigation.

    Attributes:
        title: What it is called.
        path: Where it is.
        is_here: Whether the page that is shown is it, or below it.
    """

    title: str
    path: str
    is_here: bool


def page(request: Request, template: str, view: object, *, status: HTTPStatus = HTTPStatus.OK) -> HTMLResponse:
    """Return a page.

    Args:
        request: What was asked.
        template: Name of a file in `templates/service`, which extends `base.html`.
        view: What the template has as `view`.
        status: The status of HTTP.

    The template has besides: `parts` (macros of `parts.html`), `csrf` (the value of the hidden field of forms), `who`,
    `actor` (None where nobody is signed in), `may(method, path)` (whether he may call a route of the table of access
    somewhere), `link(path, *names)` (a path with names quoted behind it), and the words for figures of reports.
    """
    actor = _actor(request)
    text = (
        _templates()
        .get_template(template)
        .render(
            view=view,
            actor=actor,
            who=actor.name if actor is not None else "",
            csrf=Markup(csrf_of(request)),  # noqa: S704 -- ours, and as a known secret it would be masked
            pages=tuple(_places(request, actor)) if actor is not None else (),
            asked_at=words.moment(moment(service_of(request).now())),
            has=lambda method, path: _has_route(request, method, path),
            may=lambda method, path: _has_route(request, method, path) and _may(actor, method, path),
        )
    )
    return HTMLResponse(text, status.value, headers={"Cache-Control": "no-store"})


def view_page(
    router: APIRouter, path: str, template: str
) -> Callable[[Callable[Given, object]], Callable[Given, object]]:
    """Return a decorator that makes a page of a function that returns its view.

    Args:
        router: Where the route is added. It needs its row in the table of access.
        path: The page's path.
        template: The page's template.

    The function takes what routes of FastAPI take.
    """

    def add(view: Callable[Given, object]) -> Callable[Given, object]:
        taken = signature(view)
        # FastAPI hands a request to one parameter alone.
        asks = next((name for name, one in taken.parameters.items() if one.annotation in (Request, "Request")), None)

        @wraps(view)
        def as_page(*args: Given.args, **kwargs: Given.kwargs) -> Response:
            request = kwargs[asks] if asks is not None else kwargs.pop(_ASKED)
            assert isinstance(request, Request)
            return page(request, template, view(*args, **kwargs))

        if asks is None:
            asked = Parameter(_ASKED, Parameter.KEYWORD_ONLY, annotation=Request)
            as_page.__dict__["__signature__"] = taken.replace(parameters=[*taken.parameters.values(), asked])
        router.add_api_route(path, as_page, methods=["GET"], response_model=None, include_in_schema=False)
        return view

    return add


def problem_page(request: Request, problem: Problem) -> Response | None:
    """Return a problem as a page, or None where a program asked."""
    if request.url.path.startswith("/api/") or "text/html" not in request.headers.get("accept", ""):
        return None
    if not hasattr(request.state, "actor"):
        _recognise(request)
    return page(request, "problem.html", problem_document(request, problem), status=problem.status)


def link(path: str, *names: str) -> str:
    """Return a path with names behind it, each quoted whole."""
    return "/".join((path, *(quote(name, safe="") for name in names)))


def _recognise(request: Request) -> None:
    """Note who asks for what is behind no route, where no guard has: he keeps his navigation."""
    service = service_of(request)
    with suppress(Problem, sqlite3.Error):
        identity = identify(service, replace(asked_of(request, service), is_watch=True))
        request.state.actor, request.state.csrf = identity.actor, identity.csrf


def _actor(request: Request) -> Actor | None:
    found: Actor | None = getattr(request.state, "actor", None)
    return None if found is None or found.via is Via.NONE else found


def _places(request: Request, actor: Actor) -> Iterator[Place]:
    here = request.url.path
    for title, path in NAVIGATION:
        is_there = _has_route(request, "GET", path) and _may(actor, "GET", path)
        if is_there and (path != "/sites" or has_centre(service_of(request).state)):
            yield Place(title=title, path=path, is_here=here == path or here.startswith(f"{path}/"))


def _has_route(request: Request, method: str, path: str) -> bool:
    return (method, path) in request.app.state.routes


def _may(actor: Actor | None, method: str, path: str) -> bool:
    row = ROUTES.get((method, path))
    if row is None or row.is_public:
        return row is not None
    return actor is not None and (not row.roles or actor.has(row.roles))


@cache
def _source(name: str) -> str:
    return files(_FOLDER).joinpath(name).read_text(encoding="utf-8")


@cache
def _templates() -> Environment:
    made = page_templates(_source)
    made.finalize = _printed
    made.globals |= {"asset": asset, "link": link, "label_of": label_of}
    return made


def _printed(value: object) -> object:
    """Return what a template prints: text of whatever origin without secrets, and nothing that is obeyed in it."""
    return shown(value) if type(value) is str else value
