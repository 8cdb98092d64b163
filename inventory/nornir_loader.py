"""Open a Nornir inventory, a folder or any plugin's, with errors that name the file, the host and the key."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from nornir.core import Nornir
from nornir.core.configuration import Config
from nornir.core.inventory import Inventory
from nornir.core.state import GlobalState
from nornir.plugins.runners import ThreadedRunner

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import keep_environment_secrets
from inventory.file_inventory import build, read_entries
from inventory.host_view import view
from inventory.nornir_file import inventory_of
from inventory.selection import SAMPLE
from inventory.sites import check_addresses, sites_of


def open_inventory(path: Path, *, workers: int = 20) -> Nornir:
    """Open an inventory, a folder or a Nornir configuration file, as a Nornir object.

    Args:
        path: Folder with the files of Nornir's SimpleInventory, `hosts.yaml` (required), `groups.yaml` and
            `defaults.yaml`; or a configuration file whose section `inventory:` names any inventory plugin.
        workers: Number of concurrent devices, >= 1.

    Raises:
        ConfigInvalid: A file is missing, unreadable or has the wrong structure, a host names an unknown group, or the
            plugin is missing or fails.
    """
    _quiet_nornir()
    # Mask tokens for plugins and passwords of devices in all output.
    keep_environment_secrets(os.environ)
    if path.is_file():
        return _nornir(inventory_of(path), workers)
    hosts, groups, defaults = (path / name for name in ("hosts.yaml", "groups.yaml", "defaults.yaml"))
    if not hosts.is_file():
        raise ConfigInvalid(
            f"no inventory at {path}: expected a file {hosts}",
            hint="Give its folder, or a Nornir configuration file, with --inventory; 'flashferry init' writes a first "
            f"one, and --inventory {SAMPLE} is the lab's fleet",
        )
    return _nornir(build(read_entries(hosts=hosts, groups=groups, defaults=defaults)), workers)


def check_inventory(folder: Path) -> None:
    """Read an inventory as every verb does, including the values shared by a site.

    Raises:
        ConfigInvalid: It would be refused.
    """
    hosts = open_inventory(folder).inventory.hosts.values()
    check_addresses(hosts)
    sites_of(view(one) for one in hosts)


def _nornir(inventory: Inventory, workers: int) -> Nornir:
    """Return a Nornir object as `InitNornir` makes it, without log file and connection plugins.

    Nornir's logging would write nornir.log, with tracebacks, into the current folder. Connection plugins would import
    netmiko and NAPALM even for commands without a login; ours is registered where it is used.
    """
    config = Config.from_dict(
        runner={"plugin": "threaded", "options": {"num_workers": workers}}, logging={"enabled": False}
    )
    runner = ThreadedRunner(num_workers=workers)
    return Nornir(inventory=inventory, runner=runner, config=config, data=GlobalState())


def _quiet_nornir() -> None:
    """Keep Nornir from printing the traceback of a failed task; our own error message describes it."""
    logger = logging.getLogger("nornir")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
