"""Convert what was found on devices and earlier measurements to rates and durations of a forecast. Pure.

Rates are measured, else of similar devices, else assumed, which the text states.

Assumptions are defined per platform (`Defaults`). Untuned, a copy transfers one window per round trip.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from flashferry.devices.platforms import platform_named
from flashferry.devices.platforms.ios import IOS
from flashferry.devices.platforms.platform import Defaults
from flashferry.model.fleet_plan import Action, PlannedDevice, Supply
from flashferry.model.link_rates import copy_share
from flashferry.model.policy import TuneMode
from flashferry.planning.gather import Found
from flashferry.planning.scenario import LAN_RTT_S, Estimate, Finish, LinkFacts, Rate
from flashferry.store.history import History
from flashferry.tcp.receive_window import ASSUMED_RTT_S
from flashferry.tcp.verdict_rules import VerdictKind
from flashferry.transports.transport_selection import TransportRequest, candidates
from inventory.host_view import HostView
from inventory.sites import Site
from inventory.time_window import TimeWindow, next_opening
from inventory.transport_policy import AUTO, USUAL
from tasks.fetch_check import announce

if TYPE_CHECKING:
    from flashferry.store.history import History
    from flashferry.store.measurements import Measurement

_LINK = frozenset({VerdictKind.CAP, VerdictKind.BANDWIDTH})
_PATH = _LINK | {VerdictKind.WINDOW, VerdictKind.SSH_WINDOW, VerdictKind.RANDOM_LOSS, VerdictKind.POLICER}
"""Verdicts of a WAN path that do not apply to a LAN."""
_LIKE = 0.9


class ModelRate(NamedTuple):
    """Median of the rates measured on devices of one model, in bytes/s, and their number."""

    bytes_per_s: float
    devices: int


@dataclass(frozen=True, slots=True)
class Speeds:
    """Measured speeds in bytes/s, by host, and the median by model."""

    own: Mapping[str, float]
    by_model: Mapping[str, float]

    @classmethod
    def of(cls, own: Mapping[str, float], models: Mapping[str, str | None]) -> Speeds:
        """Make it from measured speeds and models by host."""
        found: dict[str, list[float]] = {}
        for host, speed in own.items():
            if model := models.get(host):
                found.setdefault(model, []).append(speed)
        return cls(own=own, by_model={model: median(speeds) for model, speeds in found.items()})

    def get(self, subject: Subject) -> float | None:
        """Return the speed of a device, else the median of its model; None for none."""
        return self.own.get(subject.host, self.by_model.get(subject.model or ""))


class Subject(Struct, frozen=True, kw_only=True):
    """A device whose rates are estimated.

    Attributes:
        model: None if unknown.
        platform: Name of its platform.
        size_bytes: Size of its image.
        rtt_s: Round-trip time; None if the kernel measured none.
        cap_bytes_per_s: Rate limit of the copies over its link; None for none.
        transport: Transport of its copy.
        ceiling_bytes_per_s: Rate that its tuned windows probably allow with it; None for no limit.
        is_local: Whether it copies over its site's LAN, of which round-trip time and limit then are.
    """

    host: str
    model: str | None
    platform: str
    size_bytes: int
    rtt_s: float | None
    cap_bytes_per_s: float | None
    transport: str = USUAL
    ceiling_bytes_per_s: float | None = None
    is_local: bool = False


def measured_rate(past: History, subject: Subject, *, tuned: bool) -> Rate | None:
    """Return the rate by earlier copies of this device; None for none."""
    found = past.expected(subject.host, tuned=tuned, size_bytes=subject.size_bytes, transport=subject.transport)
    if found is None:
        return None
    cap = subject.cap_bytes_per_s
    copies = [one for one in past.of(subject.host) if one.transport == subject.transport]
    kinds = _PATH if subject.is_local else _LINK
    if cap is None or not _is_of_link(copies, found.bytes_per_s, tuned=tuned, kinds=kinds):
        return Rate(bytes_per_s=found.bytes_per_s, source=found.source)
    # A share beside other copies is not the device's own limit.
    limit = "its way over the WAN" if subject.is_local else "its link or our cap"
    words = f"{found.source}, with {limit} as the limit"
    return Rate(bytes_per_s=max(cap, found.bytes_per_s), source=words, is_of_link=True)


def _is_of_link(
    copies: Iterable[Measurement], expected_bytes_per_s: float, *, tuned: bool, kinds: Collection[str]
) -> bool:
    """Return whether an expected rate is from a copy that the link limited, not the device."""
    like = [one for one in copies if one.counts and one.tuned == tuned]
    if not like:
        return False
    newest = like[-1]
    was_full = newest.verdict in kinds and not newest.is_limited_by_device
    return was_full and expected_bytes_per_s >= _LIKE * newest.whole_bytes_per_s


def bounded_rate(rate: Rate, subject: Subject, by_model: Mapping[str, ModelRate]) -> Rate:
    """Limit a rate of the link to what devices of the model reached by themselves."""
    others = by_model.get(subject.model or "")
    if not rate.is_of_link or others is None or others.bytes_per_s >= rate.bytes_per_s:
        return rate
    words = f"{rate.source}; assumed: by itself as fast as {_count(others, subject.model)}"
    return Rate(bytes_per_s=others.bytes_per_s, source=words, is_assumed=True)


def assumed_rate(subject: Subject, *, tuned: bool, by_model: Mapping[str, ModelRate]) -> Rate:
    """Return the rate to assume for a device without measurements.

    Args:
        subject: The device.
        tuned: Whether its copy will be tuned.
        by_model: Measured rates of other devices by model, with the same tuning.
    """
    cap, most = subject.cap_bytes_per_s, subject.ceiling_bytes_per_s
    if tuned and most is not None and most < (cap if cap is not None else float("inf")):
        words = f"assumed: by {subject.transport} its windows let no more through"
        return Rate(bytes_per_s=most, source=words, is_assumed=True)
    if others := by_model.get(subject.model or ""):
        rate, words = others.bytes_per_s, f"assumed: as fast as {_count(others, subject.model)}"
        return Rate(bytes_per_s=rate if cap is None else min(rate, cap), source=words, is_assumed=True)
    if tuned and cap is not None:
        words = (
            "assumed: tuned it takes up to all that its link gives to copies; the speed of its flash is not known yet"
        )
        return Rate(bytes_per_s=cap, source=words, is_assumed=True, is_of_link=True)
    return _one_window(subject, tuned=tuned)


def _count(others: ModelRate, model: str | None) -> str:
    return f"another {model}" if others.devices == 1 else f"the median of {others.devices} other {model}"


def _one_window(subject: Subject, *, tuned: bool) -> Rate:
    window = _defaults(subject).typical_window_bytes
    rtt_s = subject.rtt_s or ASSUMED_RTT_S
    rate = window / rtt_s
    if subject.cap_bytes_per_s is not None:
        rate = min(rate, subject.cap_bytes_per_s)
    why = "its link's rate is not known, so as slow as untuned" if tuned else "untuned and never measured"
    return Rate(
        bytes_per_s=rate,
        source=f"assumed: {why}, a window of {window / 1e3:.1f} kB per round trip",
        is_assumed=True,
    )


def hash_rate(subject: Subject, speeds: Speeds) -> tuple[float, bool]:
    """Return the hashing speed of a device in bytes/s, and whether it was measured on the device or its model."""
    seen = speeds.get(subject)
    return (seen, True) if seen is not None else (_defaults(subject).typical_hash_bytes_per_s, False)


def flash_rate(subject: Subject, speeds: Speeds) -> Rate:
    """Return the speed of copies inside a device."""
    usual = _defaults(subject).typical_flash_bytes_per_s
    words = f"inside the box they copy {usual / 1e6:.2g} MB/s, as was published of other flash"
    return _measured_or(subject, speeds, usual, words)


def add_rate(subject: Subject, speeds: Speeds) -> Rate:
    """Return the speed of `install add`."""
    usual = _defaults(subject).typical_add_bytes_per_s
    words = f"'install add' goes through {usual / 1e6:.2g} MB/s, as on a C8000V"
    return _measured_or(subject, speeds, usual, words)


def _measured_or(subject: Subject, speeds: Speeds, usual: float, words: str) -> Rate:
    seen = speeds.get(subject)
    if seen is not None:
        return Rate(bytes_per_s=seen, source="measured on it, or on others of its model")
    return Rate(bytes_per_s=usual, source=f"assumed: {words}", is_assumed=True)


def _defaults(subject: Subject) -> Defaults:
    return platform_named(subject.platform).defaults


def by_model(rates: Iterable[tuple[str | None, Rate]]) -> dict[str, ModelRate]:
    """Return measured rates by model, without those that the link limited."""
    found: dict[str, list[float]] = {}
    for model, rate in rates:
        if model is not None and not rate.is_of_link:
            found.setdefault(model, []).append(rate.bytes_per_s)
    return {model: ModelRate(bytes_per_s=median(each), devices=len(each)) for model, each in found.items()}


class Known(Struct, frozen=True, kw_only=True):
    """Results of earlier runs.

    Attributes:
        past: Timed copies.
        hash_speeds: Hashing speed in bytes/s, by host.
        flash_speeds: Speed of copies inside the device.
        add_speeds: Speed of `install add`.
        tune: Which devices are tuned.
        transport: The requested transport.
    """

    past: History
    hash_speeds: Mapping[str, float] = field(default_factory=dict)
    flash_speeds: Mapping[str, float] = field(default_factory=dict)
    add_speeds: Mapping[str, float] = field(default_factory=dict)
    tune: TuneMode = TuneMode.AUTO
    transport: TransportRequest = field(default_factory=TransportRequest)

    def transport_of(self, device: HostView, size_bytes: int) -> tuple[str, str]:
        """Return the transport of a device, and why it was chosen; no reason if there was no choice.

        Raises:
            ConfigInvalid: The requested transport is not allowed.
        """
        tried = candidates(device.name, device.transport_policy, self.transport)
        if self.transport.asked != AUTO:
            return tried[0].name, ""
        found = self.past.fastest(device.name, [one.name for one in tried], size_bytes=size_bytes)
        if found is None:
            return tried[0].name, "the first that is allowed; none was measured on this device or its model"
        name, expected = found
        return name, f"the fastest that is known: {expected.source}"

    def not_tuned_because(self, host: str, transport: str = USUAL) -> str:
        """Return why a device is not tuned; empty if it is."""
        if self.tune is TuneMode.ALWAYS:
            return ""
        if self.tune is TuneMode.NEVER:
            return "no device is to be tuned (--tune never)"
        return self.past.shown_not_to_gain(host, transport) or ""


def link_of(device: HostView) -> str:
    """Return the key of a device's link: its site, else `device NAME`, which no site can be called."""
    return device.site if device.site is not None else f"device {device.name}"


