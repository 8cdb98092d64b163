"""By which transport a device's copy goes, and by which it was tried before."""

from __future__ import annotations

from flashferry.run.context import RunContext
from flashferry.transports import PUSH
from flashferry.transports.transport import Transport


class DeviceTransport:
    """Holds the transport of a device's copy.

    Attributes:
        current: The one by which it goes now.
    """

    def __init__(self, context: RunContext) -> None:
        self._server = context.server
        self.current: Transport = context.transports[0]
        self._next = context.transports[1:]

    @property
    def port(self) -> int:
        """Return our server's port for it; 0 where the device does not come to us."""
        return 0 if self.is_push else self._server.port_of(self.current.name)

    @property
    def is_push(self) -> bool:
        """Return whether our side writes to the device."""
        return self.current is PUSH

    @property
    def following(self) -> Transport | None:
        """Return the one that is tried where this one fails before a byte came; None where there is none left."""
        return self._next[0] if self._next else None

    def fall(self) -> Transport:
        """Go on to the next one, and return it."""
        self.current, *left = self._next
        self._next = tuple(left)
        return self.current
