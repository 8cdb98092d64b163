"""An image is announced, sent in as many pieces as it takes, and judged when it is whole.

The table says how much is on disk for good; a service that was killed goes on from there. Any operator may go on with
what another one began: a name is one image.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace

from flashferry.service.errors import Conflict, DiskFull, InvalidRequest, NotFound, ServiceError, TooLarge, TooMany, invalid_from, listed
from flashferry.core.errors import ConfigInvalid
from flashferry.images.contents import Contents
from flashferry.images.image import published as checked_digests
from flashferry.service.auditing import note, note_refusal
from flashferry.service.images.places import check_room, checked_name, make_folder, place_of, settle
from flashferry.service.images.upload_sessions import Arrival, HeldByAnother
from flashferry.service.images.verification import Stated, judged, object_of
from flashferry.service.principal import Actor
from flashferry.service.service import Service
from flashferry.store.service import images as store
from flashferry.store.service.database import moment
from flashferry.store.service.images import ImageState, StoredImage

MOST_AT_ONCE = 20
"""While so many images are arriving, sent or left alone, a person who has one among them announces no other."""

MOST_OF_A_PERSON = 5
"""So many of them are one person's, and together they have at most as many bytes as one image may have."""

_AGAIN = "HEAD it, and send what is behind the offset that is told"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewImage:
    """An image that somebody is about to send.

    Attributes:
        name: Its file's name.
        size_bytes: Its size; by a form, at most that.
        sha512: What the vendor published for it, as somebody pasted it; empty: nothing.
    """

    name: str
    size_bytes: int
    sha512: str = ""


def announce_image(service: Service, actor: Actor, new: NewImage) -> tuple[StoredImage, bool]:
    """Enter an image that is to arrive; return it, and whether it is new: one that was begun is gone on with.

    Raises:
        ServiceError: 422 for a name, size or digest that is none, 409 where the name is taken, 429 where too many that
            arrive are this person's, 507 where there is no room.
    """
    checked_name(new.name)
    stated = checked_sha512(new.sha512)
    try:
        _check_size(service, new.size_bytes)
        make_folder(place_of(service, new.name, ImageState.ARRIVING).parent)
        with service.database.writing() as database:
            known = store.image_of(database, new.name)
            if known is not None:
                return _begun_before(known, new, stated), False
            _check_free(service, database, actor, new)
            image = StoredImage(
                name=new.name,
                size_bytes=new.size_bytes,
                stated_sha512=stated or None,
                stated_by=actor.name if stated else None,
                uploaded_by=actor.name,
                created_at=moment(service.now()),
            )
            # What an upload left that was given up and whose file could not be removed then.
            place_of(service, new.name, ImageState.ARRIVING).unlink(missing_ok=True)
            store.add_image(database, image)
            after = {"size_bytes": new.size_bytes, "sha512": stated}
            note(service, database, actor, "image.announced", object_of(new.name), after=after)
    except ServiceError as problem:
        note_refusal(service, actor, "image.announced", object_of(new.name), problem.sentence)
        raise
    except OSError as error:
        raise _unwritable(error) from None
    return image, True


def go_on(service: Service, actor: Actor, name: str, offset: int, length: int | None) -> Arrival:
    """Return an operator's turn to send an image from an offset on.

    Args:
        service: The service.
        actor: Who sends.
        name: The image.
        offset: From where, as he thinks.
        length: How much is to follow, where that is known.

    Raises:
        ServiceError: 404 where nobody announced it, 409 with `offset` where he is not to go on from there or somebody else
            is sending it, 413 where he would send too much, 507 where there is no room.
    """
    with service.database.reading() as database:
        image = found(database, name)
        promised = store.outstanding_bytes(database, but=name)
    if image.state is not ImageState.ARRIVING:
        raise _conflict(
            f"image {name}: it has arrived, and is {image.state}", image.size_bytes, "Nothing is to be sent"
        )
    if length is not None and offset + length > image.size_bytes:
        raise _too_much(image.name, image.size_bytes)
    place = place_of(service, name, ImageState.ARRIVING)
    try:
        check_room(service, image.size_bytes - image.received_bytes, promised)
        turn = service.arrivals.take(name, place, size_bytes=image.size_bytes, received_bytes=image.received_bytes)
    except HeldByAnother as held:
        raise _conflict(
            f"image {name}: somebody is sending it; offset is {held.offset}", held.offset, "Wait for the end of that"
        ) from None
    except OSError as error:
        raise _unwritable(error) from None
    if offset != turn.offset:
        keep(service, turn)
        note_refusal(service, actor, "image.sent", object_of(name), f"offset is {turn.offset}, not {offset}")
        raise _conflict(f"image {name}: offset is {turn.offset}, not {offset}", turn.offset, _AGAIN)
    return turn


