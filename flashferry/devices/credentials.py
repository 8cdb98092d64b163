"""Credentials of a run: where user name, password and enable secret of each device come from.

Sources are asked in this order, and each fills in what those before it left open:

1. the inventory: the host, its groups, the defaults;
2. the environment: FLASHFERRY_USERNAME, FLASHFERRY_PASSWORD, FLASHFERRY_ENABLE_SECRET;
3. the system's keyring, where asked for (`--keyring`);
4. a secrets command, where given (`--secrets-command`), once per device that still lacks something;
5. a prompt, once for all devices, where there is a terminal and a user name or password is still missing.

The source nearest to a device wins: a router with a login of its own in the inventory keeps it beside a fleet-wide
environment. A password counts only for its own user: a source that names another user than the one found so far gives
nothing to that device, or a right password would be tried with a wrong name until the account is locked.

No source is a command line, which every user of the machine can read. No secret comes into an error, and every secret
found is masked from then on. A secret with a line break is refused: it is typed, and what follows the break would be
typed as a command.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from nornir.core import Nornir
from nornir.core.inventory import Defaults, Host

from flashferry.core.errors import ConfigInvalid
from flashferry.core.extras import extra_hint
from flashferry.core.values import field_names
from flashferry.devices.connection import ENABLE_SECRET
from inventory.entry_checks import OPTIONAL_ARGS
from inventory.value_readers import check_login, read_line

PREFIX = "FLASHFERRY_"
"""Prefix of the environment variables with credentials of devices."""

USERNAME = f"{PREFIX}USERNAME"

PASSWORD = f"{PREFIX}PASSWORD"

ENABLE = f"{PREFIX}ENABLE_SECRET"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Credentials from one or more sources: inventory, environment, program, prompt; None: no source has it."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    enable_secret: str | None = field(default=None, repr=False)

    @property
    def is_login(self) -> bool:
        """Return whether they suffice to log in."""
        return bool(self.username) and self.password is not None

    @property
    def is_complete(self) -> bool:
        """Return whether no source could add anything."""
        return self.is_login and self.enable_secret is not None

    def filled(self, more: Credentials) -> Credentials:
        """Return these, completed by another source's; credentials of another user are ignored."""
        if self.username and more.username and self.username != more.username:
            return self
        return Credentials(
            username=self.username or more.username,
            password=self.password if self.password is not None else more.password,
            enable_secret=self.enable_secret if self.enable_secret is not None else more.enable_secret,
        )


class Source(Protocol):
    """A source of credentials.

    Attributes:
        workers: Number of concurrent look-ups it supports.
    """

    workers: int

    def lookup(self, name: str, known: Credentials) -> Credentials:
        """Return the source's credentials for a device, given those already known."""
        ...


class Environment:
    """Credentials from the environment, the same for all devices.

    Args:
        variables: Environment variables; None takes the process's.
        prefix: Prefix of their names, `PREFIX` for devices.
    """

    workers = 1

    def __init__(self, variables: Mapping[str, str] | None = None, *, prefix: str = PREFIX) -> None:
        self._variables = os.environ if variables is None else variables
        self._names = tuple(prefix + name.removeprefix(PREFIX) for name in (USERNAME, PASSWORD, ENABLE))

    def lookup(self, name: str, known: Credentials) -> Credentials:  # noqa: ARG002 -- a Source
        """Return the credentials in the environment.

        Raises:
            ConfigInvalid: A variable has a line break or control character.
        """
        username, password, enable = (_line_in(self._variables, name) for name in self._names)
        return Credentials(username=username, password=password, enable_secret=enable)


def _line_in(variables: Mapping[str, str], name: str) -> str | None:
    try:
        return read_line(variables.get(name) or "") or None
    except ConfigInvalid as error:
        raise ConfigInvalid(f"{name}: {error.message}", hint=error.hint) from None


Refused = Callable[[str, ConfigInvalid], object]
"""Callback with a device's name and the error of a source about it."""


def apply_credentials(
    nornir: Nornir, sources: Iterable[Source] = (Environment(),), *, failed: Refused | None = None
) -> Nornir:
    """Fill in every device's credentials, in memory; return the same Nornir object.

    The inventory's defaults get the credentials common to all devices, because `recover` also logs in to devices that
    are no longer in the inventory.

    Args:
        nornir: The devices.
        sources: Sources, in this order.
        failed: Called with the failure of a single device, which keeps the credentials known so far; if None, the first
            failure is raised.

    Raises:
        ConfigInvalid: A source cannot be used.
    """
    hosts = nornir.inventory.hosts
    asked = tuple(sources)
    known = {name: _tried(name, partial(_of_host, host), failed) for name, host in hosts.items()}
    for source in asked:
        known |= _asked(source, {name: one for name, one in known.items() if not one.is_complete}, failed)
    for name, found in known.items():
        _set(hosts[name], found)
    defaults = nornir.inventory.defaults
    environment = next((one for one in asked if isinstance(one, Environment)), Environment())
    _set(defaults, _of_defaults(defaults).filled(environment.lookup("", Credentials())))
    return nornir


def _asked(source: Source, known: dict[str, Credentials], failed: Refused | None) -> dict[str, Credentials]:
    """Return the devices' credentials, completed by a source."""

    def ask(name: str, so_far: Credentials) -> Credentials:
        return _tried(name, lambda: _checked(name, source.lookup(name, so_far)), failed)

    with ThreadPoolExecutor(source.workers) as pool:
        found = pool.map(ask, known, known.values())
        return {name: one.filled(more) for (name, one), more in zip(known.items(), found, strict=True)}


