"""An image in the store: verified again, approved, removed, restored.

An image that a plan, a schedule, a job or a golden image refers to is not removed; the answer lists them.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from flashferry import api
from flashferry.core.codec import to_json
from flashferry.core.errors import FlashferryError
from flashferry.images.contents import Contents
from flashferry.images.families import family_of_image
from flashferry.images.image import Digests
from flashferry.service.auditing import deciding, note, note_refusal
from flashferry.service.errors import Conflict, Forbidden, InvalidRequest, NotFound, ServiceError, invalid_from
from flashferry.service.images.places import place_of, remove_files, settle
from flashferry.service.images.upload import checked_sha512, facts_of, found, give_up, offset_of, whole
from flashferry.service.images.verification import object_of, why_not_what_it_says
from flashferry.service.principal import Actor, Role
from flashferry.service.service import Service
from flashferry.store.service import images as store
from flashferry.store.service.database import moment, moment_of
from flashferry.store.service.images import ImageState, StoredImage

LONGEST_REASON = 2000
_AT_REST = (ImageState.PUBLISHED, ImageState.UNKNOWN, ImageState.VOUCHED, ImageState.MISMATCH)
_Change = Callable[[sqlite3.Connection, StoredImage], StoredImage]


def verify(service: Service, actor: Actor, name: str, sha512: str = "") -> StoredImage:
    """Read an image's file again and compare it with published digests, and with a SHA-512 if given.

    Raises:
        NotFound, Conflict: There is no such image, or it is an upload or removed.
        InvalidRequest: Not a digest, or the file cannot be read.
    """
    stated = checked_sha512(sha512)
    with service.database.reading() as database:
        before = found(database, name)
    _check_state(before, "held against what was published", _AT_REST)
    contents = read_file(service, before)

    def judge(database: sqlite3.Connection, image: StoredImage) -> StoredImage:
        if stated:
            image = replace(image, stated_sha512=stated, stated_by=actor.name)
        return judged_anew(service, database, image, contents)

    return _changed(service, actor, "image.verified", name, judge, of=_AT_REST)


def approve_unpublished(service: Service, actor: Actor, name: str, reason: str) -> StoredImage:
    """Approve an unknown image, with a reason that is kept in the audit.

    Raises:
        Conflict: It is not unknown; one that contradicts a published digest is never usable.
    """
    reason = checked_reason(reason)

    def change(_: sqlite3.Connection, image: StoredImage) -> StoredImage:
        details = f"{actor.name} approved it: {reason}"
        return replace(image, state=ImageState.VOUCHED, vouched_by=actor.name, told=details)

    return _changed(service, actor, "image.vouched", name, change, of=(ImageState.UNKNOWN,), reason=reason)


def take_away(service: Service, actor: Actor, name: str, reason: str) -> StoredImage | None:
    """Remove an image; return it, or None if nothing of it stays.

    It can be restored for a while. An upload is abandoned, and a mismatch is deleted.

    Raises:
        Forbidden: The caller may not.
        Conflict: Something refers to it.
    """
    with service.database.reading() as database:
        image = found(database, name)
    if image.state is ImageState.ARRIVING:
        give_up(service, actor, image)
        return None
    reason = checked_reason(reason)
    if not actor.has({Role.ADMIN}):
        problem = Forbidden(
            f"image {name}: expected an admin to remove a complete image",
            hint="Ask an admin; operators may only abandon an upload",
        )
        note_refusal(service, actor, "image.hidden", object_of(name), problem.sentence)
        raise problem
    if image.state is ImageState.MISMATCH:
        with service.database.reading() as database:
            names = [f"golden:{one.model}@{one.site}" for one in store.golden_images(database) if one.image == name]
        if names:
            raise _named(name, names)
        remove(service, actor, image, reason)
        return None

    def change(database: sqlite3.Connection, image: StoredImage) -> StoredImage:
        if names := store.named_by(database, name, moment(service.now())):
            raise _named(name, names)
        hidden_at = moment(service.now())
        return replace(
            image,
            state=ImageState.HIDDEN,
            state_before_hidden=image.state,
            hidden_by=actor.name,
            hidden_at=hidden_at,
        )

    return _changed(service, actor, "image.hidden", name, change, of=_AT_REST, reason=reason)


def bring_back(service: Service, actor: Actor, name: str, reason: str) -> StoredImage:
    """Restore a removed image with its former state. Raises `Conflict` if it was not removed."""
    reason = checked_reason(reason)

    def change(_: sqlite3.Connection, image: StoredImage) -> StoredImage:
        assert image.state_before_hidden is not None
        if os.path.lexists(place_of(service, name, image.state_before_hidden)):
            raise _conflict(name, "another file of that name is in the image folder; move that one away first")
        return replace(image, state=image.state_before_hidden, state_before_hidden=None, hidden_by=None, hidden_at=None)

    return _changed(service, actor, "image.brought_back", name, change, of=(ImageState.HIDDEN,), reason=reason)


def remove(service: Service, actor: Actor, image: StoredImage, reason: str) -> None:
    """Delete an image that can no longer be restored, with its file; the audit keeps its facts.

    Raises:
        Conflict: Its state changed meanwhile.
        OSError: The file cannot be deleted; the image stays.
    """
    with service.database.writing() as database:
        if not store.remove_image(database, image.name, was=image.state):
            raise _conflict(image.name, "it is something else by now")
        note(*(service, database, actor, "image.removed", object_of(image.name)), reason=reason, before=facts_of(image))
        # Before the transaction ends: a row without a file says so, a file without a row would be an image again.
        remove_files(service, image.name)


def is_over(service: Service, image: StoredImage) -> bool:
    """Return whether a removed image can no longer be restored."""
    if image.hidden_at is None:
        return False
    return service.now() - moment_of(image.hidden_at) >= timedelta(seconds=service.settings.keep_hidden_images_s)


def judged_anew(service: Service, database: sqlite3.Connection, image: StoredImage, contents: Contents) -> StoredImage:
    """Return the row of an image that was read again. An approval holds for the content that was approved."""
    judged = whole(service, database, image, contents)
    is_same = image.sha512 == contents.digests.sha512
    if image.state is ImageState.VOUCHED and is_same and judged.state is ImageState.UNKNOWN:
        return replace(judged, state=ImageState.VOUCHED, told=image.told)
    return replace(judged, vouched_by=image.vouched_by if is_same else None)


def read_file(service: Service, image: StoredImage) -> Contents:
    """Return the contents of an image's file, cached while the file is unchanged. Raises `InvalidRequest`."""
    try:
        read = api.image_catalogue(place_of(service, image.name, image.state), state=service.state).image(image.name)
    except FlashferryError as error:
        raise invalid_from(error) from None
    return Contents(digests=Digests(md5=read.md5, sha512=read.sha512), inside=read.inside)


