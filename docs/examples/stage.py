"""Time a speed test, stage an image with progress, two copies at a site: `python stage.py INVENTORY IMAGE`."""

import sys

from flashferry.api import FleetOptions, ProbeOptions, StagePolicy, open_fleet, probe, run_exit_code, stage

inventory, image = sys.argv[1:]
routers = open_fleet(FleetOptions(inventory=inventory))


def tell(event):
    """Print what ends and what goes wrong; called from several threads."""
    if event.host and event.status in {"done", "failed"}:
        print(f"{event.at_s:6.1f} s  {event.host} {event.step} {event.text}", file=sys.stderr)


for device in probe(routers, ProbeOptions(seconds=2), emit=tell).devices:
    if device.probe and device.probe.worth:
        print(
            device.host, "tuning is", "worth it:" if device.probe.worth.is_worth else "not:", device.probe.worth.reason
        )
report = stage(routers, image, StagePolicy().changed({"site_copies": 2}), inventory=inventory, emit=tell)
for device in report.devices:
    print(device.host, device.outcome, device.restored, device.failure.reason if device.failure else "")
sys.exit(run_exit_code(report))
