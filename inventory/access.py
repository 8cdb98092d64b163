"""How a host's SSH key is to be judged, as the inventory says it; and the folder where flashferry keeps its state.

A file of known hosts is read, and written to with each new key. So an inventory, which may have been written elsewhere,
names one below the state folder only, whatever links lead there; the operator's own option may name any. What an
inventory says is text, what the operator says is a `Path`, which no inventory can hold.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import is_below
from inventory.host_view import read_key
from inventory.values import HostKeyPolicy, read_path, read_policy

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
"""What else is in the state folder, by its beginning: no line of a host key belongs there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRules:
    """How a device's host key is judged.

    Attributes:
        policy: What becomes of an unknown one.
        known_hosts: The file of known ones.
    """

    policy: HostKeyPolicy
    known_hosts: Path


def state_directory(given: Path | None = None) -> Path:
    """Return where flashferry keeps its state: as given, FLASHFERRY_STATE_DIR, or the XDG state folder."""
    if given is not None:
        return given
    if own := os.environ.get("FLASHFERRY_STATE_DIR"):
        return Path(own)
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "flashferry"


def known_hosts_in(state: Path) -> Path:
    """Return our own file of known host keys in a folder of our state."""
    return state / "known_hosts"


def known_hosts_file(value: object, state: Path) -> Path | None:
    """Return the file of known hosts that a value names: a text below the state folder, a `Path` wherever it is.

    Args:
        value: What an inventory or an operator says; a relative text starts at the state folder.
        state: The state folder.

    Raises:
        ConfigInvalid: It is no path, or leads out of the state folder, or to another file of our state.
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
    """Look at every file of known hosts that an inventory names, and have it be that very file from now on.

    Args:
        inventory: The inventory; what it holds as text is the inventory's own word.
        state: The state folder that holds for this command.

    Raises:
        ConfigInvalid: One leads out of the state folder; the sentence names host or group, and key.
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
    """Return how a host's key is judged: data keys `host_keys` and `known_hosts`, else accept-new and our own file.

    Raises:
        ConfigInvalid: One of the two has a value of the wrong kind, or names a file out of the state folder.
    """
    state = state_directory()
    return KeyRules(
        policy=read_key(host, HOST_KEYS, read_policy),
        known_hosts=read_key(host, KNOWN_HOSTS, lambda value: known_hosts_file(value, state)) or known_hosts_in(state),
    )


def _entries(inventory: Inventory) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield name, data and NAPALM's or netmiko's optional arguments of everything that an inventory has."""
    everything: list[Defaults | Group | Host] = [inventory.defaults]
    everything += [*inventory.groups.values(), *inventory.hosts.values()]
    for one in everything:
        name = getattr(one, "name", "defaults")
        yield name, one.data, {}
        for kind in one.connection_options.values():
            arguments = kind.extras.get("optional_args") if isinstance(kind.extras, dict) else None
            if isinstance(arguments, Mapping):
                yield name, {}, arguments if isinstance(arguments, dict) else {}
