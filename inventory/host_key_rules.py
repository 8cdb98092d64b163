"""Rules for checking a host's SSH key, from the inventory; and the location of the state folder.

New keys are written to the known-hosts file. An inventory, which may come from elsewhere, may therefore only name a
file in the state folder, with links resolved; the operator's option may name any. A value from an inventory is text,
one from the operator a `Path`, which an inventory cannot contain.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import is_below
from inventory.host_view import read_key
from inventory.value_readers import HostKeyPolicy, read_path, read_policy

if TYPE_CHECKING:
    from nornir.core.inventory import Defaults, Group, Host, Inventory

__all__ = [
    "ALT_KEY_FILE",
    "HOST_KEYS",
    "KNOWN_HOSTS",
    "HostKeyPolicy",
    "KeyRules",
    "confine_known_hosts",
    "key_rules",
    "known_hosts_file",
    "known_hosts_in",
    "state_directory",
]

HOST_KEYS = "host_keys"
KNOWN_HOSTS = "known_hosts"
ALT_KEY_FILE = "alt_key_file"
"""netmiko's name for the same, among NAPALM's optional arguments."""

_OURS = ("journal.sqlite3", "digests.json", "link-rates.json", "recover.lock", "runs")
"""Name prefixes of other files in the state folder, which cannot be a known-hosts file."""


class KeyRules(Struct, frozen=True, kw_only=True):
    """Rules for checking a device's SSH host key.

    Attributes:
        policy: Treatment of an unknown key.
        known_hosts: File with the known keys.
    """

    policy: HostKeyPolicy
    known_hosts: Path


def state_directory(given: Path | None = None) -> Path:
    """Return the state folder: the given one, else FLASHFERRY_STATE_DIR, else in the XDG state folder."""
    if given is not None:
        return given
    if own := os.environ.get("FLASHFERRY_STATE_DIR"):
        return Path(own)
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "flashferry"


def known_hosts_in(state: Path) -> Path:
    """Return the default known-hosts file in a state folder."""
    return state / "known_hosts"


def known_hosts_file(value: object, state: Path) -> Path | None:
    """Return the known-hosts file that a value names: a text must be in the state folder, a `Path` may be anywhere.

    Args:
        value: Text from an inventory, relative to the state folder, or a `Path` from the operator.
        state: The state folder.

    Raises:
        ConfigInvalid: The value is no path, leads out of the state folder, or to another state file.
    """
    path = read_path(value)
    if path is None or isinstance(value, Path):
        return path
    whole = (state / path).absolute()
    if is_below(whole, (state,)) and whole.resolve() != state.resolve():
        first = whole.resolve().relative_to(state.resolve()).parts[0]
        if not first.startswith(_OURS):
            return whole.resolve()
    raise ConfigInvalid(
        "expected a file of its own in the state folder, found a path that leads elsewhere",
        hint="An inventory names known hosts below the state folder only; --known-hosts FILE may name any file",
    )


def confine_known_hosts(inventory: Inventory, state: Path) -> None:
    """Check every known-hosts file that an inventory names, and replace each value by the checked path.

    Args:
        inventory: The inventory, changed in place.
        state: The state folder of this command.

    Raises:
        ConfigInvalid: A file is not in the state folder; the message names host or group, and key.
    """
    for name, data, options in _entries(inventory):
        for holder, key, where in ((data, KNOWN_HOSTS, "data key"), (options, ALT_KEY_FILE, "connection_options: key")):
            if holder.get(key) in (None, ""):
                continue
            try:
                holder[key] = known_hosts_file(holder[key], state)
            except ConfigInvalid as error:
                message = f"{where} '{key}': {error.message}"
                raise ConfigInvalid(message, host=name, hint=error.hint) from None


def key_rules(host: Host) -> KeyRules:
    """Return a host's rules, from the data keys `host_keys` and `known_hosts`; default: accept-new and our own file.

    Raises:
        ConfigInvalid: A value is of the wrong type, or names a file outside of the state folder.
    """
    state = state_directory()
    return KeyRules(
        policy=read_key(host, HOST_KEYS, read_policy),
        known_hosts=read_key(host, KNOWN_HOSTS, lambda value: known_hosts_file(value, state)) or known_hosts_in(state),
    )


def _entries(inventory: Inventory) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield name, data and optional arguments (NAPALM, netmiko) of all hosts, groups and defaults."""
    everything: list[Defaults | Group | Host] = [inventory.defaults]
    everything += [*inventory.groups.values(), *inventory.hosts.values()]
    for one in everything:
        name = getattr(one, "name", "defaults")
        yield name, one.data, {}
        for kind in one.connection_options.values():
            arguments = kind.extras.get("optional_args") if isinstance(kind.extras, dict) else None
            if isinstance(arguments, Mapping):
                yield name, {}, arguments if isinstance(arguments, dict) else {}
