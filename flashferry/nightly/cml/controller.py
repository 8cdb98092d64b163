"""Send requests to a controller, retry what can be repeated, and report errors in one sentence.

Requests that only read, or have the same result however often they are sent, are repeated after a passing error: a 502
page, a time-out, a broken connection. Others are repeated only after a check whether they took effect. Cisco's client
renews an expired login.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal, TypedDict, Unpack
from urllib.parse import quote

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.core.extras import extra_hint
from flashferry.nightly.backend import Clock, Deadline
from flashferry.nightly.cml.access import (
    NOT_PROVEN,
    CmlVersion,
    ControllerAccess,
    read_version,
    version_note,
    why_refused,
)
from flashferry.nightly.cml.trace import Trace
from flashferry.nightly.night import Fault, NightFault

_MISSING: ModuleNotFoundError | None = None
try:
    import httpx

    from flashferry.nightly.cml.client import NightClient, VersionUnusable, Watcher
    from flashferry.nightly.cml.troubles import EXPECTED, RAISED, NotJson, Trouble, brief, trouble_of
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
