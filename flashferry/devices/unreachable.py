"""Why no session with a device came about, by the errors of the libraries. Pure.

Facts
-----
* netmiko raises one error for all of it and NAPALM another one around that; what the socket said stays in the chain of
  contexts. A name that is not known is a `gaierror`, whatever language the system speaks.
* paramiko tries all addresses of a name and gathers refusals and missing routes in one `NoValidConnectionsError`.
* A server that closes at once, as a router does whose vty lines are taken, or speaks something else, has paramiko say
  `Error reading SSH protocol banner`, with the end of the stream or a time-out below it.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """Why a device could not be reached; for programs."""

    NAME = "name not resolved"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    NO_ROUTE = "no route"
    NO_SSH = "no ssh"
    CLOSED = "closed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreached:
    """Why, for programs and for people.

    Attributes:
        words: What was seen, to follow a colon; empty where nothing is known.
    """

    cause: Cause
    words: str
    hint: str


_WORDS = {
    Cause.NAME: ("its name could not be resolved", "Check 'hostname' in the inventory, and this machine's DNS"),
    Cause.REFUSED: (
        "the connection was refused",
        "Check address and port; SSH may be off there, an access list may refuse us, or all vty lines are in use",
    ),
    Cause.TIMEOUT: (
        "no answer came in time",
        "Check whether it is up, its address, route and firewalls on the way",
    ),
    Cause.NO_ROUTE: ("there is no route to it", "Check its address, and this machine's routes and interfaces"),
    Cause.NO_SSH: (
        "the port is open, but no SSH server greeted us",
        "Check the port; a device whose vty lines are all in use may hang up like that",
    ),
    Cause.CLOSED: (
        "the connection was closed from there",
        "Log in by hand once: an access list, a full vty or an SSH version that is too old may be the reason",
    ),
    Cause.UNKNOWN: (
        "",
        "Check address, port, route and access lists; a device whose vty lines are all in use refuses too",
    ),
}
_NO_ROUTE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.ENETDOWN})


def unreached(error: BaseException) -> Unreached:
    """Return why no session came about, by the error that ended the attempt."""
    cause = next((found for one in _chain(error) if (found := _cause(one)) is not None), Cause.UNKNOWN)
    words, hint = _WORDS[cause]
    return Unreached(cause=cause, words=words, hint=hint)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that it came from, the outermost first; and what paramiko gathered in one."""
    left, seen = [error], set()
    while left:
        one = left.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        gathered = getattr(one, "errors", None)
        left += gathered.values() if isinstance(gathered, dict) else ()
        left += [each for each in (one.__cause__, one.__context__) if each is not None]


def _cause(error: BaseException) -> Cause | None:
    if "protocol banner" in str(error):
        return Cause.NO_SSH
    if isinstance(error, socket.gaierror):
        return Cause.NAME
    if isinstance(error, ConnectionRefusedError):
        return Cause.REFUSED
    if isinstance(error, OSError) and error.errno in _NO_ROUTE:
        return Cause.NO_ROUTE
    if isinstance(error, TimeoutError):
        return Cause.TIMEOUT
    return Cause.CLOSED if isinstance(error, EOFError | ConnectionError) else None
