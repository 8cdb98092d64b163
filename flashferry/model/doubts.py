"""What earlier runs found against a device's own statements about an image.

Doubts follow the device by serial number and host name; by inventory name if the serial number is the same or unknown.
A device of that name with another serial number is another chassis and is trusted, with a note in the check. A device
that changes its serial number gains no more: each of its copies only counts if our server delivered it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from flashferry.devices.identity import serial_in

COPY_HINT = "Delete that file on the device, then stage again: a copy that our server delivers counts"
"""Hint for a file on a device that once reported a false copy."""


class Doubts(Struct, frozen=True, kw_only=True):
    """The runs after which a device's statements about an image are no proof; None for no such run.

    Attributes:
        false_copy: It reported a copy that our server had not delivered, and none was delivered since.
        failed_add: Its `install add` failed, and none succeeded since.
        of_other_chassis: `false_copy` concerns another device of the same inventory name.
    """

    false_copy: str | None = None
    failed_add: str | None = None
    of_other_chassis: str | None = None

    def of_file(self, path: str) -> str | None:
        """Return why size and hash of a file are no proof; None if they are."""
        if self.false_copy is None:
            return None
        return f"{path} is there with its size and hash by {self.of_hash}"

    @property
    def of_hash(self) -> str | None:
        """Return a note that the hash is only the device's statement; None if it is a proof."""
        if self.false_copy is None:
            return None
        return (
            f"the device's word, which was false in run {self.false_copy}: it reported a copy that our server had not "
            "delivered"
        )

    @property
    def of_copy(self) -> str | None:
        """Return a warning for the next copy of an image that is not on the device; None without doubts."""
        if self.false_copy is None:
            return None
        return (
            f"its last copy was false: in run {self.false_copy} it reported one that our server had not delivered; the "
            "next one counts only where the server delivers the whole image"
        )

    @property
    def of_name(self) -> str | None:
        """Return a note about another device of the same inventory name; None for none."""
        if self.of_other_chassis is None:
            return None
        return (
            f"the device that had this name in run {self.of_other_chassis} reported a copy that our server had not "
            "delivered; this one has another serial number, and is not held to that"
        )

    @property
    def of_add(self) -> str | None:
        """Return why an image listed as added may be incomplete; None if it is not in doubt."""
        if self.failed_add is None:
            return None
        return f"'install add' of it failed in run {self.failed_add}, and none was reported done since"


class Remembered(Struct, frozen=True, kw_only=True):
    """What one run's record proves about a device's statements.

    Attributes:
        host: Inventory name at that time.
        identity: `serial number/host name`; None if unknown.
        members: Serial numbers of a stack's members.
        false_copy: Whether it reported a copy that our server had not delivered; None if undecided.
        failed_add: Whether its `install add` failed; None if undecided.
    """

    run_id: str
    host: str
    identity: str | None = None
    members: frozenset[str] = frozenset()
    false_copy: bool | None = None
    failed_add: bool | None = None

    def is_of(self, host: str, identity: str) -> bool:
        """Return whether it concerns a device, given by inventory name and identity."""
        if self.identity == identity:
            return True
        then, now = serial_in(self.identity or ""), serial_in(identity)
        is_another = then is not None and now is not None and now not in {then, *self.members}
        return self.host == host and not is_another


Doubted = Mapping[str, tuple[Remembered, ...]]
"""By image name, the oldest first."""


def doubts_about(found: Doubted, host: str, identity: str, image: str) -> Doubts:
    """Return the doubts about a device and an image.

    Args:
        found: Of all devices.
        host: Inventory name.
        identity: `serial number/host name`.
        image: Name of the image.
    """
    known = Doubts()
    for one in found.get(image, ()):
        if one.is_of(host, identity):
            known = replace(
                known,
                false_copy=_after(known.false_copy, one.run_id, is_so=one.false_copy),
                failed_add=_after(known.failed_add, one.run_id, is_so=one.failed_add),
            )
        elif one.host == host:
            others = _after(known.of_other_chassis, one.run_id, is_so=one.false_copy)
            known = replace(known, of_other_chassis=others)
    return known


def _after(known: str | None, run_id: str, *, is_so: bool | None) -> str | None:
    if is_so is None:
        return known
    return run_id if is_so else None
