"""A night's description, `nightly.yaml`, read: every key is checked before a lab is made.

The tables of keys are what the documentation and the template are held against.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from ssl import PROTOCOL_TLS_CLIENT, SSLContext, SSLError
from typing import Any
from urllib.parse import urlsplit

from flashferry.core.errors import ConfigInvalid
from flashferry.core.value_description import described
from flashferry.model.file_keys import Key, Place, choice, flag, present_file, read_section, text, word
from flashferry.nightly.description.topology_keys import TOPOLOGY_SECTIONS, reach, topology
from flashferry.nightly.description.values import (
    FORM,
    Controller,
    LoginFrom,
    LoginSource,
    NightDescription,
    Reach,
    check_together,
)
from flashferry.nightly.description.work_keys import WORK_SECTIONS, artefacts, inventory_data, limits, night, thresholds
from flashferry.nightly.settings import NightLimits
from inventory.yaml_file import read_mapping

__all__ = ["SECTIONS", "load_description"]


def load_description(path: Path) -> NightDescription:
    """Return a description, every key of it checked.

    Args:
        path: The file; relative paths in it start at its folder.

    Raises:
        ConfigInvalid: It is missing, is no YAML, or a key is unknown, missing, or wrong by itself or with others.
    """
    if not path.exists():
        raise ConfigInvalid(
            f"{path}: expected a description of a night, found no file",
            hint=f"'flashferry nightly init {path}' writes one to begin with",
        )
    top = read_section(Place(file=path, value=read_mapping(path), form=FORM), _TOP)
    description = NightDescription(
        file=path,
        controller=top["controller"],
        devices=top["devices"],
        topology=top["topology"],
        reach=top["reach"],
        work=top["night"],
        thresholds=top["thresholds"],
        limits=top["limits"],
        artefacts=top["artefacts"],
        inventory_data=top["inventory"],
    )
    check_together(description)
    return description


def _ca_file(place: Place) -> Path:
    """Return a file of certificates that Python's TLS takes for authorities."""
    path = present_file(place)
    try:
        SSLContext(PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except (SSLError, OSError):
        raise place.problem(
            f"expected certificates of authorities in PEM, found others in {path}",
            "PEM begins with -----BEGIN CERTIFICATE-----; the controller's operator has the authority's",
        ) from None
    return path


def _url(place: Place) -> str:
    hint = "Write it as https://cml.example.net, or https://cml.example.net:8443; its login has no place in it"
    given = text(place)
    try:
        parts = urlsplit(given)
        is_good = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise place.problem("expected the controller's https:// address, found no URL", hint) from None
    if parts.username is not None or parts.password is not None:
        raise place.problem("expected the controller's address alone, found a login in it", hint)
    if not is_good or " " in given:
        scheme = f"found {parts.scheme}://" if parts.scheme in {"http", "ssh"} else f"found {described(given)}"
        raise place.problem(f"expected the controller's https:// address, {scheme}", hint)
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise place.problem("expected the controller's address without a path, found one behind the host", hint)
    return f"https://{parts.netloc}"


_LOGIN_KEYS = (
    Key(name="username", read=word, values="a word", says="the user, where the source does not name it"),
    Key(
        name="login_command",
        read=text,
        values="text",
        says="the program of `login: command`; it is given a name and prints JSON with `username` and `password`",
    ),
)


def _login(found: Mapping[str, Any], place: Place) -> LoginSource:
    source, command = found["login"], found["login_command"]
    if (source is LoginFrom.COMMAND) != (command is not None):
        have = "none" if command is None else f"one beside 'login: {source}'"
        want = "a command beside 'login: command'" if command is None else "none"
        raise place.below("login_command").problem(
            f"expected {want}, found {have}", "The command is what 'login: command' asks, and nothing else does"
        )
    if source is LoginFrom.KEYRING and found["username"] is None:
        raise place.below("username").problem(
            "expected the user beside 'login: keyring', found none", "A keyring has a password for a name only"
        )
    return LoginSource(source=source, username=found["username"], command=command)


_CONTROLLER: tuple[Key, ...] = (
    Key(name="url", read=_url, is_required=True, values="`https://HOST[:PORT]`", says="its address"),
    Key(
        name="ca_file",
        read=_ca_file,
        shown_default="those of the system",
        values="a file",
        says="the certificate authority that its certificate is checked by, in PEM",
    ),
    Key(
        name="verify",
        read=flag,
        default=True,
        shown_default="`true`",
        values="`true` or `false`",
        says="whether its certificate is proven; without, anybody on the way can read the password",
    ),
    Key(
        name="proxy",
        read=flag,
        default=False,
        shown_default="`false`",
        values="`true` or `false`",
        says="whether `HTTPS_PROXY` and its like count for it",
    ),
    Key(
        name="login",
        read=choice([one for one in LoginFrom if one is not LoginFrom.GENERATED]),
        default=LoginFrom.ENVIRONMENT,
        values="`environment`, `keyring` or `command`",
        says="where its login comes from",
    ),
    *_LOGIN_KEYS,
)

_DEVICES: tuple[Key, ...] = (
    Key(
        name="login",
        read=choice(tuple(LoginFrom)),
        default=LoginFrom.GENERATED,
        values="`generated`, `environment`, `keyring` or `command`",
        says="where the routers' login comes from; `generated` makes a password for each night, in a topology that "
        "is made",
    ),
    *_LOGIN_KEYS,
)


def _controller(place: Place) -> Controller:
    found = read_section(place, _CONTROLLER)
    return Controller(
        url=found["url"],
        ca_file=found["ca_file"],
        is_verified=found["verify"],
        is_proxy_used=found["proxy"],
        login=_login(found, place),
    )


def _devices(place: Place) -> LoginSource:
    return _login(read_section(place, _DEVICES), place)


_TOP: tuple[Key, ...] = (
    Key(name="controller", read=_controller, is_required=True, values="a mapping", says="the controller"),
    Key(
        name="devices",
        read=_devices,
        default=LoginSource(source=LoginFrom.GENERATED),
        shown_default="a login made for the night",
        values="a mapping",
        says="the routers' login",
    ),
    Key(name="topology", read=topology, is_required=True, values="a mapping", says="the lab"),
    Key(
        name="reach",
        read=reach,
        default=Reach(),
        shown_default="System Bridge, DHCP",
        values="a mapping",
        says="how its routers are reached",
    ),
    Key(name="night", read=night, is_required=True, values="a mapping", says="what the night does"),
    Key(
        name="thresholds",
        read=thresholds,
        default=(),
        shown_default="none",
        values="a mapping",
        says="what the night's reports are held against, see [report.md](report.md)",
    ),
    Key(
        name="limits",
        read=limits,
        default=NightLimits(),
        shown_default="see below",
        values="a mapping",
        says="how long it may take",
    ),
    Key(name="artefacts", read=artefacts, is_required=True, values="a mapping", says="what is kept of it"),
    Key(
        name="inventory",
        read=inventory_data,
        default={},
        shown_default="none",
        values="a mapping",
        says="data of all routers in the night's inventory, see [inventory.md](inventory.md)",
    ),
)

SECTIONS: Mapping[str, tuple[Key, ...]] = {
    "": _TOP,
    "controller": _CONTROLLER,
    "devices": _DEVICES,
    **TOPOLOGY_SECTIONS,
    **WORK_SECTIONS,
}
"""The keys of each section; a section's name is the way to it, lists by `[]`."""