def take_in(service: Service, turn: Arrival, data: bytes | bytearray) -> None:
    """Write the next bytes of an image; now and then what was written is kept for good.

    Raises:
        ServiceError: 409 where somebody took over, 413 where it is more than was announced, 507 where there is no room.
    """
    if turn.offset + len(data) > turn.size_bytes:
        raise _too_much(turn.name, turn.size_bytes)
    try:
        if turn.write(data):
            _keep_offset(service, turn.name, turn.sync())
            check_room(service, 0, 0)
    except HeldByAnother as held:
        raise _conflict(f"image {turn.name}: somebody else went on with it", held.offset, _AGAIN) from None
    except OSError as error:
        raise _unwritable(error) from None


def keep(service: Service, turn: Arrival) -> int:
    """End a turn; return how much of the image is on disk for good.

    Raises:
        ServiceError: 507 where what was sent last cannot be kept.
    """
    try:
        kept_bytes = turn.end()
    except OSError as error:
        service.arrivals.forget(turn)
        raise _unwritable(error) from None
    _keep_offset(service, turn.name, kept_bytes)
    return kept_bytes


def complete(service: Service, actor: Actor, turn: Arrival) -> StoredImage:
    """Judge an image that is whole, and put it where its state wants it.

    Raises:
        ServiceError: 409 where somebody gave it up meanwhile; 507 where its file cannot be moved yet: the service does that
            later.
    """
    contents = turn.contents()
    service.arrivals.forget(turn)
    with service.database.writing() as database:
        before = found(database, turn.name)
        if before.state is not ImageState.ARRIVING:
            raise _conflict(f"image {turn.name}: it is {before.state} by now", before.size_bytes, "GET it to see why")
        image = whole(service, database, replace(before, size_bytes=turn.offset, received_bytes=turn.offset), contents)
        store.set_image(database, image, was=before.state)
        note(service, database, actor, "image.uploaded", object_of(image.name), after=facts_of(image))
    try:
        settle(service, image)
    except OSError as error:
        raise _unwritable(error) from None
    return image


def give_up(service: Service, actor: Actor, image: StoredImage) -> None:
    """Want an image no more that is still arriving, and remove what has arrived of it.

    Raises:
        ServiceError: It is whole by now.
    """
    with service.database.writing() as database:
        if not store.remove_image(database, image.name, was=ImageState.ARRIVING):
            raise _conflict(f"image {image.name}: it is whole by now", image.size_bytes, "GET it to see how it stands")
        before = {"received_bytes": image.received_bytes, "size_bytes": image.size_bytes}
        note(service, database, actor, "image.given_up", object_of(image.name), before=before)
    service.arrivals.cut(image.name)
    place_of(service, image.name, ImageState.ARRIVING).unlink(missing_ok=True)


def whole(service: Service, database: sqlite3.Connection, image: StoredImage, contents: Contents) -> StoredImage:
    """Return the row of an image whose content is known: judged by what was published and pasted."""
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
        told=verdict.told,
        completed_at=image.completed_at or moment(service.now()),
    )


def found(database: sqlite3.Connection, name: str) -> StoredImage:
    """Return an image.

    Raises:
        ServiceError: There is none of that name.
    """
    image = store.image_of(database, name)
    if image is None:
        raise NotFound(f"image: expected the name of one that is here, found {name[:130]!r}", hint=listed("images"))
    return image


def offset_of(service: Service, image: StoredImage) -> int:
    """Return how much of an image has arrived; of one that is being sent just now, where its sender is."""
    if image.state is not ImageState.ARRIVING:
        return image.size_bytes
    return service.arrivals.offset_of(image.name) or image.received_bytes


