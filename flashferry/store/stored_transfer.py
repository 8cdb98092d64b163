"""A transfer as the journal keeps it, and those that a device's record has where they are not kept apart. Pure.

A centre has the records of its sites' devices alone: the last transfer of each, and the figures of a speed test's
copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flashferry.core.json_access import Node
from flashferry.store.tables import SampledRow
from flashferry.store.transfer_row import NULL, PROBE_AS_IS, PROBE_TUNED, STAGE, unpacked, utc

_TUNING = frozenset({"window-size", "selective-ack", "timestamps"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTransfer:
    """A transfer of a device in a run.

    Attributes:
        at: When it began, ISO 8601, UTC.
        kind: `stage`, `probe as it is` or `probe tuned`.
        tuned: Whether lines of ours were in force.
        target: Path on the device, or `null:`.
        image: Name of the image; of a speed test, of its file.
        record: JSON of the server's TransferRecord, with its samples.
    """

    at: str
    kind: str
    tuned: bool
    target: str
    image: str
    record: dict[str, Any]

    @classmethod
    def of(cls, row: SampledRow) -> StoredTransfer:
        """Return the transfer of a row.

        Raises:
            ValueError: The row's account is damaged.
        """
        return cls(
            at=row.at,
            kind=row.kind,
            tuned=bool(row.tuned),
            target=row.target,
            image=row.image,
            record=unpacked(row.record),
        )


def transfers_in(record: dict[str, Any], *, updated_at: str) -> tuple[StoredTransfer, ...]:
    """Return the transfers that a device's record names, the oldest first.

    Args:
        record: JSON of a DeviceRecord.
        updated_at: When it was written, for copies whose own time was not kept.
    """
    node = Node(record)
    if isinstance(node.at("probe").value, dict):
        return tuple(_arms(node, updated_at))
    account = node.at("transfer").value
    if not isinstance(account, dict):
        return ()
    target = node.text("pull", "target") or node.text("verify", "path") or _planned_target(node)
    return (_stored(account, STAGE, tuned=was_tuned(record), target=target, updated_at=updated_at),)


def was_tuned(record: dict[str, Any]) -> bool:
    """Return whether lines that make a copy faster were set on the device, by its record."""
    node = Node(record)
    words = {change.text("keyword") for change in node.list("changes")}
    return bool(node.at("tune").value) and bool(words & _TUNING)


def _arms(record: Node, updated_at: str) -> Iterator[StoredTransfer]:
    last = record.at("transfer").value
    for name, kind in (("as_is", PROBE_AS_IS), ("tuned", PROBE_TUNED)):
        arm = record.at("probe", name).value
        if isinstance(arm, dict):
            # The record's own transfer is the last copy of all; it has its samples, and so wins.
            account = last if isinstance(last, dict) and _is_same(last, arm) else _account_of(arm, last)
            yield _stored(account, kind, tuned=kind == PROBE_TUNED, target=NULL, updated_at=updated_at)


def _is_same(account: dict[str, Any], arm: dict[str, Any]) -> bool:
    return (account.get("bytes_acked"), account.get("duration_s")) == (arm.get("size_bytes"), arm.get("duration_s"))


def _account_of(arm: dict[str, Any], last: object) -> dict[str, Any]:
    """Return an arm as a transfer's record; it ended when the last copy started, or before."""
    ended_s = Node(last).number("started_at")
    return {
        "started_at": None if ended_s is None else ended_s - (Node(arm).number("duration_s") or 0.0),
        "outcome": "delivered",
        "size_bytes": arm.get("size_bytes"),
        "bytes_acked": arm.get("size_bytes"),
        "duration_s": arm.get("duration_s"),
        "rate_bytes_per_s": arm.get("server_bytes_per_s"),
        "min_rtt_s": arm.get("rtt_s"),
        "data_syn": arm.get("syn"),
        "sender": arm.get("sender"),
        "verdict": arm.get("verdict"),
        "samples": [],
    }


def _planned_target(record: Node) -> str:
    return f"{record.text('check', 'file_system') or ''}{record.text('transfer', 'image_name') or ''}"


def _stored(account: dict[str, Any], kind: str, *, tuned: bool, target: str, updated_at: str) -> StoredTransfer:
    started_s = Node(account).number("started_at")
    return StoredTransfer(
        at=updated_at if started_s is None else utc(started_s),
        kind=kind,
        tuned=tuned,
        target=target,
        image=Node(account).text("image_name") or "",
        record=account,
    )
