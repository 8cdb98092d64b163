"""One transfer as the store keeps it: figures in columns, to be searched; the whole account compressed beside them."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from flashferry.model.codec import kept_json

if TYPE_CHECKING:
    from flashferry.fileserver import TransferRecord

STAGE = "stage"
PROBE_AS_IS = "probe as it is"
PROBE_TUNED = "probe tuned"

NULL = "null:"
"""Target of a copy that writes no flash."""

COLUMNS = (
    "run_id",
    "host",
    "at",
    "identity",
    "kind",
    "tuned",
    "target",
    "image",
    "ticket_id",
    "outcome",
    "size_bytes",
    "bytes_acked",
    "duration_s",
    "rate_bytes_per_s",
    "steady_bytes_per_s",
    "rtt_s",
    "window_bytes",
    "congestion_control",
    "verdict",
    "record",
)
"""What `row_of` returns, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTransfer:
    """A transfer, delivered or not, with what the server's account of it does not know.

    Attributes:
        identity: What the device calls itself.
        kind: STAGE, PROBE_AS_IS or PROBE_TUNED.
        tuned: Whether lines of ours were in force.
        target: Path on the device, or `null:`.
        image: Name of the image; of a speed test, of its file.
        record: The server's account, with its samples.
        steady_bytes_per_s: Rate behind the start, or None where the copy was too short to tell.
    """

    identity: str
    kind: str
    tuned: bool
    target: str
    image: str
    record: TransferRecord
    steady_bytes_per_s: float | None = None


def row_of(run_id: str, host: str, kept: KeptTransfer) -> tuple[Any, ...]:
    """Return the values of COLUMNS for a transfer."""
    record = kept.record
    return (
        run_id,
        host,
        utc(record.started_at),
        kept.identity,
        kept.kind,
        int(kept.tuned),
        kept.target,
        kept.image,
        record.ticket_id,
        record.outcome,
        record.size_bytes,
        record.bytes_acked,
        record.duration_s,
        record.rate_bytes_per_s,
        kept.steady_bytes_per_s,
        record.min_rtt_s,
        record.max_window_bytes,
        record.sender.congestion_control,
        record.verdict.kind.value,
        packed(kept_json(record)),
    )


def packed(value: object) -> bytes:
    """Return JSON types compressed: an hour's samples shrink to a tenth."""
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode())


def unpacked(stored: bytes) -> dict[str, Any]:
    """Return what `packed` was given.

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
    """Return a wall-clock time (seconds since 1970) as the store writes it: ISO 8601, UTC, milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
