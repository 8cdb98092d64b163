"""Readiness as JUnit XML: a suite per site, a test case per device and condition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from flashferry.core.outside import sanitize_record
from flashferry.planning.readiness import ReadyRecord
from flashferry.reports.as_junit import NO_SITE
from flashferry.reports.junit_xml import JunitCase, JunitSuite, junit_text
from flashferry.reports.thresholds import Status
from tasks.readiness import Condition, Met, Verdict

_STATUS = {
    Met.MET: Status.PASSED,
    Met.NOT_MET: Status.FAILED,
    Met.UNKNOWN: Status.ERROR,
    Met.DOES_NOT_APPLY: Status.SKIPPED,
}


def ready_junit(records: Sequence[ReadyRecord], *, plan: str | None, at: datetime | None = None) -> str:
    """Return readiness as JUnit XML: not met is a failure, unknown and out of reach are errors.

    Args:
        records: The answers of devices.
        plan: Digest of the plan that was asked about, or None.
        at: When; None: now.
    """
    records = sanitize_record(tuple(records))
    when = (at or datetime.now(UTC)).isoformat(timespec="seconds")
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
    """Return the case of a device as a whole, with its time."""
    found, failure = record.readiness, record.failure
    status, message = Status.PASSED, ""
    if found is None:
        status, message = Status.ERROR, failure.reason if failure is not None else "not looked at"
    elif not found.is_good:
        status = Status.FAILED if found.verdict is Verdict.NO else Status.ERROR
        message = "; ".join(one.sentence for one in found.in_the_way)
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
        text="\n".join((one.command, *one.lines)) if one.is_in_the_way else "",
    )
