"""Upload of an image: announced, received in pieces, and verified when complete.

The table stores how many bytes are synced to disk; a restarted service continues there. Any operator can continue an
upload.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from flashferry.core.errors import ConfigInvalid
from flashferry.images.image import published_digests as checked_digests
from flashferry.images.manifest import Contents
from flashferry.service.errors import (
    Conflict,
    DiskFull,
    InvalidRequest,
    NotFound,
    ServiceError,
    TooLarge,
    TooMany,
    invalid_from,
    listed,
)
from flashferry.service.images.upload_sessions import HeldByAnother, UploadSession
from flashferry.service.images.verification import (
    Stated,
    check_free_space,
    checked_name,
    judged,
    make_folder,
    object_of,
    place_of,
    settle,
)
from flashferry.service.principal import Actor
from flashferry.service.service import Service
from flashferry.store.service import images as store
from flashferry.store.service.images import ImageState, StoredImage

MOST_AT_ONCE = 20
"""With so many uploads, a user who has one among them announces no other."""
MOST_OF_A_PERSON = 5
"""Uploads of one user; together at most as many bytes as one image may have."""
_AGAIN = "Continue from the offset in this answer"


class NewImage(Struct, frozen=True, kw_only=True):
    """An image to be uploaded; for an upload by a form, `size_bytes` is an upper bound."""

    name: str
    size_bytes: int
    sha512: str = ""


def announce_image(service: Service, actor: Actor, new: NewImage) -> tuple[StoredImage, bool]:
    """Register an upload; return it, and False if it existed already.

    Raises:
        InvalidRequest, TooLarge: Name, size or digest is not valid.
        Conflict: The name is taken.
        TooMany: The user has too many uploads.
        DiskFull: There is no space.
    """
    checked_name(new.name)
    stated = checked_sha512(new.sha512)
    try:
        _check_size(service, new.size_bytes)
        make_folder(place_of(service, new.name, ImageState.UPLOADING).parent)
        with service.database.writing() as database:
            known = store.image_of(database, new.name)
            if known is not None:
                return _existing_upload(known, new, stated), False
            _check_free(service, database, actor, new)
            image = StoredImage(
                name=new.name,
                size_bytes=new.size_bytes,
                stated_sha512=stated or None,
                stated_by=actor.name if stated else None,
                uploaded_by=actor.name,
                created_at=service.moment(),
            )
            # Left by an abandoned upload whose file could not be deleted then.
            place_of(service, new.name, ImageState.UPLOADING).unlink(missing_ok=True)
            store.add_image(database, image)
            after = {"size_bytes": new.size_bytes, "sha512": stated}
            service.note(database, actor, "image.announced", object_of(new.name), after=after)
    except ServiceError as problem:
        service.note_refusal(actor, "image.announced", object_of(new.name), problem.sentence)
        raise
    except OSError as error:
        raise _unwritable(error) from None
    return image, True


def go_on(service: Service, actor: Actor, name: str, offset: int, length: int | None) -> UploadSession:
    """Return a session that continues an upload at an offset; `length` is the number of bytes to follow, if known.

    Raises:
        NotFound: The image was not announced.
        Conflict: The right offset is another one (member `offset`), or another client is sending.
        TooLarge, DiskFull: More than announced, or no space.
    """
    with service.database.reading() as database:
        image = found(database, name)
        promised = store.outstanding_bytes(database, but=name)
    if image.state is not ImageState.UPLOADING:
        raise _conflict(
            f"image {name}: it is complete, and {image.state.label}", image.size_bytes, "Nothing is left to send"
        )
    if length is not None and offset + length > image.size_bytes:
        raise _too_much(image.name, image.size_bytes)
    place = place_of(service, name, ImageState.UPLOADING)
    try:
        check_free_space(service, image.size_bytes - image.received_bytes, promised)
        turn = service.uploads.take(name, place, size_bytes=image.size_bytes, received_bytes=image.received_bytes)
    except HeldByAnother as held:
        raise _conflict(
            f"image {name}: another client is sending it; offset is {held.offset}", held.offset, "Wait until that ends"
        ) from None
    except OSError as error:
        raise _unwritable(error) from None
    if offset != turn.offset:
        keep(service, turn)
        service.note_refusal(actor, "image.sent", object_of(name), f"offset is {turn.offset}, not {offset}")
        raise _conflict(f"image {name}: offset is {turn.offset}, not {offset}", turn.offset, _AGAIN)
    return turn


def take_in(service: Service, turn: UploadSession, data: bytes | bytearray) -> None:
    """Write the next bytes of an upload; sync from time to time.

    Raises:
        Conflict: Another client took over.
        TooLarge, DiskFull: More than announced, or no space.
    """
    if turn.offset + len(data) > turn.size_bytes:
        raise _too_much(turn.name, turn.size_bytes)
    try:
        if turn.write(data):
            _keep_offset(service, turn.name, turn.sync())
            check_free_space(service, 0, 0)
    except HeldByAnother as held:
        raise _conflict(f"image {turn.name}: another client took over", held.offset, _AGAIN) from None
    except OSError as error:
        raise _unwritable(error) from None


def keep(service: Service, turn: UploadSession) -> int:
    """End a session; return the number of synced bytes. Raises `DiskFull` if the last bytes cannot be synced."""
    try:
        kept_bytes = turn.end()
    except OSError as error:
        service.uploads.forget(turn)
        raise _unwritable(error) from None
    _keep_offset(service, turn.name, kept_bytes)
    return kept_bytes


def complete(service: Service, actor: Actor, turn: UploadSession) -> StoredImage:
    """Verify a complete upload and move its file.

    Raises:
        Conflict: The upload was deleted meanwhile.
        DiskFull: The file cannot be moved yet; the service retries.
    """
    contents = turn.contents()
    service.uploads.forget(turn)
    with service.database.writing() as database:
        before = found(database, turn.name)
        if before.state is not ImageState.UPLOADING:
            raise _conflict(
                f"image {turn.name}: it is {before.state.label} by now",
                before.size_bytes,
                "See its state on the page Images",
            )
        image = whole(service, database, replace(before, size_bytes=turn.offset, received_bytes=turn.offset), contents)
        store.set_image(database, image, was=before.state)
        service.note(database, actor, "image.uploaded", object_of(image.name), after=facts_of(image))
    try:
        settle(service, image)
    except OSError as error:
        raise _unwritable(error) from None
    return image


def give_up(service: Service, actor: Actor, image: StoredImage) -> None:
    """Delete an upload and its file. Raises `Conflict` if it is complete by now."""
    with service.database.writing() as database:
        if not store.remove_image(database, image.name, was=ImageState.UPLOADING):
            raise _conflict(
                f"image {image.name}: it is whole by now", image.size_bytes, "See its state on the page Images"
            )
        before = {"received_bytes": image.received_bytes, "size_bytes": image.size_bytes}
        service.note(database, actor, "image.given_up", object_of(image.name), before=before)
    service.uploads.cut(image.name)
    place_of(service, image.name, ImageState.UPLOADING).unlink(missing_ok=True)


def whole(service: Service, database: sqlite3.Connection, image: StoredImage, contents: Contents) -> StoredImage:
    """Return an image's row for known contents, compared with published and pasted digests."""
    digests = contents.digests
    stated = None
    if image.stated_sha512 and image.stated_by:
        stated = Stated(sha512=image.stated_sha512, by=image.stated_by)
    verdict = judged(image.name, digests, store.published_of(database, image.name, digests.sha512), stated)
    return replace(
        image,
        md5=digests.md5,
        sha512=digests.sha512,
        inside=contents.inside,
        state=verdict.state,
        state_reason=verdict.reason,
        completed_at=image.completed_at or service.moment(),
    )


