"""nornir_netmiko's file transfer: a push by SCP, which the device must have been told to accept."""

import json
import sys

from netmiko import ConnectHandler, file_transfer

asked = json.loads(sys.argv[1])
device = ConnectHandler(
    device_type="cisco_xe", host=asked["host"], port=asked["port"], username=asked["username"],
    password=asked["password"], secret=asked["secret"],
)  # fmt: skip
device.enable()
# What the Nornir task calls, by itself; its defaults but for the file system.
done = file_transfer(
    device, source_file=asked["path"], dest_file=asked["name"], file_system=asked["file_system"], overwrite_file=True
)
print(done)
sys.exit(not done["file_verified"])
