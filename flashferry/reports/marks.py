"""Colours, signs and bars of the HTML report. They contain no text from devices."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from html import escape

from flashferry.model.states import Tone
from flashferry.reports.model import DeviceReport, Proof, RestoreReport, Severity, StepTime
from flashferry.reports.words import duration, rate
from tasks.step import COPY_WORD

_BAR = 96
_STEPS = 480


class Marks(StrEnum):
    """Signs beside colours, for grey printouts and colour-blind readers."""

    GOOD = "\u2713"
    BAD = "\u2717"
    WARN = "!"
    OPEN = "\u2026"


_SIGNS = {Tone.GOOD: Marks.GOOD, Tone.QUIET: Marks.OPEN, Tone.WARN: Marks.WARN, Tone.BAD: Marks.BAD}
_PROOF_TONES = {
    Proof.PROVEN: Tone.GOOD,
    Proof.UNTOUCHED: Tone.GOOD,
    Proof.IN_PROGRESS: Tone.QUIET,
    Proof.UNKNOWN: Tone.WARN,
}


PROOF_WORDS = {
    Proof.PROVEN: "proven",
    Proof.UNTOUCHED: "untouched",
    Proof.FOREIGN: "changed by others",
    Proof.NOT_PROVEN: "not proven",
    Proof.IN_PROGRESS: "under way",
    Proof.UNKNOWN: "not known",
}
"""State of a configuration, for narrow columns."""


def tone(device: DeviceReport) -> Tone:
    """Return the colour of a device: of its outcome, unless its configuration is not proven restored."""
    return Tone.BAD if device.standing is Severity.UNRESTORED else device.phase.tone


def mark(device: DeviceReport) -> str:
    """Return the sign of a device."""
    return _SIGNS[tone(device)].value


def proof_word(restore: RestoreReport) -> str:
    """Return the state of a configuration, for narrow columns."""
    return "accepted" if restore.is_accepted else PROOF_WORDS[restore.proof]


def proof_tone(restore: RestoreReport) -> Tone:
    """Return the colour of the state of a configuration."""
    return Tone.WARN if restore.is_accepted else _PROOF_TONES.get(restore.proof, Tone.BAD)


def pair_bars(device: DeviceReport, largest_bytes_per_s: float) -> str:
    """Return the speeds before and after as two bars, scaled to the fastest of all; empty without either."""
    before, after = device.as_is, device.speed
    if not largest_bytes_per_s or (before is None and after is None):
        return ""
    said = f"before {rate(before.bytes_per_s if before else None)}, after {rate(after.bytes_per_s if after else None)}"
    bars = "".join(
        f'<rect class="{name}" y="{top}" width="{max(1, round(_BAR * speed.bytes_per_s / largest_bytes_per_s))}" '
        f'height="{height}"/>'
        for name, top, height, speed in (("w", 0, 5, before), ("t", 6, 8, after))
        if speed is not None
    )
    return f'<svg class="pair" width="{_BAR}" height="15" role="img" aria-label="{said}">{bars}</svg>'


def step_bar(steps: Sequence[StepTime]) -> str:
    """Return the durations of the steps as one bar; the copy is highlighted."""
    total = sum(one.seconds for one in steps)
    if total <= 0:
        return ""
    parts, over = [], 0.0
    for one in steps:
        width = _STEPS * one.seconds / total
        name = "p" if one.step == COPY_WORD else "o"
        title = f"<title>{escape(one.step)}: {duration(one.seconds)}</title>"
        parts.append(f'<rect class="{name}" x="{over:.1f}" width="{max(0.5, width - 1):.1f}" height="8">{title}</rect>')
        over += width
    box = f'viewBox="0 0 {_STEPS} 8" width="100%" height="8" preserveAspectRatio="none"'
    return f'<svg class="steps" {box} role="img" aria-label="time by step">{"".join(parts)}</svg>'
