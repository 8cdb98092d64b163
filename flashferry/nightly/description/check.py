"""Write the template of a night's description, and check a description up to its controller."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.nightly.backend import Preflight, Topology
from flashferry.nightly.description.logins import controller_access, node_login
from flashferry.nightly.description.reading import load_description
from flashferry.nightly.description.values import LoginFrom, NightDescription
from flashferry.nightly.night import NodeLogin
from flashferry.nightly.topology.made import made_topology

TEMPLATE = "template.yaml"
USUAL_NAME = Path("nightly.yaml")
_RETRY_S = 2.0
"""The operator waits, so a request to the controller is repeated only briefly."""

TRIED_TITLE = "ff-nightly-00000000T0000-0000"
"""The title of a topology that is made only to check the description."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A checked description and its topology, made with a placeholder login."""

    description: NightDescription
    topology: Topology = field(repr=False)


def template() -> str:
    """Return the commented description to start with."""
    return files(__package__ or "").joinpath(TEMPLATE).read_text(encoding="utf-8")


def write_template(path: Path) -> None:
    """Write the template; an existing file is kept.

    Raises:
        ConfigInvalid: The file exists, or cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        raise ConfigInvalid(
            f"{path}: expected no file, found one", hint="Name another file; --check checks one that is there"
        ) from None
    except OSError as error:
        raise ConfigInvalid(
            f"{path}: cannot be written: {error.strerror}",
            hint="Check the folder and its permissions, or name another file",
        ) from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(template())


def tried(path: Path) -> Tried:
    """Read a description and make its topology, without asking the controller.

    Raises:
        ConfigInvalid: The description or the topology is wrong.
    """
    description = load_description(path)
    topology = made_topology(description, title=TRIED_TITLE, login=_any_login(description))
    return Tried(description=description, topology=topology)


def missing_logins(description: NightDescription) -> tuple[ConfigInvalid, ...]:
    """Return why the logins of the controller and the routers are not available; empty if they are."""
    found: list[ConfigInvalid] = []
    for find in (lambda: controller_access(description.controller), lambda: node_login(description)):
        try:
            find()
        except ConfigInvalid as error:
            found.append(error)
    return tuple(found)


def asked(found: Tried) -> Preflight:
    """Run the preflight check of a description on its controller; changes nothing.

    Raises:
        ConfigInvalid: Its login, or the extra `cml`, is missing.
        NightFault: It cannot be reached, or cannot run the lab.
    """
    from flashferry.nightly.cml.backend import CmlBackend  # start time: virl2-client, which only this needs

    access = replace(controller_access(found.description.controller), retry_s=_RETRY_S)
    with CmlBackend(access) as backend:
        backend.controller("preflight", connect_s=_RETRY_S)
        return backend.preflight(found.topology)


def _any_login(description: NightDescription) -> NodeLogin:
    """Return a placeholder login for checking a topology."""
    if description.devices.source is LoginFrom.GENERATED:
        return node_login(description)
    return NodeLogin(username=description.devices.username or "user", password="to-be-given")  # noqa: S106 -- none
