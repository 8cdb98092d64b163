"""Domain errors of the service: one sentence and what to do next.

Nothing here knows HTTP; `flashferry.service.api.problems` turns each error into JSON or a page.
"""

from __future__ import annotations

from flashferry.core.errors import FlashferryError
from flashferry.core.redaction import masked


class ServiceError(Exception):
    """A request that is refused or cannot be carried out: what was expected and found, and a hint what to do next.

    The hint names no API call, because people read it too. `more` are further members of the JSON answer, such as
    `offset`; `retry_after_s` also sets `Retry-After`.
    """

    def __init__(self, sentence: str, *, hint: str, **more: object) -> None:
        super().__init__(sentence)
        self.sentence = masked(sentence)
        self.hint = masked(hint)
        self.more = more


class Unauthenticated(ServiceError):
    """The caller is not signed in, or the credentials are not valid."""


class Forbidden(ServiceError):
    """The caller is not allowed to do it."""


class NotFound(ServiceError):
    """The object does not exist, or the caller may not see it."""


class Removed(ServiceError):
    """The object existed and was removed after its retention time."""


class Conflict(ServiceError):
    """The state of the object does not allow it."""


class InvalidRequest(ServiceError):
    """A value of the request is not valid."""


class BadForm(ServiceError):
    """A form cannot be parsed."""


class TooLarge(ServiceError):
    """The request exceeds a limit of bytes or values."""


class TooMany(ServiceError):
    """The caller has too many open requests, or tried too often."""


class TooSlow(ServiceError):
    """The request did not arrive in time."""


class ProviderFailed(ServiceError):
    """The OpenID Connect provider cannot be used."""


class Unavailable(ServiceError):
    """The service is temporarily unable to do it; the same request can succeed later."""


class DiskFull(ServiceError):
    """There is not enough disk space."""


def listed(what: str) -> str:
    """Return the hint for an unknown object: the page that lists the existing ones."""
    return f"See the list of {what}"


def invalid_from(error: FlashferryError) -> InvalidRequest:
    """Convert an error of the product to `InvalidRequest`, with its kind as a JSON member."""
    return InvalidRequest(error.message, hint=error.hint or "", kind=str(error.kind))


def not_delivered(error: Exception) -> ServiceError:
    """Return the error for a request that could not be written to a run's journal."""
    sentence = error.message if isinstance(error, FlashferryError) else str(error)
    message = f"the run did not receive the request and continues as before: {sentence}"
    if "full" in sentence or "No space" in sentence:
        return DiskFull(message, hint="Free space on the disk of the state folder, then try again")
    return Unavailable(message, hint="Try again in a moment")
