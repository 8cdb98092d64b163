"""Style sheet, scripts and icon of the pages. Each path contains a hash of the file, so that browsers can cache it."""

from __future__ import annotations

import hashlib
from functools import cache
from http import HTTPStatus
from importlib.resources import files

from fastapi import APIRouter, Request
from msgspec import Struct
from starlette.responses import Response

from flashferry.reports.graphs import GRAPH_STYLE
from flashferry.service.errors import NotFound

router = APIRouter()
_FOLDER = "templates.service"
_KINDS = {
    "icon.svg": "image/svg+xml",
    "live.js": "text/javascript",
    "live-worker.js": "text/javascript",
    "refresh.js": "text/javascript",
    "service.css": "text/css",
    "upload.js": "text/javascript",
}
_FOR_EVER = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"


class Asset(Struct, frozen=True, kw_only=True):
    """A static file; `mark` is the start of its SHA-256."""

    body: bytes
    media_type: str
    mark: str


def asset(name: str) -> str:
    """Return the path of a static file, which changes with its content. Raises `KeyError`."""
    return f"/assets/{name}?v={_asset(name).mark}"


@router.get("/assets/{name}", include_in_schema=False)
def answer(name: str, request: Request) -> Response:
    """Return a static file, or 304."""
    if name not in _KINDS:
        raise NotFound(f"there is no file {name!r} of the pages", hint="Load the page anew")
    found = _asset(name)
    is_named = request.query_params.get("v") == found.mark
    headers = {"Cache-Control": _FOR_EVER if is_named else _ASK_AGAIN, "ETag": f'"{found.mark}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=HTTPStatus.NOT_MODIFIED.value, headers=headers)
    return Response(found.body, media_type=found.media_type, headers=headers)


@cache
def _asset(name: str) -> Asset:
    media_type = _KINDS[name]
    body = files(_FOLDER).joinpath(name).read_text(encoding="utf-8")
    if name == "service.css":
        body += GRAPH_STYLE
    made = body.encode()
    return Asset(body=made, media_type=media_type, mark=hashlib.sha256(made).hexdigest()[:12])
