"""Images for programs: announced, sent in pieces, read about, vouched for, taken away; and the golden ones.

Facts
-----
* An upload is gone on with as in the tus protocol (1.0.0): HEAD tells `Upload-Offset`, PATCH sends what is behind it.
* A body goes straight into its file: a form's would be written twice (300 MB: 4.2 s and 629 MB of disk, against 0.6 s
  and 315 MB).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import anyio
from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from flashferry.service.errors import TooLarge, TooSlow
from flashferry.core.codec import to_json
from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.images import golden, lifecycle, publishing, upload
from flashferry.service.images.lifecycle import told_image, told_whole
from flashferry.service.images.places import MOST_PUBLISHED_BYTES
from flashferry.service.images.publishing import TakenIn
from flashferry.service.images.reconcile import left_out
from flashferry.service.images.upload import NewImage, offset_of
from flashferry.service.images.upload_sessions import Arrival
from flashferry.service.principal import EVERYWHERE, Actor
from flashferry.service.service import Service
from flashferry.service.texts import LARGEST, Name, Number, Prose
from flashferry.store.service.images import StoredImage, golden_images
from flashferry.store.service.images import images as stored_images

router = APIRouter(prefix="/api/v1", tags=["images"])

SILENCE_S = 60.0
"""After so long without a byte a sender has gone."""
_GATHER_BYTES = 1 << 20
_BODY = {"requestBody": {"required": True, "content": {"application/octet-stream": {}}}}


class AnnouncedImage(BaseModel):
    """An image that is about to be sent."""

    name: Name = Field(description="Its file's name, as the vendor has it.")
    size_bytes: Number = Field(description="Its size.")
    sha512: Name = Field("", description="What the vendor published for it; one that differs is never usable.")


class Stated(BaseModel):
    """What an image is to be held against."""

    sha512: Name = Field("", description="The vendor's SHA-512; empty: what is known to be published alone.")


class Reason(BaseModel):
    """Why somebody does something."""

    reason: Prose = Field(description="For the audit, and for who reads of the image.")


class Chosen(BaseModel):
    """Which image a model is to have."""

    image: Name = Field(description="Its name.")
    site: Name = Field(EVERYWHERE, description="The site; '*': all that have none of their own.")


@router.get("/images")
def list_images(service: TheService) -> dict[str, object]:
    """List the images, also those that are arriving and those that were taken away."""
    with service.database.reading() as database:
        told = [told_image(service, image) for image in stored_images(database)]
    return {"images": told, "left_out": left_out(service)}


@router.post("/images", status_code=HTTPStatus.CREATED)
def announce(response: Response, service: TheService, actor: TheActor, new: AnnouncedImage) -> dict[str, object]:
    """Announce an image, which is sent by PATCH; 200 with its offset where it was begun before."""
    image, is_new = upload.announce_image(service, actor, NewImage(**new.model_dump()))
    response.status_code = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    response.headers.update(_headers(service, image) | {"Location": f"{router.prefix}/images/{image.name}"})
    return told_image(service, image)


@router.get("/images/{name}")
def read(response: Response, service: TheService, name: str) -> dict[str, object]:
    """Tell all of an image: its digests, what is held of it and why, and what names it."""
    with service.database.reading() as database:
        image = upload.found(database, name)
        response.headers.update(_headers(service, image))
        return told_whole(service, database, image)


@router.head("/images/{name}", include_in_schema=False)
def offset(service: TheService, name: str) -> Response:
    """Tell how much of an image has arrived: `Upload-Offset`, of `Upload-Length`."""
    with service.database.reading() as database:
        image = upload.found(database, name)
    return Response(headers=_headers(service, image) | {"Cache-Control": "no-store"})


@router.patch("/images/{name}", openapi_extra=_BODY)
async def send(
    request: Request,
    response: Response,
    service: TheService,
    actor: TheActor,
    name: str,
    upload_offset: Annotated[int, Header(ge=0, le=LARGEST, description="From where this goes on.")],
) -> dict[str, object]:
    """Send what is behind the offset, all of it or a piece; the answer tells how much there is, and what is held of it.

    409 with `offset` where it does not go on from there, or somebody else is sending it.
    """
    turn = await run_in_threadpool(upload.go_on, service, actor, name, upload_offset, _length_of(request))
    image = await taken_in(service, actor, turn, request.stream())
    response.headers.update(_headers(service, image))
    return told_image(service, image)


@router.post("/images/{name}/verify")
def verify(service: TheService, actor: TheActor, name: str, stated: Stated) -> dict[str, object]:
    """Read an image again, and hold it against what was published; with a SHA-512, against that too."""
    return told_image(service, lifecycle.verify(service, actor, name, stated.sha512))


@router.post("/images/{name}/vouch")
def vouch(service: TheService, actor: TheActor, name: str, said: Reason) -> dict[str, object]:
    """Vouch for an image that nobody published."""
    return told_image(service, lifecycle.vouch(service, actor, name, said.reason))


@router.delete("/images/{name}", status_code=HTTPStatus.NO_CONTENT)
def take_away(
    service: TheService, actor: TheActor, name: str, reason: Annotated[str, Query(description="For the audit.")] = ""
) -> None:
    """Take an image away, for a while so that it can be brought back; one that is arriving is given up.

    409 with `named_by` where a plan, a schedule, a job or a golden image names it.
    """
    lifecycle.take_away(service, actor, name, reason)


@router.post("/images/{name}/restore")
def restore(service: TheService, actor: TheActor, name: str, said: Reason) -> dict[str, object]:
    """Bring back an image that was taken away."""
    return told_image(service, lifecycle.bring_back(service, actor, name, said.reason))


@router.post("/published", openapi_extra=_BODY)
async def take_in_published(request: Request, service: TheService, actor: TheActor) -> dict[str, object]:
    """Take in the vendor's file of published hashes, whose signature is checked; all images are held against it."""
    return dict(to_json(await published_taken_in(service, actor, request.stream())))