def found(database: sqlite3.Connection, name: str) -> StoredImage:
    """Return the image of a name. Raises `NotFound`."""
    image = store.image_of(database, name)
    if image is None:
        raise NotFound(f"image: expected the name of one that is here, found {name[:130]!r}", hint=listed("images"))
    return image


def offset_of(service: Service, image: StoredImage) -> int:
    """Return how many bytes of an image were uploaded, including bytes not yet synced."""
    if image.state is not ImageState.UPLOADING:
        return image.size_bytes
    return service.uploads.offset_of(image.name) or image.received_bytes


def checked_sha512(text: str) -> str:
    """Check a pasted SHA-512 and return it in lower case; empty for an empty text. Raises `InvalidRequest`."""
    try:
        return checked_digests(sha512=text).sha512 if text.strip() else ""
    except ConfigInvalid as error:
        raise invalid_from(error) from None


def facts_of(image: StoredImage) -> dict[str, object]:
    """Return the facts of an image for the audit."""
    return {
        "state": image.state.value,
        "size_bytes": image.size_bytes,
        "sha512": image.sha512,
        "told": image.state_reason,
    }


def _existing_upload(known: StoredImage, new: NewImage, stated: str) -> StoredImage:
    if known.state is not ImageState.UPLOADING:
        what = "was removed, and can be restored" if known.state is ImageState.HIDDEN else f"is {known.state.label}"
        raise Conflict(
            f"image {new.name}: expected a name that is free, found one that {what}",
            hint="See its state on the page Images; another file needs another name",
        )
    if known.size_bytes != new.size_bytes or (known.stated_sha512 or "") != stated:
        raise Conflict(
            f"image {new.name}: {known.uploaded_by} announced another file of that name, of {known.size_bytes:,} bytes",
            hint="Continue that one, or abandon it first",
        )
    return known