def _tried(name: str, find: Callable[[], Credentials], failed: Refused | None) -> Credentials:
    """Return the credentials found for a device; empty ones if that fails and `failed` is given."""
    try:
        return find()
    except ConfigInvalid as error:
        if failed is None:
            raise
        failed(name, error)
        return Credentials()


def _of_host(host: Host) -> Credentials:
    # NAPALM's connection options have precedence, as when the session is opened.
    given = host.get_connection_parameters("napalm")
    options = given.extras.get(OPTIONAL_ARGS) if isinstance(given.extras, dict) else None
    # Options that are no mapping are refused when the session is opened.
    secret = (options.get("secret") if isinstance(options, dict) else None) or host.get(ENABLE_SECRET)
    enable = _text(host.name, secret)
    return _checked(
        host.name, Credentials(username=given.username or None, password=given.password, enable_secret=enable)
    )


def _of_defaults(defaults: Defaults) -> Credentials:
    enable = _text(None, defaults.data.get(ENABLE_SECRET))
    return _checked(
        None, Credentials(username=defaults.username or None, password=defaults.password, enable_secret=enable)
    )


def _checked(host: str | None, found: Credentials) -> Credentials:
    """Check that credentials can be typed into a line, register them to be masked, and return them.

    Raises:
        ConfigInvalid: One has a line break or control character.
    """
    try:
        check_login(found.username, found.password, found.enable_secret)
    except ConfigInvalid as error:
        raise ConfigInvalid(error.message, host=host, hint=error.hint) from None
    return found


def _set(target: Host | Defaults, found: Credentials) -> None:
    target.username, target.password = found.username, found.password
    if found.enable_secret is not None:
        target.data[ENABLE_SECRET] = found.enable_secret


def _text(host: str | None, secret: object) -> str | None:
    if secret is None or isinstance(secret, str):
        return secret
    raise ConfigInvalid(
        f"data key '{ENABLE_SECRET}': expected text, found {type(secret).__name__}", host=host, hint="Put it in quotes"
    )


KEYRING_SERVICE = "flashferry"

ENABLE_ENTRY = "enable"
"""User name of the keyring entry with the enable secret."""

COMMAND_LIMIT_S = 30.0

COMMAND_LIMIT_BYTES = 64 * 1024

_KEYS = frozenset(field_names(Credentials))


class KeyringSource:
    """The system's keyring: service `flashferry/DEVICE`, else `flashferry`; `enable` is the user of enable secrets.

    `keyring set flashferry USER` stores a password that all devices share, `keyring set flashferry/r7 enable` the
    enable secret of r7.

    Args:
        named: The option that requests it, for errors.
        is_shared: Whether to use the shared entry for a device without an entry of its own.

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

    def lookup(self, name: str, known: Credentials) -> Credentials:
        """Return the credentials in the keyring for a device."""
        own = self._service(f"{KEYRING_SERVICE}/{name}", known.username)
        if not self._is_shared:
            return own
        return own.filled(self._service(KEYRING_SERVICE, own.username or known.username))

    def _service(self, service: str, username: str | None) -> Credentials:
        """Return a service's entries; cached, because a locked keyring prompts for every look-up."""
        if (service, username) not in self._seen:
            try:
                # Without a user name a keyring returns any entry, perhaps the enable secret's.
                password = self._keyring.get_password(service, username) if username else None
                enable = self._keyring.get_password(service, ENABLE_ENTRY)
            except Exception as error:  # noqa: BLE001 -- each keyring has errors of its own
                # Only the type of the error is shown, because its text is unknown.
                raise ConfigInvalid(
                    f"{self._named}: the keyring gave an error, {type(error).__name__}",
                    hint=f"Try: keyring get {service} {username or ENABLE_ENTRY}",
                ) from None
            self._seen[service, username] = Credentials(
                username=username if password is not None else None, password=password, enable_secret=enable
            )
        return self._seen[service, username]


class CommandSource:
    """A program that prints a device's credentials as JSON: `username`, `password`, `enable_secret`, all optional.

    It gets the device's name as its last argument and runs without a shell; its standard error is ours. Its output
    never appears in an error message.

    Args:
        command: The program and its arguments, quoted as in a shell.
        environment: Its environment; None passes on ours.
        named: The option that names it, for errors.

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
                hint="Give the program and its arguments in one pair of quotes; the device's name is added after them",
            )

    def lookup(self, name: str, known: Credentials) -> Credentials:  # noqa: ARG002 -- a Source
        """Run the program for a device, and return its credentials.

        Raises:
            ConfigInvalid: It cannot be run, fails, takes more than `COMMAND_LIMIT_S`, or prints something else.
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
    """Run a program that prints a secret, without a shell, and return its output; its child processes are killed.

    `wrong` makes an error from a description of the failure.

    Raises:
        ConfigInvalid: It cannot be run, fails, takes more than `COMMAND_LIMIT_S`, or prints too much.
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
            # Kill its whole process group: a child that keeps its output open would delay us.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
    if len(output) > COMMAND_LIMIT_BYTES:
        raise wrong(f"expected at most {COMMAND_LIMIT_BYTES} bytes, found more")
    if process.returncode != 0:
        raise wrong(f"ended with exit code {process.returncode}")
    return output


def _read(process: subprocess.Popen[bytes], limit_s: float) -> bytes:
    """Return a process's output until it ends, or slightly more than the allowed size.

    Raises:
        TimeoutError: It did not end within the limit.
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
