"""How a host's SSH key is to be judged, as the inventory says it; and the folder where flashferry keeps its state."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from inventory.values import HostKeyPolicy, read_path, read_policy
from inventory.view import InventoryHost, read_key

__all__ = [
    "HOST_KEYS",
    "KNOWN_HOSTS",
    "HostKeyPolicy",
    "KeyRules",
    "key_rules",
    "known_hosts_in",
    "state_directory",
]

HOST_KEYS = "host_keys"
KNOWN_HOSTS = "known_hosts"


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
    return KeyRules(
        policy=read_key(host, HOST_KEYS, read_policy),
        known_hosts=read_key(host, KNOWN_HOSTS, read_path) or known_hosts_in(state_directory()),
    )
