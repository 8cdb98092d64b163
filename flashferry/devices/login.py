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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from flashferry.core.errors import ConfigInvalid
from flashferry.devices.errors import SESSION_LOST, DeviceUnreachable, LoginRefused
from flashferry.devices.host_keys import HostKeys
from flashferry.devices.transcript import Recent, Recorder
from inventory.values import check_login

if TYPE_CHECKING:
    from flashferry.devices.driver import Driver


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


ENCODING = "iso-8859-1"

"""One byte is one character: a character of two bytes that a packet's edge cuts is not lost, and a configuration reads
the same each time."""


def lost() -> tuple[type[Exception], ...]:
    """Return what the libraries raise when a session is gone, or was none."""
    from netmiko.exceptions import NetmikoTimeoutException, ReadException, WriteException
    from paramiko.ssh_exception import SSHException

    from flashferry.devices.napalm_ios import connection_exception

    return (
        OSError,
        EOFError,
        SSHException,
        NetmikoTimeoutException,
        ReadException,
        WriteException,
        connection_exception(),
    )


def too_late() -> type[Exception]:
    """Return what netmiko raises when no prompt comes in time."""
    from netmiko.exceptions import ReadTimeout

    return ReadTimeout


def failed() -> tuple[type[Exception], ...]:
    """Return all of these, and netmiko's error for a mode that was not reached."""
    return (*lost(), too_late(), ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """How to open a session; `__repr__` has no secret.

    Attributes:
        name: Inventory name of the device.
        address: Its address or DNS name.
        enable_secret: What `enable` asks for, or None: the login has to be privileged.
        host_keys: The known host keys of the device.
        optional_args: NAPALM's options, netmiko's among them.
        recorder: Takes all that is sent and comes.
    """

    name: str
    address: str
    port: int
    username: str
    password: str
    enable_secret: str | None
    host_keys: HostKeys
    optional_args: dict[str, Any] = field(default_factory=dict)
    recorder: Recorder = field(default_factory=lambda: Recorder(Recent()))

    def __repr__(self) -> str:
        """Return user and address, never a secret."""
        return f"Login({self.username}@{self.address}:{self.port})"


def open_driver(login: Login) -> Driver:
    """Return a driver with an open, privileged session.

    Raises:
        ConfigInvalid: User, password or enable secret hold what no line can hold; nothing was opened.
        HostKeyRefused: The device's host key is not the known one; no password was sent.
        LoginRefused: User, password or enable secret were not accepted.
        DeviceUnreachable: No SSH session could be opened.
    """
    _check_lines(login)
    from flashferry.devices.driver import Driver

    driver = Driver(
        host_keys=login.host_keys,
        recorder=login.recorder,
        hostname=login.address,
        username=login.username,
        password=login.password,
        timeout=60,
        # NAPALM's Nornir plugin writes into the dict it is given, and so may the driver: never share it.
        optional_args={
            "port": login.port,
            "secret": _typed(login.enable_secret or ""),
            "conn_timeout": 15,
            "banner_timeout": 30,
            "auth_timeout": 30,
            # Keeps address translations on the way awake while a copy runs for an hour.
            "keepalive": 30,
            # We enable by ourselves: a refused secret is not an unreachable device.
            "force_no_enable": True,
            **login.optional_args,
            # Not the inventory's to say: their text would be cut at a packet's edge.
            "encoding": ENCODING,
        },
    )
    with _opening(login):
        driver.open()
    try:
        with _enabling(login):
            driver.enable()
    except BaseException:
        hang_up(driver.device)
        raise
    return driver


def hang_up(device: Any) -> None:
    """Close a netmiko connection at once; one that breaks off in that very moment is no error.

    netmiko's own logout starts with Enter, which at `Destination filename [x]?` means yes.
    """
    try:
        device.paramiko_cleanup()
    except lost():
        # The channel could not say goodbye; what is after it is closed all the same.
        device.remote_conn = None
        with suppress(*lost()):
            device.paramiko_cleanup()


def _check_lines(login: Login) -> None:
    """Refuse what would end the line that it is typed into; the last check before anything is sent."""
    try:
        check_login(login.username, login.password, login.enable_secret)
    except ConfigInvalid as error:
        raise ConfigInvalid(error.message, host=login.name, step="connect", hint=error.hint) from None


def _typed(secret: str) -> str:
    """Return a secret so that its UTF-8 bytes go to the device; the SSH password is sent in UTF-8 anyhow (RFC 4252)."""
    return secret.encode().decode(ENCODING)


@contextmanager
def _opening(login: Login) -> Iterator[None]:
    where = f"{login.address} port {login.port}"
    from netmiko.exceptions import NetmikoAuthenticationException

    try:
        yield
    except NetmikoAuthenticationException:
        raise LoginRefused(
            f"login as '{login.username or '(no user)'}' to {where} was refused",
            host=login.name,
            step="connect",
            hint="Check username and password: the inventory's, FLASHFERRY_USERNAME and FLASHFERRY_PASSWORD, or "
            "wherever else they come from",
        ) from None
    except failed() as error:
        why = unreached(error)
        raised = DeviceUnreachable(
            f"no SSH session with {where} could be opened" + (f": {why.words}" if why.words else ""),
            host=login.name,
            step="connect",
            hint=why.hint,
        )
        raised.cause = why.cause.value
        raise raised from None


@contextmanager
def _enabling(login: Login) -> Iterator[None]:
    try:
        yield
    except (ValueError, too_late()):
        raise LoginRefused(
            f"no privileged prompt on {login.address} port {login.port}: the enable secret was refused or is missing",
            host=login.name,
            step="connect",
            hint="Check FLASHFERRY_ENABLE_SECRET or the inventory's enable_secret",
        ) from None
    except lost():
        raise DeviceUnreachable(
            f"the SSH session with {login.address} was lost", host=login.name, step="connect", hint=SESSION_LOST
        ) from None