def checked_sha512(text: str) -> str:
    """Return a pasted SHA-512 in lower case; empty where nothing was pasted.

    Raises:
        ServiceError: It is none.
    """
    try:
        return checked_digests(sha512=text).sha512 if text.strip() else ""
    except ConfigInvalid as error:
        raise invalid_from(error) from None


def facts_of(image: StoredImage) -> dict[str, object]:
    """Return what the audit keeps of an image."""
    return {"state": image.state.value, "size_bytes": image.size_bytes, "sha512": image.sha512, "told": image.told}


def _begun_before(known: StoredImage, new: NewImage, stated: str) -> StoredImage:
    if known.state is not ImageState.ARRIVING:
        what = "was taken away, and can be brought back" if known.state is ImageState.HIDDEN else f"is {known.state}"
        raise Conflict(
            f"image {new.name}: expected a name that is free, found one that {what}",
            hint="GET it to see how it stands; another file takes another name",
        )
    if known.size_bytes != new.size_bytes or (known.stated_sha512 or "") != stated:
        raise Conflict(
            f"image {new.name}: {known.uploaded_by} announced another file of that name, of {known.size_bytes:,} bytes",
            hint="Go on with that one, or have it given up: DELETE it",
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


def check_share(person: str, arriving: Sequence[tuple[str, int]], size_bytes: int, most_bytes: int) -> None:
    """Check that a person can announce another image; one who has none arriving always can.

    Args:
        person: Who announces it.
        arriving: Of each of the images that are arriving who announced it, and its size.
        size_bytes: The size of the new one.
        most_bytes: What an image may have.

    Raises:
        ServiceError: 429 where too many, or too many bytes, are the person's, 409 where too many are arriving.
    """
    sizes = [size for by, size in arriving if by == person]
    theirs = len(sizes)
    if theirs >= MOST_OF_A_PERSON:
        raise TooMany(
            f"images: expected fewer than {MOST_OF_A_PERSON} of {person} that are arriving, found {theirs}",
            hint="Send one of them to its end, or give one up: DELETE it",
        )
    if theirs and sum(sizes) + size_bytes > most_bytes:
        raise TooMany(
            f"images: expected at most {most_bytes:,} bytes of {person} that are arriving, found {sum(sizes):,}, and "
            f"{size_bytes:,} more",
            hint="Send one of them to its end, or give one up: DELETE it",
        )
    if theirs and len(arriving) >= MOST_AT_ONCE:
        raise Conflict(
            f"images: expected fewer than {MOST_AT_ONCE} that are arriving, found {len(arriving)}",
            hint="Let one end, or give one up that is not sent any more; /images has them",
        )


def _check_free(service: Service, database: sqlite3.Connection, actor: Actor, new: NewImage) -> None:
    arriving = [(one.uploaded_by, one.size_bytes) for one in store.images(database) if one.state is ImageState.ARRIVING]
    check_share(actor.name, arriving, new.size_bytes, service.settings.images.most_bytes)
    if os.path.lexists(place_of(service, new.name, ImageState.UNKNOWN)):
        raise Conflict(
            f"image {new.name}: expected a name that is free, found a file in the folder of images",
            hint="The service takes it in within a minute; another file takes another name",
        )
    check_room(service, new.size_bytes, store.outstanding_bytes(database))


def _keep_offset(service: Service, name: str, kept_bytes: int) -> None:
    with service.database.writing() as database:
        store.set_received(database, name, kept_bytes)


def _too_much(name: str, size_bytes: int) -> ServiceError:
    return TooLarge(
        f"image {name}: expected at most {size_bytes:,} bytes, as it was announced, found more",
        hint="Look whether it is the file that was announced; give the upload up and announce the other",
    )


def _conflict(sentence: str, offset: int, hint: str) -> ServiceError:
    return Conflict(sentence, hint=hint, offset=offset)


def _unwritable(error: OSError) -> ServiceError:
    return DiskFull(
        f"images: the folder cannot be written: {error.strerror}",
        hint="Look at the room on its disk and at its rights; what is on disk already stays, and can be gone on with",
    )
