"""After a run died: restore what it left and go on with it; else restore alone: `python resume.py INVENTORY`."""

import sys

from flashferry.api import FleetOptions, recover, resume, run_exit_code, status
from flashferry.core.errors import FlashferryError

fleet = FleetOptions(inventory=sys.argv[1])
for run, device in status().to_recover:
    print(f"run {run.run_id} left {device.host} {device.state}")
try:
    report = resume(fleet, "latest")
except FlashferryError as error:
    print(f"not gone on with: {error}")
    found = recover(fleet)
    for record in found.devices:
        print(record.host, record.restored, record.failure.reason if record.failure else "")
    sys.exit(found.exit_code)
for record in report.devices:
    print(record.host, record.outcome, record.restored)
sys.exit(run_exit_code(report))
