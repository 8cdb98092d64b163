"""Send requests to a controller, retry what can be repeated, and report errors in one sentence.

Requests that only read, or have the same result however often they are sent, are repeated after a passing error: a 502
page, a time-out, a broken connection. Others are repeated only after a check whether they took effect. Cisco's client
renews an expired login.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, Unpack
from urllib.parse import quote

import httpx
from msgspec import Struct
from virl2_client import ClientLibrary
from virl2_client.exceptions import InitializationError, VirlException
from virl2_client.utils import Version

from flashferry.core.errors import ConfigInvalid
from flashferry.core.extras import extra_hint
from flashferry.core.json_access import Node
from flashferry.core.redaction import keep_secret, masked, sanitize
from flashferry.core.values import as_dict
from flashferry.nightly.backend import Clock, Deadline
from flashferry.nightly.cml.access import (
    NOT_PROVEN,
    CmlVersion,
    ControllerAccess,
    read_version,
    version_note,
    why_refused,
)
from flashferry.nightly.night import Fault, NightFault

if TYPE_CHECKING:
    import httpx

MOST_EXCHANGES = 20_000
"""Newest requests kept; a night of 90 minutes that polls every five seconds has about 4,000."""

_STARTED = "flashferry.started_s"


class Exchange(Struct, frozen=True, kw_only=True):
    """A request and its answer.

    Attributes:
        at: Time of the answer, UTC.
        path: With its query.
        status: Status code; None: no answer.
        seconds: From the request to the end of the answer.
        sent_bytes: Size of the request's body; None: unknown in advance.
        received_bytes: Size of the answer's body.
        failure: Name of the error if there was no answer; else empty.
    """

    at: str
    method: str
    path: str
    status: int | None
    seconds: float
    sent_bytes: int | None = None
    received_bytes: int = 0
    failure: str = ""


class Trace:
    """All requests to a controller. Thread-safe."""

    def __init__(self, most: int = MOST_EXCHANGES) -> None:
        self._lock = threading.Lock()
        self._exchanges: deque[Exchange] = deque(maxlen=most)

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """The requests so far, failed ones included."""
        with self._lock:
            return tuple(self._exchanges)

    def on_request(self, request: httpx.Request) -> None:
        """Note the start of a request: a hook of the HTTP library."""
        request.extensions[_STARTED] = time.monotonic()

    def on_response(self, response: httpx.Response) -> None:
        """Record an answer: a hook of the HTTP library."""
        response.read()
        self._keep(response.request, status=response.status_code, received_bytes=len(response.content))

    def on_failure(self, request: httpx.Request, failure: str) -> None:
        """Record a request without answer."""
        self._keep(request, failure=failure)

    def text(self) -> str:
        """Return one JSON object per line, secrets masked."""
        return "".join(masked(json.dumps(as_dict(one))) + "\n" for one in self.exchanges)

    def _keep(
        self, request: httpx.Request, *, status: int | None = None, received_bytes: int = 0, failure: str = ""
    ) -> None:
        started_s = request.extensions.get(_STARTED, time.monotonic())
        sent = request.headers.get("Content-Length")
        one = Exchange(
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            method=request.method,
            path=request.url.raw_path.decode("ascii", "replace"),
            status=status,
            seconds=round(time.monotonic() - started_s, 4),
            sent_bytes=int(sent) if sent is not None and sent.isdecimal() else None,
            received_bytes=received_bytes,
            failure=failure,
        )
        with self._lock:
            self._exchanges.append(one)


EXPECTED: tuple[type[Exception], ...] = (VirlException, httpx.HTTPError, httpx.InvalidURL)
"""Errors that requests raise."""

_TOO_MANY, _SERVERS_OWN = 429, 500
_LONGEST = 300
_HINT = "Look at the controller; 'flashferry nightly run' again when it answers"


class Trouble(Struct, frozen=True, kw_only=True):
    """Why a request failed.

    Attributes:
        reason: The end of a sentence: `it answered 502 with a page`.
        status: Status code; None: no answer.
        is_passing: Whether the same request may succeed later.
    """

    reason: str
    hint: str
    status: int | None = None
    is_passing: bool = False


class NotJson(Exception):
    """An answer is no JSON; the message is its start."""


RAISED: tuple[type[Exception], ...] = (*EXPECTED, NotJson)
"""`EXPECTED`, and answers that are no JSON."""


def trouble_of(error: Exception, *, is_proxy_used: bool = False) -> Trouble:
    """Explain one of `RAISED`; `is_proxy_used`: whether the environment's proxies apply."""
    if isinstance(error, InitializationError):
        return _login_trouble(error, is_proxy_used=is_proxy_used)
    if isinstance(error, httpx.HTTPStatusError):
        return status_trouble(error.response)
    if isinstance(error, NotJson):
        return _page(200, str(error))
    if isinstance(error, httpx.HTTPError):
        return _transport_trouble(error, is_proxy_used=is_proxy_used)
    return Trouble(reason=f"Cisco's client gave up: {brief(str(error)) or type(error).__name__}", hint=_HINT)


