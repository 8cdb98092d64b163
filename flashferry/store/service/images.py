"""Images of the service, the digests that the vendor published, and the golden image of each model.

The path of an image's file follows from its state (`flashferry.service.images.verification`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from enum import StrEnum

from msgspec import Struct

from flashferry.core.values import as_dict, field_names


class ImageState(StrEnum):
    """State of an image. The values are stored and must not change."""

    UPLOADING = "arriving"
    PUBLISHED = "published"
    UNKNOWN = "unknown"
    APPROVED = "vouched"
    MISMATCH = "mismatch"
    HIDDEN = "hidden"

    @property
    def label(self) -> str:
        """Return it in words for users."""
        return _LABELS.get(self, self.value)


_LABELS = {ImageState.UPLOADING: "uploading", ImageState.APPROVED: "approved", ImageState.HIDDEN: "removed"}


USABLE = frozenset({ImageState.PUBLISHED, ImageState.APPROVED})
"""States in which plans can use an image, and in which it can be golden."""

FOLDER = "folder"
"""Source of an image placed in the folder by hand; uploads have `upload`."""


class StoredImage(Struct, frozen=True, kw_only=True):
    """An image.

    Attributes:
        name: File name.
        size_bytes: During an upload by form the maximum.
        received_bytes: Bytes synced to disk.
        md5: 32 hex digits; None during the upload.
        sha512: 128 hex digits; None during the upload.
        stated_sha512: The vendor's digest as stated by a user; None for none.
        stated_by: That user.
        inside: Image name in the file's own header; None for none.
        file_state: Identity of the hashed file; None during the upload.
        source: `upload`, or `folder` if it was placed by hand.
        state_before_hidden: State before it was removed; None if it was not.
        state_reason: Reason of the state, a sentence without full stop.
        uploaded_by: `system` if it was placed by hand.
        created_at: As the tables store times.
        completed_at: End of the upload; None before.
        approved_by: Admin who approved it without a published digest; None for none.
        hidden_by: Who removed it; None if it was not.
        hidden_at: When it was removed; None if it was not.
    """

    name: str
    size_bytes: int
    received_bytes: int = 0
    md5: str | None = None
    sha512: str | None = None
    stated_sha512: str | None = None
    stated_by: str | None = None
    inside: str | None = None
    file_state: str | None = None
    source: str = "upload"
    state: ImageState = ImageState.UPLOADING
    state_before_hidden: ImageState | None = None
    state_reason: str = ""
    uploaded_by: str
    created_at: str
    completed_at: str | None = None
    approved_by: str | None = None
    hidden_by: str | None = None
    hidden_at: str | None = None

    @property
    def is_usable(self) -> bool:
        """Return whether plans can use it."""
        return self.state in USABLE


class Published(Struct, frozen=True, kw_only=True):
    """Digests that the vendor published for a file.

    Attributes:
        name: The vendor's file name.
        md5: 32 hex digits, or empty.
        sha512: 128 hex digits.
        source: Where the digests are from.
        at: When they were imported.
    """

    name: str
    md5: str
    sha512: str
    source: str
    at: str


class Golden(Struct, frozen=True, kw_only=True):
    """The image intended for a model at a site.

    Attributes:
        model: As devices report it.
        site: The site, or `*` for all others.
        image: Name of the image.
        by: Who set it.
        at: When it was set.
    """

    model: str
    site: str
    image: str
    by: str
    at: str


_COLUMNS = tuple(field_names(StoredImage))
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM images"  # noqa: S608 -- our columns


def add_image(database: sqlite3.Connection, image: StoredImage) -> bool:
    """Add an image; return False if the name is taken."""
    marks = ", ".join(f":{name}" for name in _COLUMNS)
    statement = f"INSERT INTO images ({', '.join(_COLUMNS)}) VALUES ({marks}) ON CONFLICT (name) DO NOTHING"  # noqa: S608
    return database.execute(statement, as_dict(image)).rowcount == 1


def image_of(database: sqlite3.Connection, name: str) -> StoredImage | None:
    """Return an image by name; None if there is none."""
    row = database.execute(f"{_SELECT} WHERE name = ?", (name,)).fetchone()
    return None if row is None else _image(row)


def images(database: sqlite3.Connection) -> list[StoredImage]:
    """Return all images by name, including incomplete and removed ones."""
    return [_image(row) for row in database.execute(f"{_SELECT} ORDER BY name")]


def set_image(database: sqlite3.Connection, image: StoredImage, *, was: ImageState) -> bool:
    """Replace an image's row; return False if it is gone or no longer in state `was`."""
    values = ", ".join(f"{name} = :{name}" for name in _COLUMNS)
    statement = f"UPDATE images SET {values} WHERE name = :name AND state = :was"  # noqa: S608 -- our columns
    return database.execute(statement, as_dict(image) | {"was": was}).rowcount == 1


