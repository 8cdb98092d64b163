"""Images for people: which are here and what is held of them, which is golden, and sending one by a form.

The form works without a script, in one go; with the page's own script it is sent by the API and gone on with after a
break.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from http import HTTPStatus

import anyio
from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response

from flashferry.service.errors import BadForm, Conflict, ServiceError
from flashferry.core.codec import to_json
from flashferry.core.json_access import parsed
from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.api.form_pieces import FormPieces
from flashferry.service.api.images import published_taken_in
from flashferry.service.images import golden, lifecycle, upload
from flashferry.service.images.lifecycle import told_image, told_whole
from flashferry.service.images.reconcile import left_out
from flashferry.service.images.upload import NewImage
from flashferry.service.images.upload_sessions import Arrival
from flashferry.service.pages.frame import link, view_page
from flashferry.service.principal import EVERYWHERE, Actor, Role
from flashferry.service.service import Service
from flashferry.service.texts import FormName, FormProse
from flashferry.store.service.audit import newest_of
from flashferry.store.service.images import ImageState, StoredImage, golden_images
from flashferry.store.service.images import images as stored_images

router = APIRouter(include_in_schema=False)

_PATH = "/images"
_TONES = {
    ImageState.ARRIVING: "",
    ImageState.PUBLISHED: "good",
    ImageState.VOUCHED: "good",
    ImageState.UNKNOWN: "warn",
    ImageState.MISMATCH: "bad",
    ImageState.HIDDEN: "",
}
_AT_REST = (ImageState.PUBLISHED, ImageState.UNKNOWN, ImageState.VOUCHED, ImageState.MISMATCH)
_GATHER_BYTES = 1 << 20


@view_page(router, _PATH, "images.html")
def images(service: TheService, actor: TheActor) -> object:
    """Return the images, and which is golden for which model."""
    with service.database.reading() as database:
        rows = [_row(service, image) for image in stored_images(database)]
        chosen = [dict(to_json(one)) for one in golden_images(database)]
        published = _last_published(database)
    return {
        "images": rows,
        "left_out": left_out(service),
        "golden": chosen,
        "published": published,
        "has_vendor": service.settings.images.vendor_certificates is not None,
        "folder": str(service.images),
        "most_bytes": service.settings.images.most_bytes,
        "may_send": actor.has({Role.OPERATOR}),
        "may_choose": actor.has({Role.ADMIN}),
        "usable": [row["name"] for row in rows if row["is_usable"]],
    }


@router.post(_PATH)
async def send(request: Request, service: TheService, actor: TheActor) -> Response:
    """Take an image by a form, in one go; what breaks off is given up."""
    pieces, turn = FormPieces(request.headers.get("content-type", "")), None
    bound = int(length) if (length := request.headers.get("content-length", "")).isdigit() else 0
    gathered = bytearray()
    try:
        async for piece in request.stream():
            gathered += pieces.feed(piece)
            if turn is None and pieces.file_name is not None:
                turn = await run_in_threadpool(_begun, service, actor, pieces, bound)
            if turn is not None and len(gathered) >= _GATHER_BYTES:
                full, gathered = gathered, bytearray()
                await run_in_threadpool(upload.take_in, service, turn, full)
        if turn is None or not pieces.is_ended or not (gathered or turn.offset):
            raise _broken()
        await run_in_threadpool(upload.take_in, service, turn, gathered)
        await run_in_threadpool(upload.keep, service, turn)
        image = await run_in_threadpool(upload.complete, service, actor, turn)
    except BaseException as error:
        if turn is not None:
            with anyio.CancelScope(shield=True):
                await run_in_threadpool(_given_up, service, actor, turn)
        if isinstance(error, ClientDisconnect):
            raise _broken() from None
        raise
    return _back(image.name)


@view_page(router, f"{_PATH}/{{name}}", "image.html")
def image(service: TheService, actor: TheActor, name: str) -> object:
    """Return all of an image, and what may be done about it."""
    with service.database.reading() as database:
        found = upload.found(database, name)
        told = told_whole(service, database, found)
    is_admin, sends = actor.has({Role.ADMIN}), actor.has({Role.OPERATOR, Role.ADMIN})
    is_arriving = found.state is ImageState.ARRIVING
    may = {
        "verify": sends and found.state in _AT_REST,
        "vouch": is_admin and found.state is ImageState.UNKNOWN,
        "remove": sends if is_arriving else is_admin and found.state is not ImageState.HIDDEN,
        "restore": is_admin and found.state is ImageState.HIDDEN,
    }
    return _row(service, found) | told | {"may": may, "is_arriving": is_arriving}


@router.post(f"{_PATH}/golden")
def choose(service: TheService, actor: TheActor, model: FormName, image: FormName, site: FormName = "") -> Response:
    """Say which image a model is to have."""
    golden.choose(service, actor, model.strip(), site.strip() or EVERYWHERE, image)
    return RedirectResponse(_PATH, HTTPStatus.SEE_OTHER)


@router.post(f"{_PATH}/published")
async def take_in_published(request: Request, service: TheService, actor: TheActor) -> Response:
    """Take in the vendor's file of published hashes, sent by a form; the page of images says what came of it."""
    await published_taken_in(service, actor, _file_of(request))
    return RedirectResponse(f"{_PATH}#published", HTTPStatus.SEE_OTHER)