def checked_reason(reason: str) -> str:
    """Return a reason as it is stored. Raises `InvalidRequest` if it is empty or too long."""
    reason = reason.strip()
    if not 1 <= len(reason) <= LONGEST_REASON:
        raise InvalidRequest(
            f"reason: expected 1 to {LONGEST_REASON:,} characters, found {len(reason):,}",
            hint="Give a reason in a sentence; it is in the audit and shown with the image",
        )
    return reason


def image_json(service: Service, image: StoredImage) -> dict[str, object]:
    """Return an image as JSON types, with its progress and family."""
    family = (family_of_image(image.inside) if image.inside else None) or family_of_image(image.name)
    details = dict(to_json(image))
    del details["file_state"]
    return details | {
        "received_bytes": offset_of(service, image),
        "is_usable": image.is_usable,
        "family": None if family is None else family.name,
        "disagrees": why_not_what_it_says(image.name, image.inside),
    }


def image_details_json(service: Service, database: sqlite3.Connection, image: StoredImage) -> dict[str, object]:
    """Return an image, and what refers to it."""
    golden = [one for one in store.golden_images(database) if one.image == image.name]
    return image_json(service, image) | {
        "named_by": store.named_by(database, image.name, moment(service.now())),
        "golden": [dict(to_json(one)) for one in golden],
    }


def _changed(
    service: Service,
    actor: Actor,
    action: str,
    name: str,
    change: _Change,
    *,
    of: tuple[ImageState, ...],
    reason: str = "",
) -> StoredImage:
    with deciding(service, actor, action, object_of(name), unnoted=(NotFound,)) as database:
        before = found(database, name)
        _check_state(before, action.partition(".")[2].replace("_", " "), of)
        after = change(database, before)
        store.set_image(database, after, was=before.state)
        note(
            *(service, database, actor, action, object_of(name)),
            reason=reason,
            before=facts_of(before),
            after=facts_of(after),
        )
    settle(service, after)
    return after


def _check_state(image: StoredImage, done: str, of: tuple[ImageState, ...]) -> None:
    if image.state not in of:
        states = ", ".join(of)
        raise _conflict(image.name, f"expected one that is {states} to be {done}, found that it is {image.state}")


def _conflict(name: str, why: str) -> ServiceError:
    return Conflict(f"image {name}: {why}", hint="See its state on the page Images")


def _named(name: str, names: list[str]) -> ServiceError:
    return Conflict(
        f"image {name}: expected nothing that names it, found {', '.join(names[:5])}"
        + (f" and {len(names) - 5} more" if len(names) > 5 else ""),
        hint="Withdraw plans, remove schedules, let jobs end, and give their models another golden image first",
        named_by=names,
    )
