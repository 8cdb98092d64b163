"""Find the logins of a night: the controller's and the routers', each from the source in the description.

The sources are those of all commands (`flashferry.devices.credentials`). The controller's login has names of its own,
so that no router's password is sent to a controller.
"""

from __future__ import annotations

import os
import secrets
import string
from collections.abc import Mapping

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import keep_secret
from flashferry.devices.credentials import CommandSource, Credentials, Environment, KeyringSource, Source
from flashferry.nightly.cml.access import ControllerAccess
from flashferry.nightly.description.values import Controller, LoginFrom, LoginSource, NightDescription
from flashferry.nightly.night import NodeLogin
from inventory.value_readers import check_login

CML_PREFIX = "FLASHFERRY_CML_"
"""Prefix of the controller's variables: FLASHFERRY_CML_USERNAME, FLASHFERRY_CML_PASSWORD."""

NODE_PREFIX = "FLASHFERRY_"
NODES_ENTRY = "nightly"
"""Name of the routers' entry in keyring and command."""

USUAL_USER = "flashferry"
"""The routers' user of a generated login, if the description has none."""

_LETTERS = string.ascii_letters + string.digits
_LENGTH = 20


def controller_access(controller: Controller, environment: Mapping[str, str] | None = None) -> ControllerAccess:
    """Return a controller with its login, whose password is masked from now on.

    Args:
        controller: The controller.
        environment: The environment; None: this process's.

    Raises:
        ConfigInvalid: The source fails, or has no user or no password.
    """
    found = _asked(controller.login, controller.host, CML_PREFIX, environment, "controller")
    return ControllerAccess(
        url=controller.url,
        username=found.username or "",
        password=found.password or "",
        ca_file=controller.ca_file,
        is_verified=controller.is_verified,
        is_proxy_used=controller.is_proxy_used,
    )


def node_login(description: NightDescription, environment: Mapping[str, str] | None = None) -> NodeLogin:
    """Return the login of a night's routers; its password is masked from now on.

    Args:
        description: The night's description; a generated login differs with each call.
        environment: The environment; None: this process's.

    Raises:
        ConfigInvalid: The source fails, or has no user or no password.
    """
    source = description.devices
    if source.source is LoginFrom.GENERATED:
        password = generated_password()
        return NodeLogin(username=source.username or USUAL_USER, password=password)
    found = _asked(source, NODES_ENTRY, NODE_PREFIX, environment, "devices")
    return NodeLogin(username=found.username or "", password=found.password or "", secret=found.enable_secret)


def generated_password() -> str:
    """Return a new password of 20 letters and digits: about 119 bits, no character special to IOS."""
    while True:
        found = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
        # A figure at the beginning would be taken for the kind of secret that follows.
        if found[0].isalpha() and any(map(str.isdigit, found)):
            keep_secret(found, is_random=True)
            return found


def _asked(
    login: LoginSource, name: str, prefix: str, environment: Mapping[str, str] | None, section: str
) -> Credentials:
    known = Credentials(username=login.username)
    credentials = _source(login, prefix, environment).lookup(name, known)
    check_login(credentials.username, credentials.password, credentials.enable_secret)
    _check_user(login, credentials, name, prefix, section)
    found = known.filled(credentials)
    missing = "user" if not found.username else "password" if not found.password else None
    if missing is not None:
        raise ConfigInvalid(
            f"{section}.login: expected a {missing} from {_source_name(login, name, prefix, missing)}, found none",
            hint=_login_hint(login, name),
        )
    return found


def _check_user(login: LoginSource, credentials: Credentials, name: str, prefix: str, section: str) -> None:
    if login.username and credentials.username and login.username != credentials.username:
        raise ConfigInvalid(
            f"{section}.username: expected the user of {_source_name(login, name, prefix, 'user')}, found another",
            hint="Leave 'username' out, or make both the same",
        )


def _source(login: LoginSource, prefix: str, environment: Mapping[str, str] | None) -> Source:
    if login.source is LoginFrom.KEYRING:
        return KeyringSource(named="login: keyring", is_shared=prefix == NODE_PREFIX)
    if login.source is LoginFrom.COMMAND:
        return CommandSource(login.command or "", environment, named="login_command")
    return Environment(os.environ if environment is None else environment, prefix=prefix)


def _source_name(login: LoginSource, name: str, prefix: str, missing: str) -> str:
    if login.source is LoginFrom.ENVIRONMENT:
        return f"the variable {prefix}{'USERNAME' if missing == 'user' else 'PASSWORD'}"
    return "the keyring" if login.source is LoginFrom.KEYRING else f"login_command for '{name}'"


def _login_hint(login: LoginSource, name: str) -> str:
    if login.source is LoginFrom.ENVIRONMENT:
        return "Set it where the night is started from, or name another source by 'login'"
    if login.source is LoginFrom.KEYRING:
        return f"Store it with: keyring set flashferry/{name} {login.username}"
    return f"Run it by hand with '{name}' as its last argument: it must print JSON with username and password"
