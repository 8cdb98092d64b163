"""Image pages: list, golden images, uploads by form.

Without a script, the form uploads an image in one request; with the page's script, the API does and can resume.
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

from flashferry.core.codec import to_json
from flashferry.core.json_access import parsed
from flashferry.service.api.depends import FormName, FormProse, TheActor, TheService
from flashferry.service.api.limits import FormPieces
from flashferry.service.device_list import listed_devices
from flashferry.service.errors import BadForm, Conflict, ServiceError
from flashferry.service.images import golden, lifecycle, upload
from flashferry.service.images.lifecycle import image_details_json, image_json, left_out
from flashferry.service.images.receive import receive_published
from flashferry.service.images.upload import NewImage
from flashferry.service.images.upload_sessions import UploadSession
from flashferry.service.pages.frame import link, view_page
from flashferry.service.principal import EVERYWHERE, Actor, Role
from flashferry.service.service import Service
from flashferry.store.service.audit import newest_of
from flashferry.store.service.images import ImageState, StoredImage, golden_images
from flashferry.store.service.images import images as stored_images

router = APIRouter(include_in_schema=False)
_PATH = "/images"
_TONES = {
    ImageState.UPLOADING: "",
    ImageState.PUBLISHED: "good",
    ImageState.APPROVED: "good",
    ImageState.UNKNOWN: "warn",
    ImageState.MISMATCH: "bad",
    ImageState.HIDDEN: "",
}
_AT_REST = (ImageState.PUBLISHED, ImageState.UNKNOWN, ImageState.APPROVED, ImageState.MISMATCH)
_GATHER_BYTES = 1 << 20


@view_page(router, _PATH, "images.html")
def images(service: TheService, actor: TheActor) -> object:
    """Return the images, and the golden ones."""
    with service.database.reading() as database:
        rows = [_row(service, image) for image in stored_images(database)]
        chosen = [dict(to_json(one)) for one in golden_images(database)]
        published = _last_published(database)
    listed = listed_devices(service, actor)
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
        "models": listed.models,
        "sites": listed.sites,
        "usable": [row["name"] for row in rows if row["is_usable"]],
    }


@router.post(_PATH)
async def send(request: Request, service: TheService, actor: TheActor) -> Response:
    """Receive an image from a form in one request; an incomplete one is deleted."""
    pieces, turn = FormPieces(request.headers.get("content-type", "")), None
    bound = int(length) if (length := request.headers.get("content-length", "")).isdigit() else 0
    gathered = bytearray()
    try:
        async for piece in request.stream():
            gathered += pieces.feed(piece)
            if turn is None and pieces.file_name is not None:
                turn = await run_in_threadpool(_started, service, actor, pieces, bound)
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
    """Return an image, and the actions that the caller can take."""
    with service.database.reading() as database:
        found = upload.found(database, name)
        details = image_details_json(service, database, found)
    is_admin, sends = actor.has({Role.ADMIN}), actor.has({Role.OPERATOR, Role.ADMIN})
    is_upload = found.state is ImageState.UPLOADING
    may = {
        "verify": sends and found.state in _AT_REST,
        "approve": is_admin and found.state is ImageState.UNKNOWN,
        "remove": sends if is_upload else is_admin and found.state is not ImageState.HIDDEN,
        "restore": is_admin and found.state is ImageState.HIDDEN,
    }
    return _row(service, found) | details | {"may": may, "is_upload": is_upload}


@router.post(f"{_PATH}/golden")
def choose(service: TheService, actor: TheActor, model: FormName, image: FormName, site: FormName = "") -> Response:
    """Set the golden image of a model."""
    golden.choose(service, actor, model.strip(), site.strip() or EVERYWHERE, image)
    return RedirectResponse(_PATH, HTTPStatus.SEE_OTHER)


@router.post(f"{_PATH}/published")
async def import_published(request: Request, service: TheService, actor: TheActor) -> Response:
    """Import the vendor's file of published hashes from a form."""
    await receive_published(service, actor, _file_of(request))
    return RedirectResponse(f"{_PATH}#published", HTTPStatus.SEE_OTHER)


@router.post(f"{_PATH}/golden/remove")
def unchoose(service: TheService, actor: TheActor, model: FormName, site: FormName = EVERYWHERE) -> Response:
    """Remove the golden image of a model."""
    golden.unchoose(service, actor, model, site)
    return RedirectResponse(_PATH, HTTPStatus.SEE_OTHER)


@router.post(f"{_PATH}/{{name}}/verify")
def verify(service: TheService, actor: TheActor, name: str, sha512: FormName = "") -> Response:
    """Compare an image with published digests, and with a pasted one if given."""
    return _back(lifecycle.verify(service, actor, name, sha512).name)


@router.post(f"{_PATH}/{{name}}/vouch")
def approve_unpublished(service: TheService, actor: TheActor, name: str, reason: FormProse = "") -> Response:
    """Approve an image that the vendor did not publish."""
    return _back(lifecycle.approve_unpublished(service, actor, name, reason).name)


@router.post(f"{_PATH}/{{name}}/remove")
def remove(service: TheService, actor: TheActor, name: str, reason: FormProse = "") -> Response:
    """Remove an image."""
    kept = lifecycle.take_away(service, actor, name, reason)
    return _back(kept.name) if kept is not None else RedirectResponse(_PATH, HTTPStatus.SEE_OTHER)


@router.post(f"{_PATH}/{{name}}/restore")
def restore(service: TheService, actor: TheActor, name: str, reason: FormProse = "") -> Response:
    """Restore a removed image."""
    return _back(lifecycle.bring_back(service, actor, name, reason).name)


async def _file_of(request: Request) -> AsyncIterator[bytes]:
    """Yield the file in a form as it arrives."""
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
    """Return time, user and size of the last import of published hashes; None: never."""
    found = newest_of(database, "published.taken")
    if found is None or found.entry.outcome != "done":
        return None
    after = parsed(found.entry.after) or {}
    return {"at": found.entry.at, "by": found.entry.actor, "rows": after.get("rows"), "new": after.get("new")}


def _started(service: Service, actor: Actor, pieces: FormPieces, bound: int) -> UploadSession:
    """Start an upload of unknown size, at most that of the whole request."""
    name = pieces.file_name or ""
    new = NewImage(name=name, size_bytes=bound, sha512=pieces.fields.get("sha512", ""))
    _, is_new = upload.announce_image(service, actor, new)
    if not is_new:
        raise Conflict(
            f"image {name}: expected a name that is free, found one that is being uploaded",
            hint="Continue that upload, or abandon it on its page",
        )
    return upload.go_on(service, actor, name, 0, None)


def _given_up(service: Service, actor: Actor, turn: UploadSession) -> None:
    with service.database.reading() as database:
        image = upload.found(database, turn.name)
    if image.state is ImageState.UPLOADING:
        upload.give_up(service, actor, image)


def _broken() -> ServiceError:
    return BadForm(
        "image: expected a form with a whole file in it, found one that broke off, or none",
        hint="Choose the file and send it again",
    )


def _row(service: Service, image: StoredImage) -> dict[str, object]:
    return {"tone": _TONES[image.state], "label": image.state.label} | image_json(service, image)


def _back(name: str) -> Response:
    return RedirectResponse(link(_PATH, name), HTTPStatus.SEE_OTHER)
