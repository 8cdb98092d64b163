"""Compare a finding with what the rule expects; every deviation is a sentence. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.e2e.matrix.aftermath import is_ready, of_what_follows
from tests.e2e.matrix.cells import OLD_WINDOW, Cell
from tests.e2e.matrix.faults import COLLEAGUES_LINE, COLLEAGUES_WINDOW, PUSH, SCP_SERVER, SSH_TRANSPORTS
from tests.e2e.matrix.finding import Ending, Finding
from tests.e2e.matrix.points import APPLET, NO_KILL
from tests.e2e.matrix.rules import Expectation, Reach, equals_start_by_itself, expected


def complaints(cell: Cell, found: Finding) -> list[str]:
    """Return what is not as the rule says; nothing where all is well."""
    wanted = expected(cell.point, cell.fault)
    if wanted.reach is Reach.PERHAPS and found.ending is Ending.DONE:
        wanted = expected(NO_KILL, cell.fault)
    return [
        *_of_the_run(wanted, found),
        *_of_the_record(wanted, found),
        *_of_the_router(wanted, found, has_window=OLD_WINDOW in cell.start.config_lines),
        *_of_recovery(wanted, found),
        *_of_names(wanted, found),
        *_of_the_file(wanted, found),
        *_of_the_fault(cell, wanted, found),
        *_of_the_applet(cell, found),
        *of_what_follows(cell, found),
        *(f"secret in {place}" for place in found.leaks),
    ]


def _of_the_run(wanted: Expectation, found: Finding) -> Iterator[str]:
    allowed = {
        Reach.YES: {Ending.KILLED}, Reach.NO: {Ending.DONE}, Reach.PERHAPS: {Ending.KILLED, Ending.DONE}
    }[wanted.reach]  # fmt: skip
    if found.ending not in allowed:
        yield f"run: expected it to be {' or '.join(sorted(allowed))}, found it {found.ending}: {found.said}"


def _of_the_fault(cell: Cell, wanted: Expectation, found: Finding) -> Iterator[str]:
    """A cell counts only where what should go wrong did, and where the search knew what to search for."""
    if cell.fault.kills_recovery and wanted.pending and found.recoveries[0].ending is not Ending.KILLED:
        yield f"recover: expected the first one to be killed, found it {found.recoveries[0].ending}"
    if found.ending is not Ending.DONE or found.record is None:
        return
    if cell.fault.cuts_session and not (found.record["reconciled"] or found.record["failure"]):
        yield "the fault: expected a lost session to be told, found none"
    went_by = (found.record.get("transfer") or {}).get("transport", cell.fault.transport)
    if went_by != cell.fault.transport:
        yield f"the column: expected a copy by {cell.fault.transport}, found one by {went_by}"
    ours = [change["keyword"] for change in found.record.get("changes", ())]
    if cell.fault.transport in SSH_TRANSPORTS and not any(keyword.startswith("ssh ") for keyword in ours):
        yield f"the column: expected a line of the SSH channel's window among ours, found {ours}"
    is_on = SCP_SERVER in cell.start.config_lines
    if cell.fault.transport == PUSH and ("scp server" in ours) == is_on:
        yield f"the column: expected '{SCP_SERVER}' {'not ' if is_on else ''}among our lines, found {ours}"
    # A push has no ticket: it goes by the login of the device, which is searched for in every cell.
    if wanted.fails_at != "tune" and cell.fault.transport != PUSH and not found.tickets:
        yield "secrets: expected a ticket to search for, found none"


def _of_the_applet(cell: Cell, found: Finding) -> Iterator[str]:
    """A column with an applet counts only where there was one; where it ran behind a kill, nobody else is needed."""
    if cell.fault.dead_man and found.ending is Ending.DONE and found.record is not None:
        is_armed = bool((found.record.get("dead_man") or {}).get("is_armed"))
        if is_armed == (APPLET in cell.fault.never_set):
            yield f"the column: expected {'no' if is_armed else 'an'} applet, found otherwise"
    if found.alone is None or not equals_start_by_itself(cell.point, cell.fault):
        return
    if difference := _difference(Counter(found.before.running), Counter(found.alone.running)):
        yield f"by the router's own doing: running configuration: {difference}"
    if difference := _difference(Counter(found.before.startup), Counter(found.alone.startup)):
        yield f"by the router's own doing: startup configuration: {difference}"


def _of_the_record(wanted: Expectation, found: Finding) -> Iterator[str]:
    record = found.record
    if record is None:
        if found.ending is Ending.DONE:
            yield "record: expected one of a run that ended, found none"
        return
    outcome, restored = record["outcome"], record["restored"]
    if outcome in {"done", "already there"} and not found.image_is_right and not wanted.removed:
        yield f"FALSE SUCCESS: outcome '{outcome}', but the image on flash is {_image(found)}"
    step = record["failure"]["step"] if record["failure"] else None
    if wanted.fails_at != "" and step != wanted.fails_at:
        yield f"record: expected {wanted.fails_at or 'no'} failure, found {step}: {record['failure']}"
    if (outcome == "done") != (record["failure"] is None):
        yield f"record: outcome '{outcome}' with failure {record['failure']}"
    proper = _restored(wanted, incomplete=wanted.first_is_incomplete)
    if restored != proper:
        yield f"record: expected restored '{proper}', found '{restored}'"


def _of_the_router(wanted: Expectation, found: Finding, *, has_window: bool) -> Iterator[str]:
    running = Counter(found.before.running)
    if wanted.extra_line:
        running[COLLEAGUES_LINE] += 1
    if wanted.foreign_window:
        running[COLLEAGUES_WINDOW] += 1
        running[OLD_WINDOW] -= has_window
    startup = Counter(found.before.startup)
    pairs = (("running", running, found.before.running, found.after.running),
             ("startup", startup, found.before.startup, found.after.startup))  # fmt: skip
    for name, lines, before, after in pairs:
        if difference := _difference(+lines, Counter(after)):
            yield f"{name} configuration: {difference}"
        elif +lines == Counter(before) and after != before:
            yield f"{name} configuration: the same lines in another order"


def _of_recovery(wanted: Expectation, found: Finding) -> Iterator[str]:
    ended = [recovery for recovery in found.recoveries if recovery.ending is not Ending.KILLED]
    for recovery in ended:
        if recovery.ending is Ending.CRASHED:
            yield f"recover: crashed: {recovery.said}"
    said = [recovery.records[0]["restored"] if recovery.records else None for recovery in ended]
    if said[-1:] != [None]:
        yield f"recover: expected one with nothing to do in the end, found {said}"
    if found.still_held:
        yield f"journal: still holds {found.still_held} devices"
    told = [one for one in said if one is not None]
    if bool(told) != wanted.pending:
        yield f"recover: expected {'the device' if wanted.pending else 'nothing'} to recover, found {said}"
    if not told:
        return
    final = _restored(wanted, incomplete=wanted.hidden)
    accepted = [recovery.is_accepted for recovery in ended]
    if wanted.awaits != any(accepted):
        yield f"recover: expected {'to be' if wanted.awaits else 'nothing to be'} accepted, found {accepted}"
    before = [one for one, is_accepted in zip(said, accepted, strict=True) if one is not None and not is_accepted]
    if wanted.awaits and set(before) != {"incomplete"}:
        yield f"recover: expected the lease to be kept until it is accepted, found {said}"
    if told[-1] != final:
        yield f"recover: expected '{final}' in the end, found {said}"
    if wanted.first_is_incomplete and told[0] != "incomplete":
        yield f"recover: expected the first one to say that it could not restore, found {said}"
    if "incomplete" in told and not (wanted.first_is_incomplete or wanted.may_be_incomplete):
        yield f"recover: expected the first one to restore, found {said}"


def _of_names(wanted: Expectation, found: Finding) -> Iterator[str]:
    reports = found.restore_reports
    marks = {
        "the colleague's line": (
            wanted.extra_line,
            any("snmp-server" in line for report in reports for line in report["running_difference"]["added"]),
        ),
        "the colleague's value": (
            wanted.foreign_window,
            any(one["present"] == COLLEAGUES_WINDOW for report in reports for one in report["foreign"]),
        ),
        "the colleague's save": (bool(wanted.saved), any(report["startup_changed"] for report in reports)),
    }
    for what, (was_done, is_named) in marks.items():
        should_be = was_done and wanted.named
        if is_named != should_be:
            yield f"{what}: expected to be {'named' if should_be else 'named nowhere'}, found otherwise"


def _of_the_file(wanted: Expectation, found: Finding) -> Iterator[str]:
    """What is on flash and no success must be named to the operator, if the journal held the router.

    A file that the record proves is named by that: then something behind the copy failed.
    """
    if found.image_is_right is None:
        return
    is_success = found.record is not None and (
        found.record["outcome"] == "done" or (bool(found.image_is_right) and bool(found.record.get("verify")))
    )
    if found.ending is Ending.KILLED and not wanted.pending:
        return
    told = [found.record] if found.record else []
    told += [record for recovery in found.recoveries for record in recovery.records]
    if not is_success and not any(one["partial_file"] for one in told):
        yield "the file on flash: expected to be named, found otherwise"


def _restored(wanted: Expectation, *, incomplete: bool) -> str:
    if incomplete:
        return "incomplete"
    is_kept = wanted.named and (wanted.extra_line or wanted.foreign_window)
    return "restored but for somebody else's change" if is_kept else "restored"


def _difference(wanted: Counter[str], found: Counter[str]) -> str:
    missing, added = sorted((wanted - found).elements()), sorted((found - wanted).elements())
    return "; ".join(
        f"{word} {', '.join(map(repr, lines))}" for word, lines in (("missing", missing), ("added", added)) if lines
    )


def _image(found: Finding) -> str:
    return "not there" if found.image_is_right is None else "another"


def letter(cell: Cell, found: Finding) -> str:
    """Return a finding in a letter or two, for the table."""
    if complaints(cell, found):
        return "**!**"
    told = [recovery.records[0] for recovery in found.recoveries if recovery.records]
    kept = any(one["restored"].startswith("restored but") for one in [*told, *([found.record] if found.record else [])])
    tries = "" if len(told) < 2 else str(len(told))
    if found.ending is Ending.DONE:
        assert found.record is not None
        is_good = found.record["outcome"] == "done"
        is_not_ready = is_good and is_ready(found.record) not in {None, "yes"}
        return ("D" if is_good else "F") + "N" * is_not_ready + "K" * kept + "R" * bool(told) + tries
    return ("K" if kept else "R" if told else "U") + tries
