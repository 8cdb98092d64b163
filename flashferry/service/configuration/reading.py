"""The service's configuration, `service.toml`, read: every key is checked before anything is begun."""

from __future__ import annotations

import os
import re
import tomllib
from importlib.resources import files
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from flashferry.core.errors import ConfigInvalid
from flashferry.nightly.description.keys import Form, Place, read_section
from flashferry.service.configuration.tables import TOP
from flashferry.service.settings import ImageSettings, ServiceSettings

USUAL_NAME = "service.toml"
"""What it is called in the state folder."""
TEMPLATE = "template.toml"
_HOUR_S, _MINUTE_S, _DAY_S = 3600.0, 60.0, 86400.0
_GB = 10**9
_TABLE = re.compile(r"\s*\[\s*([^\]]+?)\s*\]\s*(#.*)?")


def load_settings(path: Path) -> ServiceSettings:
    """Return what a configuration says, every key of it checked.

    Args:
        path: The file; relative paths in it start at its folder.

    Raises:
        ConfigInvalid: It cannot be read, is no TOML, or a key is unknown, missing, or wrong.
    """
    top = read_section(Place(file=path, value=_parsed(path), form=FORM), TOP)
    listen, sessions, images = top["listen"], top["sessions"], top["images"]
    return ServiceSettings(
        **listen,
        session_s=sessions["hours"] * _HOUR_S,
        idle_s=sessions["idle_minutes"] * _MINUTE_S,
        people=top["people"],
        site_names=top["sites"],
        proxy=top["proxy"],
        oidc=top["oidc"],
        runs=top["runs"],
        images=ImageSettings(
            most_bytes=round(images["most_gigabytes"] * _GB),
            reserve_bytes=round(images["reserve_gigabytes"] * _GB),
            vendor_certificates=images["vendor_certificates"],
        ),
        keep_hidden_images_s=images["keep_hidden_days"] * _DAY_S,
        hooks=top["hooks"],
        mail=top["mail"],
        metrics=top["metrics"],
        log=top["log"],
    )


def write_template(path: Path) -> bool:
    """Write a commented configuration to begin with; return False where a file is there, which stays as it is.

    Raises:
        ConfigInvalid: It cannot be written.
    """
    content = files(__package__ or "").joinpath(TEMPLATE).read_text(encoding="utf-8")
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    except OSError as error:
        raise ConfigInvalid(
            f"{path}: cannot be written: {error.strerror}", hint="Check the folder and its rights, or name another file"
        ) from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(content)
    return True


def parsed_listen(given: str) -> tuple[str, int]:
    """Return address and port of `[ADDRESS:]PORT`; the address is empty where none is given, IPv6 stands in brackets.

    Raises:
        ConfigInvalid: It is not of that form.
    """
    address, _, port = given.rpartition(":")
    address = address.removeprefix("[").removesuffix("]")
    try:
        if address:
            ip_address(address)
        number_ = int(port) if port.isascii() and port.isdecimal() else -1
    except ValueError:
        number_ = -1
    if not 0 <= number_ <= 65_535:
        raise ConfigInvalid(
            f"--listen {given!r}: expected [ADDRESS:]PORT with a port from 0 to 65535, or fd:N",
            hint="For example --listen 8020, or --listen 192.0.2.1:8443 to be reached from other hosts",
        )
    return address, number_


def _parsed(path: Path) -> dict[str, Any]:
    """Return what a file of TOML holds.

    Raises:
        ConfigInvalid: It cannot be read, or is none.
    """
    try:
        return tomllib.loads(path.read_bytes().decode())
    except FileNotFoundError:
        raise ConfigInvalid(
            f"{path}: expected the service's configuration, found no file",
            hint="'flashferry service init' writes one to begin with; without --config the defaults hold",
        ) from None
    except OSError as error:
        raise ConfigInvalid(
            f"{path}: cannot be read: {error.strerror}", hint="Check the file's rights, and that it is a plain file"
        ) from None
    except UnicodeDecodeError:
        raise ConfigInvalid(
            f"{path}: expected text in UTF-8, found something else", hint="Save it as UTF-8 with an editor"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigInvalid(
            f"{path}: not valid TOML: {error}", hint="Correct that place; texts stand in quotes, lists in brackets"
        ) from None


def _line_of(path: Path, *keys: str | int) -> str:
    """Return ` (line N)` for where a key is given, empty where that is not found."""
    names = [str(key) for key in keys if isinstance(key, str)]
    lines = path.read_text(encoding="utf-8").splitlines()
    table: list[str] = []
    for count, line in enumerate(lines, start=1):
        if found := _TABLE.fullmatch(line):
            table = [part.strip().strip("\"'") for part in found[1].split(".")]
            if table == names:
                return f" (line {count})"
            continue
        key = line.partition("=")[0].strip().strip("\"'")
        if key and [*table, key] == names:
            return f" (line {count})"
    return _line_of(path, *names[:-1]) if len(names) > 1 else ""


FORM = Form(
    manual="docs/service.md",
    line_of=_line_of,
    list_hint='Write it in brackets: ["one", "two"]',
    mapping_hint="Write it as a table: its name in brackets on a line of its own, its keys below",
)
