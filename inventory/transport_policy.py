"""Which transports an inventory allows a device, and in which order they are taken. Pure: names in, names out.

A transport is known here by its name alone; what it does stands with devices (`flashferry.transports`).

Facts
-----
* FTP is the first that is taken: tuned it has no second window inside it, and costs the device no crypto. HTTP is the
  same client over one connection, for where FTP's second one is in the way. SCP is what is left where clear text is
  forbidden; HTTPS needs a trustpoint that already is on the device; SFTP goes SCP's way on 17.x.
* Push, where our side writes to the device, needs a server of the device's to be on: only who names it gets it.
"""

from __future__ import annotations

from dataclasses import dataclass

ORDER = ("ftp", "http", "scp", "https", "sftp")
"""Transports by which a device fetches, in the order in which they are taken by default."""

USUAL = ORDER[0]
"""The default; what was fetched before there was a choice was fetched by it."""

PUSH = "push"
"""Our side writes to the device; never taken unless it is named."""

AS_USUAL = "usual"
"""No choice: FTP, or the first that the inventory allows where it names another first, or leaves FTP out."""

AUTO = "auto"
"""The fastest that is known, else the first; and the next one where one fails before a byte came."""

NAMES = (*ORDER, PUSH)
"""All that a policy may name."""

CLEAR_TEXT = frozenset({"ftp", "http"})
"""Those that carry login and image in clear text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportPolicy:
    """What an inventory allows a device.

    Attributes:
        stated: The transports that are allowed, the preferred one first; empty: all but push, in the usual order.
        clear_text: Whether login and image may cross in clear text; None counts as yes.
    """

    stated: tuple[str, ...] = ()
    clear_text: bool | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Return what is allowed, in the order in which it is taken; empty where the two keys leave nothing."""
        return tuple(name for name in self.stated or ORDER if self.clear_text is not False or name not in CLEAR_TEXT)

    def objection(self, name: str) -> str | None:
        """Return why a transport is not allowed, in words for behind its name; None where it is."""
        if self.clear_text is False and name in CLEAR_TEXT:
            return "carries clear text, which the inventory forbids ('clear_text: false')"
        if name not in self.names:
            listed = ", ".join(self.stated) or ", ".join(ORDER)
            return f"is not among the transports that the inventory allows ({listed})"
        return None
