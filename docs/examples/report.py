"""Write a night's report as a page, and say who needs attention: `python report.py RUN|latest PAGE.html`."""

import sys
from pathlib import Path

from flashferry.api import ReportFormat, parse_threshold, report, report_exit_code, report_text, write_report

run, page = sys.argv[1], Path(sys.argv[2])
night = report(run)
write_report(report_text(night, ReportFormat.HTML), page)
for device in night.devices:
    if device.needs_attention:
        print(device.host, device.outcome, device.reason or "")
sys.exit(report_exit_code(night, [parse_threshold("min_rate_mb_s=0.5")]))
