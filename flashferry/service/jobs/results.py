"""Documents printed by jobs, as rows of pages; any value can be missing or from another release."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from flashferry.core.jobs import JobFolder
from flashferry.core.json_access import Node
from flashferry.core.state_folder import open_private
from flashferry.core.units import exact_milliseconds, rate, size
from flashferry.model.states import Outcome, label_of
from flashferry.service.principal import Actor
from flashferry.service.run_visibility import job_seen, sees_all_of
from flashferry.service.service import Service
from flashferry.store.service.jobs import Job, JobKind, JobState, latest_jobs

_TONES = {"stage": "good", "already there": "", "refused": "warn", "unreachable": "bad"}
"""Actions of a plan."""
_READY = {
    "yes": ("ready", "good"),
    "runs it already": ("runs it already", "good"),
    "no": ("not ready", "bad"),
    "unknown": ("readiness unknown", "warn"),
}
"""Verdicts of a device's readiness, in words and with their tone."""
_CONDITIONS_MET = frozenset({"met", "does not apply"})
_DONE_BY = {"flashferry.check/1": "fit", "flashferry.dry-run/1": "would be staged"}
"""What stands for `done`, by schema: a checked or rehearsed device did not get anything."""
_OF_THIS_PLATFORM = "of this platform"


class DeviceResult(Struct, frozen=True, kw_only=True):
    """Result of a job for one device.

    Attributes:
        word: The result in a word or two; `tone` repeats it as a colour.
        sentence: Reason and what to do next; empty: nothing is wrong.
        facts: What was read or measured, each a sentence.
        commands: What a run would send to the device, in this order.
    """

    host: str
    word: str
    tone: str
    sentence: str
    model: str
    release: str
    facts: tuple[str, ...]
    commands: tuple[str, ...]


def device_results(document: Mapping[str, object]) -> tuple[DeviceResult, ...]:
    """Return the results in a document by device, failed ones first."""
    run = document.get("run")
    within = run if isinstance(run, dict) else document
    done = _DONE_BY.get(Node(document).text("schema") or "", "")
    found = [_of_device(one, done) for one in Node(within).list("devices")]
    return tuple(sorted(found, key=lambda one: ("bad", "warn").index(one.tone) if one.tone in ("bad", "warn") else 2))


def error_of(document: Mapping[str, object]) -> str:
    """Return the error in a document that a failed job printed, and what to do next; empty for none."""
    node = Node(document)
    return _joined(node.text("error"), node.text("hint"))


def readiness_words(verdict: str) -> tuple[str, str]:
    """Return a readiness verdict in words, and its tone."""
    return _READY.get(verdict, (verdict, "warn"))


def _of_device(one: Node, done: str) -> DeviceResult:
    check = one.at("check")
    word, tone = _result(one, done)
    refusal = _joined(check.text("refusal"), check.text("refusal_hint"))
    failure = _joined(one.text("failure", "reason"), one.text("failure", "hint"))
    return DeviceResult(
        host=one.text("host") or "",
        word=word,
        tone=tone,
        sentence=failure or refusal or _joined(one.text("reason"), one.text("hint")),
        model=check.text("facts", "model") or one.text("model") or "",
        release=check.text("version", "release") or one.text("version") or "",
        facts=tuple(_facts(one, check)),
        commands=tuple(_commands(one.at("plan"))),
    )


def _result(one: Node, done: str) -> tuple[str, str]:
    """Return the result of a device in words, and its tone: its readiness, outcome, or action in a plan."""
    if (verdict := one.text("readiness", "verdict")) is not None:
        return readiness_words(verdict)
    outcome = one.text("outcome")
    if outcome in set(Outcome):
        fits = one.text("check", "image", "fits")
        if outcome == Outcome.DONE and fits not in (None, _OF_THIS_PLATFORM):
            return "image unsure", "warn"
        return done if done and outcome == Outcome.DONE else label_of(outcome), Outcome(outcome).tone
    if (restored := one.text("restored")) is not None:
        return restored, "good" if one.text("failure", "reason") is None else "bad"
    action = one.text("action") or outcome or ""
    return action, _TONES.get(action, "")


def _facts(one: Node, check: Node) -> Iterator[str]:
    if (free_bytes := check.number("free_bytes")) is not None:
        yield f"{size(free_bytes)} free on {check.text('file_system') or 'flash'}"
    if (rtt_s := check.number("rtt_s")) is not None:
        yield f"round trip {exact_milliseconds(rtt_s)}"
    if (reason := check.text("image", "reason")) is not None:
        yield reason
    for reach in one.list("reaches"):
        if (sentence := reach.text("report", "sentence")) is not None:
            yield sentence
    for name, words in (("as_is", "as it is"), ("tuned", "tuned")):
        if (speed := one.number("probe", name, "steady_bytes_per_s")) is not None:
            yield f"{words}: {rate(speed)}"
    if (gain := one.text("probe", "worth", "reason")) is not None:
        yield gain
    for condition in one.list("readiness", "conditions"):
        if condition.text("met") not in _CONDITIONS_MET and (sentence := condition.text("sentence")) is not None:
            yield f"{condition.text('name')}: {sentence}"
    yield from check.texts("notes")
    yield from one.texts("notes")


