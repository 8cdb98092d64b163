"""Client of a remote service: its address, token and certificates, requests and answers."""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
import stat
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar
from urllib.parse import SplitResult, quote, urlsplit

import httpx
import msgspec
from msgspec import Struct

from flashferry.core.codec import CodecError, decode
from flashferry.core.errors import ConfigInvalid, FlashferryError, Kind
from flashferry.core.files import descriptor_of
from flashferry.core.redaction import keep_secret
from flashferry.reports.as_json import report_of
from flashferry.reports.model import Report
from flashferry.service.client.values import RemoteDevice, RemoteJob, RemotePlan, RemoteRun, RunWord
from flashferry.store.control import ControlRequest

_MOST_TOKEN = 4096
_NUMBER = re.compile(r"^\[(?:Errno -?\d+|[A-Z0-9_: ]+)\] (?=.)| \(_ssl\.c:\d+\)$")
_MAKE_ONE = "Make a token on the page of your name at the service, {url}/me"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlace:
    """Address and credentials of a remote service.

    Attributes:
        url: Checked address, without a slash at its end.
        ca: File of certificates to trust, PEM; None: those of this host.
    """

    url: str
    token: str = field(repr=False)
    ca: Path | None = None

    def trust(self) -> ssl.SSLContext:
        """Return the TLS context. Raises `ConfigInvalid` if the certificates cannot be used."""
        if self.ca is None and self.url.startswith("http://"):
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # never used over plain HTTP, and cheap to create
        try:
            return ssl.create_default_context(cafile=None if self.ca is None else str(self.ca))
        except (OSError, ValueError) as error:
            why = of_no_number(getattr(error, "strerror", None) or str(error))
            raise ConfigInvalid(
                f"--service-ca {self.ca}: expected certificates, PEM: {why}",
                hint="Name the file with the certificate of who signed the service's",
            ) from None


def of_no_number(words: str) -> str:
    """Shorten an OpenSSL or errno message to its words, such as `Connection refused`."""
    return _NUMBER.sub("", words)


def checked_url(text: str) -> str:
    """Check that a token can be sent to an address, and return the address. Raises `ConfigInvalid`."""
    parts, host, port = _parts(text.strip())
    is_plain = parts.path in ("", "/") and not (parts.query or parts.fragment or parts.username or parts.password)
    if parts.scheme not in ("https", "http") or not host or not is_plain or not text.strip().isprintable():
        raise ConfigInvalid(
            "--service: expected https://HOST or https://HOST:PORT, or http://127.0.0.1:PORT for a service on this "
            f"host, found {text!r}",
            hint="Give the address that the service's pages have, without a path, a name or a password",
        )
    _check_is_private(parts.scheme, host)
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}" + (f":{port}" if port is not None else "")


def checked_token(text: str, url: str) -> str:
    """Check a token and return it; logs mask it from now on. Raises `ConfigInvalid`."""
    token = text.strip()
    keep_secret(token, is_random=True)
    if not token or not token.isascii() or not token.isprintable() or " " in token or len(token) > _MOST_TOKEN:
        raise ConfigInvalid(
            "the service's token: expected one word, as ffy_..., found something else",
            hint=_MAKE_ONE.format(url=url),
        )
    return token


def token_in(path: Path, url: str) -> str:
    """Read a token from a file.

    Raises:
        ConfigInvalid: The file cannot be read, other users can read it, or it holds no token.
    """
    try:
        with open(descriptor_of(path), encoding="ascii", errors="replace") as file:  # noqa: PTH123 -- a descriptor
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_MOST_TOKEN + 2)
    except OSError as error:
        raise ConfigInvalid(
            f"--service-token-file {path}: cannot be read: {error.strerror or error}",
            hint=f"Check the path. {_MAKE_ONE.format(url=url)}",
        ) from None
    _check_mode(path, mode)
    return checked_token(text, url)


def _check_mode(path: Path, mode: int) -> None:
    if stat.S_IMODE(mode) & 0o077:
        raise ConfigInvalid(
            f"--service-token-file {path}: expected a file that its owner alone may read, others may",
            hint=f"'chmod 600 {path}', and have the token taken back if others had the time to read it",
        )


