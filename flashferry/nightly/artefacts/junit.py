"""A night as JUnit XML: a case per step, per series, and per timed copy of each router.

A fault of the lab is an *error*, never a *failure*: nothing is said about the product. So is a lab that was left
running, which a person has to remove, but which the product did not do. Names of cases stay the same from night to
night, for readers compare by them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from flashferry.core.outside import sanitize_record
from flashferry.nightly.artefacts.report import NightReport
from flashferry.nightly.faults import Fault
from flashferry.nightly.night import Judgement, Night, NightCopy, NightStep, Rating, StepOutcome
from flashferry.reports.junit_xml import JunitCase, JunitSuite, junit_text
from flashferry.reports.thresholds import Status
from flashferry.reports.words import duration, gain, rate

_STATUSES = {
    Fault.LAB: Status.ERROR,
    Fault.CLEANUP: Status.ERROR,
    Fault.DEVICE: Status.FAILED,
    Fault.PRODUCT: Status.FAILED,
}


def night_junit(report: NightReport) -> str:
    """Return a night as JUnit XML."""
    night = sanitize_record(report.night)
    whole_s = (night.ended_at - night.started_at).total_seconds()
    suites = [
        _suite(report, "steps", tuple(map(_step, night.steps))),
        _suite(report, "series", tuple(_series(night, one) for one in night.judgements)),
        _suite(report, "copies", tuple(_copies(night))),
    ]
    return junit_text(f"flashferry {night.night_id}", [suite for suite in suites if suite.cases], whole_s)


def _suite(report: NightReport, name: str, cases: tuple[JunitCase, ...]) -> JunitSuite:
    night = report.night
    properties = (
        ("night", night.night_id),
        ("backend", f"{night.backend} {night.controller_version}".strip()),
        ("kernel", night.kernel),
        ("written by", report.written_by),
    )
    return JunitSuite(
        name=name,
        cases=cases,
        time_s=sum(case.time_s for case in cases),
        started_at=night.started_at.isoformat(),
        properties=properties,
    )


def _step(step: NightStep) -> JunitCase:
    status = {StepOutcome.SKIPPED: Status.SKIPPED, StepOutcome.PASSED: Status.PASSED}.get(step.outcome)
    if status is None:
        # A failure without a known cause counts as ours.
        status = _STATUSES[step.fault or Fault.PRODUCT]
    is_bad = status in {Status.FAILED, Status.ERROR}
    return JunitCase(
        classname="nightly.steps",
        name=step.name.value,
        status=status,
        message="" if status is Status.PASSED else step.sentence,
        kind=step.fault.value if is_bad and step.fault is not None else "",
        text="\n".join(filter(None, (step.sentence, step.hint))) if is_bad else "",
        time_s=step.duration_s,
        account=step.sentence if status is Status.PASSED else "",
    )


def _series(night: Night, judgement: Judgement) -> JunitCase:
    """Return the case of a series: amber and changed are reported, and pass; what is not compared is skipped."""
    is_red = judgement.colour is Rating.RED
    is_left_out = not night.is_comparable and not is_red
    return JunitCase(
        classname="nightly.series",
        name=str(judgement.key),
        status=Status.FAILED if is_red else Status.SKIPPED if is_left_out else Status.PASSED,
        message=judgement.sentence if is_red or is_left_out else "",
        kind=Fault.PRODUCT.value if is_red else "",
        account=f"{judgement.colour.value}: {judgement.sentence}",
    )


def _copies(night: Night) -> Iterator[JunitCase]:
    numbers: Counter[tuple[str, str, bool]] = Counter()
    for copy in night.copies:
        kind = (copy.node, copy.verb, copy.is_tuned)
        numbers[kind] += 1
        yield JunitCase(
            classname=f"nightly.copies.{copy.node}",
            name=f"{copy.node}: {copy.key.verb} {numbers[kind]}",
            status=Status.PASSED,
            time_s=copy.duration_s,
            account=_account(copy),
        )


def _account(copy: NightCopy) -> str:
    found = [rate(copy.rate_bytes_per_s), f"by {copy.transport}", f"in {duration(copy.duration_s)}"]
    found += [f"limited by: {copy.verdict}"] if copy.verdict else []
    found += [f"{gain(copy.gain)} as fast as before tuning"] if copy.gain is not None else []
    return ", ".join(found)