@router.post(f"{_PATH}/golden/remove")
def unchoose(service: TheService, actor: TheActor, model: FormName, site: FormName = EVERYWHERE) -> Response:
    """Say nothing any more of which image a model is to have."""
    golden.unchoose(service, actor, model, site)
    return RedirectResponse(_PATH, HTTPStatus.SEE_OTHER)


@router.post(f"{_PATH}/{{name}}/verify")
def verify(service: TheService, actor: TheActor, name: str, sha512: FormName = "") -> Response:
    """Hold an image against what was published, and against a pasted digest."""
    return _back(lifecycle.verify(service, actor, name, sha512).name)


@router.post(f"{_PATH}/{{name}}/vouch")
def vouch(service: TheService, actor: TheActor, name: str, reason: FormProse = "") -> Response:
    """Vouch for an image."""
    return _back(lifecycle.vouch(service, actor, name, reason).name)


@router.post(f"{_PATH}/{{name}}/remove")
def remove(service: TheService, actor: TheActor, name: str, reason: FormProse = "") -> Response:
    """Take an image away."""
    kept = lifecycle.take_away(service, actor, name, reason)
    return _back(kept.name) if kept is not None else RedirectResponse(_PATH, HTTPStatus.SEE_OTHER)


@router.post(f"{_PATH}/{{name}}/restore")
def restore(service: TheService, actor: TheActor, name: str, reason: FormProse = "") -> Response:
    """Bring an image back."""
    return _back(lifecycle.bring_back(service, actor, name, reason).name)


async def _file_of(request: Request) -> AsyncIterator[bytes]:
    """Yield the file of a form as it comes."""
    pieces, has_any = FormPieces(request.headers.get("content-type", "")), False
    async for piece in request.stream():
        if found := pieces.feed(piece):
            has_any = True
            yield bytes(found)
    if not pieces.is_ended or not has_any:
        raise BadForm(
            "published hashes: expected a form with the vendor's file in it, found one that broke off, or none",
            hint="Choose the file, and send it again",
        )


def _last_published(database: sqlite3.Connection) -> dict[str, object] | None:
    """Return when the vendor's file was last taken in, by whom, and what it had; None where it never was."""
    found = newest_of(database, "published.taken")
    if found is None or found.entry.outcome != "done":
        return None
    after = parsed(found.entry.after) or {}
    return {"at": found.entry.at, "by": found.entry.actor, "rows": after.get("rows"), "new": after.get("new")}


def _begun(service: Service, actor: Actor, pieces: FormPieces, bound: int) -> Arrival:
    """Begin an image whose size is not known before its end: at most that of the whole form."""
    name = pieces.file_name or ""
    new = NewImage(name=name, size_bytes=bound, sha512=pieces.fields.get("sha512", ""))
    _, is_new = upload.announce_image(service, actor, new)
    if not is_new:
        raise Conflict(
            f"image {name}: expected a name that is free, found one that is arriving",
            hint="Go on with that upload, or give it up on its page",
        )
    return upload.go_on(service, actor, name, 0, None)


def _given_up(service: Service, actor: Actor, turn: Arrival) -> None:
    with service.database.reading() as database:
        image = upload.found(database, turn.name)
    if image.state is ImageState.ARRIVING:
        upload.give_up(service, actor, image)


def _broken() -> ServiceError:
    return BadForm(
        "image: expected a form with a whole file in it, found one that broke off, or none",
        hint="Choose the file and send it again; by curl an upload can be gone on with",
    )


def _row(service: Service, image: StoredImage) -> dict[str, object]:
    return {"tone": _TONES[image.state]} | told_image(service, image)


def _back(name: str) -> Response:
    return RedirectResponse(link(_PATH, name), HTTPStatus.SEE_OTHER)
