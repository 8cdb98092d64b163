"""Opening a session with a device, and the cause of a failure by the libraries' errors.

Facts
-----
* netmiko raises one error for all failures, and NAPALM wraps it in another; the socket's error is in the exception
  chain. An unknown name is a `gaierror`, whatever the language of the system.
* paramiko tries all addresses of a name and collects refusals and missing routes in one `NoValidConnectionsError`.
* If a server closes at once, as a router without free vty lines does, or uses another protocol, paramiko raises `Error
  reading SSH protocol banner`, caused by an end of the stream or a timeout.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from flashferry.core.errors import ConfigInvalid
from flashferry.devices.errors import SESSION_LOST, DeviceUnreachable, LoginRefused
from flashferry.devices.host_keys import HostKeys
from flashferry.devices.transcript import Recent, Recorder
from inventory.value_readers import check_login

if TYPE_CHECKING:
    from flashferry.devices.netmiko_driver import Driver


class Cause(StrEnum):
    """Why a device could not be reached, as a stored value."""

    NAME = "name not resolved"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    NO_ROUTE = "no route"
    NO_SSH = "no ssh"
    CLOSED = "closed"
    UNKNOWN = "unknown"


class Unreached(Struct, frozen=True, kw_only=True):
    """Why a device could not be reached, with message and hint.

    Attributes:
        words: What was seen, as a clause to follow a colon; empty if unknown.
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
    """Return why no session could be opened, by the error that ended the attempt."""
    cause = next((found for one in _chain(error) if (found := _cause(one)) is not None), Cause.UNKNOWN)
    words, hint = _WORDS[cause]
    return Unreached(cause=cause, words=words, hint=hint)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, the outermost first, including those that paramiko collects in one error."""
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
"""Encoding with one byte per character: no multi-byte character is split between packets, so a configuration is decoded
in the same way each time."""


def lost() -> tuple[type[Exception], ...]:
    """Return the exceptions that the libraries raise if a session is lost or could not be opened."""
    # netmiko takes half a second to import, so it is imported only when a session is opened, here and below.
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
    """Return the exception that netmiko raises if no prompt comes in time."""
    from netmiko.exceptions import ReadTimeout  # start time

    return ReadTimeout


def failed() -> tuple[type[Exception], ...]:
    """Return all of these exceptions, and the one that netmiko raises if a mode was not reached."""
    return (*lost(), too_late(), ValueError)


class Login(Struct, frozen=True, kw_only=True):
    """Parameters of a session; `__repr__` has no secret.

    Attributes:
        name: Inventory name of the device.
        address: Its address or DNS name.
        enable_secret: Password for `enable`; None if the login itself is privileged.
        host_keys: The known host keys of the device.
        optional_args: NAPALM's options, including netmiko's.
        recorder: Records all input and output.
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
    """Open a privileged session and return its driver.

    Raises:
        ConfigInvalid: User, password or enable secret has a line break or control character; nothing was opened.
        HostKeyRefused: The device's host key is not the known one; no password was sent.
        LoginRefused: User, password or enable secret were not accepted.
        DeviceUnreachable: No SSH session could be opened.
    """
    _check_lines(login)
    from flashferry.devices.netmiko_driver import Driver  # imports netmiko

    driver = Driver(
        host_keys=login.host_keys,
        recorder=login.recorder,
        hostname=login.address,
        username=login.username,
        password=login.password,
        timeout=60,
        # NAPALM's Nornir plugin changes the dict that it gets, and the driver may do so: never share it.
        optional_args={
            "port": login.port,
            "secret": _typed(login.enable_secret or ""),
            "conn_timeout": 15,
            "banner_timeout": 30,
            "auth_timeout": 30,
            # Keeps NAT entries on the path alive while a copy runs for an hour.
            "keepalive": 30,
            # We call enable ourselves, so that a refused secret is not reported as an unreachable device.
            "force_no_enable": True,
            **login.optional_args,
            # Not configurable: with a multi-byte encoding, characters could be split between packets.
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
    """Close a netmiko connection at once; a connection lost meanwhile is no error.

    netmiko's own logout starts with Enter, which would confirm `Destination filename [x]?`.
    """
    try:
        device.paramiko_cleanup()
    except lost():
        # The channel could not say goodbye; what is after it is closed all the same.
        device.remote_conn = None
        with suppress(*lost()):
            device.paramiko_cleanup()


def _check_lines(login: Login) -> None:
    """Refuse credentials with line breaks; the last check before anything is sent."""
    try:
        check_login(login.username, login.password, login.enable_secret)
    except ConfigInvalid as error:
        raise ConfigInvalid(error.message, host=login.name, step="connect", hint=error.hint) from None


def _typed(secret: str) -> str:
    """Return a secret whose encoding by `ENCODING` gives its UTF-8 bytes, as for the SSH password (RFC 4252)."""
    return secret.encode().decode(ENCODING)


@contextmanager
def _opening(login: Login) -> Iterator[None]:
    where = f"{login.address} port {login.port}"
    from netmiko.exceptions import NetmikoAuthenticationException  # start time

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
