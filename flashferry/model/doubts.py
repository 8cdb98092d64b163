"""What earlier runs saw of a device and an image that the device's own word does not undo. Values only.

It follows the device: by its serial number and host name where it has another inventory name by now, by the inventory
name where the serial number is the same or not known. A device of that name with another serial number is another
chassis, and believed as any device that no run has had: by size and hash, and the check has a note that names the run.
A device that changes the serial number that it claims gains no more than that, and every copy of its counts only where
our server delivered it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from flashferry.devices.identity import serial_in

COPY_HINT = "Delete that file on the device, then stage again: a copy that our server delivers counts"
"""What to do about a file that is there by the word of a device that reported a false copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubts:
    """The runs after which a device's word about an image is no proof; each None where there is no such run.

    Attributes:
        false_copy: It reported a copy that our server had not delivered, and none was delivered since.
        failed_add: Its `install add` printed a failure, and none was reported done since.
        of_other_chassis: The first is so of another device that had its inventory name: of that one's word alone.
    """

    false_copy: str | None = None
    failed_add: str | None = None
    of_other_chassis: str | None = None

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
    def of_name(self) -> str | None:
        """Return what is remembered of another device that had this one's inventory name, or None."""
        if self.of_other_chassis is None:
            return None
        return (
            f"the device that had this name in run {self.of_other_chassis} reported a copy that our server had not "
            "delivered; this one has another serial number, and is not held to that"
        )

    @property
    def of_add(self) -> str | None:
        """Return why an image that is listed as added may lack parts, or None."""
        if self.failed_add is None:
            return None
        return f"'install add' of it failed in run {self.failed_add}, and none was reported done since"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What one run's record of a device and an image is for its word, or against it.

    Attributes:
        run_id: The run.
        host: The device's inventory name then.
        identity: `serial number/host name`, or None where the run did not come to know it.
        members: Serial numbers of a stack's members.
        false_copy: Whether it reported a copy that our server had not delivered; None where the record decides nothing.
        failed_add: Whether its `install add` printed a failure; None where the record decides nothing.
    """

    run_id: str
    host: str
    identity: str | None = None
    members: frozenset[str] = frozenset()
    false_copy: bool | None = None
    failed_add: bool | None = None

    def is_of(self, host: str, identity: str) -> bool:
        """Return whether it is about a device.

        Args:
            host: Its inventory name.
            identity: What it calls itself now.
        """
        if self.identity == identity:
            return True
        then, now = serial_in(self.identity or ""), serial_in(identity)
        is_another = then is not None and now is not None and now not in {then, *self.members}
        return self.host == host and not is_another


Doubted = Mapping[str, tuple[Remembered, ...]]
"""By the name of the image, the earliest first."""


def doubts_about(found: Doubted, host: str, identity: str, image: str) -> Doubts:
    """Return what is remembered of a device, whatever its name was then.

    Args:
        found: Of all devices.
        host: Its inventory name.
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
