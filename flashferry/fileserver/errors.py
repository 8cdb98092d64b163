"""What can go wrong with the server itself; each message says what was expected, what was found and what to do."""


class FtpServerError(Exception):
    """Base of all errors of this package."""


class SettingsInvalid(FtpServerError, ValueError):
    """A setting is out of its range or contradicts another one; nothing was started."""


class ServerStartFailed(FtpServerError):
    """The server could not start, for example because its port is in use."""


class ServerGone(FtpServerError):
    """The server's process ended or was stopped; tickets are void."""


class RequestRefused(FtpServerError):
    """The server's process refused a request, such as a second ticket of the same number."""


class ImageUnknown(FtpServerError, KeyError):
    """No image of that name is in the catalogue."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class ImageUnreadable(FtpServerError):
    """An image is missing, empty, unreadable, no regular file, or changed while it was hashed."""


class TicketUnknown(FtpServerError, KeyError):
    """No ticket of that number was issued by this server."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""
