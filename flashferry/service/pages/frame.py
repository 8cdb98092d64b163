"""Rendering of pages; a refused form is shown again with its input and the error."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, wraps
from html import escape
from html.parser import HTMLParser
from http import HTTPStatus
from importlib.resources import files
from inspect import Parameter, signature
from typing import ParamSpec
from urllib.parse import quote, unquote

from fastapi import APIRouter, Request
from jinja2 import Environment
from markupsafe import Markup
from msgspec import Struct
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, Response
from starlette.types import Message

from flashferry.core.redaction import sanitize
from flashferry.core.values import replace
from flashferry.model.states import label_of
from flashferry.reports.as_html import page_templates
from flashferry.service.access import ROUTES
from flashferry.service.api.depends import csrf_of, local_time_of, service_of
from flashferry.service.errors import ServiceError
from flashferry.service.pages.assets import asset
from flashferry.service.people.identity import auth_of, identify
from flashferry.service.principal import Actor, Via
from flashferry.service.site_centre import has_centre

_UNFILLED = frozenset({"hidden", "password", "file", "submit"})
"""Inputs that are never filled again: secrets, files, and the form's token."""


@dataclass(slots=True)
class _Field:
    """An input, or an option of a select, with the position of its start tag."""

    name: str
    at: int
    tag: str
    attrs: dict[str, str | None]
    text: str = ""


@dataclass(slots=True)
class _Form:
    """A form: position of its content, paths that it is sent to, fields, and closed `details` elements around it."""

    begin: int
    actions: set[str]
    details: list[tuple[int, str]]
    fields: list[_Field] = field(default_factory=list)


class _Forms(HTMLParser):
    """HTML parser that collects the forms of a page."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.forms: list[_Form] = []
        self._lines = [0]
        for line in html.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._details: list[tuple[int, str]] = []
        self._select = ""
        self._option: _Field | None = None
        self._open: _Form | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record a form, a field, or a `details` element."""
        line, column = self.getpos()
        at, text, given = self._lines[line - 1] + column, self.get_starttag_text() or "", dict(attrs)
        if tag == "details":
            self._details.append((at, text))
        elif tag == "form" and given.get("method") == "post":
            closed = [one for one in self._details if " open" not in one[1]]
            self._open = _Form(begin=at + len(text), actions={given.get("action") or ""}, details=closed)
            self.forms.append(self._open)
        elif self._open is not None:
            self._note(tag, at, text, given)

    def _note(self, tag: str, at: int, text: str, given: dict[str, str | None]) -> None:
        assert self._open is not None
        if tag == "button" and given.get("formaction"):
            self._open.actions.add(given["formaction"] or "")
        elif tag == "select":
            self._select = given.get("name") or ""
        elif tag == "option":
            self._option = _Field(self._select, at, text, given)
            self._open.fields.append(self._option)
        elif tag == "input" and given.get("name") and given.get("type") not in _UNFILLED:
            self._open.fields.append(_Field(given["name"] or "", at, text, given))

    def handle_data(self, data: str) -> None:
        """Record the text of an option, which is its value if it has no `value` attribute."""
        if self._option is not None:
            self._option.text += data

    def handle_endtag(self, tag: str) -> None:
        """Record the end of an element."""
        if tag == "option":
            self._option = None
        elif tag == "form":
            self._open = None
        elif tag == "details" and self._details:
            self._details.pop()


def with_refusal(html: str, action: str, given: Mapping[str, Sequence[str]], refusal: str) -> str:
    """Return a page with an error (HTML) inside the form that was sent to `action`, filled in with the values sent.

    Without such a form the error is at the top of the page.
    """
    form = next((one for one in _Forms(html).forms if action in {path.partition("?")[0] for path in one.actions}), None)
    if form is None:
        head, main, rest = html.partition('<main id="main" tabindex="-1">')
        return f"{head}{main}{refusal}{rest}"
    edits = [(form.begin, 0, refusal)]
    edits += [(at, len(tag), tag.replace("<details", "<details open", 1)) for at, tag in form.details]
    edits += [(one.at, len(one.tag), _filled(one, given.get(one.name, ()))) for one in form.fields if given]
    for at, length, text in sorted(edits, reverse=True):
        html = html[:at] + text + html[at + length :]
    return html


