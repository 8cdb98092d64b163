"""What the two scripts with Nornir have in common: an inventory of the one device."""

import json
import tempfile
from pathlib import Path
from typing import Any

from nornir import InitNornir
from nornir.core import Nornir
from nornir_netmiko.connections import CONNECTION_NAME


def nornir_of(asked: dict[str, Any]) -> Nornir:
    """Return Nornir with the device that was asked for, called `r`."""
    host = {
        "hostname": asked["host"],
        "port": asked["port"],
        "username": asked["username"],
        "password": asked["password"],
        "platform": "cisco_xe",
        "connection_options": {CONNECTION_NAME: {"extras": {"secret": asked["secret"]}}},
    }
    with tempfile.TemporaryDirectory() as folder:
        hosts = Path(folder, "hosts.yaml")
        hosts.write_text(json.dumps({"r": host}))
        return InitNornir(
            inventory={"plugin": "SimpleInventory", "options": {"host_file": str(hosts)}}, logging={"enabled": False}
        )