def status_trouble(response: httpx.Response) -> Trouble:
    """Explain an answer with a status code from 400 on."""
    status = response.status_code
    said = description(response.text)
    if status == _TOO_MANY or status >= _SERVERS_OWN:
        return _page(status, response.text) if said is None else _passing(f"it answered {status}: {said}", status)
    if status == 401:
        reason, hint = "its login is not valid any more", "Check whether the user still exists, and its password"
    elif status == 403:
        reason, hint = "its user may not", "Give the user the right, or name another one in nightly.yaml"
    else:
        reason, hint = f"it answered {status}", _HINT
    return Trouble(reason=f"{reason}: {said}" if said else reason, hint=hint, status=status)


def description(text: str) -> str | None:
    """Return a controller's description of an error in one line; None if there is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    said = found.get("description") if isinstance(found, dict) else found
    return brief(said if isinstance(said, str) else json.dumps(said)) if said else None


def brief(text: str) -> str:
    """Return the start of a foreign text in one line, without secrets and final full stop."""
    line = " ".join(sanitize(" ".join(text.split())).split())
    return (line if len(line) <= _LONGEST else line[:_LONGEST] + " ...").rstrip(".")


def _passing(reason: str, status: int | None = None) -> Trouble:
    return Trouble(reason=reason, hint=_HINT, status=status, is_passing=True)


def _page(status: int, text: str) -> Trouble:
    kind = "a page" if text.lstrip()[:1] == "<" else "something that is no JSON"
    return _passing(f"it answered {status} with {kind}", status)


def _login_trouble(error: InitializationError, *, is_proxy_used: bool) -> Trouble:
    cause = error.args[0] if error.args else None
    if isinstance(cause, httpx.HTTPError):
        return trouble_of(cause, is_proxy_used=is_proxy_used)
    if "authenticate" in str(error):
        return Trouble(
            reason="it refused the login",
            hint="Check the user and the password of nightly.yaml's controller",
            status=403,
        )
    return Trouble(reason=f"Cisco's client refused it: {brief(str(error))}", hint=_HINT)


def _transport_trouble(error: httpx.HTTPError, *, is_proxy_used: bool) -> Trouble:
    causes = tuple(_causes(error))
    if proof := next((one for one in causes if isinstance(one, ssl.SSLCertVerificationError)), None):
        return Trouble(
            reason=f"its certificate is not proven: {brief(proof.verify_message)}",
            hint="Give the file of its certificate, or of who signed it, as 'ca_file' in nightly.yaml, and call the "
            "controller by a name that is in it",
        )
    if any(isinstance(one, ssl.SSLError) for one in causes):
        return Trouble(reason="it does not speak TLS there", hint="Check address and port of nightly.yaml's controller")
    if isinstance(error, httpx.ProxyError) or (is_proxy_used and isinstance(error, httpx.ConnectError)):
        hint = "Name the controller in NO_PROXY, or have the proxy let it through"
        return Trouble(reason=f"the proxy did not let us through: {brief(str(error))}", hint=hint)
    if any(isinstance(one, socket.gaierror) and one.errno != socket.EAI_AGAIN for one in causes):
        return Trouble(reason="its name is not known", hint="Check the address of nightly.yaml's controller")
    if isinstance(error, httpx.TimeoutException):
        when = "connect" if isinstance(error, httpx.ConnectTimeout) else "answer"
        return _passing(f"it did not {when} in time")
    if isinstance(error, httpx.TooManyRedirects | httpx.UnsupportedProtocol | httpx.DecodingError):
        hint = "Check the address of nightly.yaml's controller"
        return Trouble(reason=f"it answers as no controller does: {type(error).__name__}", hint=hint)
    said = brief(str(error)) or type(error).__name__
    if isinstance(error, httpx.ConnectError):
        hint = f"Check the address of nightly.yaml's controller and the way to it from here. {_HINT}"
        return Trouble(reason=f"it cannot be reached: {said}", hint=hint, is_passing=True)
    return _passing(f"it broke off: {said}")


def _causes(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


# What it warns of (a port that is not 443, a login renewed) would end on the terminal without a log.
logging.getLogger("virl2_client").addHandler(logging.NullHandler())

_CONNECT_S = 10.0
_ENVIRONMENT = threading.Lock()
_AUTHENTICATE = "/api/v0/authenticate"


class Watcher(Protocol):
    """Receive every request and every answer."""

    def on_request(self, request: httpx.Request) -> None:
        """Receive a request before it is sent."""

    def on_response(self, response: httpx.Response) -> None:
        """Receive an answer."""


class VersionUnusable(Exception):
    """The controller's version cannot be parsed."""


