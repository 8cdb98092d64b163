"""What earlier runs saw of a device and an image that the device's own word does not undo. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

COPY_HINT = "Delete that file on the device, then stage again: a copy that our server delivers counts"
"""What to do about a file that is there by the word of a device that reported a false copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubts:
    """The runs after which a device's word about an image is no proof; each None where there is no such run.

    Attributes:
        false_copy: It reported a copy that our server had not delivered, and none was delivered since.
        failed_add: Its `install add` printed a failure, and none was reported done since.
    """

    false_copy: str | None = None
    failed_add: str | None = None

    def of_file(self, path: str) -> str | None:
        """Return why size and hash of a file are no proof, or None where they are."""
        if self.false_copy is None:
            return None
        return f"{path} is there with its size and hash by {self.of_hash}"

    @property
    def of_hash(self) -> str | None:
        """Return whose word the hash of a file is, or None where it is a proof."""
        if self.false_copy is None:
            return None
        return (
            f"the device's word, which was false in run {self.false_copy}: it reported a copy that our server had not "
            "delivered"
        )

    @property
    def of_copy(self) -> str | None:
        """Return what to expect of the next copy of an image that is not there, or None."""
        if self.false_copy is None:
            return None
        return (
            f"its last copy was false: in run {self.false_copy} it reported one that our server had not delivered; the "
            "next one counts only where the server delivers the whole image"
        )

    @property
    def of_add(self) -> str | None:
        """Return why an image that is listed as added may lack parts, or None."""
        if self.failed_add is None:
            return None
        return f"'install add' of it failed in run {self.failed_add}, and none was reported done since"


Doubted = Mapping[tuple[str, str], Doubts]
"""By the inventory name or the identity of a device, and the name of the image."""


def doubts_about(found: Doubted, host: str, identity: str, image: str) -> Doubts:
    """Return what is remembered of a device under either of its names.

    Args:
        found: Of all devices.
        host: Its inventory name.
        identity: `serial number/host name`.
        image: Name of the image.
    """
    one, other = (found.get((name, image), Doubts()) for name in (host, identity))
    return Doubts(
        false_copy=one.false_copy or other.false_copy,
        failed_add=one.failed_add or other.failed_add,
    )
