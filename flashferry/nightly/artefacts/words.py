"""A night in words and tones, alike on its page, on the page of all nights and in the terminal. Pure."""

from __future__ import annotations

from collections import Counter

from flashferry.core.units import link_rate
from flashferry.nightly.backend import LinkCondition
from flashferry.nightly.faults import Fault
from flashferry.nightly.night import Night, NightStep, Rating, SeriesKey, StepOutcome
from flashferry.nightly.thresholds import figure
from flashferry.reports.marks import Marks
from flashferry.reports.words import DASH

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
    """Return the class for a judgement: `good`, `warn`, `bad` or `quiet`."""
    return _TONES[colour]


def colour_sign(colour: Rating) -> str:
    """Return the sign for a judgement; pages may be printed in grey."""
    return _SIGNS[colour_tone(colour)].value


def colour_word(colour: Rating) -> str:
    """Return a judgement in a word or two."""
    return _WORDS.get(colour, colour.value)


def step_tone(step: NightStep) -> str:
    """Return the class for how a step ended; a fault that is not the product's is a warning."""
    if step.outcome is StepOutcome.FAILED:
        return "warn" if step.fault is Fault.LAB else "bad"
    return "good" if step.outcome is StepOutcome.PASSED else "quiet"


def night_tone(night: Night) -> str:
    """Return the class for a night."""
    if night.fault is not None:
        return "warn" if night.fault is Fault.LAB else "bad"
    if night.is_interrupted or not night.is_comparable:
        return "warn"
    tones = {colour_tone(colour) for colour in _noticed(night)}
    return next((tone for tone in ("bad", "warn") if tone in tones), "good")


def night_word(night: Night) -> str:
    """Return what a night was in a word or two: `good`, `amber`, `not compared`, or whose fault it failed by."""
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
    """Return what a night was in a clause."""
    if night.fault is not None:
        return _FAULTS[night.fault]
    if night.is_interrupted:
        return "interrupted before it was done"
    counts = night_counts(night)
    return f"{night_word(night)}; {f'series: {counts}' if counts else 'nothing was measured'}"


def night_lines(night: Night) -> tuple[str, ...]:
    """Return what else there is to say of a night: what failed, what is not compared."""
    failed = [f"{step.name.value}: {step.sentence}" for step in night.steps if step.outcome is StepOutcome.FAILED]
    because = night.not_comparable_because
    if because and because not in failed:
        failed.append(f"not compared: {because}")
    return tuple(failed)


def night_counts(night: Night) -> str:
    """Return how a night's series were judged: `9 good, 1 amber`; empty where it has none."""
    found = Counter(one.colour for one in night.judgements)
    return ", ".join(f"{found[colour]} {colour_word(colour)}" for colour in Rating if found[colour])


def title_of(key: SeriesKey) -> str:
    """Return what a series is about: `cat8000v, wan50: probe by ftp`."""
    by = "" if key.transport == "ssh" else f" by {key.transport}"
    return f"{_node_words(key)}, {key.condition}: {key.verb}{by}"


def _node_words(key: SeriesKey) -> str:
    """Return what was booted; most images have their node definition's name in their own: it is not named twice."""
    node, image = key.node_definition, key.image_definition or ""
    return image if image.startswith(node) else f"{node} {image}".rstrip()


def figure_of(key: SeriesKey, value: float | None) -> str:
    """Return a series' figure in words, or a dash for none."""
    return DASH if value is None else figure(key, value)


def condition_words(found: LinkCondition | None) -> str:
    """Return what a link does to packets: `50 Mbit/s, 50 ms, 0.01% lost`."""
    if found is None:
        return "not read"
    words = [link_rate(found.bandwidth_kbps * 1e3) if found.bandwidth_kbps else "no limit", f"{found.latency_ms} ms"]
    words += [f"{found.jitter_ms} ms jitter"] if found.jitter_ms else []
    words += [f"{found.loss_percent:g}% lost"] if found.loss_percent else []
    return ", ".join(words)


def _noticed(night: Night) -> set[Rating]:
    return {one.colour for one in night.judgements}