class NightClient(ClientLibrary):
    """A logged-in client whose session is observed from the first request on.

    Args:
        access: The controller and its login.
        watchers: Receive every request and answer.
        accept: Called with the version before the login is sent; raises to refuse it.

    Raises:
        ConfigInvalid: The certificate file is invalid.
        VersionUnusable: The controller reports no version.
        VirlException: An error of Cisco's client.
        httpx.HTTPError: The controller cannot be reached.
    """

    def __init__(self, access: ControllerAccess, *, watchers: Iterable[Watcher], accept: Any) -> None:
        self._watchers = tuple(watchers)
        self._accept = accept
        timeout = httpx.Timeout(access.timeout_s, connect=min(_CONNECT_S, access.timeout_s))
        trust = access.trust()
        try:
            with _proxies(access):
                super().__init__(
                    access.url,
                    access.username,
                    access.password,
                    jwtoken="",
                    ssl_verify=trust,
                    raise_for_auth_failure=True,
                    timeout=timeout,
                    client_type="flashferry",
                )
        except BaseException:
            if (session := getattr(self, "_session", None)) is not None:
                session.close()
            raise

    @property
    def session(self) -> httpx.Client:
        """The HTTP session; its paths are relative to `/api/v0/`."""
        session: httpx.Client = self._session
        return session

    def check_controller_version(self) -> Version:
        """Add the watchers to the session, then request and check the version.

        Raises:
            VersionUnusable: It cannot be parsed.
        """
        hooks = self.session.event_hooks
        hooks["request"] += [one.on_request for one in self._watchers]
        # Answers are recorded with their tokens masked already.
        hooks["response"] += [_keep_token, *(one.on_response for one in self._watchers)]
        self.session.event_hooks = hooks
        text = Node(self.system_info()).text("version") or ""
        self._accept(text)
        try:
            return Version(text)
        except (TypeError, ValueError):
            raise VersionUnusable(text) from None


def _keep_token(response: httpx.Response) -> None:
    """Have a session token masked from the moment it arrives."""
    if response.request.url.path == _AUTHENTICATE and response.is_success:
        response.read()
        keep_secret(response.text.strip().strip('"'), is_random=True)


@contextmanager
def _proxies(access: ControllerAccess) -> Iterator[None]:
    """Disable the environment's proxies for the controller while its session is made, unless they are used."""
    if access.is_proxy_used:
        yield
        return
    with _ENVIRONMENT:
        # Where both spellings are set, the lower one counts.
        before = os.environ.get("no_proxy")
        others = before if before is not None else os.environ.get("NO_PROXY", "")
        os.environ["no_proxy"] = ",".join(filter(None, (others, access.host)))
        try:
            yield
        finally:
            if before is None:
                del os.environ["no_proxy"]
            else:
                os.environ["no_proxy"] = before


_MISSING: ModuleNotFoundError | None = None

try:
    import httpx

except ModuleNotFoundError as error:
    # Without the extra `cml` all else can be imported; `connect` reports it.
    if error.name is None or error.name.partition(".")[0] not in {"virl2_client", "httpx"}:
        raise
    _MISSING = error

