"""Conversion of errors to answers: RFC 9457 problems for programs, pages for browsers."""

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
from flashferry.core.redaction import visible
from flashferry.service import errors
from flashferry.service.errors import ServiceError, invalid_from

_LOG = logging.getLogger("flashferry.service")
MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 60
"""Sent with each 429 that has no time of its own (RFC 6585, 4; RFC 9110, 10.2.3)."""
_DESCRIPTION = "/api/v1/openapi.json"

STATUSES: Mapping[type[ServiceError], HTTPStatus] = {
    errors.BadForm: HTTPStatus.BAD_REQUEST,
    errors.Unauthenticated: HTTPStatus.UNAUTHORIZED,
    errors.Forbidden: HTTPStatus.FORBIDDEN,
    errors.NotFound: HTTPStatus.NOT_FOUND,
    errors.TooSlow: HTTPStatus.REQUEST_TIMEOUT,
    errors.Conflict: HTTPStatus.CONFLICT,
    errors.Removed: HTTPStatus.GONE,
    errors.TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.InvalidRequest: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.TooMany: HTTPStatus.TOO_MANY_REQUESTS,
    errors.ProviderFailed: HTTPStatus.BAD_GATEWAY,
    errors.Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.DiskFull: HTTPStatus.INSUFFICIENT_STORAGE,
}


def status_of(error: ServiceError) -> HTTPStatus:
    """Return the HTTP status of a domain error; 500 for an error without a row in the table."""
    return STATUSES.get(type(error), HTTPStatus.INTERNAL_SERVER_ERROR)


class BodyRefused(HTTPException):
    """Error while a route reads its body; an HTTPException, because FastAPI hides all others there."""

    def __init__(self, error: ServiceError) -> None:
        super().__init__(status_of(error).value)
        self.error = error


def answer_problems(app: FastAPI) -> None:
    """Register error handlers that answer every error as a problem."""
    app.add_exception_handler(ServiceError, problem_response)
    app.add_exception_handler(FlashferryError, _of_product_error)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(sqlite3.OperationalError, _of_database)
    app.add_exception_handler(Exception, _of_anything)


def problem_document(request: Request, error: ServiceError, status: HTTPStatus) -> dict[str, object]:
    """Return an error as a problem document (RFC 9457)."""
    return {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "detail": error.sentence,
        "hint": error.hint,
        "instance": request.url.path,
        **error.more,
    }


async def problem_response(request: Request, error: Exception) -> Response:
    """Return the answer for a domain error: a page for a browser, else JSON."""
    assert isinstance(error, ServiceError)
    return await _answer(request, error, status_of(error))


async def _answer(
    request: Request, error: ServiceError, status: HTTPStatus, more: Mapping[str, str] | None = None
) -> Response:
    headers = {**_headers_of(error, status), **(more or {})}
    page = getattr(request.app.state, "problem_page", None)
    found: Response | None = await page(request, error, status) if page is not None else None
    if found is not None:
        found.headers.update(headers)
        return found
    if status is HTTPStatus.UNAUTHORIZED:
        headers = {"WWW-Authenticate": "Bearer", **headers}
    body = json.dumps(problem_document(request, error, status)).encode()
    return Response(body, status.value, headers, media_type=MEDIA_TYPE)


def _headers_of(error: ServiceError, status: HTTPStatus) -> dict[str, str]:
    """Return `Retry-After`, and `Connection: close` where the body was not read to its end."""
    after_s = error.more.get("retry_after_s")
    if after_s is None and status is HTTPStatus.TOO_MANY_REQUESTS:
        after_s = RETRY_AFTER_S
    found = {} if after_s is None else {"Retry-After": str(after_s)}
    return found | ({"Connection": "close"} if status is HTTPStatus.REQUEST_TIMEOUT else {})


async def _of_product_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, FlashferryError)
    return await problem_response(request, invalid_from(error))


async def _of_validation(request: Request, error: Exception) -> Response:
    """Return where the input is invalid, without the value, which may be a password."""
    assert isinstance(error, RequestValidationError)
    wrong = error.errors()
    is_no_json = any(one["type"] == "json_invalid" or tuple(one["loc"]) == ("body",) for one in wrong)
    found = "; ".join(f"{'.'.join(visible(str(part)[:60]) for part in one['loc'])}: {one['msg']}" for one in wrong[:5])
    sentence = "body: expected a JSON object, found none" if is_no_json else f"expected other input: {found}"
    if not request.url.path.startswith("/api/"):
        hint = "Fill in the fields again"
    elif is_no_json:
        hint = f"Send JSON, {{}} if there is nothing to say; GET {_DESCRIPTION} describes it"
    else:
        hint = f"GET {_DESCRIPTION} describes what this path takes"
    return await problem_response(request, errors.InvalidRequest(sentence, hint=hint))


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error, BodyRefused):
        return await problem_response(request, error.error)
    status = HTTPStatus(error.status_code)
    sentence, hint = f"{request.method} here: {status.phrase}", f"GET {_DESCRIPTION} describes what there is"
    if not request.url.path.startswith("/api/"):
        hint = "Check the address, or start from Tonight (/tonight)"
        if status is HTTPStatus.NOT_FOUND:
            sentence = "there is no such page"
    return await _answer(request, ServiceError(sentence, hint=hint), status, error.headers)


async def _of_database(request: Request, error: Exception) -> Response:
    """Return the answer for a database error; the transaction was rolled back."""
    is_full = "full" in str(error)
    # Log the traceback, except for a full disk, which a log would fill further.
    _LOG.error("%s %s: %s", request.method, request.url.path, error, exc_info=None if is_full else error)
    if is_full:
        hint = "Free space on the disk of the state folder, then try again; runs continue meanwhile"
        return await problem_response(
            request, errors.DiskFull("nothing was done: the service's disk is full", hint=hint)
        )
    sentence = f"nothing was done: the service's database cannot be used now ({error})"
    hint = "Try again in a moment; if it persists, check the service's log and the permissions of its state folder"
    return await problem_response(request, errors.Unavailable(sentence, hint=hint))


async def _of_anything(request: Request, error: Exception) -> Response:  # noqa: ARG001 -- the server's log has its trace
    sentence = "an unexpected error occurred; the service's log has the details"
    hint = "Report it with the lines of the log; check what was done before you try again"
    return await problem_response(request, ServiceError(sentence, hint=hint))
