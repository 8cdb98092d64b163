"""Reader of `service.toml`; every key is checked before the service starts."""

from __future__ import annotations

from importlib.resources import files
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import write_new
from flashferry.model.file_keys import Place, read_section, toml_form, toml_of
from flashferry.service.configuration.tables import TOP
from flashferry.service.settings import ImageSettings, ServiceSettings

USUAL_NAME = "service.toml"
"""File name in the state folder."""
TEMPLATE = "template.toml"
_HOUR_S, _MINUTE_S, _DAY_S = 3600.0, 60.0, 86400.0
_GB = 10**9


def load_settings(path: Path) -> ServiceSettings:
    """Read the settings in a file; relative paths are relative to its folder.

    Raises:
        ConfigInvalid: The file cannot be read, is not TOML, or a key is unknown, missing or not valid.
    """
    top = read_section(Place(file=path, value=_content(path), form=FORM), TOP)
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


def _content(path: Path) -> dict[str, Any]:
    return toml_of(
        path,
        called="the service's configuration",
        hint="'flashferry service init' writes one to begin with; without --config the defaults hold",
    )


def write_template(path: Path) -> bool:
    """Write a commented configuration; return False if the file exists. Raises `ConfigInvalid` on failure."""
    return write_new(path, files(__package__ or "").joinpath(TEMPLATE).read_text(encoding="utf-8"))


def parsed_listen(given: str) -> tuple[str, int]:
    """Parse `[ADDRESS:]PORT`, IPv6 in brackets; the address is empty if not given. Raises `ConfigInvalid`."""
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


FORM = toml_form("docs/service.md")
