"""JUnit XML from suites of cases: what CI servers read and plot. Pure.

Facts
-----

There is no standard. What Jenkins' and GitLab's readers share, and the schema of Jenkins' xUnit plugin (junit-10.xsd)
allows: `testsuites/testsuite/testcase` with `failure`, `error` or `skipped`, each with `message` and `type`; counts and
times as attributes; times in plain seconds. XML 1.0 has no way to write most control characters, so they are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from flashferry.reports.thresholds import Status
from flashferry.reports.words import moment

_ELEMENTS = {Status.FAILED: "failure", Status.ERROR: "error", Status.SKIPPED: "skipped"}
_UNWRITABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class JunitCase:
    """A test case.

    Attributes:
        classname: What it belongs to, with dots.
        name: What it tests; readers compare runs by it, so it must stay the same from run to run.
        status: How it came out.
        message: Why it is not passed.
        kind: What kind of failure, error or skip it is; empty: the word of its status.
        text: More than the message, in lines; empty for nothing.
        time_s: Seconds it took.
        account: What is to be read with it, also where it passed; empty for nothing.
    """

    classname: str
    name: str
    status: Status
    message: str = ""
    kind: str = ""
    text: str = ""
    time_s: float = 0.0
    account: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JunitSuite:
    """A suite of test cases.

    Attributes:
        name: Its name.
        cases: Its cases.
        time_s: Seconds that all of it took.
        started_at: When it began, ISO 8601.
        properties: Words with what they stand for.
    """

    name: str
    cases: tuple[JunitCase, ...]
    time_s: float
    started_at: str
    properties: tuple[tuple[str, str], ...] = ()


def junit_text(name: str, suites: Sequence[JunitSuite], time_s: float | None) -> str:
    """Return suites as JUnit XML.

    Args:
        name: Of all of it.
        suites: The suites, in their order.
        time_s: Seconds that all of it took; None where unknown.
    """
    root = ET.Element("testsuites", {"name": name} | _counts(case for suite in suites for case in suite.cases))
    if time_s is not None:
        root.set("time", f"{time_s:.3f}")
    for number, suite in enumerate(suites):
        root.append(_suite(suite, number))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _counts(cases: Iterable[JunitCase]) -> dict[str, str]:
    found = [case.status for case in cases]
    failed, errors = found.count(Status.FAILED), found.count(Status.ERROR)
    return {"tests": str(len(found)), "failures": str(failed), "errors": str(errors)}


def _suite(suite: JunitSuite, number: int) -> ET.Element:
    skipped = sum(case.status is Status.SKIPPED for case in suite.cases)
    head = {"name": _text(suite.name), "id": str(number), "skipped": str(skipped)}
    made = ET.Element("testsuite", head | _counts(suite.cases))
    made.set("time", f"{suite.time_s:.3f}")
    # Readers want it without a zone; it is UTC.
    made.set("timestamp", moment(suite.started_at).removesuffix(" UTC").replace(" ", "T"))
    made.set("hostname", "flashferry")
    properties = ET.SubElement(made, "properties")
    for key, value in suite.properties:
        ET.SubElement(properties, "property", name=key, value=_text(value))
    made.extend(map(_case, suite.cases))
    return made


def _case(case: JunitCase) -> ET.Element:
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