def _check_size(service: Service, size_bytes: int) -> None:
    most_bytes = service.settings.images.most_bytes
    if not 1 <= size_bytes <= most_bytes:
        kind = TooLarge if size_bytes > most_bytes else InvalidRequest
        raise kind(
            f"image: expected 1 to {most_bytes:,} bytes, found {size_bytes:,}",
            hint="Check that it is an image; most_gigabytes in [images] limits the size",
        )


def check_share(person: str, uploads: Sequence[tuple[str, int]], size_bytes: int, most_bytes: int) -> None:
    """Check that a user can announce another upload; a user without uploads always can.

    `uploads` has user and size of each upload; `most_bytes` limits one image, and one user's uploads together.

    Raises:
        TooMany: The user has too many uploads or bytes.
        Conflict: There are too many uploads in all.
    """
    sizes = [size for by, size in uploads if by == person]
    theirs = len(sizes)
    if theirs >= MOST_OF_A_PERSON:
        raise TooMany(
            f"images: expected fewer than {MOST_OF_A_PERSON} of {person} being uploaded, found {theirs}",
            hint="Complete one of them, or abandon one",
        )
    if theirs and sum(sizes) + size_bytes > most_bytes:
        raise TooMany(
            f"images: expected at most {most_bytes:,} bytes of {person} being uploaded, found {sum(sizes):,}, and "
            f"{size_bytes:,} more",
            hint="Complete one of them, or abandon one",
        )
    if theirs and len(uploads) >= MOST_AT_ONCE:
        raise Conflict(
            f"images: expected fewer than {MOST_AT_ONCE} being uploaded, found {len(uploads)}",
            hint="Wait for one, or abandon one that is stalled; the page Images lists them",
        )


def _check_free(service: Service, database: sqlite3.Connection, actor: Actor, new: NewImage) -> None:
    uploads = [(one.uploaded_by, one.size_bytes) for one in store.images(database) if one.state is ImageState.UPLOADING]
    check_share(actor.name, uploads, new.size_bytes, service.settings.images.most_bytes)
    if os.path.lexists(place_of(service, new.name, ImageState.UNKNOWN)):
        raise Conflict(
            f"image {new.name}: expected a name that is free, found a file in the image folder",
            hint="The service imports it within a minute; another file needs another name",
        )
    check_free_space(service, new.size_bytes, store.outstanding_bytes(database))


def _keep_offset(service: Service, name: str, kept_bytes: int) -> None:
    with service.database.writing() as database:
        store.set_received(database, name, kept_bytes)


def _too_much(name: str, size_bytes: int) -> ServiceError:
    return TooLarge(
        f"image {name}: expected at most {size_bytes:,} bytes, as it was announced, found more",
        hint="Check that it is the announced file; else abandon the upload and announce the other one",
    )


def _conflict(sentence: str, offset: int, hint: str) -> ServiceError:
    return Conflict(sentence, hint=hint, offset=offset)


def _unwritable(error: OSError) -> ServiceError:
    return DiskFull(
        f"images: the folder cannot be written: {error.strerror}",
        hint="Check disk space and permissions; what was uploaded stays, and can be continued",
    )
