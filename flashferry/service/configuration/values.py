"""Readers of single values: addresses, networks, commands, roles."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

from flashferry.core.errors import ConfigInvalid
from flashferry.model.file_keys import Key, Place, Reader, text
from flashferry.service.people.provisioning import grant_of

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""Hosts that need no TLS."""

_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_TEMPLATE = re.compile(r"[A-Za-z0-9:_.\\-]+@\.service")
"""A systemd template without an instance: systemd.unit(5)."""


def make_key(
    name: str,
    read: Reader,
    values: str,
    says: str,
    *,
    default: Any = None,
    shown_default: str | None = None,
    is_required: bool = False,
) -> Key:
    """Return a row of a table of keys; see `Key`."""
    return Key(
        name=name,
        read=read,
        values=values,
        says=says,
        default=default,
        shown_default=shown_default,
        is_required=is_required,
    )


def address(place: Place) -> str:
    """Return an IPv4 or IPv6 address."""
    found = text(place)
    try:
        return str(ip_address(found))
    except ValueError:
        raise place.wrong("an address such as 127.0.0.1 or ::", "Give an address, no name") from None


def url(place: Place) -> str:
    """Return an HTTP or HTTPS URL without a slash at its end."""
    given = text(place)
    try:
        found = urlsplit(given)
        is_address = found.scheme in {"http", "https"} and bool(found.hostname) and found.port != 0
    except ValueError:  # a port over 65535, a host that is no address of IPv6
        is_address = False
    if not is_address or found.query or found.username:
        raise place.wrong(
            "an address such as https://staging.example", "Begin it with https://, without a user or a question mark"
        )
    return given.rstrip("/")


def public_url(place: Place) -> str:
    """Return a public URL: HTTPS, or HTTP on loopback."""
    found = url(place)
    if urlsplit(found).scheme != "https" and urlsplit(found).hostname not in LOOPBACK:
        raise place.wrong(
            "an address that begins with https://",
            "Begin it with https://; by http:// passwords could be read on the way, so it is for loopback alone",
        )
    return found


def template_unit(place: Place) -> str:
    """Return the name of a systemd template, `NAME@.service`."""
    found = text(place)
    if _TEMPLATE.fullmatch(found) is None:
        raise place.wrong(
            "the name of a template, NAME@.service",
            "Install the template of docs/service.md and name it, such as flashferry-run@.service",
        )
    return found


def networks(place: Place) -> tuple[IPv4Network | IPv6Network, ...]:
    """Return a list of networks."""
    return tuple(_network(one) for one in place.entries())


def _network(place: Place) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text(place))
    except ValueError:
        raise place.wrong("a network such as 192.0.2.0/24, or an address", "Leave no bits behind the mask") from None


def header(place: Place) -> str:
    """Return the name of a header."""
    found = text(place)
    if _HEADER.fullmatch(found) is None:
        raise place.wrong("the name of a header, such as X-Remote-User", "Write letters, digits and '-' only")
    return found


def words(place: Place) -> tuple[str, ...]:
    """Return a list of words, one argument each, without quoting."""
    if not isinstance(place.value, list) or not all(isinstance(one, str) for one in place.value):
        raise place.wrong("a list of texts", place.form.list_hint + ", one for each word")
    return tuple(place.value)


def command(place: Place) -> tuple[str, ...]:
    """Return a program and its arguments."""
    found = words(place)
    if not found or not found[0]:
        raise place.wrong("a program and its arguments", place.form.list_hint + ", one for each word")
    return found


def roles(place: Place) -> dict[str, tuple[str, ...]]:
    """Return roles by group, `role` or `role@SITE` each."""
    return {group: tuple(_role(one) for one in below.entries()) for group, below in place.named()}


def _role(place: Place) -> str:
    found = text(place)
    try:
        grant_of(found)
    except ConfigInvalid as error:
        raise place.problem(error.message, error.hint or "") from None
    return found
