"""nornir_netmiko's file transfer: a push by SCP, which the device must have been told to accept."""

import json
import sys
import tempfile
from pathlib import Path

from nornir import InitNornir
from nornir_netmiko.connections import CONNECTION_NAME
from nornir_netmiko.tasks import netmiko_file_transfer

asked = json.loads(sys.argv[1])
with tempfile.TemporaryDirectory() as name:
    hosts = {
        "r": {
            "hostname": asked["host"],
            "port": asked["port"],
            "username": asked["username"],
            "password": asked["password"],
            "platform": "cisco_xe",
            "connection_options": {CONNECTION_NAME: {"extras": {"secret": asked["secret"]}}},
        }
    }
    Path(name, "hosts.yaml").write_text(json.dumps(hosts))
    nornir = InitNornir(
        inventory={"plugin": "SimpleInventory", "options": {"host_file": f"{name}/hosts.yaml"}},
        logging={"enabled": False},
    )
    # Its defaults but for the file system and what a repeated run needs.
    done = nornir.run(
        netmiko_file_transfer, source_file=asked["path"], dest_file=asked["name"], file_system=asked["file_system"],
        overwrite_file=True,
    )["r"]  # fmt: skip
    print(done[0].exception or ("copied" if done[0].changed else "already there"))
    sys.exit(bool(done.failed) or not done[0].result)
