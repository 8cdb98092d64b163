"""Explain why a request failed, in one sentence with a hint, and whether repeating it may help.

Facts
-----
* A controller's own errors are `{"code": int, "description": str}`; a page comes from its web server (502 while the
  controller restarts) or from a proxy.
* Cisco's client raises `APIError` (an `httpx.HTTPStatusError`) for answers from 400 on; transport errors are the HTTP
  library's, those of its first authenticated call inside an `InitializationError`.
* A refused login is 403 `authenticate`, an expired token 401.
"""

from __future__ import annotations

import json
import socket
import ssl

import httpx
from msgspec import Struct
from virl2_client.exceptions import InitializationError, VirlException

from flashferry.core.redaction import sanitize

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
        hint = f"Check the address of nightly.yaml's controller and the network path to it from here. {_HINT}"
        return Trouble(reason=f"it cannot be reached: {said}", hint=hint, is_passing=True)
    return _passing(f"it broke off: {said}")


def _causes(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
