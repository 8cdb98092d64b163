"""Convert a transfer to its row: figures in columns for queries, the complete record compressed."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from flashferry.core.codec import stored_json
from flashferry.store.tables import SampledRow

if TYPE_CHECKING:
    from flashferry.fileserver import TransferRecord

STAGE = "stage"
PROBE_AS_IS = "probe as it is"
PROBE_TUNED = "probe tuned"

NULL = "null:"
"""Target of a copy that writes no flash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferEntry:
    """A transfer, delivered or not, with what the server does not know about it.

    Attributes:
        identity: Serial number and host name of the device.
        kind: STAGE, PROBE_AS_IS or PROBE_TUNED.
        tuned: Whether our TCP settings were in force.
        target: Path on the device, or `null:`.
        image: Name of the image, or of the speed test's file.
        record: The server's record, with its samples.
        steady_bytes_per_s: Rate after slow start; None if the copy was too short.
    """

    identity: str
    kind: str
    tuned: bool
    target: str
    image: str
    record: TransferRecord
    steady_bytes_per_s: float | None = None


def row_of(run_id: str, host: str, entry: TransferEntry) -> SampledRow:
    """Return a transfer as a row, without what only the device's record has (see `annotate`)."""
    record = entry.record
    return SampledRow(
        run_id=run_id,
        host=host,
        at=utc(record.started_at),
        identity=entry.identity,
        kind=entry.kind,
        tuned=int(entry.tuned),
        target=entry.target,
        image=entry.image,
        ticket_id=record.ticket_id,
        outcome=record.outcome,
        size_bytes=record.size_bytes,
        bytes_acked=record.bytes_acked,
        duration_s=record.duration_s,
        rate_bytes_per_s=record.rate_bytes_per_s,
        steady_bytes_per_s=entry.steady_bytes_per_s,
        rtt_s=record.min_rtt_s,
        window_bytes=record.max_window_bytes,
        congestion_control=record.sender.congestion_control,
        verdict=record.verdict.kind.value,
        device_s=None,
        model=None,
        transport=record.transport,
        record=packed(stored_json(record)),
    )


def packed(value: object) -> bytes:
    """Serialise and compress JSON types; an hour's samples shrink to a tenth."""
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode())


def unpacked(stored: bytes) -> dict[str, Any]:
    """Reverse `packed`.

    Raises:
        ValueError: It is damaged, or no JSON object.
    """
    try:
        found = json.loads(zlib.decompress(stored))
    except (zlib.error, TypeError) as error:
        raise ValueError(f"damaged: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"expected an object, found {type(found).__name__}")  # noqa: TRY004 -- one error for damage
    return found


def utc(seconds: float) -> str:
    """Format seconds since 1970 as the journal stores times: ISO 8601, UTC, milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
