"""Names of the transports that an inventory allows a device, in order of preference. Pure.

What a transport does is in `flashferry.transports`; here it is only a name.

Facts
-----
* FTP is preferred: it has no second window inside TCP's, and needs no encryption by the device. HTTP uses a single
  connection, which helps if a firewall blocks FTP's data connection. SCP is used if clear text is forbidden; HTTPS
  needs a trustpoint on the device; SFTP is like SCP, on 17.x.
* Push, by which we write to the device, needs a server enabled on the device, so it is only used if it is named.
"""

from __future__ import annotations

from msgspec import Struct

ORDER = ("ftp", "http", "scp", "https", "sftp")
"""Transports by which a device fetches, in the default order of preference."""

USUAL = ORDER[0]
"""The default transport, also of records from releases that had no other."""

PUSH = "push"
"""Transport by which we write to the device; only used if it is named."""

AS_USUAL = "usual"
"""Request for the first transport that the inventory allows, by default FTP."""

AUTO = "auto"
"""Request for the fastest measured transport, else the first; if one fails before the first byte, the next is tried."""

NAMES = (*ORDER, PUSH)
"""All names that a policy may have."""

CLEAR_TEXT = frozenset({"ftp", "http"})
"""Transports that send login and image in clear text."""


class TransportPolicy(Struct, frozen=True, kw_only=True):
    """Transports that an inventory allows a device.

    Attributes:
        stated: The allowed transports, the preferred one first; empty allows all but push, in the default order.
        clear_text: Whether login and image may be sent in clear text; None allows it.
    """

    stated: tuple[str, ...] = ()
    clear_text: bool | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the allowed transports in order of preference; empty if the two keys exclude all."""
        return tuple(name for name in self.stated or ORDER if self.clear_text is not False or name not in CLEAR_TEXT)

    def objection(self, name: str) -> str | None:
        """Return why a transport is not allowed, as a clause to follow its name; None if it is allowed."""
        if self.clear_text is False and name in CLEAR_TEXT:
            return "carries clear text, which the inventory forbids ('clear_text: false')"
        if name not in self.names:
            listed = ", ".join(self.stated) or ", ".join(ORDER)
            return f"is not among the transports that the inventory allows ({listed})"
        return None
