"""What can go wrong with image files on our side: no router was asked anything yet."""

from __future__ import annotations

from typing import ClassVar

from flashferry.core.errors import FlashferryError, Kind


class ImageError(FlashferryError):
    """Base of the errors about image files."""

    kind: ClassVar[Kind] = Kind.IMAGE_ERROR


class CatalogueInvalid(ImageError, ValueError):
    """What was given as images is none, or holds none, or holds two of one name; nothing is on offer."""

    kind: ClassVar[Kind] = Kind.CATALOGUE_INVALID


class ImageUnknown(ImageError, KeyError):
    """No image of that name is in the catalogue."""

    kind: ClassVar[Kind] = Kind.IMAGE_UNKNOWN


class ImageUnreadable(ImageError):
    """An image is missing, empty, unreadable, no regular file, or changed while it was hashed."""

    kind: ClassVar[Kind] = Kind.IMAGE_UNREADABLE


class ManifestInvalid(ImageError, ValueError):
    """What was read as the manifest of an image is none, or contradicts itself."""

    kind: ClassVar[Kind] = Kind.MANIFEST_INVALID
    advice: ClassVar[str | None] = "Have the source make it anew: delete it there, and start its depot again"
