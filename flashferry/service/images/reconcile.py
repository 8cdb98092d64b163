"""The image folder kept in step with the tables: files placed by hand imported, expired ones deleted.

An imported file is published if its digests are, else unknown. One whose content changed is verified again.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from flashferry.core.files import NotRegular, check_regular
from flashferry.images.files import FileIdentity
from flashferry.service.auditing import note
from flashferry.service.background import PeriodicTask
from flashferry.service.errors import ServiceError
from flashferry.service.images.lifecycle import is_over, judged_anew, read_file, remove
from flashferry.service.images.places import is_image_name, make_folder, place_of, settle
from flashferry.service.images.upload import facts_of, give_up, whole
from flashferry.service.images.verification import object_of
from flashferry.service.principal import SYSTEM
from flashferry.service.service import Service
from flashferry.store.service import images as store
from flashferry.store.service.database import moment, moment_of
from flashferry.store.service.images import FOLDER, ImageState, StoredImage

_LOG = logging.getLogger("flashferry.service.images")
EVERY_S = 30.0
REST_S = 10.0
"""A file is imported after so many seconds without a write: it may still be being copied."""
_LEAST_QUIET_S = 86400.0
_IN_FOLDER = (ImageState.PUBLISHED, ImageState.UNKNOWN, ImageState.VOUCHED)


def reconcile_folder(service: Service) -> None:
    """Make one pass over the folder."""
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
    """Return names of files in the folder that are not images: invalid names, or not regular files."""
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


TASK = PeriodicTask(name="images", every_s=EVERY_S, run=reconcile_folder)


def _reconcile(service: Service, image: StoredImage) -> None:
    if image.state is ImageState.HIDDEN and is_over(service, image):
        remove(service, SYSTEM, image, "it was removed, and can no longer be restored")
        return
    if image.state is ImageState.ARRIVING:
        _reconcile_upload(service, image)
        return
    settle(service, image)
    if image.state in _IN_FOLDER and (now := _state_of(service, image.name)) not in (None, image.file_state):
        _read_again(service, image, str(now))


def _reconcile_upload(service: Service, image: StoredImage) -> None:
    """Abandon an upload without progress for as long as removed images are kept."""
    events_view = moment_of(image.created_at)
    with suppress(FileNotFoundError):
        written_s = place_of(service, image.name, image.state).stat().st_mtime
        events_view = max(events_view, datetime.fromtimestamp(written_s, UTC))
    if service.now() - events_view >= timedelta(seconds=max(service.settings.keep_hidden_images_s, _LEAST_QUIET_S)):
        give_up(service, SYSTEM, image)


def _read_again(service: Service, image: StoredImage, file_state: str) -> None:
    """Handle a file that was moved by us, or changed by hand."""
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
            note(
                *(service, database, SYSTEM, "image.changed", object_of(image.name)),
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
        created_at=moment(service.now()),
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
        note(service, database, SYSTEM, "image.found", object_of(name), after=facts_of(image))
    settle(service, image)


def _state_of(service: Service, name: str) -> str | None:
    """Return the identity of a file in the folder; None if it cannot be an image."""
    try:
        status = check_regular(place_of(service, name, ImageState.UNKNOWN), follow_links=False)
    except (NotRegular, OSError):
        return None
    return FileIdentity.of(status).key if status.st_size else None
