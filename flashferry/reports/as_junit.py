"""The report as JUnit XML: a suite per site, a test case per device and check; what CI servers read and plot.

Facts
-----

There is no standard. What Jenkins' and GitLab's readers share, and the schema of Jenkins' xUnit plugin (junit-10.xsd)
allows: `testsuites/testsuite/testcase` with `failure`, `error` or `skipped`, each with `message` and `type`; counts and
times as attributes; times in plain seconds. XML 1.0 has no way to write most control characters, so they are left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from xml.etree import ElementTree as ET

from flashferry.core.outside import outward
from flashferry.reports.model import DeviceReport, Report
from flashferry.reports.thresholds import Check, Status, Threshold, checks_of
from flashferry.reports.words import moment, rate

_ELEMENTS = {Status.FAILED: "failure", Status.ERROR: "error", Status.SKIPPED: "skipped"}
_UNWRITABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
NO_SITE = "no site"

_Checked = tuple[DeviceReport, tuple[Check, ...]]


def report_junit(report: Report, thresholds: Sequence[Threshold] = ()) -> str:
    """Return the report as JUnit XML.

    Args:
        report: The report.
        thresholds: What every device is held against, beside image and configuration.
    """
    report = outward(report)
    checked = [(device, checks_of(device, report.verb, thresholds)) for device in report.devices]
    order = list(dict.fromkeys(device.site for device, _ in checked))
    checked.sort(key=lambda one: order.index(one[0].site))
    whole = [check for _, checks in checked for check in checks]
    root = ET.Element("testsuites", {"name": f"flashferry {report.verb} {report.run_id}"} | _counts(whole))
    if report.summary.wall_s is not None:
        root.set("time", f"{report.summary.wall_s:.3f}")
    for number, (site, devices) in enumerate(groupby(checked, key=lambda one: one[0].site)):
        root.append(_suite(site or NO_SITE, number, list(devices), report))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _counts(checks: Sequence[Check]) -> dict[str, str]:
    def count(status: Status) -> str:
        return str(sum(check.status is status for check in checks))

    return {"tests": str(len(checks)), "failures": count(Status.FAILED), "errors": count(Status.ERROR)}


def _suite(name: str, number: int, devices: Sequence[_Checked], report: Report) -> ET.Element:
    checks = [check for _, checks in devices for check in checks]
    skipped = sum(check.status is Status.SKIPPED for check in checks)
    suite = ET.Element("testsuite", {"name": _text(name), "id": str(number), "skipped": str(skipped)} | _counts(checks))
    suite.set("time", f"{sum(device.total_s or 0.0 for device, _ in devices):.3f}")
    # Readers want it without a zone; it is UTC.
    suite.set("timestamp", moment(report.started_at).removesuffix(" UTC").replace(" ", "T"))
    suite.set("hostname", "flashferry")
    properties = ET.SubElement(suite, "properties")
    for key, value in (("run", report.run_id), ("verb", report.verb), ("written by", report.written_by)):
        ET.SubElement(properties, "property", name=key, value=_text(value))
    for device, found in devices:
        suite.extend(_case(device, check, is_first=check is found[0], site=name) for check in found)
    return suite


def _case(device: DeviceReport, check: Check, *, is_first: bool, site: str) -> ET.Element:
    """Return a test case; a device's time stands with its first one, so that sums are right."""
    case = ET.Element("testcase", classname=_text(f"{site}.{device.host}"), name=_text(f"{device.host}: {check.name}"))
    case.set("time", f"{device.total_s or 0.0:.3f}" if is_first else "0.000")
    if element := _ELEMENTS.get(check.status):
        found = ET.SubElement(case, element, message=_text(check.message), type=check.status.value)
        if check.status in {Status.FAILED, Status.ERROR} and device.hint:
            found.text = _text(f"{check.message}\n{device.hint}")
    if is_first:
        ET.SubElement(case, "system-out").text = _text(_account(device))
    return case


def _account(device: DeviceReport) -> str:
    speed = device.tuned or device.untuned
    lines = [
        f"outcome: {device.outcome}",
        f"configuration: {device.restore.proof.value}",
        f"before tuning: {rate(device.as_is.bytes_per_s if device.as_is else None)}",
        f"this run: {rate(speed.bytes_per_s if speed else None)}",
        f"verdict: {device.verdict.sentence if device.verdict else 'not measured'}",
    ]
    return "\n".join(lines)


def _text(text: str) -> str:
    return _UNWRITABLE.sub("", text)
