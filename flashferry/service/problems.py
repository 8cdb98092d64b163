"""Errors of the service as RFC 9457 problems: one sentence, what to do, and a status that programs understand."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from flashferry.core.errors import FlashferryError
from flashferry.core.outside import masked, visible

_LOG = logging.getLogger("flashferry.service")
MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 60
"""Of each answer of 429 that has no time of its own (RFC 6585, 4; RFC 9110, 10.2.3)."""
_DESCRIPTION = "/api/v1/openapi.json"


class Problem(Exception):
    """What the service answers in place of what was asked for.

    Args:
        status: The status of HTTP.
        sentence: What is wrong: expected and found.
        hint: What to do about it.
        **more: Further members, as RFC 9457 allows: `offset`, say. `retry_after_s` is sent as `Retry-After`, too.
    """

    def __init__(self, status: HTTPStatus, sentence: str, *, hint: str, **more: object) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = masked(sentence)
        self.hint = masked(hint)
        self.more = more


class BodyRefused(HTTPException):
    """A problem with a body that is met while a route reads it: FastAPI lets nothing else pass there as it is.

    Args:
        status: As that of `Problem`.
        sentence: As that of `Problem`.
        hint: As that of `Problem`.
        **more: As those of `Problem`.
    """

    def __init__(self, status: HTTPStatus, sentence: str, *, hint: str, **more: object) -> None:
        super().__init__(status.value)
        self.problem = Problem(status, sentence, hint=hint, **more)


def listed(what: str, *, page: str = "") -> str:
    """Return what to do where something of a list is not there, for people and for programs.

    Args:
        what: What the API's list is called: `plans`.
        page: The path of the page that has it; empty: it is called the same.
    """
    return f"The list of {what} has those that there are: {page or f'/{what}'}, or by the API GET /api/v1/{what}"


def problem_of(error: FlashferryError, status: HTTPStatus = HTTPStatus.UNPROCESSABLE_ENTITY) -> Problem:
    """Return one of our errors as the service tells it."""
    return Problem(status, error.message, hint=error.hint or "", kind=str(error.kind))


def not_told(error: Exception) -> Problem:
    """Return what is answered where a run could not be told what is wanted of it: its journal cannot be used."""
    sentence = error.message if isinstance(error, FlashferryError) else str(error)
    is_full = "full" in sentence or "No space" in sentence
    status = HTTPStatus.INSUFFICIENT_STORAGE if is_full else HTTPStatus.SERVICE_UNAVAILABLE
    hint = "Make room on the disk of the state folder, then ask again" if is_full else "Ask again in a moment"
    return Problem(status, f"the run was not told, and goes on as it did: {sentence}", hint=hint)


def tell_problems(app: FastAPI) -> None:
    """Have an application answer everything that goes wrong as a problem."""
    app.add_exception_handler(Problem, _of_ours)
    app.add_exception_handler(FlashferryError, _of_error)
    app.add_exception_handler(RequestValidationError, _of_request)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(sqlite3.OperationalError, _of_database)
    app.add_exception_handler(Exception, _of_anything)


def problem_document(request: Request, problem: Problem) -> dict[str, object]:
    """Return a problem as RFC 9457 has it."""
    return {
        "type": "about:blank",
        "title": problem.status.phrase,
        "status": problem.status.value,
        "detail": problem.sentence,
        "hint": problem.hint,
        "instance": request.url.path,
        **problem.more,
    }


def problem_response(request: Request, problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """Return a problem as an answer: as a page where the application has one for whoever asks."""
    headers = {**_headers_of(problem), **(headers or {})}
    page = getattr(request.app.state, "problem_page", None)
    found: Response | None = page(request, problem) if page is not None else None
    if found is not None:
        found.headers.update(headers)
        return found
    body = problem_document(request, problem)
    if problem.status is HTTPStatus.UNAUTHORIZED:
        headers = {"WWW-Authenticate": "Bearer", **headers}
    return Response(json.dumps(body).encode(), problem.status.value, headers, media_type=MEDIA_TYPE)


def _headers_of(problem: Problem) -> dict[str, str]:
    """Return when to ask again, and that the connection ends where what was sent is not read to its end."""
    after_s = problem.more.get("retry_after_s")
    if after_s is None and problem.status is HTTPStatus.TOO_MANY_REQUESTS:
        after_s = RETRY_AFTER_S
    found = {} if after_s is None else {"Retry-After": str(after_s)}
    return found | ({"Connection": "close"} if problem.status is HTTPStatus.REQUEST_TIMEOUT else {})


def _of_ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return problem_response(request, error)


def _of_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, FlashferryError)
    return problem_response(request, problem_of(error))


def _of_request(request: Request, error: Exception) -> Response:
    """Say where the input is wrong and how, yet never what it was: it may be a password."""
    assert isinstance(error, RequestValidationError)
    wrong = error.errors()
    is_no_json = any(one["type"] == "json_invalid" or tuple(one["loc"]) == ("body",) for one in wrong)
    found = "; ".join(f"{'.'.join(visible(str(part)[:60]) for part in one['loc'])}: {one['msg']}" for one in wrong[:5])
    sentence = "body: expected a JSON object, found none" if is_no_json else f"expected other input: {found}"
    hint = f"{'Send JSON; {} is enough where nothing must be said' if is_no_json else 'Send what is asked for'}"
    problem = Problem(HTTPStatus.UNPROCESSABLE_ENTITY, sentence, hint=f"{hint}: GET {_DESCRIPTION} describes it")
    return problem_response(request, problem)


def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error, BodyRefused):
        return problem_response(request, error.problem)
    status = HTTPStatus(error.status_code)
    sentence, hint = f"{request.method} here: {status.phrase}", f"GET {_DESCRIPTION} describes what there is"
    if status is HTTPStatus.NOT_FOUND and not request.url.path.startswith("/api/"):
        sentence, hint = "there is no such page", "Look at its address; Tonight (/tonight) leads to all that there are"
    return problem_response(request, Problem(status, sentence, hint=hint), error.headers)


def _of_database(request: Request, error: Exception) -> Response:
    """Tell that what was asked for could not be kept; its transaction is undone, so nothing of it was done."""
    is_full = "full" in str(error)
    # The trace is for whoever has the log: it may be a fault of ours. A full disk is none, and logs fill disks.
    _LOG.error("%s %s: %s", request.method, request.url.path, error, exc_info=None if is_full else error)
    if is_full:
        hint = "Make room on the disk of the state folder, then ask again; runs go on meanwhile"
        problem = Problem(HTTPStatus.INSUFFICIENT_STORAGE, "nothing was done: the service's disk is full", hint=hint)
    else:
        sentence = f"nothing was done: the service's database cannot be used just now ({error})"
        hint = "Ask again in a moment; where it stays so, see the service's log and the rights of its state folder"
        problem = Problem(HTTPStatus.SERVICE_UNAVAILABLE, sentence, hint=hint)
    return problem_response(request, problem)


def _of_anything(request: Request, error: Exception) -> Response:  # noqa: ARG001 -- the server's log has its trace
    sentence = "something went wrong that nobody foresaw; the service's log has where"
    hint = "Report it with the lines of the log; look at the state of things before you ask again"
    return problem_response(request, Problem(HTTPStatus.INTERNAL_SERVER_ERROR, sentence, hint=hint))
