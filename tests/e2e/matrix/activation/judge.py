"""Hold what was found in a cell against the lab's truth, and against the rule; every deviation is a sentence. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from flashferry.model.activation import ActivationOutcome
from tests.e2e.matrix.activation.cells import NEW_LINE, OLD_LINE, Cell
from tests.e2e.matrix.activation.faults import PORT
from tests.e2e.matrix.activation.finding import Finding, Truth
from tests.e2e.matrix.activation.points import Mode
from tests.e2e.matrix.activation.rules import expected
from tests.e2e.matrix.finding import Ending, Recovery

_RESTARTING = ("given: install activate", "given: reload", "given: install abort", "given: install add")
_AS_IT_WAS = {"restored", "untouched"}
_KEPT = "restored but for somebody else's change"


def complaints(cell: Cell, found: Finding) -> list[str]:
    """Return what is not as it must be; nothing where all is well."""
    return [
        *_of_the_run(cell, found),
        *_of_restarts(found),
        *_of_the_truth(cell, found),
        *_of_the_configurations(cell, found),
        *_of_the_words(cell, found),
        *_of_commands(found),
        *_of_what_is_open(found),
        *_of_recovery(cell, found),
        *_of_the_fault(cell, found),
        *(f"secret in {place}" for place in found.leaks),
    ]


def runs_new(cell: Cell, truth: Truth) -> bool:
    """Return whether a device runs the new image for good, by the lab's own eyes."""
    is_kept = cell.mode is Mode.BUNDLE or truth.packages.get(cell.start.new) == "C"
    return truth.is_up and truth.runs == cell.start.new and is_kept


def runs_old(cell: Cell, truth: Truth) -> bool:
    """Return whether it runs the old image, and nothing waits for a commit."""
    is_kept = cell.mode is Mode.BUNDLE or truth.packages.get(cell.start.old) == "C"
    return truth.is_up and truth.runs == cell.start.old and is_kept and not set(truth.packages.values()) & {"U", "D"}


def _of_the_run(cell: Cell, found: Finding) -> Iterator[str]:
    wanted = expected(cell.point, cell.fault)
    if found.ending is not wanted.ending:
        yield f"run: expected it {wanted.ending}, found it {found.ending}: {found.said}"
    if found.ending is Ending.DONE and found.record is None:
        yield "record: expected one of a run that ended, found none"


def _of_restarts(found: Finding) -> Iterator[str]:
    """No device is restarted by more than one command of ours, and by none behind the run."""
    after = found.after
    given = [one for one in after.happened[len(found.before.happened) :] if one.startswith(_RESTARTING)]
    if len(given) > 1:
        yield f"RESTARTED AGAIN: expected one command that restarts at most, found {given}"
    behind = [one for one in after.happened[len(found.ended.happened) :] if one.startswith(_RESTARTING)]
    # What was sent in the moment of the kill arrives behind it.
    if behind and given != behind:
        yield f"RESTARTED AGAIN: expected no such command behind the run, found {behind}"
    ours = after.count("restart: ") - after.count("timer: ran out") - after.count("event: reboot")
    if ours > len(given) or ours > 1:
        yield f"RESTARTED AGAIN: expected {len(given)} restarts by us at most, found {ours}: {after.happened}"


def _of_the_truth(cell: Cell, found: Finding) -> Iterator[str]:
    """The device stands in one of two places, and a colleague sees the same as the lab."""
    is_new, is_old = runs_new(cell, found.after), runs_old(cell, found.after)
    if is_new == is_old:
        yield f"device: expected one image or the other for good, found {found.after.runs}, {found.after.packages}"
        return
    release = cell.start.new_release if is_new else cell.start.old_release
    version = found.seen.get("show version", "")
    if re.search(rf"Version {re.escape(release)}\b|Version {re.escape(release)},", version) is None:
        yield f"a colleague: expected to see {release}, found {version[:200]!r}"
    if cell.mode is Mode.INSTALL:
        summary = found.seen.get("show install summary", "")
        image = cell.start.new if is_new else cell.start.old
        if f"C    {image}" not in summary or "timer: inactive" not in summary or "IMG   U" in summary:
            yield f"a colleague: expected {image} committed and no timer, found {summary!r}"


