"""Log in to a device with NAPALM's driver; every way to fail has its own error.

netmiko, paramiko and NAPALM ship no types and raise a dozen kinds of errors; this module and `tasks.session` are the
places that know them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from napalm.base.exceptions import ConnectionException
from napalm.ios.ios import IOSDriver
from netmiko.exceptions import (
    NetmikoAuthenticationException,
    NetmikoTimeoutException,
    ReadException,
    ReadTimeout,
    WriteException,
)
from paramiko.ssh_exception import SSHException

from tasks.errors import DeviceUnreachable, LoginRefused

LOST = (OSError, EOFError, SSHException, ReadException, WriteException, ConnectionException)
"""What the libraries raise when a session is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """How to open a session; secrets are kept out of its representation by `__repr__`."""

    name: str
    address: str
    port: int
    username: str
    password: str
    enable_secret: str | None
    optional_args: dict[str, Any]

    def __repr__(self) -> str:
        """Return who and where, never with which secret."""
        return f"Login({self.username}@{self.address}:{self.port})"


def open_driver(login: Login) -> IOSDriver:
    """Return a driver with an open, privileged session.

    Raises:
        LoginRefused: User, password or enable secret were not accepted.
        DeviceUnreachable: No SSH session could be opened.
    """
    driver = IOSDriver(
        hostname=login.address,
        username=login.username,
        password=login.password,
        timeout=60,
        # NAPALM's Nornir plugin writes into the dict it is given, and so may the driver: never share it.
        optional_args={
            "port": login.port,
            "secret": login.enable_secret or "",
            "conn_timeout": 15,
            "banner_timeout": 30,
            "auth_timeout": 30,
            # Keeps address translations on the way awake while a copy runs for an hour.
            "keepalive": 30,
            # We enable by ourselves: a refused secret is not an unreachable device.
            "force_no_enable": True,
            **login.optional_args,
        },
    )
    with _opening(login):
        driver.open()
    try:
        with _enabling(login):
            driver.device.enable()
    except BaseException:
        driver.device.paramiko_cleanup()
        raise
    return driver


@contextmanager
def _opening(login: Login) -> Iterator[None]:
    where = f"{login.address} port {login.port}"
    try:
        yield
    except NetmikoAuthenticationException:
        raise LoginRefused(
            f"login as '{login.username or '(nobody)'}' to {where} was refused",
            host=login.name,
            step="connect",
            hint="Check FLASHFERRY_USERNAME and FLASHFERRY_PASSWORD, or the inventory's username and password",
        ) from None
    except (*LOST, NetmikoTimeoutException, ReadTimeout, ValueError):
        raise DeviceUnreachable(
            f"no SSH session with {where} could be opened",
            host=login.name,
            step="connect",
            hint="Check address, port, route and access lists; a device whose vty lines are all in use refuses too",
        ) from None


@contextmanager
def _enabling(login: Login) -> Iterator[None]:
    try:
        yield
    except (ValueError, ReadTimeout):
        raise LoginRefused(
            f"no privileged prompt on {login.address} port {login.port}: the enable secret was refused or is missing",
            host=login.name,
            step="connect",
            hint="Check FLASHFERRY_ENABLE_SECRET or the inventory's enable_secret",
        ) from None
    except LOST:
        raise DeviceUnreachable(
            f"the SSH session with {login.address} was lost", host=login.name, step="connect"
        ) from None