def _parts(text: str) -> tuple[SplitResult, str, int | None]:
    """Split an address into its parts, host and port; the host is empty if the address is invalid."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return SplitResult("", "", "", "", ""), "", None
    return parts, parts.hostname or "", port


def _check_is_private(scheme: str, host: str) -> None:
    if scheme == "http" and not _is_loopback(host):
        raise ConfigInvalid(
            f"--service: expected https for {host}, found http: the token could be read on the way",
            hint="Give https://; http is for a service on this very host",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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
_OTHER_RELEASE = "Check that it is a flashferry service of the same release as this command line"
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


class ApprovalNeeded(FlashferryError):
    """A plan needs an approval at the remote service before it can start; nothing was started."""

    kind: ClassVar[Kind] = Kind.APPROVAL_NEEDED


class Answer(Struct, frozen=True, kw_only=True):
    """A complete HTTP answer; `what` is the method and path of its request."""

    what: str
    status: int
    headers: httpx.Headers = msgspec.field(default_factory=httpx.Headers)
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
        """Return the seconds of `Retry-After`; 0 without that header."""
        word = self.headers.get("retry-after", "")
        return float(word) if word.isascii() and word.isdigit() and len(word) < 5 else 0.0


def as_agreed(kind: type[T], data: object) -> T:
    """Convert JSON data of a service to a type; unknown members are ignored. Raises `ServiceUnusable`."""
    try:
        return decode(kind, data)
    except (CodecError, RecursionError) as error:
        why = str(getattr(error, "message", "too deep"))[:_MOST_WORDS]
        raise ServiceUnusable(f"the service's answer is not of the agreed form: {why}", hint=_OTHER_RELEASE) from None


def report_in(body: bytes) -> Report:
    """Parse a JSON body as a report. Raises `ServiceUnusable` if it is none."""
    document = Answer(what="the report", status=HTTPStatus.OK, body=body).json()
    try:
        return report_of(document)
    except (CodecError, RecursionError, ValueError, OverflowError) as error:
        why = str(getattr(error, "message", error))[:_MOST_WORDS]
        raise ServiceUnusable(f"the service's report is not of the agreed form: {why}", hint=_OTHER_RELEASE) from None


def check_form(response: httpx.Response, what: str) -> None:
    """Refuse a redirect or a compressed body before it is read. Raises `ServiceUnusable`."""
    if response.is_redirect:
        where = response.headers.get("location", "")[:200]
        raise ServiceUnusable(
            f"{what}: expected an answer, found one that leads to {where!r}: the token is not sent on",
            hint="Give the service's own address with --service, if that is it",
        )
    if response.headers.get(_ENCODED, "identity").lower() != "identity":
        raise ServiceUnusable(
            f"{what}: expected an uncompressed answer, found a compressed one",
            hint="Configure the proxy in front of the service to pass answers on unchanged",
        )


def too_much(what: str, most_bytes: int) -> ServiceUnusable:
    """Return the error for an answer above its size limit."""
    return ServiceUnusable(f"{what}: expected at most {most_bytes:,} bytes, found more", hint=_OTHER_RELEASE)


def error_of(answer: Answer, url: str) -> FlashferryError:
    """Return the error for an unsuccessful answer, with the service's own sentence and hint where it has them."""
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
    """Return the error for a service that cannot be reached."""
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
    """Return why the TLS certificate was refused; None if that is not the cause of an error."""
    return next((one.verify_message for one in _causes(error) if isinstance(one, ssl.SSLCertVerificationError)), None)


def _speaks_http(error: BaseException) -> bool:
    """Return whether a server answered the TLS handshake with something that is not TLS."""
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
    """Return whether the service lacks the requested route, as a service of another release may."""
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


PREFIX = "/api/v1"
PATIENCE_S = 30.0
"""How long a request is repeated where that is safe."""
_FIRST_PATIENCE_S = 3.0
"""Until a service has answered once: the address may be wrong."""
_CONNECT_S = 10.0
_READ_S = 30.0
_WHOLE_S = 300.0
"""Limit for a whole answer."""
_SILENCE_S = 45.0
"""Limit for silence of a stream: a service sends something each 15 s."""
_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 5.0
_LAST = 200
Query = Mapping[str, str | int | Sequence[str]]


