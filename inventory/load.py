"""Open a Nornir inventory of YAML files, with errors that name the file, the host and the key."""

from __future__ import annotations

import logging
from importlib.resources import files
from pathlib import Path
from typing import Any

from nornir import InitNornir
from nornir.core import Nornir

from inventory.errors import ConfigInvalid
from inventory.shapes import check_entry
from inventory.yaml_file import read_mapping

SAMPLE = "sample"
"""Name under which the fleet that matches the lab can be asked for."""


def sample_directory() -> Path:
    """Return the folder of the sample fleet that ships with flashferry."""
    return Path(str(files("inventory") / "sample"))


def open_inventory(directory: Path, *, workers: int = 20) -> Nornir:
    """Return a Nornir object over `hosts.yaml` (required), `groups.yaml` and `defaults.yaml` in a folder.

    Args:
        directory: Folder with the files of Nornir's SimpleInventory.
        workers: Devices handled at the same time, >= 1.

    Raises:
        ConfigInvalid: A file is missing, unreadable or not of the expected shape, or a host names an unknown group.
    """
    hosts = directory / "hosts.yaml"
    if not hosts.is_file():
        raise ConfigInvalid(
            f"no inventory at {directory}: expected a file {hosts}",
            hint=f"Give its folder with --inventory, or use --inventory {SAMPLE} for the lab's fleet",
        )
    groups = _entries(directory / "groups.yaml")
    for path, entries in ((hosts, _entries(hosts)), (directory / "groups.yaml", groups)):
        for name, entry in entries.items():
            check_entry(path, name, entry, known_groups=frozenset(groups))
    check_entry(directory / "defaults.yaml", "defaults", read_mapping(directory / "defaults.yaml"))
    _quiet_nornir()
    return InitNornir(
        runner={"plugin": "threaded", "options": {"num_workers": workers}},
        inventory={
            "plugin": "SimpleInventory",
            "options": {
                "host_file": str(hosts),
                "group_file": str(directory / "groups.yaml"),
                "defaults_file": str(directory / "defaults.yaml"),
            },
        },
        # Left on, Nornir writes nornir.log, tracebacks included, into the current folder.
        logging={"enabled": False},
    )


def _entries(path: Path) -> dict[str, dict[str, Any]]:
    """Return the named mappings of hosts.yaml or groups.yaml."""
    content = read_mapping(path)
    for name, entry in content.items():
        if not isinstance(name, str):
            raise ConfigInvalid(f"{path}: expected a name in text, found {name!r}", hint="Put it in quotes")
        if entry is None:
            content[name] = {}
        elif not isinstance(entry, dict):
            raise ConfigInvalid(f"{path}: expected a mapping, found {entry!r}", host=name)
    return content


def _quiet_nornir() -> None:
    """Keep Nornir's traceback of a failed task off the terminal; our own error says it in a sentence."""
    logger = logging.getLogger("nornir")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
