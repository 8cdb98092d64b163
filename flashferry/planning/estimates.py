"""Convert what was found on devices and earlier measurements to the estimates of a forecast. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from flashferry.core.values import replace
from flashferry.devices.platforms.ios import IOS
from flashferry.model.fleet_plan import Action, PlannedDevice, Supply
from flashferry.model.link_rates import copy_share
from flashferry.model.policy import TuneMode
from flashferry.planning.gather import Found
from flashferry.planning.local_copies import LAN_RTT_S
from flashferry.planning.rates import (
    Speeds,
    Subject,
    add_rate,
    assumed_rate,
    bounded_rate,
    by_model,
    flash_rate,
    hash_rate,
    measured_rate,
)
from flashferry.planning.scenario import Estimate, Finish, LinkFacts, Rate
from flashferry.store.history import History
from flashferry.tcp.receive_window import ASSUMED_RTT_S
from inventory.transport_policy import USUAL
from flashferry.transports.transport_selection import TransportRequest, candidates
from inventory.host_view import HostView
from inventory.sites import Site
from inventory.time_window import TimeWindow, next_opening
from inventory.transport_policy import AUTO
from tasks.fetch_check import announce


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