Expected = Literal["json", "text", "bytes", "nothing"]
CONNECT_S = 30.0
"""How long a login is tried, and twice at least."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 8.0
_LOGOUT_S = 5.0
_LEAST_TIMEOUT_S = 1.0
"""Time limit of a request after the deadline, such as the last check."""


class Call(Struct, frozen=True, kw_only=True):
    """A request.

    Attributes:
        path: Relative to `/api/v0/`, made with `below`.
        what: Its purpose, after "could not": `read the lab's state`.
        step: The step of the night.
        expects: How the answer is read.
        params: The query; None: no query.
        json: The body, as JSON.
        content: The body as text without a content type, for imports; None: no such body.
        files: Parts of a multipart form.
        allows: Status codes from 400 on that are answers.
        is_repeatable: Whether repeating it has the same result.
        timeout_s: Time limit; None: the default.
    """

    method: str
    path: str
    what: str
    step: str
    expects: Expected = "json"
    params: Mapping[str, str] | None = None
    json: Any = None
    content: str | None = None
    files: Any = None
    headers: Mapping[str, str] | None = None
    allows: tuple[int, ...] = ()
    is_repeatable: bool = True
    timeout_s: float | None = None


class GetOptions(TypedDict, total=False):
    """Fields of `Call` for `Controller.get`."""

    expects: Expected
    params: Mapping[str, str]
    allows: tuple[int, ...]
    timeout_s: float


class Answer(Struct, frozen=True, kw_only=True):
    """An answer: status code, body as expected (None from code 400 on), and the error's text."""

    status: int
    value: Any = None
    said: str = ""

    @property
    def is_gone(self) -> bool:
        """Whether the requested object does not exist."""
        return self.status == 404


class Controller:
    """A logged-in controller, made by `connect`; `notes` are remarks for the operator."""

    def __init__(
        self, client: NightClient, *, access: ControllerAccess, version: CmlVersion, trace: Trace, clock: Clock
    ) -> None:
        self.access, self.version, self.trace = access, version, trace
        self.client, self.clock = client, clock
        note = version_note(version)
        unproven = None if access.is_verified else NOT_PROVEN
        self.notes = tuple(one for one in (unproven, note) if one)

    def ask(self, call: Call, *, deadline: Deadline | None = None, done: Callable[[], Any] | None = None) -> Answer:
        """Send a request and return its answer.

        Args:
            call: The request.
            deadline: Ends waiting and retries; None: the limits of the access.
            done: Called before a request that is not repeatable is repeated: returns the answer if the request took
                effect, else None. Without it such a request is sent once.

        Raises:
            NightFault: `LAB`: it failed.
        """
        # A call that may take long by itself is not out of patience with its first answer that is late.
        patience_s = self.access.retry_s + (call.timeout_s or 0.0)
        until = Deadline.after(patience_s, self.clock) if deadline is None else deadline.within(patience_s)
        tries = 0
        while True:
            tries += 1
            try:
                return self._once(call, deadline)
            except RAISED as error:
                trouble = _traced_trouble(error, self.access, self.trace)
            if trouble.status is not None and trouble.status in call.allows:
                return Answer(status=trouble.status, said=trouble.reason)
            may_again = trouble.is_passing and (call.is_repeatable or done is not None)
            has_time = may_again and until.pause(_pause_s(tries))
            if may_again and done is not None and (found := done()) is not None:
                return Answer(status=200, value=found)
            if not has_time:
                often = f", {tries} times" if tries > 1 else ""
                reason = f"{self.access.host}: could not {call.what}: {trouble.reason}{often}"
                raise NightFault(reason, fault=Fault.LAB, step=call.step, hint=trouble.hint) from None

    def get(
        self, path: str, what: str, *, step: str, deadline: Deadline | None = None, **more: Unpack[GetOptions]
    ) -> Answer:
        """Send a GET request; arguments as of `Call` and `ask`.

        Raises:
            NightFault: `LAB`: it failed.
        """
        return self.ask(Call(method="GET", path=path, what=what, step=step, **more), deadline=deadline)

    def close(self) -> None:
        """Log out and close the connection; errors are ignored."""
        with suppress(*EXPECTED, ValueError):
            self.client.session.delete("logout", timeout=_LOGOUT_S)
        self.client.session.close()

    def _once(self, call: Call, deadline: Deadline | None) -> Answer:
        timeout_s = call.timeout_s or self.access.timeout_s
        if deadline is not None:
            timeout_s = max(_LEAST_TIMEOUT_S, min(timeout_s, deadline.left_s))
        given = {"params": call.params, "json": call.json, "content": call.content, "files": call.files}
        body: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        try:
            response = self.client.session.request(
                call.method, call.path, headers=call.headers, timeout=httpx.Timeout(timeout_s), **body
            )
        except ValueError:
            # A token that was to be renewed, and a page came instead.
            raise NotJson("") from None
        return Answer(status=response.status_code, value=_read(response, call.expects))


