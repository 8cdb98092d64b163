"""Readiness for people: a row per device, then what is in the way of each, and what changed since it was staged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from flashferry.cli.view.layout import BAD, GOOD, console, line, print_error, show
from flashferry.core.value_description import counted
from tasks.readiness import Met, Verdict

if TYPE_CHECKING:
    from flashferry.api.readiness import ReadyResult
    from flashferry.planning.readiness import ReadyRecord

_STYLES = {Verdict.YES: GOOD, Verdict.RUNS_IT: GOOD, Verdict.NO: BAD, Verdict.UNKNOWN: "bold yellow"}
_WORDS = {Verdict.YES: "ready", Verdict.RUNS_IT: "runs it already", Verdict.NO: "not ready", Verdict.UNKNOWN: "unknown"}


def print_ready(found: ReadyResult) -> None:
    """Print whether devices are ready: all in a table, then a line for each reason why one is not."""
    show((_row(record) for record in found.devices), wide_only=frozenset({"mode", "conditions"}))
    for record in found.devices:
        if record.readiness is not None:
            for one in record.readiness.in_the_way:
                at = f" ({one.place})" if one.place else ""
                style = BAD if one.met is Met.NOT_MET else "yellow"
                line(record.host, f"{one.name.value}{at}: {one.sentence} ('{one.command}')", style)
        for text in record.since:
            line(record.host, f"since {record.staged_by}: {text}", "yellow")
        print_error(record.host, record.failure)
    print_answer(found)


def print_answer(found: ReadyResult) -> None:
    """Print the answer for all devices together, in a line."""
    answers = [record.readiness for record in found.devices]
    good = sum(1 for one in answers if one is not None and one.is_good)
    lost = sum(1 for one in answers if one is None)
    rest = len(answers) - good - lost
    parts = [f"{good} of {counted(len(answers), 'device')} ready"]
    parts += [f"{rest} not"] if rest else []
    parts += [f"{lost} could not be looked at"] if lost else []
    about = f"plan {found.plan[:12]}: " if found.plan else ""
    answer = "yes" if found.ready else "no"
    console().print(f"{about}{answer}: {', '.join(parts)}", style=GOOD if found.ready else BAD)


def _row(record: ReadyRecord) -> dict[str, str | Text]:
    found = record.readiness
    if found is None:
        return {
            "device": record.host,
            "runs": "-",
            "mode": "-",
            "image": "-",
            "members": "-",
            "conditions": "-",
            "ready": Text("not seen", style=BAD),
        }
    met = sum(1 for one in found.conditions if one.met is Met.MET)
    return {
        "device": record.host,
        "runs": found.running or "-",
        "mode": found.mode,
        "image": found.version or found.image,
        "members": str(len(found.members)) if found.members else "-",
        "conditions": f"{met} met, {len(found.in_the_way)} in the way",
        "ready": Text(_WORDS[found.verdict], style=_STYLES[found.verdict]),
    }
