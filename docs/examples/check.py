"""Look whether routers are fit for an image, and change nothing: `python check.py INVENTORY IMAGE`."""

import sys

from flashferry.api import FleetOptions, check, open_fleet

routers = open_fleet(FleetOptions(inventory=sys.argv[1]))
found = check(routers, sys.argv[2], reach=True)
for device in found.devices:
    release = device.check.version.release if device.check else "-"
    print(device.host, release, device.outcome, device.failure.reason if device.failure else "")
sys.exit(found.exit_code)
