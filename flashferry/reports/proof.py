"""What proves that a device's configuration is what it was, from its record. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashferry.core.json_access import Node
from flashferry.model.states import Restored, State
from flashferry.reports.model import LineReport, Proof, RestoreReport, RunStanding
from flashferry.store.deciding_attempt import restore_source
from tasks.configuration import Difference
from tasks.restore_plan import ForeignChange
from tasks.tcp_config import TcpLines

if TYPE_CHECKING:
    from flashferry.store.stored_run import StoredDevice

_NOTHING_DONE = frozenset({State.PLANNED.value, State.CHECKED.value})
_PROOFS = {
    Restored.UNTOUCHED.value: Proof.UNTOUCHED,
    Restored.RESTORED.value: Proof.PROVEN,
    Restored.FOREIGN_CHANGE.value: Proof.FOREIGN,
    Restored.INCOMPLETE.value: Proof.NOT_PROVEN,
}


def restore_of(device: StoredDevice, run: RunStanding) -> RestoreReport:
    """Return what is known about a device's configuration; what `flashferry recover` did later counts last.

    An attempt that found nothing to do says nothing about one before it that tuned the device.
    """
    decided = restore_source(device.record, device.attempts)
    source, record, by_recovery = Node(decided.account), Node(decided.record), decided.by_recovery
    found = source.at("restore")
    failed = source.at("failure") if by_recovery else record.at("restore_failure")
    difference = _difference(found) if found else None
    startup_changed = found.flag("startup_changed")
    return RestoreReport(
        proof=_proof(device, source.text("restored"), run),
        lines=_lines(record, found),
        commands=found.texts("commands"),
        running_is_equal=None if difference is None else not difference,
        running_difference=str(difference) if difference else "",
        startup_is_equal=None if startup_changed is None else not startup_changed,
        foreign=tuple(str(_foreign(one)) for one in found.list("foreign")),
        failure=failed.text("reason") or "",
        by_recovery=by_recovery,
        is_accepted=decided.is_accepted,
    )


def _proof(device: StoredDevice, restored: str | None, run: RunStanding) -> Proof:
    if device.is_held:
        return Proof.UNDER_WAY if run is RunStanding.ALIVE else Proof.NOT_PROVEN
    if restored in _PROOFS:
        return _PROOFS[restored]
    return Proof.UNTOUCHED if device.state in _NOTHING_DONE else Proof.UNKNOWN


def _difference(found: Node) -> Difference:
    seen = found.at("running_difference")
    return Difference(added=seen.texts("added"), gone=seen.whole("gone") or 0, reordered=bool(seen.flag("reordered")))


def _foreign(found: Node) -> ForeignChange:
    return ForeignChange(
        keyword=found.text("keyword") or "",
        before=found.text("before"),
        ours=found.text("ours") or "",
        present=found.text("present"),
    )


def _lines(record: Node, restored: Node) -> tuple[LineReport, ...]:
    """Return the lines that were set; what they are now is unknown without a check of the device afterwards."""
    if not record.at("tune"):
        return ()
    now = TcpLines(lines=restored.at("running").texts("lines")) if restored else None
    return tuple(_line(change, now) for change in record.list("changes"))


def _line(change: Node, now: TcpLines | None) -> LineReport:
    before = change.text("before")
    after = None if now is None else now.of(change.text("keyword") or "")
    return LineReport(
        ours=change.text("ours") or "",
        before=before,
        after=after,
        is_as_before=None if now is None else after == before,
    )
