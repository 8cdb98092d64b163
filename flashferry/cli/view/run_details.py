"""Which devices of a run's result are shown, and how much of each: a few whole, of many those that need attention."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from flashferry.cli.terminal.output import command
from flashferry.cli.view.layout import BAD, alike, console
from flashferry.core.safe_quote import counted
from flashferry.model.states import GOOD_OUTCOMES, Outcome, Restored
from flashferry.reports.facts import record_facts
from flashferry.reports.words import failure_sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flashferry.model.record import DeviceRecord, Failure, RunReport

FEW = 5
"""Of so many devices everything is shown."""
MOST_ROWS = 60
MOST_DETAILED = 10

_FINE = GOOD_OUTCOMES | {Outcome.NOT_BEGUN}
_LEFT = frozenset({Outcome.NOT_BEGUN, Outcome.INTERRUPTED})


def in_order(devices: Sequence[DeviceRecord]) -> tuple[DeviceRecord, ...]:
    """Return the devices of a run with many so that those that need attention come first; of few as they are."""
    return tuple(devices) if len(devices) <= FEW else tuple(sorted(devices, key=_urgency))


def rows_of(devices: Sequence[DeviceRecord]) -> tuple[DeviceRecord, ...]:
    """Return the devices that get a row: as many as can be read, and in any case those that need attention."""
    ordered = in_order(devices)
    return ordered[: max(MOST_ROWS, sum(needs_attention(device) for device in ordered))]


def print_details(report: RunReport, evidence: Callable[[DeviceRecord], None], *, is_kept: bool = True) -> None:
    """Print the details of the rows: all where there are few devices, else of those that need attention.

    Args:
        report: The run.
        evidence: Prints what was measured and proven of one device.
        is_kept: Whether the run stays in a journal, so that a report of it can be read.
    """
    ordered = in_order(report.devices)
    few = len(ordered) <= FEW
    urgent = [device for device in ordered if few or needs_attention(device)]
    for device in urgent if few else urgent[:MOST_DETAILED]:
        evidence(device)
    if not few and len(urgent) > MOST_DETAILED:
        console().print(f"and {counted(len(urgent) - MOST_DETAILED, 'device')} more that need attention")
    alike((str(fact), device.host) for device in ordered for fact in record_facts(device))
    alike((note, device.host) for device in ordered for note in device.notes)
    alike(((_sentence(why), device.host) for device in urgent for why in _complaints(device)), BAD)
    if not few:
        calm = [device for device in ordered if not needs_attention(device)]
        alike((_sentence(why), device.host) for device in calm for why in _complaints(device))
    _print_end(report, few=few, is_kept=is_kept)


def needs_attention(device: DeviceRecord) -> bool:
    """Return whether a device needs attention; one that was not started does not."""
    restore = device.restore
    return (
        device.outcome not in _FINE
        or device.restored in {Restored.INCOMPLETE, Restored.FOREIGN_CHANGE}
        or (device.partial_file is not None and not device.partial_removed)
        or (restore is not None and bool(restore.foreign or restore.startup_changed))
    )


def _urgency(device: DeviceRecord) -> int:
    if device.restored is Restored.INCOMPLETE:
        return 0
    if needs_attention(device):
        return 1
    return 2 if device.outcome is Outcome.NOT_BEGUN else 3


def _complaints(device: DeviceRecord) -> list[Failure]:
    return [why for why in (device.failure, device.restore_failure) if why is not None]


def _sentence(why: Failure) -> str:
    return failure_sentence(why.step, why.reason, why.hint)


def _print_end(report: RunReport, *, few: bool, is_kept: bool) -> None:
    """Print what became of all, why the run ended early, how it goes on, and where everything stands."""
    counts = Counter(device.outcome.phase for device in report.devices)
    if (without_row := len(report.devices) - len(rows_of(report.devices))) > 0:
        console().print(f"and {counted(without_row, 'device')} more that ended well or were not started")
    if not few:
        text = ", ".join(f"{count} {phase.label}" for phase, count in counts.most_common())
        console().print(f"{counted(len(report.devices), 'device')}: {text}")
    if report.stopped:
        console().print(f"the run started nothing new: {report.stopped}", style=BAD)
    if not is_kept:
        return
    if report.verb == "stage" and any(one.outcome in _LEFT and not one.is_left_by_plan for one in report.devices):
        console().print(f"resume with: {command(f'stage --resume {report.run_id}')}", style=BAD)
    console().print(f"report: {command(f'report {report.run_id}')}")