def _filled(one: _Field, values: Sequence[str]) -> str:
    attrs = dict(one.attrs)
    if one.tag.startswith("<option"):
        _set(attrs, "selected", is_set=attrs.get("value", one.text.strip()) in values)
        return _tag("option", attrs)
    if attrs.get("type") == "checkbox":
        _set(attrs, "checked", is_set=(attrs.get("value") or "on") in values)
    elif values:
        attrs["value"] = values[0]
    return _tag("input", attrs)


def _set(attrs: dict[str, str | None], name: str, *, is_set: bool) -> None:
    attrs.pop(name, None)
    if is_set:
        attrs[name] = None


def _tag(name: str, attrs: Mapping[str, str | None]) -> str:
    words = (key if value is None else f'{key}="{escape(value)}"' for key, value in attrs.items())
    return f"<{' '.join((name, *words))}>"


Given = ParamSpec("Given")
_FOLDER = "templates.service"
_ASKED = "request_of_the_page"

_HEADINGS = {
    HTTPStatus.NOT_FOUND: "Not found",
    HTTPStatus.FORBIDDEN: "Not allowed",
    HTTPStatus.INTERNAL_SERVER_ERROR: "Unexpected error",
    HTTPStatus.SERVICE_UNAVAILABLE: "Not available now",
}
"""Headings of error pages; "Not done" for all others."""

NAVIGATION = (
    ("Tonight", "/tonight"),
    ("Plans", "/plans"),
    ("Runs", "/runs"),
    ("Jobs", "/jobs"),
    ("Devices", "/devices"),
    ("Sites", "/sites"),
    ("Images", "/images"),
    ("Schedules", "/schedules"),
    ("Trends", "/trends"),
    ("Audit", "/audit"),
    ("Admin", "/admin"),
)
"""In this order; pages without a route, or that the caller may not open, are left out, as is Sites without a centre."""


class Place(Struct, frozen=True, kw_only=True):
    """A link of the navigation; `is_here` if the current page is it or below it."""

    title: str
    path: str
    is_here: bool


def page(request: Request, template: str, view: object, *, status: HTTPStatus = HTTPStatus.OK) -> HTMLResponse:
    """Render a template of `templates/service` that extends `base.html`.

    The template has `view`, `parts` (macros of `parts.html`), `csrf` (value of the hidden field of forms), `who`,
    `actor`
    (None without a sign-in), `may(method, path)` (whether the caller may call a route anywhere), `link(path, *names)`
    (a
    path with quoted names), and the words for figures of reports. `moment` and `site_times` show a time in the caller's
    time zone, which is `zone`, and in that of sites; `zone_of` returns that which a time was written with.
    """
    actor, local = _actor(request), local_time_of(request)
    text = (
        _templates()
        .get_template(template)
        .render(
            view=view,
            actor=actor,
            who=actor.name if actor is not None else "",
            csrf=Markup(csrf_of(request)),  # noqa: S704 -- ours, and as a known secret it would be masked
            pages=tuple(_places(request, actor)) if actor is not None else (),
            asked_at=service_of(request).now().isoformat(),
            zone=str(local.zone),
            moment=local.moment,
            site_times=local.at_sites,
            zone_of=local.zone_of,
            has=lambda method, path: _has_route(request, method, path),
            may=lambda method, path: _has_route(request, method, path) and _may(actor, method, path),
        )
    )
    return HTMLResponse(text, status.value, headers={"Cache-Control": "no-store"})


