"""The logins of a night: the controller's and the routers', each from where the description says. Never in any text.

The sources are those of all other verbs (`flashferry.devices.credentials`). What the controller's login is has names of
its own, so that no router's password is sent to a controller: other variables, and never an entry that devices share.
"""

from __future__ import annotations

import os
import secrets
import string
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import keep_secret
from flashferry.devices.credentials import CommandSource, Credentials, Environment, KeyringSource, Source
from flashferry.nightly.backend import Preflight, Topology
from flashferry.nightly.cml.access import ControllerAccess
from flashferry.nightly.description.reading import load_description
from flashferry.nightly.description.values import Controller, LoginFrom, LoginSource, NightDescription
from flashferry.nightly.settings import NodeLogin
from flashferry.nightly.topology.made import made_topology
from inventory.value_readers import check_login

CML_PREFIX = "FLASHFERRY_CML_"

"""Variables of the controller's login begin with it: FLASHFERRY_CML_USERNAME, FLASHFERRY_CML_PASSWORD."""

NODE_PREFIX = "FLASHFERRY_"

NODES_ENTRY = "nightly"

"""The name that keyring and command are asked about for the routers of a lab."""

USUAL_USER = "flashferry"

"""The routers' user where a night makes the login and the description names none."""

_LETTERS = string.ascii_letters + string.digits

_LENGTH = 20


def controller_access(controller: Controller, environment: Mapping[str, str] | None = None) -> ControllerAccess:
    """Return how a controller is reached, its login with it; from now on its password is masked.

    Args:
        controller: The controller.
        environment: What stands for the process's environment, or None.

    Raises:
        ConfigInvalid: The source cannot be used, or has no user or no password.
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
    """Return the login of a night's routers, a new one each time where it is generated; its password is masked.

    Args:
        description: The night's description.
        environment: What stands for the process's environment, or None.

    Raises:
        ConfigInvalid: The source cannot be used, or has no user or no password.
    """
    source = description.devices
    if source.source is LoginFrom.GENERATED:
        password = generated_password()
        return NodeLogin(username=source.username or USUAL_USER, password=password)
    found = _asked(source, NODES_ENTRY, NODE_PREFIX, environment, "devices")
    return NodeLogin(username=found.username or "", password=found.password or "", secret=found.enable_secret)


def generated_password() -> str:
    """Return a new password of 20 letters and digits: about 119 bits, and no sign that IOS takes for another."""
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
    credentials = _source(login, prefix, environment).look_up(name, known)
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


TEMPLATE = "template.yaml"

USUAL_NAME = Path("nightly.yaml")

_RETRY_S = 2.0

"""A person waits for the answer: a controller that is just restarting is found out by asking again."""

TRIED_TITLE = "ff-nightly-00000000T0000-0000"

"""The title of a lab that is not made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What a description comes to.

    Attributes:
        description: The description.
        topology: The lab that it has taken up, with a login that is none; its text is no text for a log.
    """

    description: NightDescription
    topology: Topology = field(repr=False)


def template() -> str:
    """Return the commented description to begin with."""
    return files(__package__ or "").joinpath(TEMPLATE).read_text(encoding="utf-8")


def write_template(path: Path) -> None:
    """Write the template; a file that is there is left as it is.

    Raises:
        ConfigInvalid: There is one already, or it cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        raise ConfigInvalid(
            f"{path}: expected no file, found one", hint="Name another file; --check checks one that is there"
        ) from None
    except OSError as error:
        raise ConfigInvalid(
            f"{path}: cannot be written: {error.strerror}", hint="Check the folder and its rights, or name another file"
        ) from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(template())


def tried(path: Path) -> Tried:
    """Read a description and make its topology, as a night would; no controller is asked.

    Raises:
        ConfigInvalid: The description or the topology is wrong.
    """
    description = load_description(path)
    topology = made_topology(description, title=TRIED_TITLE, login=_any_login(description))
    return Tried(description=description, topology=topology)


def missing_logins(description: NightDescription) -> tuple[ConfigInvalid, ...]:
    """Return why a night could not log in to its controller or its routers; nothing where it can."""
    found: list[ConfigInvalid] = []
    try:
        controller_access(description.controller)
    except ConfigInvalid as error:
        found.append(error)
    try:
        node_login(description)
    except ConfigInvalid as error:
        found.append(error)
    return tuple(found)


def asked(found: Tried) -> Preflight:
    """Ask a description's controller whether it could take the lab up: definitions, licence, nodes. Changes nothing.

    Raises:
        ConfigInvalid: There is no login for it, or the extra `cml` is missing.
        NightFault: It cannot be reached, or could not take the lab up.
    """
    access = replace(controller_access(found.description.controller), retry_s=_RETRY_S)
    from flashferry.nightly.cml.backend import CmlBackend

    with CmlBackend(access) as backend:
        backend.controller("preflight", connect_s=_RETRY_S)
        return backend.preflight(found.topology)


def _any_login(description: NightDescription) -> NodeLogin:
    """Return a login to try a topology with: what it is makes no difference to its shape."""
    if description.devices.source is LoginFrom.GENERATED:
        return node_login(description)
    return NodeLogin(username=description.devices.username or "user", password="to-be-given")  # noqa: S106 -- none
