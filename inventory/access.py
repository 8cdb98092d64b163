"""How a host's SSH key is to be judged, as the inventory says it; and the folder where flashferry keeps its state."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from inventory.errors import ConfigInvalid
from inventory.view import InventoryHost, origin

HOST_KEYS = "host_keys"
KNOWN_HOSTS = "known_hosts"


class HostKeyPolicy(Enum):
    """What becomes of a device whose SSH host key is not known yet; a changed key is refused under both."""

    ACCEPT_NEW = "accept-new"
    STRICT = "strict"


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


def key_rules(host: InventoryHost) -> KeyRules:
    """Return how a host's key is judged: data keys `host_keys` and `known_hosts`, else accept-new and our own file.

    Raises:
        ConfigInvalid: One of the two has a value of the wrong kind.
    """
    data = host.extended_data()
    return KeyRules(policy=_policy(host, data), known_hosts=_file(host, data))


def _policy(host: InventoryHost, data: Mapping[str, object]) -> HostKeyPolicy:
    value = data.get(HOST_KEYS)
    if value is None:
        return HostKeyPolicy.ACCEPT_NEW
    try:
        return HostKeyPolicy(value)
    except ValueError:
        known = " or ".join(one.value for one in HostKeyPolicy)
        key = f"'{HOST_KEYS}'{origin(host, HOST_KEYS)}"
        raise ConfigInvalid(f"data key {key}: expected {known}, found {value!r}", host=host.name) from None


def _file(host: InventoryHost, data: Mapping[str, object]) -> Path:
    value = data.get(KNOWN_HOSTS)
    if value is None:
        return known_hosts_in(state_directory())
    if isinstance(value, str) and value:
        return Path(value).expanduser()
    key = f"'{KNOWN_HOSTS}'{origin(host, KNOWN_HOSTS)}"
    raise ConfigInvalid(f"data key {key}: expected the path of a file, found {value!r}", host=host.name)
