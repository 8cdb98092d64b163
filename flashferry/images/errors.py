"""Errors about image files on this host; no device has been contacted when they are raised."""

from __future__ import annotations

from typing import ClassVar

from flashferry.core.errors import FlashferryError, Kind


class ImageError(FlashferryError):
    """Base of the errors about image files."""

    kind: ClassVar[Kind] = Kind.IMAGE_ERROR


class CatalogueInvalid(ImageError, ValueError):
    """A path given as an image or image folder is not one, holds no image, or two images share a name."""

    kind: ClassVar[Kind] = Kind.CATALOGUE_INVALID


class ImageUnknown(ImageError, KeyError):
    """No image of that name is in the catalogue."""

    kind: ClassVar[Kind] = Kind.IMAGE_UNKNOWN


class ImageUnreadable(ImageError):
    """An image is missing, empty, unreadable, no regular file, or changed while it was hashed."""

    kind: ClassVar[Kind] = Kind.IMAGE_UNREADABLE


class ManifestInvalid(ImageError, ValueError):
    """A text is not the manifest of an image, or contradicts itself."""

    kind: ClassVar[Kind] = Kind.MANIFEST_INVALID
    advice: ClassVar[str | None] = "Have the source make it again: delete it there, and start its depot again"
