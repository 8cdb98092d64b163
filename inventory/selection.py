"""Selection of an inventory's devices by name, group, or the values of their keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import is_secret_key
from flashferry.core.value_description import SHORTEST_SECRET
from inventory.host_view import OWN_KEYS, check_fault
from inventory.keys import KEYS
from inventory.platforms import platform_of

if TYPE_CHECKING:
    from nornir.core import Nornir
    from nornir.core.inventory import Host, Inventory

_Facts = dict[str, set[str]]
"""Values of one host in the inventory, as texts by key."""

SAMPLE = "sample"
"""Name of the sample inventory, which matches the lab."""

_ATTRIBUTES = ("name", "hostname", "platform", "port")
_GROUP = "group"
_SHOWN = 10
_KNOWN_BY = ("slug", "name", "model", "value")
_PUBLIC = frozenset(
    {
        *_ATTRIBUTES,
        _GROUP,
        *(key.name for key in KEYS if key.is_public),
        *("device_role", "device_type", "location", "role", "status", "tags", "tenant"),
    }
)
"""Keys whose values may be quoted in messages; the values of the operator's own keys may be secrets."""
_KEY = re.compile(r"[A-Za-z][A-Za-z_-]*[0-9]{0,2}")
"""Keys that may be quoted in messages: `password:word`, without the space, is a key in YAML."""


def sample_directory() -> Path:
    """Return the folder of the sample fleet that ships with flashferry."""
    return Path(__file__).with_name("sample")


class Selection(Struct, frozen=True, kw_only=True):
    """Conditions on devices; an empty one selects all.

    Attributes:
        hosts: Names, of which a device must have one.
        groups: Groups, inherited ones included, of which a device must be in one.
        filters: `key=value` pairs over name, hostname, platform, port, group and the keys of `data`; several values of
            one key are alternatives, and all keys must match.
    """

    hosts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()


def narrowed(nornir: Nornir, selection: Selection) -> Nornir:
    """Return the inventory restricted to the selected devices.

    Raises:
        ConfigInvalid: A name, group, key or value is not in the inventory, a filter is no `key=value`, no device is
            selected, or a selected one has invalid values.
    """
    hosts = nornir.inventory.hosts
    if not hosts:
        raise ConfigInvalid(
            "no device in the inventory", hint="Add devices to hosts.yaml, or give another inventory with --inventory"
        )
    facts = {name: _facts(host) for name, host in hosts.items()}
    asked = _checked(nornir.inventory, selection, facts)
    chosen = {name for name, one in facts.items() if all(one.get(key, set()) & asked[key] for key in asked)}
    if not chosen:
        raise ConfigInvalid(f"no device fits {_asked(selection)}", hint=_seen(facts, asked))
    for name in sorted(chosen):
        check_fault(hosts[name])
    return nornir.filter(filter_func=lambda host: host.name in chosen)


def check_known(inventory: Inventory, selection: Selection) -> None:
    """Check that an inventory has each value that a selection names, whether or not a device matches all of them.

    Used by the command line, the API and the pages: a misspelt value among correct ones would otherwise silently leave
    out devices.

    Raises:
        ConfigInvalid: A device, group, key or value is not in the inventory, or a filter is no `key=value`.
    """
    _checked(inventory, selection, {name: _facts(host) for name, host in inventory.hosts.items()})


def _checked(inventory: Inventory, selection: Selection, facts: Mapping[str, _Facts]) -> dict[str, set[str]]:
    """Check a selection, and return the accepted values by key."""
    _known("device", selection.hosts, inventory.hosts, "--host")
    _known("group", selection.groups, inventory.groups, "--group")
    asked = _alternatives(selection)
    for given in selection.filters:
        key, _, value = given.partition("=")
        _check_filter(key, value, facts)
    return asked


def _check_filter(key: str, value: str, facts: Mapping[str, _Facts]) -> None:
    if not any(key in one for one in facts.values()):
        keys = sorted({each for one in facts.values() for each in one if _KEY.fullmatch(each)})
        raise ConfigInvalid(
            f"--filter: no device has {key!r}{_meant(key, keys)}; the inventory has {_listed(keys)}",
            hint="Filter by a key of the inventory, or give the devices that key in their data",
        )
    if not any(value in one.get(key, ()) for one in facts.values()):
        values = _public_values(key, facts)
        raise ConfigInvalid(
            f"--filter {key}={value}: no device has that {key}{_meant(value, values or [])}", hint=_seen(facts, (key,))
        )


