"""Images in the store: verify, approve, remove, restore; import published hashes; reconcile folder and table."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from flashferry import api
from flashferry.core.codec import to_json
from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.core.files import NotRegular, check_regular
from flashferry.images.image import Digests
from flashferry.images.image_platform_match import family_of_image
from flashferry.images.manifest import Contents
from flashferry.images.safe_open import FileIdentity
from flashferry.service.errors import Conflict, Forbidden, InvalidRequest, NotFound, ServiceError, invalid_from
from flashferry.service.images.upload import checked_sha512, facts_of, found, give_up, offset_of, whole
from flashferry.service.images.verification import (
    is_image_name,
    make_folder,
    object_of,
    place_of,
    remove_files,
    settle,
    why_not_what_it_says,
)
from flashferry.service.principal import SYSTEM, Actor, Role
from flashferry.service.service import Service
from flashferry.store.service import images as store
from flashferry.store.service.database import moment_of
from flashferry.store.service.images import FOLDER, ImageState, Published, StoredImage

LONGEST_REASON = 2000
_AT_REST = (ImageState.PUBLISHED, ImageState.UNKNOWN, ImageState.APPROVED, ImageState.MISMATCH)
_Change = Callable[[sqlite3.Connection, StoredImage], StoredImage]


def verify(service: Service, actor: Actor, name: str, sha512: str = "") -> StoredImage:
    """Hash an image's file again and compare it with published digests, and with a SHA-512 if given.

    Raises:
        NotFound, Conflict: There is no such image, or it is an upload or removed.
        InvalidRequest: The SHA-512 is not valid, or the file cannot be read.
    """
    stated = checked_sha512(sha512)
    with service.database.reading() as database:
        before = found(database, name)
    _check_state(before, "verified", _AT_REST)
    contents = read_file(service, before)

    def judge(database: sqlite3.Connection, image: StoredImage) -> StoredImage:
        if stated:
            image = replace(image, stated_sha512=stated, stated_by=actor.name)
        return judged_anew(service, database, image, contents)

    return _changed(service, actor, "image.verified", name, judge, done="verified", of=_AT_REST)


def approve_unpublished(service: Service, actor: Actor, name: str, reason: str) -> StoredImage:
    """Approve an image that the vendor did not publish; the reason is kept in the audit.

    Raises:
        Conflict: The image is published, or contradicts a published digest and can never be used.
    """
    reason = checked_reason(reason)

    def change(_: sqlite3.Connection, image: StoredImage) -> StoredImage:
        details = f"{actor.name} approved it: {reason}"
        return replace(image, state=ImageState.APPROVED, approved_by=actor.name, state_reason=details)

    return _changed(
        service, actor, "image.vouched", name, change, done="approved", of=(ImageState.UNKNOWN,), reason=reason
    )


def take_away(service: Service, actor: Actor, name: str, reason: str) -> StoredImage | None:
    """Remove an image, which can be restored for some time; return it, or None if nothing of it is kept.

    An unfinished upload and a mismatching file are deleted at once.

    Raises:
        Forbidden: The caller is not allowed to.
        Conflict: A plan, schedule, job or golden image refers to it.
    """
    with service.database.reading() as database:
        image = found(database, name)
    if image.state is ImageState.UPLOADING:
        give_up(service, actor, image)
        return None
    reason = checked_reason(reason)
    if not actor.has({Role.ADMIN}):
        problem = Forbidden(
            f"image {name}: expected an admin to remove a complete image",
            hint="Ask an admin; operators may only abandon an upload",
        )
        service.note_refusal(actor, "image.hidden", object_of(name), problem.sentence)
        raise problem
    if image.state is ImageState.MISMATCH:
        with service.database.reading() as database:
            names = [f"golden:{one.model}@{one.site}" for one in store.golden_images(database) if one.image == name]
        if names:
            raise _named(name, names)
        remove(service, actor, image, reason)
        return None

    def change(database: sqlite3.Connection, image: StoredImage) -> StoredImage:
        if names := store.named_by(database, name, service.moment()):
            raise _named(name, names)
        hidden_at = service.moment()
        return replace(
            image,
            state=ImageState.HIDDEN,
            state_before_hidden=image.state,
            hidden_by=actor.name,
            hidden_at=hidden_at,
        )

    return _changed(service, actor, "image.hidden", name, change, done="removed", of=_AT_REST, reason=reason)


def bring_back(service: Service, actor: Actor, name: str, reason: str) -> StoredImage:
    """Restore a removed image in its former state. Raises `Conflict` if it is not removed."""
    reason = checked_reason(reason)

    def change(_: sqlite3.Connection, image: StoredImage) -> StoredImage:
        assert image.state_before_hidden is not None
        if os.path.lexists(place_of(service, name, image.state_before_hidden)):
            raise _conflict(name, "another file of that name is in the image folder; move that one away first")
        return replace(image, state=image.state_before_hidden, state_before_hidden=None, hidden_by=None, hidden_at=None)

    return _changed(
        service, actor, "image.brought_back", name, change, done="restored", of=(ImageState.HIDDEN,), reason=reason
    )


def remove(service: Service, actor: Actor, image: StoredImage, reason: str) -> None:
    """Delete an image past its time to be restored, with its file; the audit keeps its facts.

    Raises:
        Conflict: Its state changed meanwhile.
        OSError: The file cannot be deleted; the image stays.
    """
    with service.database.writing() as database:
        if not store.remove_image(database, image.name, was=image.state):
            raise _conflict(image.name, "it is something else by now")
        service.note(*(database, actor, "image.removed", object_of(image.name)), reason=reason, before=facts_of(image))
        # Before the commit: a row without a file is reported, but a file without a row would be registered again.
        remove_files(service, image.name)


def is_over(service: Service, image: StoredImage) -> bool:
    """Return whether the time to restore a removed image is over."""
    if image.hidden_at is None:
        return False
    return service.now() - moment_of(image.hidden_at) >= timedelta(seconds=service.settings.keep_hidden_images_s)


def judged_anew(service: Service, database: sqlite3.Connection, image: StoredImage, contents: Contents) -> StoredImage:
    """Return an image's row after its file was read again; an approval stays only for the approved content."""
    judged = whole(service, database, image, contents)
    is_same = image.sha512 == contents.digests.sha512
    if image.state is ImageState.APPROVED and is_same and judged.state is ImageState.UNKNOWN:
        return replace(judged, state=ImageState.APPROVED, state_reason=image.state_reason)
    return replace(judged, approved_by=image.approved_by if is_same else None)


