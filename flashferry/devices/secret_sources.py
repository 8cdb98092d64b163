"""Sources of credentials outside the inventory and the environment: the system's keyring, and a secrets command."""

from __future__ import annotations

import importlib
import json
import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any

from flashferry.core.errors import ConfigInvalid
from flashferry.core.extras import extra_hint
from flashferry.devices.credentials import Credentials

KEYRING_SERVICE = "flashferry"
ENABLE_ENTRY = "enable"
"""Under this user name the keyring keeps the enable secret."""

COMMAND_LIMIT_S = 30.0
COMMAND_LIMIT_BYTES = 64 * 1024

_KEYS = frozenset(field.name for field in fields(Credentials))


class KeyringSource:
    """The system's keyring: service `flashferry/DEVICE`, else `flashferry`; `enable` is the user of enable secrets.

    `keyring set flashferry USER` stores a password that all devices share, `keyring set flashferry/r7 enable` the
    enable
    secret of r7.

    Args:
        named: What asked for it, for errors.
        is_shared: Whether the entry that all devices share counts, where one has none of its own.

    Raises:
        ConfigInvalid: The package `keyring` is not installed.
    """

    workers = 1

    def __init__(self, *, named: str = "--keyring", is_shared: bool = True) -> None:
        self._named, self._is_shared = named, is_shared
        try:
            self._keyring: Any = importlib.import_module("keyring")
        except ImportError:
            raise ConfigInvalid(
                f"{named}: the package 'keyring' is not installed", hint=extra_hint("keyring")
            ) from None
        self._seen: dict[tuple[str, str | None], Credentials] = {}

    def look_up(self, name: str, known: Credentials) -> Credentials:
        """Return what the keyring has for a device."""
        own = self._service(f"{KEYRING_SERVICE}/{name}", known.username)
        if not self._is_shared:
            return own
        return own.filled(self._service(KEYRING_SERVICE, own.username or known.username))

    def _service(self, service: str, username: str | None) -> Credentials:
        """Return a service's entries; each is asked for once, for a locked keyring asks its owner each time."""
        if (service, username) not in self._seen:
            try:
                # Without a name a keyring returns any entry, the enable secret's too; most need the name anyway.
                password = self._keyring.get_password(service, username) if username else None
                enable = self._keyring.get_password(service, ENABLE_ENTRY)
            except Exception as error:  # noqa: BLE001 -- each keyring has errors of its own
                # Their text may be anything; their kind is enough to act on.
                raise ConfigInvalid(
                    f"{self._named}: the keyring gave an error, {type(error).__name__}",
                    hint=f"Try: keyring get {service} {username or ENABLE_ENTRY}",
                ) from None
            self._seen[service, username] = Credentials(
                username=username if password is not None else None, password=password, enable_secret=enable
            )
        return self._seen[service, username]


class CommandSource:
    """A program that prints a device's credentials as JSON: `username`, `password`, `enable_secret`, each or none.

    It gets the device's name as its last argument and is run without a shell, with its errors going to our own standard
    error. What it prints never comes into an error of ours.

    Args:
        command: The program and its arguments, quoted as in a shell.
        environment: What it gets for an environment, or None: ours.
        named: What named it, for complaints.

    Raises:
        ConfigInvalid: The command is empty or wrongly quoted.
    """

    workers = 8

    def __init__(
        self, command: str, environment: Mapping[str, str] | None = None, *, named: str = "--secrets-command"
    ) -> None:
        self._environment = None if environment is None else dict(environment)
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise ConfigInvalid(
                f"{named}: {error}", hint="Quote it as for a shell; every quote that opens must close"
            ) from None
        if not self._words:
            raise ConfigInvalid(
                f"{named}: expected a program, found nothing",
                hint="Give the program and its arguments in one pair of quotes; the device's name is put behind them",
            )

    def look_up(self, name: str, known: Credentials) -> Credentials:  # noqa: ARG002 -- a Source
        """Return what the program says of a device.

        Raises:
            ConfigInvalid: It cannot be run, fails, takes more than half a minute, or prints something else.
        """
        try:
            values = json.loads(self._output(name))
        except ValueError:  # of JSON and of UTF-8 alike
            raise self._wrong(name, "expected one JSON object, found something else") from None
        if not isinstance(values, dict) or not all(isinstance(one, str | None) for one in values.values()):
            raise self._wrong(name, "expected a JSON object of texts, found something else")
        if not _KEYS.issuperset(values):
            raise self._wrong(name, f"expected the keys {', '.join(sorted(_KEYS))}, found others")
        return Credentials(**{key: value or None for key, value in values.items()})

    def _output(self, name: str) -> bytes:
        return printed_by(
            [*self._words, name], environment=self._environment, wrong=lambda what: self._wrong(name, what)
        )

    def _wrong(self, name: str, what: str) -> ConfigInvalid:
        return ConfigInvalid(
            f"secrets command '{self._words[0]}': {what}", host=name, hint="Run it by hand with the device's name"
        )


def printed_by(
    words: Sequence[str], *, environment: Mapping[str, str] | None = None, wrong: Callable[[str], ConfigInvalid]
) -> bytes:
    """Return what a program prints that has a secret; it is run without a shell and ends with all that it started.

    `wrong` makes the error of what was found.

    Raises:
        ConfigInvalid: It cannot be run, fails, takes more than half a minute, or prints far too much.
    """
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True, env=environment
        )
    except OSError as error:
        raise wrong(f"cannot be run: {error.strerror}") from None
    with process:
        try:
            output = _read(process, COMMAND_LIMIT_S)
        except TimeoutError:
            raise wrong(f"no answer within {COMMAND_LIMIT_S:g} s") from None
        finally:
            # With all that it started, or what holds its output open would be waited for.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
    if len(output) > COMMAND_LIMIT_BYTES:
        raise wrong(f"expected at most {COMMAND_LIMIT_BYTES} bytes, found more")
    if process.returncode != 0:
        raise wrong(f"ended with exit code {process.returncode}")
    return output


def _read(process: subprocess.Popen[bytes], limit_s: float) -> bytes:
    """Return what a process prints until it has ended, or a little more than it may print.

    Raises:
        TimeoutError: It is not done within the limit.
    """
    assert process.stdout is not None
    deadline, output = time.monotonic() + limit_s, b""
    while len(output) <= COMMAND_LIMIT_BYTES:
        left_s = max(deadline - time.monotonic(), 0.0)
        if not select.select([process.stdout], (), (), left_s)[0]:
            raise TimeoutError
        if not (piece := os.read(process.stdout.fileno(), COMMAND_LIMIT_BYTES)):
            break
        output += piece
    else:
        return output
    try:
        process.wait(max(deadline - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return output
