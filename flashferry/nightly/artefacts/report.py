"""Describe a night in words and tones for pages and terminal, and write its report as JSON and JUnit XML. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from flashferry.core.codec import to_json
from flashferry.core.redaction import json_text, redact_json, sanitize_record
from flashferry.core.units import link_rate
from flashferry.nightly.backend import LinkCondition
from flashferry.nightly.history import Series, with_tonight
from flashferry.nightly.night import (
    LINES_LEFT,
    Fault,
    Judgement,
    Night,
    NightCopy,
    NightStep,
    Rating,
    SeriesKey,
    StepOutcome,
)
from flashferry.nightly.thresholds import figure
from flashferry.reports.as_json import json_schema
from flashferry.reports.junit import JunitCase, JunitSuite, junit_text
from flashferry.reports.marks import Marks
from flashferry.reports.thresholds import Status
from flashferry.reports.words import DASH, duration, gain, rate
from flashferry.store.nights import PastSeriesNight

_TONES = {
    Rating.GOOD: "good",
    Rating.AMBER: "warn",
    Rating.RED: "bad",
    Rating.CHANGED_UP: "warn",
    Rating.NO_HISTORY: "quiet",
}

_SIGNS = {"good": Marks.GOOD, "warn": Marks.WARN, "bad": Marks.BAD, "quiet": Marks.OPEN}
_WORDS = {Rating.CHANGED_UP: "changed", Rating.NO_HISTORY: "no trend"}

_FAULTS = {
    Fault.LAB: "the lab failed; nothing is said about the product",
    Fault.DEVICE: "a device could not be used",
    Fault.PRODUCT: "the product failed, or was worse than it must be",
    Fault.CLEANUP: "a lab was left running: 'flashferry nightly reap' removes it",
}


def colour_tone(colour: Rating) -> str:
    """Return the CSS class of a rating: `good`, `warn`, `bad` or `quiet`."""
    return _TONES[colour]


def colour_sign(colour: Rating) -> str:
    """Return the sign of a rating, for print without colour."""
    return _SIGNS[colour_tone(colour)].value


def colour_word(colour: Rating) -> str:
    """Return a rating in a word or two."""
    return _WORDS.get(colour, colour.value)


def step_tone(step: NightStep) -> str:
    """Return the CSS class of a step's result; a lab's fault is a warning."""
    if step.outcome is StepOutcome.FAILED:
        return "warn" if step.fault is Fault.LAB else "bad"
    return "good" if step.outcome is StepOutcome.PASSED else "quiet"


def night_tone(night: Night) -> str:
    """Return the CSS class of a night."""
    if night.fault is not None:
        return "warn" if night.fault is Fault.LAB else "bad"
    if night.is_interrupted or not night.is_comparable:
        return "warn"
    tones = {colour_tone(colour) for colour in _noticed(night)}
    return next((tone for tone in ("bad", "warn") if tone in tones), "good")


def night_word(night: Night) -> str:
    """Return a night's result in a word or two: `good`, `amber`, `not compared`, or the party at fault."""
    if night.fault is not None:
        return night.fault.value
    if night.is_interrupted:
        return "interrupted"
    if not night.is_comparable:
        return "not compared"
    found = _noticed(night)
    worst = next((one for one in (Rating.RED, Rating.AMBER, Rating.CHANGED_UP) if one in found), Rating.GOOD)
    return colour_word(worst)


def night_result(night: Night) -> str:
    """Return a night's result in a clause."""
    if night.fault is not None:
        return _FAULTS[night.fault]
    if night.is_interrupted:
        return "interrupted before it was done"
    counts = night_counts(night)
    return f"{night_word(night)}; {f'series: {counts}' if counts else 'nothing was measured'}"


def night_lines(night: Night) -> tuple[str, ...]:
    """Return the failed steps of a night, and why it is not compared."""
    failed = [f"{step.name.value}: {step.sentence}" for step in night.steps if step.outcome is StepOutcome.FAILED]
    because = night.not_comparable_because
    if because and because not in failed:
        failed.append(f"not compared: {because}")
    return tuple(failed)


def night_counts(night: Night) -> str:
    """Count a night's ratings: `9 good, 1 amber`; empty for none."""
    found = Counter(one.colour for one in night.judgements)
    return ", ".join(f"{found[colour]} {colour_word(colour)}" for colour in Rating if found[colour])


def title_of(key: SeriesKey) -> str:
    """Return a series' title: `cat8000v, wan50: probe by ftp`."""
    by = "" if key.transport == "ssh" else f" by {key.transport}"
    return f"{_node_words(key)}, {key.condition}: {key.verb}{by}"