def _of_the_configurations(cell: Cell, found: Finding) -> Iterator[str]:
    is_new = cell.mode is Mode.BUNDLE and runs_new(cell, found.after)
    line = cell.fault.line
    has_line = _has_line(line, found.after.happened)
    before, after = found.before.configurations, found.after.configurations
    for name, was, now, colleagues in (
        ("running", before.running, after.running, has_line[0]),
        ("startup", before.startup, after.startup, has_line[1]),
    ):
        wanted = _in_front(was) if is_new else was
        others = tuple(one for one in now if one != line)
        if (line in now) is not colleagues:
            yield f"{name} configuration: expected the colleague's line to {'stay' if colleagues else 'be gone'}"
        if others != wanted:
            added, gone = [one for one in others if one not in wanted], [one for one in wanted if one not in others]
            yield (
                f"{name} configuration: expected it {'with the new order' if is_new else 'as it was'}: "
                f"added {added}, gone {gone}"
            )


def _in_front(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return a configuration with the new boot line in front of the old one."""
    at = lines.index(OLD_LINE)
    return (*lines[:at], NEW_LINE, *lines[at:])


def _has_line(line: str, happened: tuple[str, ...]) -> tuple[bool, bool]:
    """Return whether running and startup configuration have the colleague's line, by what happened."""
    running = startup = False
    for one in happened:
        if one == f"typed by another: {line}":
            running = True
        elif one == f"typed by another: no {line}":
            running = False
        elif one in {"event: other_user_saves", "given: write memory"}:
            startup = running
        elif one.startswith("boot: "):
            running = startup
    return running, startup


def _of_the_words(cell: Cell, found: Finding) -> Iterator[str]:
    """What was told last of the activation is what the lab sees."""
    wanted = expected(cell.point, cell.fault)
    if not found.told:
        yield "told: expected what became of the activation, found nothing"
        return
    last = found.told[-1]
    outcome = ActivationOutcome(last["activation"]["outcome"])
    if outcome not in wanted.outcomes:
        yield f"told: expected {' or '.join(sorted(wanted.outcomes))}, found {outcome.value}"
    for record in found.told:
        yield from _of_a_record(cell, found, record)
    if (words := _failure(found)) is not None and outcome is ActivationOutcome.LACKING and PORT not in words:
        yield f"told: expected {PORT} to be named, found {words}"


def _of_a_record(cell: Cell, found: Finding, record: dict[str, Any]) -> Iterator[str]:
    told = record["activation"]
    outcome, truth = ActivationOutcome(told["outcome"]), found.after
    restarts = truth.count("restart: ")
    if outcome.runs_new and not runs_new(cell, truth):
        yield f"FALSE SUCCESS: told '{outcome.value}', the lab finds {truth.runs}, {truth.packages}"
    if outcome.is_good and truth.ports_down:
        yield f"FALSE SUCCESS: told '{outcome.value}', and {PORT} is down"
    if not outcome.runs_new and not runs_old(cell, truth):
        yield f"FALSE WORD: told '{outcome.value}', the lab finds {truth.runs}, {truth.packages}"
    if (outcome is ActivationOutcome.NOT_ACTIVATED) == bool(restarts):
        yield f"FALSE WORD: told '{outcome.value}', the lab counts {restarts} restarts"
    if outcome is ActivationOutcome.ROLLED_BACK and not truth.count("timer: ran out"):
        yield "FALSE WORD: told 'rolled back', and no timer ran out"
    release = cell.start.new_release if outcome.runs_new else cell.start.old_release
    if told["to_release"] != release:
        yield f"told: expected release {release}, found {told['to_release']}"
    proper = {_KEPT} if not outcome.runs_new and _has_line(cell.fault.line, truth.happened)[0] else _AS_IT_WAS
    if record["restored"] not in proper:
        yield f"told: expected {' or '.join(sorted(proper))}, found '{record['restored']}'"


def _of_commands(found: Finding) -> Iterator[str]:
    """What a run says that it restarted the device with is what the lab counts; a recovery says that of nothing."""
    ours = found.after.count("restart: ") - found.after.count("timer: ran out") - found.after.count("event: reboot")
    for record in found.told:
        told = [one for one in record["activation"]["commands"] if one.startswith(("install activate", "reload"))]
        wanted = ours if record is found.record else 0
        if len(told) != wanted:
            yield f"told: expected {wanted} commands that restart, found {told}"


def _of_what_is_open(found: Finding) -> Iterator[str]:
    """A record that does not tell what became of the activation says that the device is not as it should be."""
    records = [one for each in found.recoveries for one in each.records]
    if found.ending is Ending.DONE and found.record is not None:
        records.append(found.record)
    for one in records:
        if not one.get("activation") and one["restored"] != "incomplete":
            yield f"FALSE WORD: '{one['restored']}' of an activation that nothing is said of"


def _failure(found: Finding) -> str | None:
    if found.ending is not Ending.DONE or found.record is None or found.record["failure"] is None:
        return None
    return str(found.record["failure"]["reason"])


def _of_recovery(cell: Cell, found: Finding) -> Iterator[str]:
    wanted = expected(cell.point, cell.fault)
    crashed = [one.said for one in found.recoveries if one.ending is Ending.CRASHED]
    if crashed:
        yield f"recover: crashed: {crashed}"
    said = [_said(one) for one in found.recoveries]
    if said[-1:] != [None]:
        yield f"recover: expected one with nothing to do in the end, found {said}: {_why(found)}"
    if found.still_held:
        yield f"journal: still holds {found.still_held} devices"
    held = tuple(one is not None for one in said)
    if found.statuses != (*held, False):
        yield f"status: expected {(*held, False)} to recover, found {found.statuses}"
    if held[0] is not wanted.pending:
        yield f"recover: expected {'the device' if wanted.pending else 'nothing'} to recover, found {said}"
    if wanted.recovery_dies is not None and ("killed" in said) is not wanted.recovery_dies:
        yield f"recover: expected the first one {'to be killed' if wanted.recovery_dies else 'to end'}, found {said}"
    if wanted.must_be_incomplete and said[0] != "incomplete":
        yield f"recover: expected the first one to say that it could not end it, found {said}"
    if "incomplete" in said and not wanted.may_be_incomplete:
        yield f"recover: expected the first one to end it, found {said}: {_why(found)}"
    if found.ending is Ending.DONE and found.record is not None:
        is_good = found.record["outcome"] == "done"
        told = (found.record.get("activation") or {}).get("outcome")
        if is_good != (told is not None and ActivationOutcome(told).is_good):
            yield f"record: outcome '{found.record['outcome']}' of an activation that is '{told}'"
        if is_good != (found.record["failure"] is None):
            yield f"record: outcome '{found.record['outcome']}' with failure {found.record['failure']}"


def _said(recovery: Recovery) -> str | None:
    """Return what a recovery says of the device; None: that there is nothing to do."""
    if recovery.ending is Ending.KILLED:
        return "killed"
    return str(recovery.records[0]["restored"]) if recovery.records else None


def _why(found: Finding) -> str:
    reasons = [one["failure"]["reason"] for each in found.recoveries for one in each.records if one["failure"]]
    return "; ".join(dict.fromkeys(reasons))[:400]


def _of_the_fault(cell: Cell, found: Finding) -> Iterator[str]:
    """A cell counts only where what should go wrong did, by the lab's own eyes."""
    wanted, start = expected(cell.point, cell.fault), cell.fault.must_tell
    happened = found.after.happened[len(found.before.happened) :]
    if start is not None and wanted.fault_is_met is not None:
        is_met = any(one.startswith(start) for one in happened)
        if is_met is not wanted.fault_is_met:
            word = "come about" if wanted.fault_is_met else "stay away"
            yield f"the fault: expected it to {word} ('{start}'), found {happened}"
    if found.alone is not None and found.alone.count("timer: ran out"):
        if not runs_old(cell, found.alone) or found.alone.configurations != found.before.configurations:
            yield f"by the device's own doing: expected it as it was, found {found.alone.runs}, {found.alone.packages}"
        if found.after.happened != found.alone.happened:
            yield f"by the device's own doing: expected nothing behind it, found {found.after.happened}"


_LETTERS = {
    ActivationOutcome.COMMITTED: "C",
    ActivationOutcome.ACTIVATED: "A",
    ActivationOutcome.LACKING: "L",
    ActivationOutcome.NOT_ACTIVATED: "N",
    ActivationOutcome.ROLLED_BACK: "T",
    ActivationOutcome.CAME_BACK_OLD: "O",
}


def letter(cell: Cell, found: Finding) -> str:
    """Return a finding in a letter or two, for the table."""
    if complaints(cell, found):
        return "**!**"
    outcome = ActivationOutcome(found.told[-1]["activation"]["outcome"])
    tries = len(found.recoveries) - 1
    kept = "K" * (cell.fault.line in found.after.configurations.running)
    return _LETTERS[outcome] + kept + "R" * bool(tries) + (str(tries) if tries > 1 else "")
