"""Answers of a remote service, untrusted: limited in size, checked in form; refusals become our errors."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from typing import Any, ClassVar, TypeVar

import httpx
import msgspec

from flashferry.core.codec import CodecError, decode
from flashferry.core.errors import FlashferryError, Kind
from flashferry.reports.as_json import report_of
from flashferry.reports.model import Report
from flashferry.service.client.place import of_no_number

T = TypeVar("T")

MOST_BYTES = 16 << 20
"""Largest answer."""
MOST_DOCUMENT_BYTES = 256 << 20
"""Largest document of a verb: a run of hundreds of devices has its samples in it."""

PASSING = frozenset(
    {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}
)
"""Statuses that may be over in a moment."""

_MOST_WORDS = 600
_OTHER_RELEASE = "Is that a flashferry service, and of the same release as this command line?"
_PROBLEM = "application/problem+json"
_ENCODED = "content-encoding"


class ServiceRefused(FlashferryError):
    """A remote service refused a request; nothing was started."""

    kind: ClassVar[Kind] = Kind.SERVICE_REFUSED
    status: int = 0
    """What it answered, as HTTP has it."""


class ServiceUnusable(FlashferryError):
    """A remote service cannot be reached, or its answer is not valid."""

    kind: ClassVar[Kind] = Kind.SERVICE_UNUSABLE
    passes: bool = False
    """Whether it may be over in a moment, as where the service is restarted behind a proxy."""


class ApprovalWanted(FlashferryError):
    """A plan needs an approval at a remote service; nothing was started."""

    kind: ClassVar[Kind] = Kind.APPROVAL_WANTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A complete answer; `what` is the method and path that it answers."""

    what: str
    status: int
    headers: httpx.Headers = field(default_factory=httpx.Headers)
    body: bytes = b""

    @property
    def is_good(self) -> bool:
        """Return whether the request succeeded."""
        return 200 <= self.status < 300

    def json(self) -> dict[str, Any]:
        """Return the body as a JSON object. Raises `ServiceUnusable` for another body."""
        try:
            found = msgspec.json.decode(self.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ServiceUnusable(f"{self.what}: expected an object of JSON, found none", hint=_OTHER_RELEASE)
        return found

    @property
    def retry_after_s(self) -> float:
        """Return how many seconds it asks to wait; 0 without a header."""
        word = self.headers.get("retry-after", "")
        return float(word) if word.isascii() and word.isdigit() and len(word) < 5 else 0.0


def as_agreed(kind: type[T], data: object) -> T:
    """Return data of a service as a value of ours; unknown members are ignored.

    Raises:
        ServiceUnusable: It does not have the expected form.
    """
    try:
        return decode(kind, data)
    except (CodecError, RecursionError) as error:
        why = str(getattr(error, "message", "too deep"))[:_MOST_WORDS]
        raise ServiceUnusable(f"the service's answer is not of the agreed form: {why}", hint=_OTHER_RELEASE) from None


def report_in(body: bytes) -> Report:
    """Return the report in a body. Raises `ServiceUnusable` for another body."""
    document = Answer(what="the report", status=HTTPStatus.OK, body=body).json()
    try:
        return report_of(document)
    except (CodecError, RecursionError, ValueError, OverflowError) as error:
        why = str(getattr(error, "message", error))[:_MOST_WORDS]
        raise ServiceUnusable(f"the service's report is not of the agreed form: {why}", hint=_OTHER_RELEASE) from None


def check_form(response: httpx.Response, what: str) -> None:
    """Check an answer before its body is read. Raises `ServiceUnusable` for a redirect or a compressed body."""
    if response.is_redirect:
        where = response.headers.get("location", "")[:200]
        raise ServiceUnusable(
            f"{what}: expected an answer, found one that leads to {where!r}: the token is not sent on",
            hint="Give the service's own address with --service, if that is it",
        )
    if response.headers.get(_ENCODED, "identity").lower() != "identity":
        raise ServiceUnusable(
            f"{what}: expected an answer as it is, found one that is packed",
            hint="Have the proxy in front of the service leave what it passes on as it is",
        )


def too_much(what: str, most_bytes: int) -> ServiceUnusable:
    """Return the error for an answer above the limit."""
    return ServiceUnusable(f"{what}: expected at most {most_bytes:,} bytes, found more", hint=_OTHER_RELEASE)


def error_of(answer: Answer, url: str) -> FlashferryError:
    """Return the error for an unsuccessful answer, with the service's own sentence and hint if there are any."""
    is_refusal = 400 <= answer.status < 500 and answer.status != HTTPStatus.TOO_MANY_REQUESTS
    details = _problem_in(answer)
    if is_refusal:
        error = ServiceRefused(_refusal(answer, details, url), hint=_hint_of(answer, details, url))
        error.status = answer.status
        return error
    sentence = _words(details.get("detail")) or f"it answers {_status(answer)}"
    unusable = ServiceUnusable(f"the service at {url}: {sentence}", hint=_hint_of(answer, details, url))
    unusable.passes = answer.status in PASSING
    return unusable


def unreachable(error: httpx.HTTPError | httpx.InvalidURL, url: str) -> ServiceUnusable:
    """Return the error for a service that was not reached."""
    if (wrong := _untrusted(error)) is not None:
        return ServiceUnusable(
            f"the service at {url}: its certificate is not trusted: {wrong}",
            hint="Give --service-ca FILE for a certificate of your own authority; check the name and the clock",
        )
    if _speaks_http(error):
        return ServiceUnusable(
            f"the service at {url} cannot be reached: what answers there does not speak https, but http as it seems",
            hint="Give http:// where it is on this very host; else the port that its certificate is at",
        )
    why = _words(of_no_number(str(error))) or type(error).__name__
    away = ServiceUnusable(
        f"the service at {url} cannot be reached: {why}", hint="Check the address, and whether the service is up"
    )
    away.passes = True
    return away


def _untrusted(error: BaseException) -> str | None:
    """Return why a certificate was refused; None if that is not the cause."""
    return next((one.verify_message for one in _causes(error) if isinstance(one, ssl.SSLCertVerificationError)), None)


def _speaks_http(error: BaseException) -> bool:
    """Return whether a server answered a TLS handshake with something else."""
    return any(isinstance(one, ssl.SSLError) and one.reason == "WRONG_VERSION_NUMBER" for one in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and up to four causes of it."""
    seen: BaseException | None = error
    for _ in range(5):
        if seen is None:
            return
        yield seen
        seen = seen.__cause__ or seen.__context__


def _refusal(answer: Answer, details: dict[str, Any], url: str) -> str:
    detail = _words(details.get("detail"))
    if answer.status == HTTPStatus.UNAUTHORIZED:
        return f"the service at {url} does not take the token" + (f": {detail}" if detail else "")
    if _has_no_route(answer, detail):
        return f"the service at {url} has no {answer.what}"
    return f"the service says: {detail}" if detail else f"the service at {url} answers {_status(answer)}"


def _hint_of(answer: Answer, details: dict[str, Any], url: str) -> str:
    if answer.status == HTTPStatus.UNAUTHORIZED:
        return f"Make a new one on the page of your name, {url}/me, and give it in FLASHFERRY_SERVICE_TOKEN"
    if _has_no_route(answer, _words(details.get("detail"))):
        return _OTHER_RELEASE
    return _words(details.get("hint")) or _OTHER_RELEASE


def _has_no_route(answer: Answer, detail: str) -> bool:
    """Return whether the service has no such call, as with another release."""
    return answer.status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED) and " here: " in detail


def _problem_in(answer: Answer) -> dict[str, Any]:
    content = Message()
    content["content-type"] = answer.headers.get("content-type", "")
    if content.get_content_type() != _PROBLEM:
        return {}
    try:
        return answer.json()
    except ServiceUnusable:
        return {}


def _words(text: object) -> str:
    """Return untrusted text as one line of limited length."""
    return " ".join(text.split())[:_MOST_WORDS].rstrip(".") if isinstance(text, str) else ""


def _status(answer: Answer) -> str:
    try:
        return f"{answer.status} {HTTPStatus(answer.status).phrase}"
    except ValueError:
        return str(answer.status)
