"""Read and check the entries of an inventory's files, and build a Nornir inventory from them.

The two are separate because reading 2,000 hosts takes a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nornir.core.inventory import (
    ConnectionOptions,
    Defaults,
    Group,
    Groups,
    Host,
    Hosts,
    Inventory,
    ParentGroups,
)

from flashferry.core.errors import ConfigInvalid
from flashferry.core.value_description import described
from inventory.entry_checks import check_entry
from inventory.yaml_file import line_of, read_mapping

Entry = dict[str, Any]

_ATTRIBUTES = ("hostname", "port", "username", "password", "platform")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Entries:
    """Checked content of hosts.yaml, groups.yaml and defaults.yaml; may contain passwords."""

    hosts: Mapping[str, Entry]
    groups: Mapping[str, Entry]
    defaults: Entry


def read_entries(*, hosts: Path | None, groups: Path, defaults: Path) -> Entries:
    """Read and check the files of an inventory; an absent file counts as empty.

    Raises:
        ConfigInvalid: A file is unreadable or has the wrong structure, or names an unknown group.
    """
    known = _named(groups)
    found = Entries(hosts=_named(hosts) if hosts else {}, groups=known, defaults=read_mapping(defaults))
    names = frozenset(known)
    for path, entries in ((hosts or groups, found.hosts), (groups, known)):
        for name, entry in entries.items():
            check_entry(path, name, entry, groups_file=groups, known_groups=names)
    check_entry(defaults, "defaults", found.defaults, groups_file=groups, is_whole_file=True)
    return found


def build(entries: Entries) -> Inventory:
    """Build the inventory that Nornir's SimpleInventory would build from the same files."""
    own = entries.defaults
    defaults = Defaults(
        **{key: own.get(key) for key in _ATTRIBUTES}, data=own.get("data"), connection_options=_connections(own)
    )
    groups, hosts = Groups(), Hosts()
    for name, entry in entries.groups.items():
        groups[name] = Group(name=name, defaults=defaults, **_common(entry))
    for name, entry in entries.hosts.items():
        hosts[name] = Host(name=name, defaults=defaults, **_common(entry))
    for kind, elements in ((entries.groups, groups), (entries.hosts, hosts)):
        for name, element in elements.items():
            element.groups = ParentGroups([groups[one] for one in kind[name].get("groups") or []])
    return Inventory(hosts=hosts, groups=groups, defaults=defaults)


def _common(entry: Entry) -> dict[str, Any]:
    attributes = {key: entry.get(key) for key in _ATTRIBUTES}
    return attributes | {"data": entry.get("data"), "connection_options": _connections(entry)}


def _connections(entry: Entry) -> dict[str, ConnectionOptions]:
    return {
        name: ConnectionOptions(**{key: options.get(key) for key in (*_ATTRIBUTES, "extras")})
        for name, options in (entry.get("connection_options") or {}).items()
    }


def _named(path: Path) -> dict[str, Entry]:
    """Return the named mappings of hosts.yaml or groups.yaml."""
    content = read_mapping(path)
    for name, entry in content.items():
        if not isinstance(name, str):
            raise ConfigInvalid(
                f"{path}: expected a name in text, found {described(name)}{line_of(path, name)}",
                hint="Put it in quotes",
            )
        if entry is None:
            content[name] = {}
        elif not isinstance(entry, dict):
            message = f"{path}: expected a mapping, found {described(entry)}{line_of(path, name)}"
            raise ConfigInvalid(
                message,
                host=name,
                hint="Write its keys below the name, one per line and indented, as in 'hostname: 192.0.2.1'",
            )
    return content
