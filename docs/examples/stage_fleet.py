"""Stage an image from a Nornir script of one's own: `python stage_fleet.py INVENTORY-FOLDER IMAGE`."""

import sys
from pathlib import Path

from nornir import InitNornir

from flashferry.api import stage_fleet

files = {kind: str(Path(sys.argv[1]) / f"{kind.split('_')[0]}s.yaml") for kind in ("host_file", "group_file")}
files["defaults_file"] = str(Path(sys.argv[1]) / "defaults.yaml")
routers = InitNornir(inventory={"plugin": "SimpleInventory", "options": files}, logging={"enabled": False})
report = stage_fleet(routers.filter(platform="ios"), image=sys.argv[2], site_copies=4)
for device in report.devices:
    rate = f"{device.transfer.rate_bytes_per_s / 1e6:.1f} MB/s" if device.transfer else "-"
    print(device.host, device.outcome, device.restored, rate, device.failure.reason if device.failure else "")
sys.exit(any(device.failure for device in report.devices))