class ServiceClient:
    """Client of a service; a failed request is retried for `patience_s` seconds. Raises `ConfigInvalid`.

    `transport`, `pause` (sleeps) and `clock` (monotonic seconds) are for tests.
    """

    def __init__(
        self,
        place: ServicePlace,
        *,
        transport: httpx.BaseTransport | None = None,
        patience_s: float = PATIENCE_S,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = place.url
        self._patience_s = patience_s
        self._has_answered = False
        self.pause = pause
        self.clock = clock
        self._http = _session(place, transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    # Jobs

    def begin(self, path: str, body: Mapping[str, object]) -> RemoteJob:
        """Request a job. An idempotency key makes sure that retries start it only once.

        Raises:
            ServiceRefused: The service does not start the job.
            ServiceUnusable: The service cannot be reached, or its answer is not valid.
        """
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        answer = self._ask("POST", path, json=body, headers=headers, can_repeat=True)
        return as_agreed(RemoteJob, answer.json())

    def job(self, job_id: str) -> RemoteJob:
        """Return the state of a job; raises as `begin`."""
        return as_agreed(RemoteJob, self.read(f"/jobs/{_part(job_id)}"))

    def document(self, job: RemoteJob) -> dict[str, Any]:
        """Return the JSON document that an ended job printed; raises as `begin`."""
        return self._ask("GET", f"/jobs/{_part(job.job_id)}/result", most_bytes=MOST_DOCUMENT_BYTES).json()

    # Plans

    def offer(self, content: bytes, title: str) -> RemotePlan:
        """Offer a plan file and return its plan, also if it is stored already. Raises as `begin`."""
        answer = self._ask("POST", "/plans", content=content, params={"title": title}, can_repeat=True)
        return as_agreed(RemotePlan, answer.json())

    def plan(self, digest: str) -> RemotePlan:
        """Return a plan, and whether it can start; raises as `begin`."""
        return as_agreed(RemotePlan, self.read(f"/plans/{_part(digest)}"))

    def plans(self) -> tuple[RemotePlan, ...]:
        """Return the visible plans, newest first; raises as `begin`."""
        return as_agreed(tuple[RemotePlan, ...], self.read("/plans").get("plans"))

    def plan_file(self, digest: str) -> bytes:
        """Return a plan file as it was offered; raises as `begin`."""
        return self._ask("GET", f"/plans/{_part(digest)}/file").body

    # Runs

    def runs(self) -> tuple[RunWord, ...]:
        """Return the latest visible runs, newest first; raises as `begin`."""
        return as_agreed(tuple[RunWord, ...], self.read("/runs", {"last": _LAST}).get("runs"))

    def run(self, run_id: str) -> RemoteRun:
        """Return a run without its devices; raises as `begin`."""
        return as_agreed(RemoteRun, self.read(f"/runs/{_part(run_id)}"))

    def devices(self, run_id: str) -> tuple[RemoteDevice, ...]:
        """Return the devices of a run; raises as `begin`."""
        return as_agreed(tuple[RemoteDevice, ...], self.read(f"/runs/{_part(run_id)}/devices").get("devices"))

    def steer(self, run_id: str, what: str, reason: str) -> ControlRequest:
        """Pause, continue or stop a run; idempotent. Raises as `begin`."""
        path = f"/runs/{_part(run_id)}/{_part(what)}"
        return as_agreed(ControlRequest, self._ask("POST", path, json={"reason": reason}).json())

    def approve_wave(self, run_id: str, wave: int, *, digest: str, comment: str) -> None:
        """Approve the waves of a run up to one; raises as `begin`."""
        body = {"digest": digest, "comment": comment}
        self._ask("POST", f"/runs/{_part(run_id)}/waves/{wave}/approve", json=body)

    def report(self, run_id: str, form: str) -> bytes:
        """Return the report of a run as `json`, `html`, `csv` or `xml`; raises as `begin`."""
        return self._ask("GET", f"/runs/{_part(run_id)}/report.{form}", most_bytes=MOST_DOCUMENT_BYTES).body

    # Requests

    def read(self, path: str, query: Query | None = None) -> dict[str, Any]:
        """GET a path and return its JSON object; raises as `begin`."""
        return self._ask("GET", path, params=query, most_bytes=MOST_BYTES).json()

    @contextmanager
    def listening(self, path: str, headers: Mapping[str, str]) -> Iterator[Iterator[bytes]]:
        """Open a stream; yield an iterator over its bytes as they arrive.

        Raises:
            ServiceRefused: The service refuses the stream.
            ServiceUnusable: The answer is not a stream.
            httpx.TransportError: The connection broke, or was silent for too long.
        """
        what = f"GET {path}"
        timeout = httpx.Timeout(_SILENCE_S, connect=_CONNECT_S)
        with self._http.stream("GET", PREFIX + path, headers=dict(headers), timeout=timeout) as response:
            check_form(response, what)
            if response.status_code != HTTPStatus.OK:
                body = self._body(response, what, MOST_BYTES)
                raise error_of(
                    Answer(what=what, status=response.status_code, headers=response.headers, body=body), self.url
                )
            yield response.iter_raw()

    def _ask(
        self, method: str, path: str, *, can_repeat: bool = False, most_bytes: int = MOST_BYTES, **words: Any
    ) -> Answer:
        """Send a request, retry it while that is useful and safe, and return the successful answer."""
        patience_s = self._patience_s if self._has_answered else min(self._patience_s, _FIRST_PATIENCE_S)
        until_s, pause_s = self.clock() + patience_s, _PAUSE_S
        while True:
            answer, error, is_passing = self._try(
                method, path, most_bytes, words, can_repeat=can_repeat or method == "GET"
            )
            if answer is not None:
                if error is None:
                    return answer
                pause_s = max(pause_s, answer.retry_after_s)
            assert error is not None
            if not is_passing or self.clock() + pause_s > until_s:
                raise error
            self.pause(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _try(
        self, method: str, path: str, most_bytes: int, words: Mapping[str, Any], *, can_repeat: bool
    ) -> tuple[Answer | None, FlashferryError | None, bool]:
        """Send a request once; return its answer or error, and whether to retry."""
        try:
            answer = self._answer(method, path, most_bytes, words)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            away = unreachable(error, self.url)
            return None, away, (can_repeat or never_sent) and away.passes
        self._has_answered = self._has_answered or answer.is_good
        if answer.is_good:
            return answer, None, False
        is_passing = answer.status in PASSING and (can_repeat or answer.status == HTTPStatus.TOO_MANY_REQUESTS)
        return answer, error_of(answer, self.url), is_passing

    def _answer(self, method: str, path: str, most_bytes: int, words: Mapping[str, Any]) -> Answer:
        what = f"{method} {path}"
        with self._http.stream(method, PREFIX + path, **words) as response:
            check_form(response, what)
            body = self._body(response, what, most_bytes)
            return Answer(what=what, status=response.status_code, headers=response.headers, body=body)

    def _body(self, response: httpx.Response, what: str, most_bytes: int) -> bytes:
        until_s, body = self.clock() + _WHOLE_S, bytearray()
        for part in response.iter_raw():
            body += part
            if len(body) > most_bytes:
                raise too_much(what, most_bytes)
            if self.clock() > until_s:
                raise ServiceUnusable(
                    f"{what}: expected a whole answer within {_WHOLE_S:.0f} s, found one that continues",
                    hint="Try again; if that repeats, check the service and what is in front of it",
                )
        return bytes(body)


def _session(place: ServicePlace, transport: httpx.BaseTransport | None) -> httpx.Client:
    return httpx.Client(
        base_url=place.url,
        headers={"Authorization": f"Bearer {place.token}", "Accept-Encoding": "identity"},
        verify=place.trust(),
        timeout=httpx.Timeout(_READ_S, connect=_CONNECT_S),
        follow_redirects=False,
        # Ignore proxies and netrc of the environment: requests carry a token.
        trust_env=False,
        transport=transport,
    )


def _part(name: str) -> str:
    """Return a name, percent-encoded as one segment of a path."""
    return quote(name, safe="")