def read_file(service: Service, image: StoredImage) -> Contents:
    """Return size and digests of an image's file; cached until the file changes. Raises `InvalidRequest`."""
    try:
        read = api.image_catalogue(place_of(service, image.name, image.state), state=service.state).image(image.name)
    except FlashferryError as error:
        raise invalid_from(error) from None
    return Contents(digests=Digests(md5=read.md5, sha512=read.sha512), inside=read.inside)


def checked_reason(reason: str) -> str:
    """Check a reason and return it stripped. Raises `InvalidRequest` if it is empty or too long."""
    reason = reason.strip()
    if not 1 <= len(reason) <= LONGEST_REASON:
        raise InvalidRequest(
            f"reason: expected 1 to {LONGEST_REASON:,} characters, found {len(reason):,}",
            hint="Give a reason in a sentence; it is in the audit and shown with the image",
        )
    return reason


def image_json(service: Service, image: StoredImage) -> dict[str, object]:
    """Return an image as JSON types, with upload progress and platform family."""
    family = (family_of_image(image.inside) if image.inside else None) or family_of_image(image.name)
    details = dict(to_json(image))
    del details["file_state"]
    return details | {
        "told": details.pop("state_reason"),
        "vouched_by": details.pop("approved_by"),
        "received_bytes": offset_of(service, image),
        "is_usable": image.is_usable,
        "family": None if family is None else family.name,
        "disagrees": why_not_what_it_says(image.name, image.inside),
    }


def image_details_json(service: Service, database: sqlite3.Connection, image: StoredImage) -> dict[str, object]:
    """Return an image as JSON types, with the objects that refer to it."""
    golden = [one for one in store.golden_images(database) if one.image == image.name]
    return image_json(service, image) | {
        "named_by": store.named_by(database, image.name, service.moment()),
        "golden": [dict(to_json(one)) for one in golden],
    }


