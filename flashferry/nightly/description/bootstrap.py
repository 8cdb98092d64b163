"""Begin with nights: a template of the description is written, never over a file, and a description is tried out."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.nightly.backend import Preflight, Topology
from flashferry.nightly.description.logins import controller_access, node_login
from flashferry.nightly.description.reading import load_description
from flashferry.nightly.description.values import LoginFrom, NightDescription
from flashferry.nightly.settings import NodeLogin
from flashferry.nightly.topology.made import made_topology

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
