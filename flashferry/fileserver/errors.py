"""Errors of the file server itself; each message says what was expected and what was found."""

from __future__ import annotations

from typing import ClassVar

from flashferry.core.errors import FlashferryError, Kind


class FileServerError(FlashferryError):
    """Base of the server's errors."""

    kind: ClassVar[Kind] = Kind.FILE_SERVER_ERROR

    def at(self, *, host: str, step: str) -> FlashferryError:  # noqa: ARG002 -- of no device, so neither is known
        """Return self unchanged, because the error is about no single device."""
        return self


class SettingsInvalid(FileServerError, ValueError):
    """A setting is out of its range or contradicts another one; nothing was started."""

    kind: ClassVar[Kind] = Kind.SETTINGS_INVALID
    advice: ClassVar[str | None] = "Give a value that fits; docs/server.md says what each setting does"


class ServerStartFailed(FileServerError):
    """The server could not start, for example because its port is in use.

    Attributes:
        transports: Names of the transports of the port that is not available; empty for other causes.
        needs_right: Whether it is a well-known port, for which this user lacks the privilege.
    """

    kind: ClassVar[Kind] = Kind.SERVER_START_FAILED

    def __init__(self, message: str, *, hint: str | None = None, needs_right: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.transports: tuple[str, ...] = ()
        self.needs_right = needs_right


class ServerGone(FileServerError):
    """The server's process ended or was stopped; tickets are void."""

    kind: ClassVar[Kind] = Kind.SERVER_GONE
    advice: ClassVar[str | None] = (
        "Look into this host's log for what ended it, such as want of memory, and begin again"
    )


class RequestRefused(FileServerError):
    """The server's process refused a request, such as a second ticket of the same number."""

    kind: ClassVar[Kind] = Kind.REQUEST_REFUSED
    advice: ClassVar[str | None] = "Report it: two parts of flashferry do not understand each other"


class TicketUnknown(FileServerError, KeyError):
    """No ticket of that number was issued by this server."""

    kind: ClassVar[Kind] = Kind.TICKET_UNKNOWN
    advice: ClassVar[str | None] = "Issue a new one: what is known of a ticket is dropped some time after its end"