def connect(
    access: ControllerAccess,
    *,
    step: str,
    watchers: tuple[Watcher, ...] = (),
    clock: Clock | None = None,
    connect_s: float = CONNECT_S,
) -> Controller:
    """Log in to a controller.

    Args:
        access: The controller and its login.
        step: The step of the night, for errors.
        watchers: Receive every request and answer, besides the trace.
        clock: Waits between retries.
        connect_s: Time limit.

    Raises:
        ConfigInvalid: The extra `cml` is not installed, or the certificate file is invalid.
        NightFault: `LAB`: it cannot be reached, refuses the login, or has an unsupported version.
    """
    if _MISSING is not None:
        raise ConfigInvalid(
            "nights on Cisco Modeling Labs need virl2-client, which is not installed", hint=extra_hint("cml")
        )
    trace, versions = Trace(), list[CmlVersion]()

    def accept(text: str) -> None:
        versions.append(_accepted(text, access, step))

    until = Deadline.after(connect_s, clock)
    tries = 0
    while True:
        tries += 1
        try:
            client = NightClient(access, watchers=(trace, *watchers), accept=accept)
            return Controller(client, access=access, version=versions[-1], trace=trace, clock=until.clock)
        except VersionUnusable as error:
            raise _no_controller(access, step, str(error)) from None
        except EXPECTED as error:
            trouble = _traced_trouble(error, access, trace)
        except (ValueError, KeyError, TypeError):
            # Cisco's client takes answers for what they should be.
            trouble = _traced_trouble(NotJson(""), access, trace)
        # One answer that does not come takes all of that time: it is asked for twice all the same.
        if not trouble.is_passing or not (until.pause(_pause_s(tries)) or tries == 1):
            reason = f"{access.host}: could not log in to the controller: {trouble.reason}"
            raise NightFault(reason, fault=Fault.LAB, step=step, hint=trouble.hint)


def below(*parts: str) -> str:
    """Join path segments, each percent-encoded."""
    return "/".join(quote(part, safe="") for part in parts)


def _accepted(text: str, access: ControllerAccess, step: str) -> CmlVersion:
    """Return a version that is taken."""
    version = read_version(text)
    if version is None:
        raise _no_controller(access, step, text)
    if (why := why_refused(version)) is not None:
        hint = "Give nightly.yaml a controller of CML 2.8 to 2.11, or a newer 2.x"
        raise NightFault(f"{access.host}: {why}", fault=Fault.LAB, step=step, hint=hint)
    return version


def _no_controller(access: ControllerAccess, step: str, text: str) -> NightFault:
    found = f"found {brief(text)!r}" if text else "found none"
    hint = "Check the address of nightly.yaml's controller: something else may answer there"
    return NightFault(f"{access.host}: expected a version of CML, {found}", fault=Fault.LAB, step=step, hint=hint)


def _read(response: httpx.Response, expects: Expected) -> Any:
    """Return an answer's body as it was expected."""
    if expects == "bytes":
        return response.content
    if expects == "json":
        try:
            return response.json()
        except ValueError:
            raise NotJson(response.text[:200]) from None
    if expects == "text" and "html" in response.headers.get("Content-Type", "").lower():
        raise NotJson(response.text[:200])
    return response.text if expects == "text" else None


def _traced_trouble(error: Exception, access: ControllerAccess, trace: Trace) -> Trouble:
    inner = error.args[0] if error.args and isinstance(error.args[0], httpx.HTTPError) else error
    if isinstance(inner, httpx.RequestError):
        with suppress(RuntimeError):
            trace.on_failure(inner.request, type(inner).__name__)
    return trouble_of(error, is_proxy_used=access.is_proxy_used)


def _pause_s(tries: int) -> float:
    return float(min(_FIRST_PAUSE_S * 2 ** (tries - 1), _LONGEST_PAUSE_S))