async def published_taken_in(service: Service, actor: Actor, pieces: AsyncIterator[bytes]) -> TakenIn:
    """Keep the vendor's file of published hashes as it comes, and take it in once it is whole.

    Raises:
        ServiceError: 413 where it is larger than any of the vendor's, and as `publishing.take_in_published`.
    """
    with TemporaryDirectory(dir=service.state, prefix="published.") as folder:
        path = Path(folder) / "file"
        size_bytes = 0
        with path.open("xb") as file:
            async for piece in pieces:
                size_bytes += len(piece)
                if size_bytes > MOST_PUBLISHED_BYTES:
                    raise TooLarge(
                        f"published hashes: expected at most {MOST_PUBLISHED_BYTES:,} bytes, found more",
                        hint="Send the file as the vendor has it, packed",
                    )
                await run_in_threadpool(file.write, piece)
        return await run_in_threadpool(publishing.take_in_published, service, actor, path)


@router.get("/golden")
def list_golden(service: TheService) -> dict[str, object]:
    """List which image is golden for which model, everywhere or at a site."""
    with service.database.reading() as database:
        return {"golden": [dict(to_json(one)) for one in golden_images(database)]}


@router.get("/golden/{model:path}")
def read_golden(service: TheService, model: str, site: str = EVERYWHERE) -> dict[str, object]:
    """Tell which image a model is to have at a site: the site's own, else that of all sites."""
    return dict(to_json(golden.golden_for(service, model, site)))


@router.put("/golden/{model:path}")
def choose(service: TheService, actor: TheActor, model: str, chosen: Chosen) -> dict[str, object]:
    """Say which image a model is to have; one of another platform is refused."""
    return dict(to_json(golden.choose(service, actor, model, chosen.site, chosen.image)))


@router.delete("/golden/{model:path}", status_code=HTTPStatus.NO_CONTENT)
def unchoose(service: TheService, actor: TheActor, model: str, site: str = EVERYWHERE) -> None:
    """Say nothing any more of which image a model is to have."""
    golden.unchoose(service, actor, model, site)


async def taken_in(service: Service, actor: Actor, turn: Arrival, pieces: AsyncIterator[bytes]) -> StoredImage:
    """Write what comes, end the turn however that goes, and judge the image where it is whole.

    Raises:
        ServiceError: 408 where nothing came any more, and as `arriving.take_in` and `arriving.complete`.
    """
    try:
        await _written(service, turn, pieces)
    finally:
        # Also where the request was cut: what came before that is kept, and told to the table.
        with anyio.CancelScope(shield=True):
            await run_in_threadpool(upload.keep, service, turn)
    if turn.is_whole:
        return await run_in_threadpool(upload.complete, service, actor, turn)
    return await run_in_threadpool(_row, service, turn.name)


async def _written(service: Service, turn: Arrival, pieces: AsyncIterator[bytes]) -> None:
    gathered, is_silent = bytearray(), False
    try:
        while True:
            with anyio.fail_after(SILENCE_S):
                piece = await anext(pieces, None)
            if piece is None:
                break
            gathered += piece
            if len(gathered) >= _GATHER_BYTES:
                full, gathered = gathered, bytearray()
                await run_in_threadpool(upload.take_in, service, turn, full)
    except ClientDisconnect:
        # Nobody is there to be answered; what he sent counts.
        pass
    except TimeoutError:
        is_silent = True
    if gathered:
        await run_in_threadpool(upload.take_in, service, turn, gathered)
    if is_silent:
        raise TooSlow(
            f"image {turn.name}: expected more of it within {SILENCE_S:.0f} s, found nothing",
            hint="HEAD it, and go on from the offset that is told",
        )


def _row(service: Service, name: str) -> StoredImage:
    with service.database.reading() as database:
        return upload.found(database, name)


def _headers(service: Service, image: StoredImage) -> dict[str, str]:
    return {"Upload-Offset": str(offset_of(service, image)), "Upload-Length": str(image.size_bytes)}


def _length_of(request: Request) -> int | None:
    """Return how long a body is as its sender says; None where he does not: it comes in chunks."""
    text = request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() else None
