"""Write reports as JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from xml.etree import ElementTree as ET

from msgspec import Struct

from flashferry.core.redaction import sanitize_record
from flashferry.planning.readiness import ReadyRecord
from flashferry.reports.model import DeviceReport, Report
from flashferry.reports.thresholds import Check, Status, Threshold, checks_of
from flashferry.reports.words import moment, rate
from tasks.readiness.values import Condition, Met, Verdict

_ELEMENTS = {Status.FAILED: "failure", Status.ERROR: "error", Status.SKIPPED: "skipped"}

_UNWRITABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class JunitCase(Struct, frozen=True, kw_only=True):
    """A test case.

    Attributes:
        classname: Its group, with dots.
        name: Stable from run to run, because readers compare by it.
        message: Why it did not pass.
        kind: Type of failure, error or skip; empty takes the status.
        text: Further lines; empty for none.
        time_s: Duration in seconds.
        account: Output shown with it, also if it passed; empty for none.
    """

    classname: str
    name: str
    status: Status
    message: str = ""
    kind: str = ""
    text: str = ""
    time_s: float = 0.0
    account: str = ""


class JunitSuite(Struct, frozen=True, kw_only=True):
    """A suite of test cases.

    Attributes:
        time_s: Duration in seconds.
        started_at: ISO 8601.
        properties: Names and values.
    """

    name: str
    cases: tuple[JunitCase, ...]
    time_s: float
    started_at: str
    properties: tuple[tuple[str, str], ...] = ()


def junit_text(name: str, suites: Sequence[JunitSuite], time_s: float | None) -> str:
    """Return suites as JUnit XML.

    Args:
        name: Name of the whole.
        suites: The suites.
        time_s: Duration in seconds; None if unknown.
    """
    root = ET.Element("testsuites", {"name": name} | _counts(case for suite in suites for case in suite.cases))
    if time_s is not None:
        root.set("time", f"{time_s:.3f}")
    for number, suite in enumerate(suites):
        root.append(_suite_element(suite, number))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _counts(cases: Iterable[JunitCase]) -> dict[str, str]:
    found = [case.status for case in cases]
    failed, errors = found.count(Status.FAILED), found.count(Status.ERROR)
    return {"tests": str(len(found)), "failures": str(failed), "errors": str(errors)}


def _suite_element(suite: JunitSuite, number: int) -> ET.Element:
    skipped = sum(case.status is Status.SKIPPED for case in suite.cases)
    head = {"name": _text(suite.name), "id": str(number), "skipped": str(skipped)}
    made = ET.Element("testsuite", head | _counts(suite.cases))
    made.set("time", f"{suite.time_s:.3f}")
    # Readers expect no time zone; it is UTC.
    made.set("timestamp", moment(suite.started_at).removesuffix(" UTC").replace(" ", "T"))
    made.set("hostname", "flashferry")
    properties = ET.SubElement(made, "properties")
    for key, value in suite.properties:
        ET.SubElement(properties, "property", name=key, value=_text(value))
    made.extend(map(_case_element, suite.cases))
    return made


def _case_element(case: JunitCase) -> ET.Element:
    made = ET.Element("testcase", classname=_text(case.classname), name=_text(case.name))
    made.set("time", f"{case.time_s:.3f}")
    if element := _ELEMENTS.get(case.status):
        found = ET.SubElement(made, element, message=_text(case.message), type=case.kind or case.status.value)
        if case.text:
            found.text = _text(case.text)
    if case.account:
        ET.SubElement(made, "system-out").text = _text(case.account)
    return made


def _text(text: str) -> str:
    return _UNWRITABLE.sub("", text)


NO_SITE = "no site"

_Checked = tuple[DeviceReport, tuple[Check, ...]]


def report_junit(report: Report, thresholds: Sequence[Threshold] = ()) -> str:
    """Return the report as JUnit XML.

    Args:
        report: The report.
        thresholds: Additional checks of every device.
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
    """Return a test case; a device's time is in its first one, so that sums are correct."""
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


_STATUS = {
    Met.MET: Status.PASSED,
    Met.NOT_MET: Status.FAILED,
    Met.UNKNOWN: Status.ERROR,
    Met.DOES_NOT_APPLY: Status.SKIPPED,
}


def ready_junit(records: Sequence[ReadyRecord], *, plan: str | None) -> str:
    """Return readiness as JUnit XML: not met is a failure; unknown and unreachable are errors.

    Args:
        records: Results of the devices.
        plan: Digest of the plan; None for none.
    """
    records = sanitize_record(tuple(records))
    when = datetime.now(UTC).isoformat(timespec="seconds")
    sites = dict.fromkeys(record.site or NO_SITE for record in records)
    properties = (("verb", "ready"), *((("plan", plan),) if plan else ()))
    suites = [
        JunitSuite(
            name=site,
            cases=tuple(_cases((one for one in records if (one.site or NO_SITE) == site), site)),
            time_s=sum(one.seconds for one in records if (one.site or NO_SITE) == site),
            started_at=when,
            properties=properties,
        )
        for site in sites
    ]
    return junit_text("flashferry ready", suites, max((one.seconds for one in records), default=0.0))


def _cases(records: Iterable[ReadyRecord], site: str) -> Iterator[JunitCase]:
    for record in records:
        yield _answer(record, site)
        for one in record.readiness.conditions if record.readiness is not None else ():
            yield _condition(record, one, site)


def _answer(record: ReadyRecord, site: str) -> JunitCase:
    """Return the case of a whole device, with its time."""
    found, failure = record.readiness, record.failure
    status, message = Status.PASSED, ""
    if found is None:
        status, message = Status.ERROR, failure.reason if failure is not None else "not looked at"
    elif not found.is_good:
        status = Status.FAILED if found.verdict is Verdict.NO else Status.ERROR
        message = "; ".join(one.sentence for one in found.blocking)
    return JunitCase(
        classname=f"{site}.{record.host}",
        name=f"{record.host}: ready",
        status=status,
        message=message,
        text=failure.hint or "" if failure is not None else "",
        time_s=record.seconds,
        account="\n".join(record.since),
    )


def _condition(record: ReadyRecord, one: Condition, site: str) -> JunitCase:
    at = f" ({one.place})" if one.place else ""
    return JunitCase(
        classname=f"{site}.{record.host}",
        name=f"{record.host}: {one.name.value}{at}",
        status=_STATUS[one.met],
        message="" if one.met is Met.MET else one.sentence,
        text="\n".join((one.command, *one.lines)) if one.prevents_boot else "",
    )