def links_of(found: Iterable[Found], sites: Mapping[str, Site], starts_at: datetime) -> dict[str, LinkFacts]:
    """Return the links of the devices to stage, in the order of the inventory."""
    links: dict[str, LinkFacts] = {}
    for one in found:
        key = link_of(one.view)
        if one.planned.action is not Action.STAGE or key in links:
            continue
        site = sites.get(one.view.site or "")
        windows = site.windows if site is not None else one.view.windows
        opens_s, closes_s = _window(windows, starts_at)
        links[key] = LinkFacts(
            name=key,
            rate_bps=one.link_rate.rate_bps if one.link_rate else None,
            source=one.link_rate.source if one.link_rate else "not known",
            cap_share=copy_share(one.view, one.link_rate),
            max_copies=site.max_copies if site is not None else one.view.max_copies,
            opens_s=opens_s,
            closes_s=closes_s,
            depot=one.view.depot,
            neighbours=one.view.neighbours,
            lan_rate_bps=one.view.lan_rate_bps,
        )
    return links


def _window(windows: tuple[TimeWindow, ...], starts_at: datetime) -> tuple[float, float | None]:
    if not windows:
        return 0.0, None
    opens, closes = next_opening(windows, starts_at)
    return max((opens - starts_at).total_seconds(), 0.0), (closes - starts_at).total_seconds()


