"""nornir_netmiko's file transfer: a push by SCP, which the device must accept by its configuration."""

import json
import sys

from driver_host import nornir_of
from nornir_netmiko.tasks import netmiko_file_transfer

asked = json.load(sys.stdin)
# Its defaults but for the file system and what a repeated run needs.
done = nornir_of(asked).run(
    netmiko_file_transfer,
    source_file=asked["path"],
    dest_file=asked["name"],
    file_system=asked["file_system"],
    overwrite_file=True,
)["r"]
print(done[0].exception or ("copied" if done[0].changed else "already there"))
sys.exit(bool(done.failed) or not done[0].result)