def set_received(database: sqlite3.Connection, name: str, received_bytes: int) -> bool:
    """Store the number of synced bytes; return whether the upload is still in progress."""
    statement = "UPDATE images SET received_bytes = ? WHERE name = ? AND state = ?"
    return database.execute(statement, (received_bytes, name, ImageState.UPLOADING)).rowcount == 1


def remove_image(database: sqlite3.Connection, name: str, *, was: ImageState) -> bool:
    """Delete an image's row; return False if it is gone or no longer in state `was`."""
    return database.execute("DELETE FROM images WHERE name = ? AND state = ?", (name, was)).rowcount == 1


def outstanding_bytes(database: sqlite3.Connection, *, but: str = "") -> int:
    """Return the bytes still to be received by all uploads, except for image `but`."""
    row = database.execute(
        "SELECT COALESCE(SUM(size_bytes - received_bytes), 0) FROM images WHERE state = ? AND name <> ?",
        (ImageState.UPLOADING, but),
    ).fetchone()
    return int(row[0])


def named_by(database: sqlite3.Connection, name: str, now: str) -> list[str]:
    """Return the open plans, schedules, jobs and golden entries that refer to an image, as the audit names them.

    Args:
        database: A connection.
        name: The image.
        now: Current time, as the tables store times.
    """
    of_image = "EXISTS (SELECT 1 FROM json_each(plans.images) WHERE value = :name)"
    rows = database.execute(
        f"SELECT 'plan:' || digest FROM plans WHERE {of_image} AND state IN ('draft', 'approved') "  # noqa: S608
        "AND (ends_at IS NULL OR ends_at > :now) "
        "UNION SELECT 'schedule:' || schedule_id FROM schedules JOIN plans ON subject = digest "
        f"WHERE kind = 'plan' AND schedules.state <> 'ended' AND {of_image} "
        "UNION SELECT 'job:' || job_id FROM jobs JOIN plans USING (digest) "
        f"WHERE jobs.state IN ('queued', 'starting', 'running') AND {of_image} "
        "UNION SELECT 'golden:' || model || '@' || site FROM golden WHERE image = :name ORDER BY 1",
        {"name": name, "now": now},
    )
    return [str(row[0]) for row in rows]


def published_of(database: sqlite3.Connection, name: str, sha512: str) -> list[Published]:
    """Return the published digests of a file name, or of a content."""
    rows = database.execute(
        "SELECT name, md5, sha512, source, at FROM published WHERE name = ? OR sha512 = ? ORDER BY name, at",
        (name, sha512),
    )
    return [Published(**dict(row)) for row in rows]


def add_published(database: sqlite3.Connection, rows: Iterable[Published]) -> int:
    """Store published digests; return how many are new."""
    before = database.total_changes
    database.executemany(
        "INSERT INTO published (name, md5, sha512, source, at) VALUES (:name, :md5, :sha512, :source, :at) "
        "ON CONFLICT DO NOTHING",
        (as_dict(row) for row in rows),
    )
    return database.total_changes - before


def golden_images(database: sqlite3.Connection) -> Iterator[Golden]:
    """Yield all golden images by model and site."""
    for row in database.execute("SELECT model, site, image, by, at FROM golden ORDER BY model, site"):
        yield Golden(**dict(row))


def golden_of(database: sqlite3.Connection, model: str, site: str) -> Golden | None:
    """Return the golden image of a model for exactly this site; None for none."""
    row = database.execute(
        "SELECT model, site, image, by, at FROM golden WHERE model = ? AND site = ?", (model, site)
    ).fetchone()
    return None if row is None else Golden(**dict(row))


def set_golden(database: sqlite3.Connection, golden: Golden) -> None:
    """Set the golden image of a model at a site."""
    database.execute(
        "INSERT INTO golden (model, site, image, by, at) VALUES (:model, :site, :image, :by, :at) "
        "ON CONFLICT (model, site) DO UPDATE SET image = excluded.image, by = excluded.by, at = excluded.at",
        as_dict(golden),
    )


def remove_golden(database: sqlite3.Connection, model: str, site: str) -> bool:
    """Remove the golden image of a model at a site; return whether there was one."""
    return database.execute("DELETE FROM golden WHERE model = ? AND site = ?", (model, site)).rowcount == 1


def _image(row: sqlite3.Row) -> StoredImage:
    values = dict(row)
    before = values["state_before_hidden"]
    states = {"state": ImageState(values["state"]), "state_before_hidden": before and ImageState(before)}
    return StoredImage(**values | states)
