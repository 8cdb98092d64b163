"""Images API: announce, upload, verify, approve and remove images; set golden images.

Facts
-----
* Resuming an upload works as in tus 1.0.0: HEAD returns `Upload-Offset`, PATCH sends what follows.
* A body is streamed into its file: a form would be written twice (300 MB: 4.2 s and 629 MB of disk, against 0.6 s and
  315 MB).
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from flashferry.core.codec import to_json
from flashferry.service.api.depends import LARGEST, Name, Number, Prose, TheActor, TheService
from flashferry.service.images import golden, lifecycle, upload
from flashferry.service.images.lifecycle import image_details_json, image_json, left_out
from flashferry.service.images.receive import receive_published, receive_upload
from flashferry.service.images.upload import NewImage, offset_of
from flashferry.service.principal import EVERYWHERE
from flashferry.store.service.images import StoredImage, golden_images
from flashferry.store.service.images import images as stored_images

router = APIRouter(prefix="/api/v1", tags=["images"])
_BODY = {"requestBody": {"required": True, "content": {"application/octet-stream": {}}}}


class AnnouncedImage(BaseModel):
    """Body that announces an upload."""

    name: Name = Field(description="Its file's name, as the vendor has it.")
    size_bytes: Number = Field(description="Its size.")
    sha512: Name = Field("", description="What the vendor published for it; one that differs is never usable.")


class Stated(BaseModel):
    """Body with a SHA-512 to compare an image with."""

    sha512: Name = Field("", description="The vendor's SHA-512; empty: what is known to be published alone.")


class Reason(BaseModel):
    """Body with the reason of an action."""

    reason: Prose = Field(description="For the audit, and for who reads of the image.")


class Chosen(BaseModel):
    """Body that sets the golden image of a model."""

    image: Name = Field(description="Its name.")
    site: Name = Field(EVERYWHERE, description="The site; '*': all that have none of their own.")


@router.get("/images")
def list_images(service: TheService) -> dict[str, object]:
    """List all images, including uploads and removed ones."""
    with service.database.reading() as database:
        details = [image_json(service, image) for image in stored_images(database)]
    return {"images": details, "left_out": left_out(service)}


@router.post("/images", status_code=HTTPStatus.CREATED)
def announce(response: Response, service: TheService, actor: TheActor, new: AnnouncedImage) -> dict[str, object]:
    """Announce an image before its upload by PATCH; 200 with the present offset if it was announced before."""
    image, is_new = upload.announce_image(service, actor, NewImage(**new.model_dump()))
    response.status_code = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    response.headers.update(_headers(service, image) | {"Location": f"{router.prefix}/images/{image.name}"})
    return image_json(service, image)


@router.get("/images/{name}")
def read(response: Response, service: TheService, name: str) -> dict[str, object]:
    """Return an image: digests, state with its reason, and the objects that refer to it."""
    with service.database.reading() as database:
        image = upload.found(database, name)
        response.headers.update(_headers(service, image))
        return image_details_json(service, database, image)


@router.head("/images/{name}", include_in_schema=False)
def offset(service: TheService, name: str) -> Response:
    """Return how many bytes were uploaded: `Upload-Offset`, of `Upload-Length`."""
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
    """Upload bytes from an offset to the end, or a part of them; the answer has the new offset and the state.

    409 with the right `offset` if it differs, or if another client is uploading.
    """
    turn = await run_in_threadpool(upload.go_on, service, actor, name, upload_offset, _length_of(request))
    image = await receive_upload(service, actor, turn, request.stream())
    response.headers.update(_headers(service, image))
    return image_json(service, image)


@router.post("/images/{name}/verify")
def verify(service: TheService, actor: TheActor, name: str, stated: Stated) -> dict[str, object]:
    """Hash an image again and compare it with published digests, and with the given SHA-512."""
    return image_json(service, lifecycle.verify(service, actor, name, stated.sha512))


# Generated clients name their methods by the operation id, so path and id stay.
@router.post("/images/{name}/vouch", operation_id="vouch_api_v1_images__name__vouch_post")
def approve_unpublished(service: TheService, actor: TheActor, name: str, said: Reason) -> dict[str, object]:
    """Approve an image that the vendor did not publish."""
    return image_json(service, lifecycle.approve_unpublished(service, actor, name, said.reason))


@router.delete("/images/{name}", status_code=HTTPStatus.NO_CONTENT)
def take_away(
    service: TheService, actor: TheActor, name: str, reason: Annotated[str, Query(description="For the audit.")] = ""
) -> None:
    """Remove an image, which can be restored for some time; an unfinished upload is deleted.

    409 with `named_by` if a plan, a schedule, a job or a golden image refers to it.
    """
    lifecycle.take_away(service, actor, name, reason)


@router.post("/images/{name}/restore")
def restore(service: TheService, actor: TheActor, name: str, said: Reason) -> dict[str, object]:
    """Restore a removed image."""
    return image_json(service, lifecycle.bring_back(service, actor, name, said.reason))


@router.post("/published", openapi_extra=_BODY, operation_id="take_in_published_api_v1_published_post")
async def import_published(request: Request, service: TheService, actor: TheActor) -> dict[str, object]:
    """Import the vendor's signed file of published hashes; all images are then verified again."""
    return dict(to_json(await receive_published(service, actor, request.stream())))


@router.get("/golden")
def list_golden(service: TheService) -> dict[str, object]:
    """List the golden images, by model and site."""
    with service.database.reading() as database:
        return {"golden": [dict(to_json(one)) for one in golden_images(database)]}


@router.get("/golden/{model:path}")
def read_golden(service: TheService, model: str, site: str = EVERYWHERE) -> dict[str, object]:
    """Return the golden image of a model at a site: the site's own, else that of all sites."""
    return dict(to_json(golden.golden_for(service, model, site)))


@router.put("/golden/{model:path}")
def choose(service: TheService, actor: TheActor, model: str, chosen: Chosen) -> dict[str, object]:
    """Set the golden image of a model; an image for another platform is refused."""
    return dict(to_json(golden.choose(service, actor, model, chosen.site, chosen.image)))


@router.delete("/golden/{model:path}", status_code=HTTPStatus.NO_CONTENT)
def unchoose(service: TheService, actor: TheActor, model: str, site: str = EVERYWHERE) -> None:
    """Remove the golden image of a model."""
    golden.unchoose(service, actor, model, site)


def _headers(service: TheService, image: StoredImage) -> dict[str, str]:
    return {"Upload-Offset": str(offset_of(service, image)), "Upload-Length": str(image.size_bytes)}


def _length_of(request: Request) -> int | None:
    """Return the Content-Length of a request; None for a chunked body."""
    text = request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() else None
