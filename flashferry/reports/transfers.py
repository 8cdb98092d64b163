"""Make the reports of a run's transfers, and of a device's speed untuned, tuned, and the gain. Pure.

A speed test to `null:` does not include the flash. A tuned copy to flash is compared with it only if it was faster, so
that the flash limited neither; otherwise no gain and no saved time is stated.

A copy to flash is timed by the device's own clock if possible: our server gets the last acknowledgement while the
device still writes its receive buffer, which with megabytes of window and slow flash is most of a short copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from flashferry.core.json_access import Node
from flashferry.reports.model import Speed, TransferReport, TransportComparedReport, VerdictReport
from flashferry.store.transfer_row import NULL, STAGE
from flashferry.tcp.sample import Sample
from flashferry.tcp.speed_test_size import too_short
from flashferry.tcp.syn import SynOptions
from inventory.transport_policy import USUAL

if TYPE_CHECKING:
    from flashferry.store.history import History
    from flashferry.store.measurements import Measurement
    from flashferry.store.stored_run import StoredDevice, StoredTransfer

_COUNTERS = tuple(one.name for one in msgspec.structs.fields(Sample) if one.default is None and one.name != "sack")
"""Fields that a kernel may not report."""


def transfers_of(device: StoredDevice) -> tuple[TransferReport, ...]:
    """Return all transfers of a device in its run, the oldest first."""
    return tuple(_transfer(one, Node(one.record)) for one in device.transfers)


def _transfer(one: StoredTransfer, account: Node) -> TransferReport:
    sender = account.at("sender")
    return TransferReport(
        at=one.at,
        kind=one.kind,
        is_tuned=one.tuned,
        target=one.target,
        image=one.image,
        outcome=account.text("outcome"),
        size_bytes=account.whole("size_bytes"),
        acked_bytes=account.whole("bytes_acked"),
        duration_s=account.number("duration_s"),
        rate_bytes_per_s=account.number("rate_bytes_per_s") or None,
        rtt_s=account.number("min_rtt_s"),
        window_bytes=account.whole("max_window_bytes"),
        mss_bytes=account.whole("mss_bytes"),
        has_sack=account.flag("sack"),
        syn=_syn(account.at("data_syn") or account.at("control_syn")),
        congestion_control=sender.text("congestion_control"),
        congestion_reason=sender.text("reason"),
        cap_bytes_per_s=sender.number("cap_bytes_per_s"),
        cap_source=sender.text("cap_source"),
        retransmitted_bytes=account.whole("retransmitted_bytes"),
        retransmitted_share=account.number("retransmitted_share"),
        verdict=verdict_of(account.at("verdict")),
        samples=_samples(account.list("samples")),
        transport=account.text("transport") or USUAL,
    )


def verdict_of(found: Node) -> VerdictReport | None:
    """Return a verdict; None for none."""
    return None if found.text("kind") is None else found.values(VerdictReport)


def _syn(found: Node) -> str | None:
    if found.whole("window_bytes") is None or found.whole("ip_version") is None:
        return None
    return found.values(SynOptions).describe()


def _samples(found: tuple[Node, ...]) -> tuple[Sample, ...]:
    """Return the complete readings in order of time."""
    kept = [sample for node in found if (sample := _sample(node)) is not None]
    return tuple(sorted(kept, key=lambda sample: sample.at_s))


def _sample(node: Node) -> Sample | None:
    at_s = node.number("at_s")
    rtt_us, acked, mss = node.whole("rtt_us"), node.whole("bytes_acked"), node.whole("snd_mss_bytes")
    if at_s is None or rtt_us is None or acked is None or mss is None:
        return None
    return Sample(
        at_s=at_s,
        rtt_us=rtt_us,
        snd_mss_bytes=mss,
        snd_cwnd_segments=node.whole("snd_cwnd_segments") or 0,
        unacked_segments=node.whole("unacked_segments") or 0,
        bytes_acked=acked,
        app_limited=bool(node.flag("app_limited")),
        probes=node.whole("probes") or 0,
        all_written=bool(node.flag("all_written")),
        sack=node.flag("sack"),
        **{name: node.whole(name) for name in _COUNTERS},
    )


def speeds_before(history: History, transports: Mapping[str, str], started_at: str) -> dict[str, Speed]:
    """Return the last speed of devices with their own settings before a run, by host, without unmeasured devices.

    A copy to flash takes precedence over a speed test to `null:`, even if it is older.

    Args:
        history: All timed copies.
        transports: Transport of each device in the run; measurements by others do not count.
        started_at: Start of the run, ISO 8601, UTC.
    """
    found: dict[str, Speed] = {}
    for host, transport in transports.items():
        like = [one for one in history.of(host) if one.transport == transport and not one.tuned]
        earlier = [one for one in like if one.at < started_at and one.counts]
        flash = [one for one in earlier if not one.to_null]
        if earlier:
            found[host] = _speed((flash or earlier)[-1])
    return found


def _speed(one: Measurement) -> Speed:
    what = "speed test to null:" if one.to_null else "copy to flash"
    rate = (one.steady_bytes_per_s or one.rate_bytes_per_s) if one.to_null else one.whole_bytes_per_s
    return Speed(bytes_per_s=rate, source=f"{what}, {one.at[:10]}, run {one.run_id}", to_flash=not one.to_null)


DELIVERED = "delivered"


class Speeds(Struct, frozen=True, kw_only=True):
    """Speeds of a device, see `DeviceReport`; `note` is why nothing can be compared, or empty."""

    as_is: Speed | None = None
    tuned: Speed | None = None
    untuned: Speed | None = None
    gain: float | None = None
    saved_s: float | None = None
    note: str = ""


def speeds_of(record: Node, transfers: Sequence[TransferReport], before: Speed | None) -> Speeds:
    """Return the speeds of a device in a run.

    Args:
        record: The device's record.
        transfers: Its transfers, the oldest first.
        before: Speed with its own settings before the run; None if unknown.
    """
    if probe := record.at("probe"):
        return _probed(probe)
    last = next((one for one in reversed(transfers) if one.kind == STAGE and one.outcome == DELIVERED), None)
    if last is None or not last.acked_bytes or not last.duration_s:
        return Speeds(as_is=before)
    device_s = record.at("pull", "device").number("duration_s")
    took_s, clock = (device_s, "the device's") if device_s else (last.duration_s, "our server's")
    where = "to null:" if last.target == NULL else "to flash"
    own = Speed(
        bytes_per_s=last.acked_bytes / took_s,
        source=f"this run, {where}, by {clock} clock",
        to_flash=last.target != NULL,
    )
    if not last.is_tuned:
        return Speeds(as_is=before, untuned=own)
    return _compared(before, own, copied_bytes=last.acked_bytes, took_s=took_s)


def _compared(before: Speed | None, tuned: Speed, *, copied_bytes: int, took_s: float) -> Speeds:
    if before is None:
        return Speeds(tuned=tuned)
    if tuned.to_flash and not before.to_flash and tuned.bytes_per_s <= before.bytes_per_s:
        note = (
            "no gain can be stated: the speed before tuning was measured without flash, and the tuned copy to flash "
            "was no faster than that"
        )
        return Speeds(as_is=before, tuned=tuned, note=note)
    saved_s = copied_bytes / before.bytes_per_s - took_s
    return Speeds(as_is=before, tuned=tuned, gain=tuned.bytes_per_s / before.bytes_per_s, saved_s=saved_s)


def compared_of(probe: Node) -> tuple[TransportComparedReport, ...]:
    """Return the results by transport of a speed test that compares them, in the order of the tests."""
    return tuple(
        TransportComparedReport(
            transport=row.text("transport") or "",
            bytes_per_s=None if _too_short(row.at("arm")) else row.at("arm").number("steady_bytes_per_s") or None,
            verdict=verdict_of(row.at("arm", "verdict")),
            reason=row.text("reason") or "",
            is_best=bool(row.flag("is_best")),
        )
        for row in probe.list("by_transport")
    )


def _probed(probe: Node) -> Speeds:
    """Return the speeds of a speed test, without those of copies that were too short."""
    if (best := next((row for row in compared_of(probe) if row.is_best), None)) is not None:
        source = f"this speed test, to null:, by {best.transport}"
        rate = best.bytes_per_s
        return Speeds(tuned=Speed(bytes_per_s=rate, source=source, to_flash=False) if rate else None)
    arms = {name: probe.at(key) for name, key in (("as it is", "as_is"), ("tuned", "tuned"))}
    why = {name: too for name, arm in arms.items() if (too := _too_short(arm))}
    as_is, tuned = (None if name in why else _arm(arm) for name, arm in arms.items())
    gain = tuned.bytes_per_s / as_is.bytes_per_s if as_is and tuned else None
    note = "; ".join(f"{name}: {too}" for name, too in why.items())
    return Speeds(as_is=as_is, tuned=tuned, gain=gain, note=f"not measured {note}" if note else "")


def _arm(arm: Node) -> Speed | None:
    rate = arm.number("steady_bytes_per_s")
    return Speed(bytes_per_s=rate, source="this speed test, to null:", to_flash=False) if rate else None


def _too_short(arm: Node) -> str:
    size_bytes, duration_s = arm.whole("size_bytes"), arm.number("duration_s")
    if size_bytes is None or duration_s is None:
        return ""
    return too_short(size_bytes=size_bytes, duration_s=duration_s, rtt_s=arm.number("rtt_s"))