def _commands(plan: Node) -> Iterator[str]:
    for change in plan.list("tune", "changes"):
        if (line := change.text("ours")) is not None:
            yield line
    if (copy := plan.text("copy")) is not None:
        yield copy
    yield from plan.texts("verify")
    yield from plan.texts("restore")


def _joined(sentence: str | None, hint: str | None) -> str:
    return f"{sentence}. {hint}" if sentence and hint else sentence or ""


MOST_RESULT_BYTES = 32 << 20
"""A larger result is downloaded, not shown."""
_STDERR_BYTES = 8192


class JobOutput(Struct, frozen=True, kw_only=True):
    """A job with its output, limited to what the caller may see.

    Attributes:
        is_whole: Whether the caller may see the output.
        document: The JSON that it printed; empty if there is none, or it is too large to show.
        size_bytes: Size of the document for download; 0: there is none.
        is_removed: Whether the output was deleted with the job's folder.
        reported: The last complete lines that it printed to stderr.
    """

    job: Job
    is_whole: bool
    document: Mapping[str, object]
    size_bytes: int
    is_removed: bool
    reported: str


def job_output(service: Service, actor: Actor, job: Job) -> JobOutput:
    """Return a visible job with its output."""
    folder, is_whole = JobFolder.of(service.state, job.job_id), sees_all_of(actor, job)
    has_result = is_whole and not job.is_open
    return JobOutput(
        job=job_seen(actor, job) or job,
        is_whole=is_whole,
        document=folder.document(MOST_RESULT_BYTES) if has_result else {},
        size_bytes=_size_of(folder) if has_result else 0,
        is_removed=is_removed(service, job),
        reported=_reported(folder) if is_whole else "",
    )


def is_removed(service: Service, job: Job) -> bool:
    """Return whether a job's output was deleted with its folder."""
    ended = job.ended_at is not None and job.started_at is not None
    return ended and not JobFolder.of(service.state, job.job_id).path.exists()


def _size_of(folder: JobFolder) -> int:
    try:
        return 0 if folder.result.is_symlink() else folder.result.stat().st_size
    except OSError:
        return 0


def _reported(folder: JobFolder) -> str:
    try:
        with open_private(folder.stderr, "rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - _STDERR_BYTES)
            file.seek(start)
            text = str(file.read(), "utf-8", "replace")
    except OSError:
        return ""
    return (text.partition("\n")[2] if start else text).strip()


_LATEST_JOBS = 300
"""Jobs among which the newest checks are looked for."""
_KEPT_DOCUMENTS = 32


class Finding(Struct, frozen=True, kw_only=True):
    """Result of a run, check or readiness check for a device.

    Attributes:
        word: The result in a word or two; `tone` repeats it as a colour.
        at: Time of the result, ISO 8601; `path` is its page.
    """

    word: str
    tone: str
    at: str = ""
    path: str = ""
    model: str = ""
    release: str = ""


class Findings(Struct, frozen=True, kw_only=True):
    """Newest findings by device.

    Attributes:
        checks: Of checks.
        readies: Of readiness checks.
        facts: Of either kind, where it names a model: a check that did not reach the device does not.
    """

    checks: Mapping[str, Finding]
    readies: Mapping[str, Finding]
    facts: Mapping[str, Finding]


def newest_findings(service: Service, actor: Actor) -> Findings:
    """Return the newest findings of each device, from jobs visible to the caller."""
    found: dict[JobKind, dict[str, Finding]] = {JobKind.CHECK: {}, JobKind.READY: {}}
    facts: dict[str, Finding] = {}
    with service.database.reading() as database:
        jobs = latest_jobs(database, _LATEST_JOBS)
    # A job that is just ending may not have printed everything yet.
    ended = [job for job in jobs if job.kind in found and job.state is JobState.ENDED and job.exit_code is not None]
    for job in ended[:_KEPT_DOCUMENTS]:
        if sees_all_of(actor, job):
            of_job = _found_by(JobFolder.of(service.state, job.job_id).path, job.ended_at or "")
            found[job.kind] = {**of_job, **found[job.kind]}
            facts = {host: one for host, one in of_job.items() if one.model} | facts
    return Findings(checks=found[JobKind.CHECK], readies=found[JobKind.READY], facts=facts)


@lru_cache(maxsize=_KEPT_DOCUMENTS)
def _found_by(folder: Path, ended_at: str) -> Mapping[str, Finding]:
    """Return the results of an ended job by device; cached, because its document does not change any more."""
    return {
        one.host: Finding(
            word=one.word,
            tone=one.tone,
            at=ended_at,
            path=f"/jobs/{folder.name}",
            model=one.model,
            release=one.release,
        )
        for one in device_results(JobFolder(path=folder).document(MOST_RESULT_BYTES))
    }
