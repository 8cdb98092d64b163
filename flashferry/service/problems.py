"""Errors of the service as RFC 9457 problems: one sentence, what to do, and a status that programs understand."""

from __future__ import annotations

import json
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from flashferry.core.errors import FlashferryError
from flashferry.core.outside import masked

MEDIA_TYPE = "application/problem+json"


class Problem(Exception):
    """What the service answers in place of what was asked for.

    Args:
        status: The status of HTTP.
        sentence: What is wrong: expected and found.
        hint: What to do about it.
        **more: Further members, as RFC 9457 allows: `offset`, say.
    """

    def __init__(self, status: HTTPStatus, sentence: str, *, hint: str, **more: object) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = masked(sentence)
        self.hint = masked(hint)
        self.more = more


def problem_of(error: FlashferryError, status: HTTPStatus = HTTPStatus.UNPROCESSABLE_ENTITY) -> Problem:
    """Return one of our errors as the service tells it."""
    return Problem(status, error.message, hint=error.hint or "", kind=str(error.kind))


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


def problem_response(request: Request, problem: Problem) -> Response:
    """Return a problem as an answer: as a page where the application has one for whoever asks."""
    page = getattr(request.app.state, "problem_page", None)
    found: Response | None = page(request, problem) if page is not None else None
    if found is not None:
        return found
    body = problem_document(request, problem)
    headers = {"WWW-Authenticate": "Bearer"} if problem.status is HTTPStatus.UNAUTHORIZED else None
    return Response(json.dumps(body).encode(), problem.status.value, headers, media_type=MEDIA_TYPE)