def _changed(
    service: Service,
    actor: Actor,
    action: str,
    name: str,
    change: _Change,
    *,
    done: str,
    of: tuple[ImageState, ...],
    reason: str = "",
) -> StoredImage:
    with service.deciding(actor, action, object_of(name), unnoted=(NotFound,)) as database:
        before = found(database, name)
        _check_state(before, done, of)
        after = change(database, before)
        store.set_image(database, after, was=before.state)
        service.note(
            *(database, actor, action, object_of(name)),
            reason=reason,
            before=facts_of(before),
            after=facts_of(after),
        )
    settle(service, after)
    return after


def _check_state(image: StoredImage, done: str, of: tuple[ImageState, ...]) -> None:
    if image.state not in of:
        states = ", ".join(one.label for one in of)
        raise _conflict(image.name, f"expected one that is {states} to be {done}, found that it is {image.state.label}")


def _conflict(name: str, why: str) -> ServiceError:
    return Conflict(f"image {name}: {why}", hint="See its state on the page Images")


def _named(name: str, names: list[str]) -> ServiceError:
    return Conflict(
        f"image {name}: expected nothing that names it, found {', '.join(names[:5])}"
        + (f" and {len(names) - 5} more" if len(names) > 5 else ""),
        hint="Withdraw plans, remove schedules, let jobs end, and give their models another golden image first",
        named_by=names,
    )


_AT_ONCE = 10_000
_OBJECT = "published:hashes"


class ImportResult(Struct, frozen=True, kw_only=True):
    """Result of an import: rows in the file, number of new ones, and images whose state changed."""

    rows: int
    new: int
    changed: dict[str, str]


def import_published(service: Service, actor: Actor, path: Path) -> ImportResult:
    """Import a file of published hashes that the vendor signed.

    Raises:
        Conflict: No vendor certificates are configured.
        InvalidRequest: The file is of another kind, or not signed by the vendor.
    """
    # Late: the certificate library is slow to import and needed only here.
    from flashferry.service.images.bulk import read_bulk

    vendor = service.settings.images.vendor_certificates
    at = service.moment()
    try:
        if vendor is None:
            raise Conflict(
                "published hashes: expected the vendor's certificates to check the signature with, found none",
                hint="Name them in service.toml: vendor_certificates under [images]",
            )
        rows, new = _entered(service, read_bulk(path, vendor, service.now(), at))
    except ConfigInvalid as error:
        service.note_refusal(actor, "published.taken", _OBJECT, error.message)
        raise invalid_from(error) from None
    except ServiceError as problem:
        service.note_refusal(actor, "published.taken", _OBJECT, problem.sentence)
        raise
    with service.database.writing() as database:
        changed = []
        for image in store.images(database):
            after = judged_anew(service, database, image, _contents(image)) if image.state in _AT_REST else image
            if after.state is not image.state:
                store.set_image(database, after, was=image.state)
                service.note(
                    *(database, actor, "image.verified", object_of(image.name)),
                    before=facts_of(image),
                    after=facts_of(after),
                )
                changed.append(after)
        details = {image.name: image.state.value for image in changed}
        service.note(database, actor, "published.taken", _OBJECT, after={"rows": rows, "new": new, "changed": details})
    for image in changed:
        settle(service, image)
    return ImportResult(rows=rows, new=new, changed=details)


def _entered(service: Service, published: Iterator[Published]) -> tuple[int, int]:
    rows = new = 0
    while some := list(islice(published, _AT_ONCE)):
        with service.database.writing() as database:
            new += store.add_published(database, some)
        rows += len(some)
    return rows, new


def _contents(image: StoredImage) -> Contents:
    return Contents(digests=Digests(md5=image.md5 or "", sha512=image.sha512 or ""), inside=image.inside)


_LOG = logging.getLogger("flashferry.service.images")


REST_S = 10.0
"""A file is imported after so many seconds without a write: it may still be being copied."""
_LEAST_QUIET_S = 86400.0
_IN_FOLDER = (ImageState.PUBLISHED, ImageState.UNKNOWN, ImageState.APPROVED)


