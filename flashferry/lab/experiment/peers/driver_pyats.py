"""pyATS: its embedded FTP server, and the copy of its file transfer library."""

import json
import sys
from pathlib import Path

from genie.libs.filetransferutils import FileServer, FileUtils
from pyats.topology import loader

asked = json.load(sys.stdin)
testbed = loader.load(
    {
        "testbed": {"name": "t", "servers": {}},
        "devices": {
            asked["device"]: {
                "os": "iosxe",
                "type": "router",
                "credentials": {
                    "default": {"username": asked["username"], "password": asked["password"]},
                    "enable": {"password": asked["secret"]},
                },
                "connections": {
                    "cli": {
                        "protocol": "ssh",
                        "ip": asked["host"],
                        "port": asked["port"],
                        "ssh_options": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
                    }
                },
            }
        },
    }
)
device = testbed.devices[asked["device"]]
# Without its own console lines (`no logging console`, `exec-timeout 0`), which it sends by default and leaves there.
device.connect(log_stdout=False, init_config_commands=[])
image = Path(asked["path"])
with FileServer(
    protocol="ftp", address=asked["server"], path=str(image.parent), testbed=testbed, name="embedded"
) as served:
    # Where the devices are to find it; credentials and port are put into the URL from the testbed's entry.
    testbed.servers["embedded"]["address"] = asked["server_for_device"]
    files = FileUtils.from_device(device)
    files.copyfile(
        source=f"ftp://{asked['server_for_device']}/{image.name}",
        destination=f"{asked['file_system']}{asked['name']}",
        device=device,
    )
print("copied")
