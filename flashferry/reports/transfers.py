"""Make the report of a transfer from a stored run. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from flashferry.core.json_access import Node
from flashferry.reports.model import TransferReport, VerdictReport
from flashferry.tcp.sample import Sample
from flashferry.tcp.syn import SynOptions
from inventory.transport_policy import USUAL

if TYPE_CHECKING:
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
    kind = found.text("kind")
    if kind is None:
        return None
    return VerdictReport(
        kind=kind,
        share=found.number("share"),
        sentence=found.text("sentence") or "",
        evidence=found.texts("evidence"),
        advice=found.text("advice") or "",
    )


def _syn(found: Node) -> str | None:
    window, version = found.whole("window_bytes"), found.whole("ip_version")
    if window is None or version is None:
        return None
    return SynOptions(
        ip_version=version,
        mss_bytes=found.whole("mss_bytes"),
        window_bytes=window,
        window_scale=found.whole("window_scale"),
        sack_permitted=bool(found.flag("sack_permitted")),
        timestamps=bool(found.flag("timestamps")),
    ).describe()


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