def view_page(
    router: APIRouter, path: str, template: str
) -> Callable[[Callable[Given, object]], Callable[Given, object]]:
    """Return a decorator that makes a page of a function, which returns its template's `view`.

    The function takes the same parameters as a FastAPI route; the page needs a row in the access table.
    """

    def add(view: Callable[Given, object]) -> Callable[Given, object]:
        taken = signature(view)
        # FastAPI passes the request to one parameter only.
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


async def problem_page(request: Request, error: ServiceError, status: HTTPStatus) -> Response | None:
    """Return an error as a page, or None for a program. A refused form is shown again with its input."""
    if request.url.path.startswith("/api/") or "text/html" not in request.headers.get("accept", ""):
        return None
    if request.method == "POST" and getattr(request.state, "is_admitted", False):
        again = await _form_again(request, error)
        if again is not None:
            return HTMLResponse(again, status.value, headers={"Cache-Control": "no-store"})
    return await run_in_threadpool(_problem, request, error, status)


def _problem(request: Request, error: ServiceError, status: HTTPStatus) -> Response:
    if not hasattr(request.state, "actor"):
        _identify_for_navigation(request)
    view = {"title": _HEADINGS.get(status, "Not done"), "detail": error.sentence, "hint": error.hint}
    return page(request, "problem.html", view, status=status)


async def _form_again(request: Request, error: ServiceError) -> str | None:
    """Return the page of a refused form, rendered again; None if the form has no page.

    Only for requests that passed the guard: a request from another site must not fill in a form.
    """
    route = request.scope["route"]
    path = _page_of(route.path, request.path_params)
    if path is None:
        return None
    given: dict[str, list[str]] = {}
    if not ROUTES["POST", route.path].is_large:
        for name, value in (await request.form()).multi_items():
            if isinstance(value, str):
                given.setdefault(name, []).append(value)
    html = await _rendered(request, path)
    if html is None:
        return None
    refusal = _templates().get_template("parts.html").module.refusal(error.sentence, error.hint)  # type: ignore[attr-defined]
    return with_refusal(html, request.url.path, given, str(refusal))


def _page_of(route: str, names: Mapping[str, object]) -> str | None:
    """Return the nearest page at or above a route: `/plans/make` belongs to `/plans`."""
    while route:
        if ("GET", route) in ROUTES:
            filled = (
                quote(str(names[part[1:-1].partition(":")[0]]), safe="") if part[:1] == "{" else part
                for part in route.split("/")
            )
            return "/".join(filled)
        route = route.rpartition("/")[0]
    return None


async def _rendered(request: Request, path: str) -> str | None:
    """Return the HTML of another page for the same browser and query; None if the answer is no page."""
    scope = {key: value for key, value in request.scope.items() if key not in {"route", "endpoint", "path_params"}}
    headers = [(name, value) for name, value in scope["headers"] if not name.startswith(b"content-")]
    scope |= {"method": "GET", "path": unquote(path), "raw_path": path.encode(), "state": {}}
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    try:
        await request.app.router({**scope, "headers": headers}, receive, send)
    except (ServiceError, sqlite3.Error):
        return None
    if not sent or sent[0]["status"] != HTTPStatus.OK:
        return None
    return b"".join(message.get("body", b"") for message in sent[1:]).decode()


def link(path: str, *names: str) -> str:
    """Return a path with names appended, each percent-encoded."""
    return "/".join((path, *(quote(name, safe="") for name in names)))


def _identify_for_navigation(request: Request) -> None:
    """Identify the caller on a page that does not exist, so that its navigation is shown."""
    service = service_of(request)
    with suppress(ServiceError, sqlite3.Error):
        identity = identify(service, replace(auth_of(request, service), is_watch=True))
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
    made.filters["capitalized"] = lambda text: text[:1].upper() + text[1:]
    made.globals |= {"asset": asset, "link": link, "label_of": label_of}
    return made


def _printed(value: object) -> object:
    """Return a value fit to be printed by a template: secrets masked, control characters visible."""
    return sanitize(value) if type(value) is str else value
