"""Adapt the inventory of a foreign plugin to the form that `inventory.host_view` expects.

Tables have only text, NetBox and Nautobot have sites and platforms as objects, and none of them has groups with
windows. So `groups.yaml` and `defaults.yaml` in the configuration file's folder are used as for an inventory folder; a
device joins the groups in its key `groups` and the group with the name of its site; numeric texts become numbers;
values under `flashferry` in a config context, and custom fields named like our keys, become the device's data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nornir.core.inventory import Defaults, Host, Inventory

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import sanitize
from flashferry.core.value_description import described
from flashferry.core.value_description import unknown_key
from inventory.entry_checks import DATA_KEYS, unknown_group
from inventory.host_view import set_fault
from inventory.keys import KEYS, READERS, check_values
from inventory.platforms import platform_of

CONTEXT_KEY = "flashferry"
"""Key of a config context that contains our keys."""

_NAUTOBOT = "pynautobot_dictionary"
_LIFTED = ("location", "role", "status", "tenant", "device_type", "serial", "tags", "config_context", "custom_fields")
"""Fields of Nautobot's record that are useful as filters, or may contain our keys."""


def adopt(inventory: Inventory, beside: Inventory, *, groups_file: Path, source: str) -> None:
    """Change an inventory in place into one that `inventory.host_view` can read.

    A device that names an unknown group, or has a wrong value of ours, is refused when it is selected (see
    `inventory.host_view.set_fault`).

    Args:
        inventory: The plugin's inventory.
        beside: Groups and defaults to add, checked.
        groups_file: File of those groups, for error messages.
        source: File and plugin, for error messages.

    Raises:
        ConfigInvalid: A value of ours in a group is wrong.
    """
    _add_defaults(inventory.defaults, beside.defaults)
    for name, group in beside.groups.items():
        found = inventory.groups.setdefault(name, group)
        for key, value in group.data.items():
            # The plugin has the group, too: add the values that only the file has, such as windows.
            found.data.setdefault(key, value)
    for group in inventory.groups.values():
        group.defaults = inventory.defaults
        if group.name not in beside.groups:
            check_values(group.data, where=source, name=group.name)
    hosts = list(inventory.hosts.values())
    inventory.hosts.clear()
    for host in hosts:
        # A name that a spreadsheet made a number could not be selected by `--host`.
        host.name = str(host.name)
        if host.name in inventory.hosts:
            raise ConfigInvalid(
                f"{source}: expected each name once, found more devices of the name {sanitize(host.name)}",
                hint="A number and a text may be one name: give each device a name of its own",
            )
        inventory.hosts[host.name] = host
        # The table plugin gives every host its own defaults object, so later changes of the defaults had no effect.
        host.defaults = inventory.defaults
        try:
            _adopt_host(host, inventory, groups_file, source)
        except ConfigInvalid as error:
            # A device that is not selected must not refuse the others.
            set_fault(host, error)


def _add_defaults(defaults: Defaults, more: Defaults) -> None:
    for name in ("hostname", "port", "username", "password", "platform"):
        if getattr(defaults, name) is None:
            setattr(defaults, name, getattr(more, name))
    for key, value in more.data.items():
        defaults.data.setdefault(key, value)
    for kind, options in more.connection_options.items():
        defaults.connection_options.setdefault(kind, options)


def _adopt_host(host: Host, inventory: Inventory, groups_file: Path, source: str) -> None:
    data = host.data
    _lift(data)
    data["site"] = _word(data.get("site"))
    _take_own_keys(host, source)
    for key in KEYS:
        if key.is_number:
            data[key.name] = _as_number(data.get(key.name))
        # Remove empty cells, which would hide the group's value.
        if key.name in data and data[key.name] in (None, ""):
            del data[key.name]
    host.platform = platform_of(host.platform) or host.platform
    check_values(data, where=source, name=host.name)
    _join_groups(host, inventory, groups_file, source)


def _lift(data: dict[str, Any]) -> None:
    """Copy fields of Nautobot's own record to the keys under which NetBox has them."""
    record = data.get(_NAUTOBOT)
    if not isinstance(record, Mapping):
        return
    for key in _LIFTED:
        if key in record:
            data.setdefault(key, record[key])
    data.setdefault("site", record.get("location"))


def _take_own_keys(host: Host, source: str) -> None:
    """Copy our keys from a config context, and custom fields with their names, to the host's data."""
    context = host.data.get("config_context")
    own = context.get(CONTEXT_KEY) if isinstance(context, Mapping) else None
    if own is not None and not isinstance(own, Mapping):
        raise ConfigInvalid(
            f"{source}: config context: key '{CONTEXT_KEY}': expected a mapping, found {described(own)}",
            host=host.name,
            hint=f"Write our keys below '{CONTEXT_KEY}', as in {{{CONTEXT_KEY}: {{link_rate_bps: 50000000}}}}",
        )
    for key in own or {}:
        if key not in DATA_KEYS:
            raise ConfigInvalid(
                f"{source}: config context: {unknown_key(key, DATA_KEYS)}",
                host=host.name,
                hint=f"Below '{CONTEXT_KEY}' stand our keys alone; correct it in the config context, or move it out",
            )
    fields = host.data.get("custom_fields")
    if isinstance(fields, Mapping):
        host.data |= {key: fields[key] for key in READERS if fields.get(key) is not None}
    host.data |= dict(own or {})


def _join_groups(host: Host, inventory: Inventory, groups_file: Path, source: str) -> None:
    """Add a host to the groups that it names and to the one of its site; its present groups stay."""
    named = host.data.pop("groups", None) or []
    names = re.split(r"[\s,;]+", named.strip()) if isinstance(named, str) else [str(one) for one in named]
    for number, name in enumerate(names, start=1):
        if name not in inventory.groups:
            known = frozenset(inventory.groups)
            raise ConfigInvalid(
                f"{source}: {unknown_group(name, number, groups_file, known)}",
                host=host.name,
                hint=f"Define the group in {groups_file.name}, or correct the device's 'groups'",
            )
    site = host.data.get("site")
    if isinstance(site, str) and site in inventory.groups:
        names.append(site)
    for name in names:
        if (group := inventory.groups[name]) not in host.groups:
            host.groups.append(group)


def _word(site: object) -> object:
    """Return a site as one word: for an object its slug, or its name with '-' for characters not allowed."""
    if not isinstance(site, Mapping):
        return site
    if slug := site.get("slug"):
        return slug
    return re.sub(r"[^A-Za-z0-9._]+", "-", str(site.get("name") or "")).strip("-").lower() or None


def _as_number(value: object) -> object:
    """Convert a cell's text to a number; any other text is returned unchanged, for the reader to refuse."""
    if isinstance(value, str):
        try:
            value = float(value.replace("_", "").strip())
        except ValueError:
            return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
