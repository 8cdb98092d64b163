"""Images of the service, what the vendor published of them, and which one is golden for whom, as the tables have them.

The table says what an image is and whether it may be used; where its file lies follows from that
(`flashferry.service.images.verification`), never the other way round.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from enum import StrEnum


class ImageState(StrEnum):
    """What is known of an image. No value is ever changed."""

    UPLOADING = "arriving"
    PUBLISHED = "published"
    UNKNOWN = "unknown"
    APPROVED = "vouched"
    MISMATCH = "mismatch"
    HIDDEN = "hidden"


USABLE = frozenset({ImageState.PUBLISHED, ImageState.APPROVED})
"""States in which plans can use an image, and in which it can be golden."""

FOLDER = "folder"
"""The source of an image that was put into the folder by hand; those that came by the service have `upload`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage:
    """An image in its row.

    Attributes:
        name: Its file's name.
        size_bytes: Its size; while it arrives by a form, at most that.
        received_bytes: So much of it is on disk for good.
        md5: Of its content, 32 digits; None while it arrives.
        sha512: Likewise, 128 digits.
        stated_sha512: The digest that was given as the vendor's, or None.
        stated_by: Who.
        inside: The name that it carries in itself; None where it carries none.
        file_state: The state of the file that the digests belong to; None while it arrives.
        source: `upload`, or `folder`: put there by hand.
        state: What is known of it.
        state_before_hidden: What it was before it was taken away.
        told: Why it is in that state, in a sentence without a full stop.
        uploaded_by: Who brought it; `system` where it was put there by hand.
        created_at: When it was entered, as the tables keep times.
        completed_at: When it was whole.
        vouched_by: Who approved it without a published digest.
        hidden_by: Who took it away.
        hidden_at: When.
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
    told: str = ""
    uploaded_by: str
    created_at: str
    completed_at: str | None = None
    vouched_by: str | None = None
    hidden_by: str | None = None
    hidden_at: str | None = None

    @property
    def is_usable(self) -> bool:
        """Return whether plans can use it."""
        return self.state in USABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What the vendor published of a file.

    Attributes:
        name: The file's name at the vendor's.
        md5: 32 digits, or empty.
        sha512: 128 digits.
        source: From where we have it, in words.
        at: When it was taken in, as the tables keep times.
    """

    name: str
    md5: str
    sha512: str
    source: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """Which image a model is to have at a site.

    Attributes:
        model: The model, as devices print it.
        site: The site, or `*` for all that have none of their own.
        image: Name of the image.
        by: Who said so.
        at: When, as the tables keep times.
    """

    model: str
    site: str
    image: str
    by: str
    at: str


_COLUMNS = tuple(field.name for field in fields(StoredImage))
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM images"  # noqa: S608 -- our columns


def add_image(database: sqlite3.Connection, image: StoredImage) -> bool:
    """Enter an image; return whether there was none of its name."""
    marks = ", ".join(f":{name}" for name in _COLUMNS)
    statement = f"INSERT INTO images ({', '.join(_COLUMNS)}) VALUES ({marks}) ON CONFLICT (name) DO NOTHING"  # noqa: S608
    return database.execute(statement, asdict(image)).rowcount == 1


def image_of(database: sqlite3.Connection, name: str) -> StoredImage | None:
    """Return an image; None where there is none of that name."""
    row = database.execute(f"{_SELECT} WHERE name = ?", (name,)).fetchone()
    return None if row is None else _image(row)


def images(database: sqlite3.Connection) -> list[StoredImage]:
    """Return all images by name, also those that arrive and those that were taken away."""
    return [_image(row) for row in database.execute(f"{_SELECT} ORDER BY name")]


def set_image(database: sqlite3.Connection, image: StoredImage, *, was: ImageState) -> bool:
    """Write an image's row anew; return whether it was there, and in the state that the caller saw."""
    values = ", ".join(f"{name} = :{name}" for name in _COLUMNS)
    statement = f"UPDATE images SET {values} WHERE name = :name AND state = :was"  # noqa: S608 -- our columns
    return database.execute(statement, asdict(image) | {"was": was}).rowcount == 1


def set_received(database: sqlite3.Connection, name: str, received_bytes: int) -> bool:
    """Keep how much of an image is on disk; return whether its upload is still in progress."""
    where = "UPDATE images SET received_bytes = ? WHERE name = ? AND state = 'arriving'"
    return database.execute(where, (received_bytes, name)).rowcount == 1


def remove_image(database: sqlite3.Connection, name: str, *, was: ImageState) -> bool:
    """Take an image out of the table; return whether it was there, and in the state that the caller saw."""
    return database.execute("DELETE FROM images WHERE name = ? AND state = ?", (name, was)).rowcount == 1


def outstanding_bytes(database: sqlite3.Connection, *, but: str = "") -> int:
    """Return how much is yet to arrive of all images but one."""
    row = database.execute(
        "SELECT COALESCE(SUM(size_bytes - received_bytes), 0) FROM images WHERE state = 'arriving' AND name <> ?",
        (but,),
    ).fetchone()
    return int(row[0])


def named_by(database: sqlite3.Connection, name: str, now: str) -> list[str]:
    """Return what names an image and has not come to its end, as the audit names it: plans, schedules, jobs, golden.

    Args:
        database: A connection.
        name: The image.
        now: What time it is, as the tables keep times.
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
    """Return what was published under a name, or of a content under whatever name."""
    rows = database.execute(
        "SELECT name, md5, sha512, source, at FROM published WHERE name = ? OR sha512 = ? ORDER BY name, at",
        (name, sha512),
    )
    return [Published(**dict(row)) for row in rows]


def add_published(database: sqlite3.Connection, rows: Iterable[Published]) -> int:
    """Keep what was published; return how many entries are new."""
    before = database.total_changes
    database.executemany(
        "INSERT INTO published (name, md5, sha512, source, at) VALUES (:name, :md5, :sha512, :source, :at) "
        "ON CONFLICT DO NOTHING",
        (asdict(row) for row in rows),
    )
    return database.total_changes - before


def golden_images(database: sqlite3.Connection) -> Iterator[Golden]:
    """Yield which image is golden for which model where, in order."""
    for row in database.execute("SELECT model, site, image, by, at FROM golden ORDER BY model, site"):
        yield Golden(**dict(row))


def golden_of(database: sqlite3.Connection, model: str, site: str) -> Golden | None:
    """Return the entry for a model and a site itself; None where there is none, though there may be one for all."""
    row = database.execute(
        "SELECT model, site, image, by, at FROM golden WHERE model = ? AND site = ?", (model, site)
    ).fetchone()
    return None if row is None else Golden(**dict(row))


def set_golden(database: sqlite3.Connection, golden: Golden) -> None:
    """Say which image a model is to have at a site, in place of the one before."""
    database.execute(
        "INSERT INTO golden (model, site, image, by, at) VALUES (:model, :site, :image, :by, :at) "
        "ON CONFLICT (model, site) DO UPDATE SET image = excluded.image, by = excluded.by, at = excluded.at",
        asdict(golden),
    )


def remove_golden(database: sqlite3.Connection, model: str, site: str) -> bool:
    """Say nothing any more of which image a model is to have at a site; return whether something was said."""
    return database.execute("DELETE FROM golden WHERE model = ? AND site = ?", (model, site)).rowcount == 1


def _image(row: sqlite3.Row) -> StoredImage:
    values = dict(row)
    before = values["state_before_hidden"]
    states = {"state": ImageState(values["state"]), "state_before_hidden": before and ImageState(before)}
    return StoredImage(**values | states)
