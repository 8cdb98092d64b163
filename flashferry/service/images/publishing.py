"""Import of the vendor's hashes, in batches so that others can write; all images are verified again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.images.contents import Contents
from flashferry.images.image import Digests
from flashferry.service.auditing import note, note_refusal
from flashferry.service.errors import Conflict, ServiceError, invalid_from
from flashferry.service.images.lifecycle import judged_anew
from flashferry.service.images.places import settle
from flashferry.service.images.upload import facts_of
from flashferry.service.images.verification import object_of
from flashferry.service.principal import Actor
from flashferry.service.service import Service
from flashferry.store.service import images as store
from flashferry.store.service.database import moment
from flashferry.store.service.images import ImageState, Published, StoredImage

_AT_ONCE = 10_000
_OBJECT = "published:hashes"
_AT_REST = (ImageState.PUBLISHED, ImageState.UNKNOWN, ImageState.VOUCHED, ImageState.MISMATCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """Result of an import: rows of the file, how many were new, and images whose state changed."""

    rows: int
    new: int
    changed: dict[str, str]


def import_published(service: Service, actor: Actor, path: Path) -> ImportResult:
    """Import a file of published hashes whose signature is the vendor's.

    Raises:
        Conflict: No vendor certificates are configured.
        InvalidRequest: Not such a file, or not the vendor's.
    """
    # Late: who takes no such file in waits for no library of certificates to be imported.
    from flashferry.service.images.bulk import read_bulk

    vendor = service.settings.images.vendor_certificates
    at = moment(service.now())
    try:
        if vendor is None:
            raise Conflict(
                "published hashes: expected certificates of the vendor's to hold the signature against, found none",
                hint="Name them in service.toml: vendor_certificates under [images]",
            )
        rows, new = _entered(service, read_bulk(path, vendor, service.now(), at))
    except ConfigInvalid as error:
        note_refusal(service, actor, "published.taken", _OBJECT, error.message)
        raise invalid_from(error) from None
    except ServiceError as problem:
        note_refusal(service, actor, "published.taken", _OBJECT, problem.sentence)
        raise
    with service.database.writing() as database:
        changed = []
        for image in store.images(database):
            after = judged_anew(service, database, image, _contents(image)) if image.state in _AT_REST else image
            if after.state is not image.state:
                store.set_image(database, after, was=image.state)
                note(
                    *(service, database, actor, "image.verified", object_of(image.name)),
                    before=facts_of(image),
                    after=facts_of(after),
                )
                changed.append(after)
        details = {image.name: image.state.value for image in changed}
        note(service, database, actor, "published.taken", _OBJECT, after={"rows": rows, "new": new, "changed": details})
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
