"""A run in two or three sentences: what came of it, what stands of the configurations, what it saved. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from flashferry.model.states import Phase
from flashferry.reports.model import NOT_STARTED, Proof, Report, RunStanding
from flashferry.reports.sites import counts
from flashferry.reports.words import devices, duration

_MOST_REASONS = 3
_LEFT = frozenset({Proof.NOT_PROVEN.value, Proof.IN_PROGRESS.value, Proof.UNKNOWN.value})
_FINE = frozenset({Proof.PROVEN.value, Proof.UNTOUCHED.value})
_DONE = {
    "stage": ("has the image, proven by its hash", "have the image, proven by its hash"),
    "activate": ("runs its image as it should", "run their image as they should"),
    "probe": ("was tested for speed", "were tested for speed"),
}
"""Of one device, and of any other number."""


def headline(report: Report) -> str:
    """Return what came of the devices."""
    found = report.summary
    done = _DONE.get(report.verb, ("is done", "are done"))[found.good != 1]
    of = f"{found.good:,} of {devices(found.devices)}"
    others = [f"{count.devices:,} {count.word}" for count in counts(_not_good(report))]
    rest = f"; {', '.join(others)}" if others else ""
    return f"{of} {done}{rest}."


def _not_good(report: Report) -> Iterator[str]:
    return (one.label for one in report.devices if one.phase is not Phase.DONE)


def state_line(report: Report) -> str:
    """Return where the run stands, where that must be known to read the rest; else an empty text."""
    if report.standing is RunStanding.ALIVE:
        return "The run is under way: this is how it stood when the report was written."
    if report.standing is RunStanding.DIED:
        return f"The run was killed: no process works on it. {_what_next(report)}"
    return _why_not_started(report)


def _what_next(report: Report) -> str:
    """Return what is to be done about a dead run; a recovery may have been there since."""
    is_left = any(one.restore.proof in _LEFT and not one.restore.is_accepted for one in report.devices)
    left = "Run 'flashferry recover' for what it left" if is_left else "Nothing of it is left on a device"
    resume = f"'flashferry stage --resume {report.run_id}'"
    on = f", then {resume} to go on" if is_left else f"; {resume} goes on"
    return f"{left}{on if report.verb == 'stage' else ''}."


def _why_not_started(report: Report) -> str:
    """Return why devices of an ended run had no turn, by how many each reason kept; empty where all had theirs."""
    found = Counter(one.reason for one in report.devices if one.outcome == NOT_STARTED and one.reason)
    reasons = [
        f"{devices(count)} {Phase.NOT_STARTED.label}: {reason}" for reason, count in found.most_common(_MOST_REASONS)
    ]
    return f"{'; '.join(reasons)}." if reasons else ""


def configuration_line(report: Report) -> str:
    """Return what is proven about the configurations."""
    found = {count.word: count.devices for count in report.summary.proofs}
    total = report.summary.devices
    fine = sum(number for word, number in found.items() if word in _FINE)
    proven = found.get(Proof.PROVEN.value, 0)
    if fine == total:
        parts = (
            f"{proven:,} changed, restored and proven equal to the start" if proven else "",
            f"{total - proven:,} never changed" if total > proven else "",
        )
        # In bundle mode what runs for good is named in front of the boot order, which is saved.
        order = " but for the boot order of what was activated" if report.verb == "activate" else ""
        return f"Every configuration is what it was{order}: {'; '.join(part for part in parts if part)}."
    others = counts(one.restore.label for one in report.devices if one.restore.proof.value not in _FINE)
    left = ", ".join(f"{one.devices:,} {one.word}" for one in others)
    word = "configuration is what it was" if total == 1 else "configurations are what they were"
    return f"{fine:,} of {total:,} {word}; {left}."


def saved_line(report: Report) -> str:
    """Return what tuning saved; empty where it was not measured."""
    found = report.summary
    if found.saved_s is None:
        return ""
    who = devices(found.saved_devices)
    if found.saved_s < 0:
        return f"Against the devices' own TCP settings the copies of {who} took {duration(-found.saved_s)} longer."
    return f"Tuning saved {duration(found.saved_s)} of copy time, over the {who} whose speed before is known."
