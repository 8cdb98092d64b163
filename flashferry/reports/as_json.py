"""The report as JSON, `flashferry.report/1`: the model itself, readings in the units of the report; and its schema.

Its JSON Schema is made from the model, see `flashferry.reports.json_schema`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flashferry.core.codec import decode, to_json
from flashferry.core.outside import json_text, redact_json
from flashferry.reports.json_schema import json_schema
from flashferry.reports.model import SCHEMA, Report
from flashferry.tcp.sample import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A reading of TCP_INFO at our server, as far as a report needs it.

    Attributes:
        at_s: Seconds since the transfer began.
        acked_bytes: Payload acknowledged so far.
        window_bytes: Receive window that the device advertised; null where the kernel does not report it.
        rtt_s: Smoothed round-trip time.
        retransmitted_bytes: Bytes sent again so far.
        in_flight_bytes: Bytes sent and not yet acknowledged.
    """

    at_s: float
    acked_bytes: int
    window_bytes: int | None
    rtt_s: float
    retransmitted_bytes: int | None
    in_flight_bytes: int


FORMS: dict[Any, Any] = {Sample: Reading}
"""What stands in the JSON instead of a type of the model."""


def report_json(report: Report) -> str:
    """Return the report as one JSON document."""
    return json_text(redact_json(report_document(report)), indent=2) + "\n"


def report_document(report: Report) -> dict[str, Any]:
    """Return the report as JSON types."""
    document: dict[str, Any] = to_json(report)
    for device, written in zip(report.devices, document["devices"], strict=True):
        for transfer, made in zip(device.transfers, written["transfers"], strict=True):
            made["samples"] = [to_json(_reading(sample)) for sample in transfer.samples]
    return {"schema": document.pop("schema"), **document}


def report_of(document: Mapping[str, Any]) -> Report:
    """Return the report that a document is, for who was sent it: readings have in them what a document keeps of them.

    Raises:
        CodecError: It is none.
    """
    content: dict[str, Any] = dict(document)
    devices = content.get("devices")
    for device in devices if isinstance(devices, list) else ():
        transfers = device.get("transfers") if isinstance(device, dict) else None
        for transfer in transfers if isinstance(transfers, list) else ():
            if isinstance(transfer, dict) and "samples" in transfer:
                readings = decode(tuple[Reading, ...], transfer["samples"])
                transfer["samples"] = [to_json(_sample(one)) for one in readings]
    return decode(Report, content)


def _sample(reading: Reading) -> Sample:
    return Sample(
        at_s=reading.at_s,
        rtt_us=round(reading.rtt_s * 1e6),
        # In flight are so many segments of that size: of the two, documents keep the product.
        snd_mss_bytes=max(1, reading.in_flight_bytes),
        snd_cwnd_segments=1,
        unacked_segments=min(1, reading.in_flight_bytes),
        bytes_acked=reading.acked_bytes,
        snd_wnd_bytes=reading.window_bytes,
        bytes_retrans=reading.retransmitted_bytes,
    )


def _reading(sample: Sample) -> Reading:
    return Reading(
        at_s=round(sample.at_s, 3),
        acked_bytes=sample.bytes_acked,
        window_bytes=sample.snd_wnd_bytes,
        rtt_s=sample.rtt_us / 1e6,
        retransmitted_bytes=sample.bytes_retrans,
        in_flight_bytes=sample.in_flight_bytes,
    )


def report_schema() -> dict[str, Any]:
    """Return the schema as JSON types; `docs/report.schema.json` is this, and a test holds it."""
    return json_schema(Report, SCHEMA, title=f"flashferry report, {SCHEMA}", forms=FORMS)


if __name__ == "__main__":
    import json
    import sys

    sys.stdout.write(json.dumps(report_schema(), indent=2) + "\n")