def _node_words(key: SeriesKey) -> str:
    """Return the booted image or node definition; most image names start with their definition's."""
    node, image = key.node_definition, key.image_definition or ""
    return image if image.startswith(node) else f"{node} {image}".rstrip()


def figure_of(key: SeriesKey, value: float | None) -> str:
    """Format a series' figure; a dash for None."""
    return DASH if value is None else figure(key, value)


def condition_words(found: LinkCondition | None) -> str:
    """Format a link's condition: `50 Mbit/s, 50 ms, 0.01% lost`."""
    if found is None:
        return "not read"
    words = [link_rate(found.bandwidth_kbps * 1e3) if found.bandwidth_kbps else "no limit", f"{found.latency_ms} ms"]
    words += [f"{found.jitter_ms} ms jitter"] if found.jitter_ms else []
    words += [f"{found.loss_percent:g}% lost"] if found.loss_percent else []
    return ", ".join(words)


def _noticed(night: Night) -> set[Rating]:
    return {one.colour for one in night.judgements}


SCHEMA = "flashferry.night/1"
SHOWN_NIGHTS = 60
"""Most nights shown of a series: two months."""


class SeriesPoint(Struct, frozen=True, kw_only=True):
    """The result of a night in a series.

    Attributes:
        started_at: ISO 8601, UTC.
        value: Median of the night's figures, in the series' unit.
        history_median: Median of the good nights before; null: too few.
        threshold: Limit of the expected band; null: too few nights.
        is_comparable: Whether it counts in the history of the series.
    """

    night_id: str
    started_at: str
    value: float
    history_median: float | None
    threshold: float | None
    colour: Rating
    is_comparable: bool


class SeriesReport(Struct, frozen=True, kw_only=True):
    """A series over the last nights, the oldest first; `unit` is `bytes/s`, `s` or `lines`."""

    name: str
    key: SeriesKey
    unit: str
    points: tuple[SeriesPoint, ...]


class NightReport(Struct, frozen=True, kw_only=True):
    """A night's report.

    Attributes:
        schema: Name and version of this document.
        written_at: ISO 8601, UTC.
        exit_code: The command's exit code, for the steps so far.
        meaning: The exit code in words.
        fault: The party responsible for the gravest failure; null: none.
        series: One for each judgement, with earlier nights.
        files: Names of the other files in the night's folder.
    """

    schema: str
    written_at: str
    written_by: str
    exit_code: int
    meaning: str
    fault: Fault | None
    night: Night
    series: tuple[SeriesReport, ...]
    files: tuple[str, ...]


def night_report(night: Night, history: Sequence[PastSeriesNight], files: Iterable[str] = ()) -> NightReport:
    """Return the report of a night.

    Args:
        night: The night, with judgements.
        history: Results of earlier nights.
        files: Names of the other files in its folder.
    """
    return NightReport(
        schema=SCHEMA,
        written_at=datetime.now(UTC).isoformat(timespec="seconds"),
        written_by=f"flashferry {night.tool_version}",
        exit_code=int(night.exit_code),
        meaning=night.exit_code.meaning_for("nightly"),
        fault=night.fault,
        night=night,
        series=tuple(map(series_report, with_tonight(history, night))),
        files=tuple(sorted(files)),
    )


def series_report(series: Series) -> SeriesReport:
    """Return a series with its last `SHOWN_NIGHTS` nights."""
    return SeriesReport(
        name=str(series.key),
        key=series.key,
        unit="lines" if series.key.verb == LINES_LEFT else "s" if series.key.is_seconds else "bytes/s",
        points=tuple(
            SeriesPoint(
                night_id=one.row.night_id,
                started_at=one.started_at,
                value=one.row.tonight,
                history_median=one.row.history_median,
                threshold=one.row.threshold,
                colour=Rating(one.row.colour),
                is_comparable=one.is_comparable,
            )
            for one in series.nights[-SHOWN_NIGHTS:]
        ),
    )


def report_json(report: NightReport) -> str:
    """Return the report as JSON."""
    return json_text(redact_json(to_json(report)), indent=2) + "\n"


def report_schema() -> dict[str, Any]:
    """Return the JSON schema of the report, which is `docs/night.schema.json`."""
    return json_schema(NightReport, SCHEMA, title=f"flashferry night, {SCHEMA}")


_GRAVITY = (Rating.RED, Rating.AMBER, Rating.CHANGED_UP, Rating.NO_HISTORY, Rating.GOOD)


def gravest_first(judgements: Iterable[Judgement]) -> tuple[Judgement, ...]:
    """Sort judgements, those that need attention first."""
    return tuple(sorted(judgements, key=lambda one: _GRAVITY.index(one.colour)))


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
    """Return the case of a series: amber and changed pass, a series that is not compared is skipped."""
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