def estimates_of(found: Iterable[Found], links: Mapping[str, LinkFacts], known: Known) -> tuple[Estimate, ...]:
    """Return the estimates of the devices to stage."""
    staged = [one for one in found if one.planned.action is Action.STAGE]
    subjects = {one.planned.host: _subject(one, links[link_of(one.view)], known) for one in staged}
    models = {host: subject.model for host, subject in subjects.items()}
    hashing, flash, adding = (
        Speeds.of(own, models) for own in (known.hash_speeds, known.flash_speeds, known.add_speeds)
    )
    local = {one.planned.host: _local(subjects[one.planned.host], links[link_of(one.view)]) for one in staged}
    rates = {tuned: _Rates(subjects, known.past, tuned=tuned) for tuned in (True, False)}
    lan_rates = {tuned: _Rates(local, known.past, tuned=tuned) for tuned in (True, False)}
    estimates = []
    for one in staged:
        subject, planned = subjects[one.planned.host], one.planned
        tuned = not known.not_tuned_because(planned.host, subject.transport)
        speed, is_seen = hash_rate(subject, hashing)
        estimates.append(
            Estimate(
                host=planned.host,
                link=link_of(one.view),
                site=planned.site,
                group=planned.group,
                model=planned.model,
                image=planned.image,
                size_bytes=subject.size_bytes,
                rate=rates[tuned].of(planned.host),
                tuned_rate=None if tuned else rates[True].of(planned.host),
                hash_bytes_per_s=speed,
                is_hash_assumed=not is_seen,
                rtt_s=subject.rtt_s or ASSUMED_RTT_S,
                transport=subject.transport,
                finish=_finish(one, subject, flash, adding),
                lan_rate=lan_rates[tuned].of(planned.host),
                takes_part=one.view.vrf is None and one.view.clear_text is not False,
            )
        )
    return tuple(estimates)