def _alternatives(selection: Selection) -> dict[str, set[str]]:
    """Return the accepted values by key."""
    asked: dict[str, set[str]] = {}
    if selection.hosts:
        asked["name"] = set(selection.hosts)
    pairs: dict[str, set[str]] = {}
    for given in selection.filters:
        key, sign, value = given.partition("=")
        if not sign or not key or not value:
            raise ConfigInvalid(
                f"--filter {given!r}: expected key=value, such as site=branch1",
                hint="Write the key, '=' and the value as one word; quote it for the shell where it has blanks",
            )
        pairs.setdefault(key, set()).add(value)
    if selection.groups:
        pairs[_GROUP] = pairs.get(_GROUP, set(selection.groups)) & set(selection.groups)
    for key, values in pairs.items():
        asked[key] = asked[key] & values if key in asked else values
    return asked


def _facts(host: Host) -> _Facts:
    """Return a host's values in the inventory, as texts by key; each item of a list is a value."""
    values: dict[str, object] = dict(host.extended_data())
    values |= {key: getattr(host, key) for key in _ATTRIBUTES}
    # Both the inventory's name and ours: `platform=ios` also matches netmiko's `cisco_xe`.
    values["platform"] = {host.platform, platform_of(host.platform)} - {None} or None
    values[_GROUP] = [group.name for group in host.extended_groups()]
    return {
        key: _texts(value)
        for key, value in values.items()
        if value is not None and not is_secret_key(key) and key not in OWN_KEYS
    }


def _texts(value: object) -> set[str]:
    """Return the texts of a value; for an object of NetBox or Nautobot its slug, name, model and value."""
    if isinstance(value, list | tuple | set):
        return {text for one in value for text in _texts(one)}
    if isinstance(value, Mapping) and any(key in value for key in _KNOWN_BY):
        return {str(value[key]) for key in _KNOWN_BY if value.get(key) is not None}
    return {str(value).lower() if isinstance(value, bool) else str(value)}


def _known(what: str, names: Iterable[str], known: Mapping[str, object], option: str) -> None:
    if unknown := [name for name in names if name not in known]:
        raise ConfigInvalid(
            f"unknown {what} {', '.join(f'{name!r}{_meant(name, known)}' for name in unknown)}: "
            f"the inventory has {_listed(sorted(known))}",
            hint=f"Check {option} and --inventory",
        )


def _asked(selection: Selection) -> str:
    asked = [f"--host {name}" for name in selection.hosts] + [f"--group {name}" for name in selection.groups]
    return " ".join([*asked, *(f"--filter {one}" for one in selection.filters)])


def _seen(facts: Mapping[str, _Facts], asked: Iterable[str]) -> str:
    """Return a sentence with the inventory's values of the requested keys."""
    parts = []
    for key in asked:
        values = _public_values(key, facts)
        text = f"one of {len(_values(key, facts))} other values" if values is None else _listed(values, " or ")
        parts.append(f"{key} is {text}")
    return "In the inventory " + "; ".join(parts)


def _values(key: str, facts: Mapping[str, _Facts]) -> list[str]:
    return sorted({value for one in facts.values() for value in one.get(key, set())})


def _public_values(key: str, facts: Mapping[str, _Facts]) -> list[str] | None:
    """Return the values of a key; None if it is the operator's own key, whose values may be secrets."""
    values = _values(key, facts)
    is_public = key in _PUBLIC or all(len(value) < SHORTEST_SECRET for value in values)
    return values if is_public else None


def _listed(names: list[str], joint: str = ", ") -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (joint.join(names[:_SHOWN]) or "none") + more


def _meant(given: str, known: Iterable[str]) -> str:
    """Return a question with the known word that was probably meant; empty if none is similar. Ignores case."""
    by_lower = {word.lower(): word for word in known}
    close = get_close_matches(given.lower(), by_lower, n=1, cutoff=0.6)
    return f" (did you mean '{by_lower[close[0]]}'?)" if close else ""
