"""The report as JUnit XML: a suite per site, a test case per device and check; what CI servers read and plot."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from flashferry.core.outside import sanitize_record
from flashferry.reports.junit_xml import JunitCase, JunitSuite, junit_text
from flashferry.reports.model import DeviceReport, Report
from flashferry.reports.thresholds import Check, Status, Threshold, checks_of
from flashferry.reports.words import rate

NO_SITE = "no site"

_Checked = tuple[DeviceReport, tuple[Check, ...]]


def report_junit(report: Report, thresholds: Sequence[Threshold] = ()) -> str:
    """Return the report as JUnit XML.

    Args:
        report: The report.
        thresholds: What every device is held against, beside image and configuration.
    """
    report = sanitize_record(report)
    checked = [(device, checks_of(device, report.verb, thresholds)) for device in report.devices]
    order = list(dict.fromkeys(device.site for device, _ in checked))
    checked.sort(key=lambda one: order.index(one[0].site))
    suites = [
        _suite(site or NO_SITE, list(devices), report)
        for site, devices in groupby(checked, key=lambda one: one[0].site)
    ]
    return junit_text(f"flashferry {report.verb} {report.run_id}", suites, report.summary.wall_s)


def _suite(name: str, devices: Sequence[_Checked], report: Report) -> JunitSuite:
    return JunitSuite(
        name=name,
        cases=tuple(
            _case(device, one, is_first=one is found[0], site=name) for device, found in devices for one in found
        ),
        time_s=sum(device.total_s or 0.0 for device, _ in devices),
        started_at=report.started_at,
        properties=(("run", report.run_id), ("verb", report.verb), ("written by", report.written_by)),
    )


def _case(device: DeviceReport, check: Check, *, is_first: bool, site: str) -> JunitCase:
    """Return a test case; a device's time stands with its first one, so that sums are right."""
    has_hint = check.status in {Status.FAILED, Status.ERROR} and device.hint
    return JunitCase(
        classname=f"{site}.{device.host}",
        name=f"{device.host}: {check.name}",
        status=check.status,
        message=check.message,
        text=f"{check.message}\n{device.hint}" if has_hint else "",
        time_s=(device.total_s or 0.0) if is_first else 0.0,
        account=_account(device) if is_first else "",
    )


def _account(device: DeviceReport) -> str:
    speed = device.tuned or device.untuned
    lines = [
        f"outcome: {device.label}",
        f"configuration: {device.restore.label}",
        f"before tuning: {rate(device.as_is.bytes_per_s if device.as_is else None)}",
        f"this run: {rate(speed.bytes_per_s if speed else None)}",
        f"verdict: {device.verdict.sentence if device.verdict else 'not measured'}",
        *map(str, device.facts),
    ]
    return "\n".join(lines)