def reconcile_folder(service: Service) -> None:
    """Compare the image folder with the table once: register new files, read changed ones, delete expired ones."""
    make_folder(service.images)
    with service.database.reading() as database:
        known = {image.name: image for image in store.images(database)}
    for image in known.values():
        if service.stopping.is_set():
            return
        _reconcile(service, image)
    for name in sorted(entry.name for entry in os.scandir(service.images)):
        if service.stopping.is_set():
            return
        if name not in known and is_image_name(name):
            _import(service, name)


def left_out(service: Service) -> list[str]:
    """Return the files in the folder that cannot be images: invalid names, or no regular files."""
    try:
        entries = sorted(os.scandir(service.images), key=lambda entry: entry.name)
    except OSError:
        return []
    return [
        entry.name
        for entry in entries
        if not entry.name.startswith(".")
        and not entry.is_dir(follow_symlinks=False)
        and not (is_image_name(entry.name) and entry.is_file(follow_symlinks=False))
    ]


def _reconcile(service: Service, image: StoredImage) -> None:
    if image.state is ImageState.HIDDEN and is_over(service, image):
        remove(service, SYSTEM, image, "it was removed, and can no longer be restored")
        return
    if image.state is ImageState.UPLOADING:
        _reconcile_upload(service, image)
        return
    settle(service, image)
    if image.state in _IN_FOLDER and (now := _state_of(service, image.name)) not in (None, image.file_state):
        _read_again(service, image, str(now))


def _reconcile_upload(service: Service, image: StoredImage) -> None:
    """Delete an upload that made no progress for as long as removed images are kept."""
    events_view = moment_of(image.created_at)
    with suppress(FileNotFoundError):
        written_s = place_of(service, image.name, image.state).stat().st_mtime
        events_view = max(events_view, datetime.fromtimestamp(written_s, UTC))
    if service.now() - events_view >= timedelta(seconds=max(service.settings.keep_hidden_images_s, _LEAST_QUIET_S)):
        give_up(service, SYSTEM, image)


def _read_again(service: Service, image: StoredImage, file_state: str) -> None:
    """Update the row of an image whose file was moved by the service or changed by hand."""
    contents = read_file(service, image)
    is_other = contents.digests.sha512 != image.sha512
    with service.database.writing() as database:
        now = store.image_of(database, image.name)
        if now is None or now.state is not image.state:
            return
        after = replace(now, file_state=file_state)
        if is_other:
            size_bytes = place_of(service, image.name, image.state).stat().st_size
            changed = replace(after, size_bytes=size_bytes, received_bytes=size_bytes, source=FOLDER)
            after = judged_anew(service, database, changed, contents)
            _LOG.warning("image %s was changed by hand; it is %s now", image.name, after.state)
            service.note(
                *(database, SYSTEM, "image.changed", object_of(image.name)),
                reason="its file was written to by hand",
                before=facts_of(now),
                after=facts_of(after),
            )
        store.set_image(database, after, was=now.state)
    settle(service, after)


def _import(service: Service, name: str) -> None:
    file_state = _state_of(service, name)
    if file_state is None:
        return
    path = place_of(service, name, ImageState.UNKNOWN)
    status = path.stat()
    if time.time() - status.st_mtime < REST_S:
        return
    new = StoredImage(
        name=name,
        size_bytes=status.st_size,
        received_bytes=status.st_size,
        file_state=file_state,
        source=FOLDER,
        state=ImageState.UNKNOWN,
        uploaded_by=SYSTEM.name,
        created_at=service.moment(),
    )
    try:
        contents = read_file(service, new)
    except ServiceError as problem:
        _LOG.warning("image %s cannot be imported: %s", name, problem.sentence)
        return
    with service.database.writing() as database:
        image = whole(service, database, new, contents)
        if not store.add_image(database, image):
            return
        service.note(database, SYSTEM, "image.found", object_of(name), after=facts_of(image))
    settle(service, image)


def _state_of(service: Service, name: str) -> str | None:
    """Return the stat identity of a file in the folder; None if it cannot be an image."""
    try:
        status = check_regular(place_of(service, name, ImageState.UNKNOWN), follow_links=False)
    except (NotRegular, OSError):
        return None
    return FileIdentity.of(status).key if status.st_size else None
