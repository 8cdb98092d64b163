"""Judge what follows the restore: whether the box holds what the run says, and another run finishes it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.e2e.matrix.cells import Cell
from tests.e2e.matrix.faults import Fault
from tests.e2e.matrix.finding import Box, Configurations, Ending, Finding, NextRun


def of_what_follows(cell: Cell, found: Finding) -> Iterator[str]:
    """Return what is not as it must be, in columns where something follows the restore."""
    if not cell.fault.goes_on:
        return
    if found.ending is Ending.DONE and found.record is not None:
        yield from _of_the_words(cell.fault, found.record, found.box)
        yield from _of_the_fault(cell.fault, found.record, found)
    if found.next_run is None:
        yield "next run: expected one, found none"
    else:
        yield from _of_the_next_run(cell.fault, found.next_run, found.before)


def is_ready(record: dict[str, Any]) -> str | None:
    """Return what a record says about whether the device is ready; None where nobody asked."""
    readiness = record.get("readiness")
    return str(readiness["verdict"]) if readiness else None


def _is_whole(fault: Fault, box: Box) -> bool:
    """Return whether the image is wherever this column wants it."""
    others = all(box.members_are_right) if fault.hands_on else box.is_added
    return bool(box.image_is_right) and others


def _of_the_words(fault: Fault, record: dict[str, Any], box: Box) -> Iterator[str]:
    """Return what a run that was not killed says wrongly about the box."""
    verdict, has_failed, is_whole = is_ready(record), record["failure"] is not None, _is_whole(fault, box)
    if verdict == "yes" and not is_whole:
        yield f"FALSE READY: the device is called ready, the lab finds {box}"
    if not has_failed and not fault.removes and (verdict != "yes" or not is_whole):
        yield f"readiness: expected 'yes' and the image all over the box, found '{verdict}' and {box}"
    if not has_failed and fault.removes and verdict != "no":
        yield f"readiness: expected 'no' behind the removal, found '{verdict}'"
    copies = (record.get("distribution") or {}).get("copies", ())
    if fault.hands_on and not has_failed and len(copies) != len(box.members_are_right):
        yield f"the column: expected {len(box.members_are_right)} copies inside the box, found {len(copies)}"
    outcome = (record.get("added") or {}).get("outcome")
    if fault.adds and not has_failed and outcome != "added":
        yield f"the column: expected the image to be added, found '{outcome}'"


def _of_the_fault(fault: Fault, record: dict[str, Any], found: Finding) -> Iterator[str]:
    """A column counts only where what it is named after happened, by the lab's own eyes."""
    failure = record["failure"] or {}
    said = f"{failure.get('reason')} {failure.get('hint')}"
    if "member_leaves_after_bytes" in fault.switches:
        if not found.left:
            yield "the fault: expected a member to leave, none did"
        if not any(name in said for name in ("flash-", "stby-")):
            yield f"the member that left: expected to be named, found {said}"
    if fault.removes and found.box.image_is_right is not None:
        yield "the fault: expected the image to be removed, it is there"
    if "flash_full" in fault.strikes and ("requires" not in said or found.box.is_added):
        yield f"the fault: expected want of room and nothing added, found {said} and {found.box}"


def _of_the_next_run(fault: Fault, run: NextRun, before: Configurations) -> Iterator[str]:
    """The next run finishes: image, members, packages, and a device that is as it was at the start."""
    record = run.record
    if run.ending is not Ending.DONE or record is None:
        yield f"next run: expected it to end, found it {run.ending}: {run.said}"
        return
    if record["failure"] is not None or record["outcome"] not in {"done", "already there"}:
        yield f"next run: expected it to finish, found '{record['outcome']}': {record['failure']}"
    if not _is_whole(fault, run.box) or is_ready(record) != "yes":
        yield f"next run: expected 'yes' and the image all over the box, found '{is_ready(record)}' and {run.box}"
    if record["restored"] not in {"restored", "untouched"}:
        yield f"next run: expected the device to be restored, found '{record['restored']}'"
    if run.after != before:
        yield "next run: expected both configurations as they were at the start, found others"
