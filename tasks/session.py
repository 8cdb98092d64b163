"""One SSH session with one device: NAPALM's driver, and its netmiko channel for dialogues.

netmiko and NAPALM ship no types and raise a dozen kinds of errors; this module is the one place that knows them.
"""

from __future__ import annotations

import re
import select
import socket
import time
from collections.abc import Callable, Iterator
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

from tasks.errors import DeviceRefused, DeviceUnreachable, LoginRefused, OutputNotUnderstood
from tcp.info import parse_tcp_info
from templates.rows import Refusal, first

TCP_INFO = 11
"""`TCP_INFO` of linux/tcp.h."""

BREAK = "\x1e"
"""Ctrl-Shift-6, the default escape character of IOS: ends a running copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What NAPALM reports of a device."""

    hostname: str
    vendor: str
    model: str
    os_version: str
    serial_number: str


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


class DeviceSession:
    """An open, privileged session. All its methods raise DeviceUnreachable once the session is lost."""

    def __init__(self, login: Login) -> None:
        self.name = login.name
        self._driver = IOSDriver(
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
                **login.optional_args,
            },
        )
        with _opening(login):
            self._driver.open()
        self._prompt = re.escape(str(self._driver.device.base_prompt))

    def close(self) -> None:
        """Log out; a session that is lost already is no error."""
        try:
            self._driver.close()
        except (OSError, EOFError, SSHException, ReadException, ReadTimeout, WriteException, AttributeError):
            self._driver.device = None

    @property
    def alive(self) -> bool:
        """Return whether the SSH connection is still up as far as our side knows."""
        device = self._driver.device
        transport = getattr(getattr(device, "remote_conn", None), "transport", None)
        return bool(transport and transport.is_active() and not device.remote_conn.closed)

    @property
    def privileged(self) -> bool:
        """Return whether the device answers with the prompt of privileged EXEC."""
        with self._exchange("check the privilege level"):
            return bool(self._driver.device.check_enable_mode())

    @property
    def prompt_pattern(self) -> str:
        """Return a regular expression for the privileged prompt, alone on a line."""
        return rf"(?m)^{self._prompt}[^\s#>]{{0,20}}#\s*$"

    @property
    def local_address(self) -> str:
        """Return our own address as the SSH connection shows it."""
        return str(self._socket().getsockname()[0])

    @property
    def peer_address(self) -> str:
        """Return the device's address as the SSH connection shows it."""
        return str(self._socket().getpeername()[0])

    @property
    def rtt_s(self) -> float | None:
        """Return the least round-trip time that the kernel saw on the SSH connection, or None."""
        info = parse_tcp_info(self._socket().getsockopt(socket.IPPROTO_TCP, TCP_INFO, 512))
        least_us = info.min_rtt_us or info.rtt_us
        return least_us / 1e6 if least_us else None

    def facts(self) -> Facts:
        """Return NAPALM's facts."""
        with self._exchange("facts"):
            found = self._driver.get_facts()
        return Facts(**{name: str(found[name]) for name in Facts.__slots__})

    def running_config(self) -> str:
        """Return the whole running configuration."""
        with self._exchange("show running-config"):
            return str(self._driver.get_config(retrieve="running")["running"])

    def ask(self, command: str, *, limit_s: float = 30.0) -> str:
        """Return the output of an EXEC command that asks nothing.

        netmiko waits for the echo of this very command first, so an answer that belongs to an earlier one (a syslog
        line behind the prompt makes a reader return early) is never taken for it.

        Args:
            command: The command; it must not hold a secret.
            limit_s: Longest silence until the prompt, in seconds.

        Raises:
            DeviceRefused: The device does not know the command, or the user may not give it.
            OutputNotUnderstood: No prompt came within the limit.
            DeviceUnreachable: The session was lost.
        """
        with self._exchange(command):
            output = str(
                self._driver.device.send_command(
                    command, expect_string=self.prompt_pattern, read_timeout=limit_s, strip_prompt=True
                )
            )
        # A refusal is all that the device says, so only a short answer can be one.
        if len(output) < 500 and (refusal := first(Refusal, output)) is not None:
            raise DeviceRefused(f"'{command}': {refusal.text}", host=self.name)
        return output

    def configure(self, lines: tuple[str, ...]) -> str:
        """Send configuration lines and leave configuration mode again; return the transcript, unjudged."""
        device = self._driver.device
        with self._exchange("configure terminal"):
            try:
                return str(device.send_config_set(list(lines), read_timeout=30))
            finally:
                if self.alive and device.check_config_mode():
                    device.exit_config_mode()

    def converse(
        self, command: str, reply: Callable[[str], tuple[str, ...] | None], on_wait: Callable[[], None]
    ) -> None:
        """Send a command and hold the dialogue that follows, waiting for text without polling.

        Args:
            command: The command; it may hold a secret, and is never put into an error.
            reply: Takes each new piece of output and returns what to send, or None when the dialogue is over.
            on_wait: Called at least once a second; it may raise to end the wait.

        Raises:
            DeviceUnreachable: The session was lost.
        """
        device = self._driver.device
        with self._exchange("a dialogue"):
            device.clear_buffer()
            device.write_channel(command + "\n")
            while True:
                received = device.read_channel()
                answers = reply(received)
                if answers is None:
                    return
                if not received and not self.alive:
                    # netmiko reads nothing, for ever, from a channel that the device has closed.
                    raise DeviceUnreachable("the SSH session was lost in the middle of a dialogue", host=self.name)
                for answer in answers:
                    device.write_channel(answer)
                on_wait()
                self._wait_for_text(1.0)

    def interrupt(self, *, limit_s: float = 15.0) -> bool:
        """Send Ctrl-Shift-6 and return whether the prompt came back within the limit."""
        device = self._driver.device
        deadline = time.monotonic() + limit_s
        seen = ""
        try:
            with self._exchange("interrupt"):
                device.write_channel(BREAK)
                while time.monotonic() < deadline:
                    self._wait_for_text(1.0)
                    seen = (seen + device.read_channel())[-2000:]
                    if not self.alive:
                        return False
                    if re.search(self.prompt_pattern, seen):
                        return True
        except DeviceUnreachable:
            return False
        return False

    def _wait_for_text(self, limit_s: float) -> None:
        """Sleep until the channel has something to read; a blocked session costs no processor time."""
        channel = self._driver.device.remote_conn
        if channel.recv_ready() or channel.closed:
            return
        poller = select.poll()
        # paramiko backs this descriptor with a pipe that is readable exactly while data waits.
        poller.register(channel.fileno(), select.POLLIN)
        poller.poll(limit_s * 1000)

    def _socket(self) -> socket.socket:
        if not self.alive:
            raise DeviceUnreachable("the SSH session is lost", host=self.name)
        sock: socket.socket = self._driver.device.remote_conn.transport.sock
        return sock

    @contextmanager
    def _exchange(self, what: str) -> Iterator[None]:
        """Turn the libraries' errors into ours; theirs may quote what was sent."""
        if self._driver.device is None:
            raise DeviceUnreachable(f"'{what}': the SSH session is closed", host=self.name)
        try:
            yield
        except ReadTimeout:
            if not self.alive:
                raise DeviceUnreachable(f"'{what}': the SSH session was lost", host=self.name) from None
            raise OutputNotUnderstood(f"'{what}': expected the prompt, none came in time", host=self.name) from None
        except (OSError, EOFError, SSHException, ReadException, WriteException, ConnectionException):
            raise DeviceUnreachable(f"'{what}': the SSH session was lost", host=self.name) from None


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
    except ValueError:
        # netmiko's word for an enable secret that did not lead to the `#` prompt.
        raise LoginRefused(
            f"no privileged prompt on {where}: the enable secret was not accepted",
            host=login.name,
            step="connect",
            hint="Check FLASHFERRY_ENABLE_SECRET or the inventory's enable_secret",
        ) from None
    except (NetmikoTimeoutException, ConnectionException, OSError, EOFError, SSHException, ReadException, ReadTimeout):
        raise DeviceUnreachable(
            f"no SSH session with {where} could be opened",
            host=login.name,
            step="connect",
            hint="Check address, port, route and access lists; a device whose vty lines are all in use refuses too",
        ) from None