def _finish(found: Found, subject: Subject, flash: Speeds, adding: Speeds) -> Finish:
    """Return what a device does after its restore.

    After `install add`, the final check hashes the file of each other member once more.
    """
    copies = found.planned.other_places
    return Finish(
        copies=copies,
        copy_rate=flash_rate(subject, flash) if copies else None,
        hashes=copies + (found.other_members if found.planned.adds else 0),
        add_rate=add_rate(subject, adding) if found.is_added else None,
    )


def decided(
    found: Found,
    estimate: Estimate | None,
    known: Known,
    pulls_from: Supply = Supply.CENTRE,
    times: Mapping[str, Any] | None = None,
) -> PlannedDevice:
    """Return a device of the plan with its estimate, tuning, source and times."""
    if estimate is None:
        return replace(found.planned, tune=False, **times or {})
    reason = known.not_tuned_because(estimate.host, estimate.transport)
    transport, why = known.transport_of(found.view, estimate.size_bytes)
    rate = estimate.rate_from(pulls_from)
    return replace(
        found.planned,
        tune=not reason,
        tune_reason=reason,
        transport=transport,
        transport_reason=why,
        ceilings=announce(found.ceilings) if why or transport != USUAL else "",
        expected_bytes_per_s=round(rate.bytes_per_s, 1),
        expected_source=rate.source,
        is_assumed=rate.is_assumed,
        hash_bytes_per_s=round(estimate.hash_bytes_per_s, 1),
        pulls_from=pulls_from,
        **times or {},
    )


class _Rates:
    """Rates of some devices, all tuned or all not; devices of the same rate share one object."""

    def __init__(self, subjects: Mapping[str, Subject], past: History, *, tuned: bool) -> None:
        self._subjects, self._tuned = subjects, tuned
        self._measured = {
            host: rate
            for host, subject in subjects.items()
            if (rate := measured_rate(past, subject, tuned=tuned)) is not None
        }
        # A model's rate by one transport does not apply to another.
        self._models = {
            transport: by_model(
                (subjects[host].model, rate)
                for host, rate in self._measured.items()
                if subjects[host].transport == transport
            )
            for transport in {subject.transport for subject in subjects.values()}
        }
        self._shared: dict[Rate, Rate] = {}

    def of(self, host: str) -> Rate:
        """Return what to expect of a device: measured, else assumed."""
        subject = self._subjects[host]
        models, measured = self._models[subject.transport], self._measured.get(host)
        if measured is not None:
            rate = bounded_rate(measured, subject, models)
        else:
            rate = assumed_rate(subject, tuned=self._tuned, by_model=models)
        return self._shared.setdefault(rate, rate)


def _subject(found: Found, link: LinkFacts, known: Known) -> Subject:
    assert found.target is not None, "a device that is to be staged has an image"
    transport = known.transport_of(found.view, found.target.image.size_bytes)[0]
    ceiling = next((one for one in found.ceilings if one.transport == transport), None)
    return Subject(
        host=found.planned.host,
        model=found.planned.model,
        platform=found.platform or IOS.name,
        size_bytes=found.target.image.size_bytes,
        rtt_s=found.planned.rtt_s,
        cap_bytes_per_s=link.cap_bytes_per_s,
        transport=transport,
        # Assumptions of the default transport already include its windows.
        ceiling_bytes_per_s=None if ceiling is None or transport == USUAL else ceiling.likely_bytes_per_s,
    )


def _local(subject: Subject, link: LinkFacts) -> Subject:
    """Return a device as it pulls over its LAN: what its windows let through there is more than the LAN carries."""
    return replace(
        subject,
        rtt_s=LAN_RTT_S,
        cap_bytes_per_s=link.lan_cap_bytes_per_s,
        ceiling_bytes_per_s=None,
        is_local=True,
    )
