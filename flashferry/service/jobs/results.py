"""What the verb of a job printed, as rows for people. Pure: every value may be missing, or of another release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flashferry.core.json_access import Node
from flashferry.core.units import exact_milliseconds, rate, size
from flashferry.model.states import Outcome, label_of

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
_CHECK, _FIT = "flashferry.check/1", "fit"
"""A checked device is not done, but fit to be staged."""
_OF_THIS_PLATFORM = "of this platform"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceResult:
    """What a job found of a device, or did with it.

    Attributes:
        word: The result in a word or two; `tone` repeats it by colour.
        sentence: Why, and what to do next; empty: nothing is wrong.
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
    """Return the devices of a document, those with something wrong first."""
    run = document.get("run")
    within = run if isinstance(run, dict) else document
    done = _FIT if Node(document).text("schema") == _CHECK else ""
    found = [_of_device(one, done) for one in Node(within).list("devices")]
    return tuple(sorted(found, key=lambda one: ("bad", "warn").index(one.tone) if one.tone in ("bad", "warn") else 2))


def error_of(document: Mapping[str, object]) -> str:
    """Return the error that the verb ended with instead of a result, and what to do; empty for none."""
    node = Node(document)
    return _joined(node.text("error"), node.text("hint"))


def readiness_words(verdict: str) -> tuple[str, str]:
    """Return a verdict about a device's readiness in words, and its tone."""
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
    """Return the result of a device and its tone: its readiness, its outcome, or what a plan does with it."""
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
