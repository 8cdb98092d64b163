"""Conversion of plans to JSON types: content, expected configuration lines, differences. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache

from msgspec import Struct

from flashferry.core.codec import to_json
from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import as_dict
from flashferry.model.fleet_plan import Action, FleetPlan, PlannedDevice
from flashferry.store.service.plans import StoredPlan
from flashferry.tcp.receive_window import ASSUMED_RTT_S, choose_window

WORDS = "for a device without any of them; a dry run shows them exactly, and the run removes them again"
"""Shown beside them."""


def expected_lines(plan: FleetPlan) -> dict[str, tuple[str, ...]]:
    """Return the configuration lines that a run would set, by device in the plan's order; none if not tuned."""
    rates = {site.site: site.link_rate_bps for site in plan.sites}
    return {
        device.host: _lines(device, rates.get(device.site or f"device {device.host}"))
        for device in plan.of(Action.STAGE)
    }


def _lines(device: PlannedDevice, link_rate_bps: float | None) -> tuple[str, ...]:
    try:
        window_bytes = None
        if device.tune:
            window_bytes = choose_window(device.rtt_s or ASSUMED_RTT_S, link_rate_bps).window_bytes
        return _requested(device.transport, window_bytes)
    except (ValueError, ArithmeticError, ConfigInvalid):
        # An edited plan can hold values that a run refuses.
        return ()


@cache
def _requested(transport: str, window_bytes: int | None) -> tuple[str, ...]:
    """Return the lines for a transport and window, which are the same on all platforms."""
    # Late: platforms and transports would slow the service's start; the first plan that is shown loads them.
    from flashferry.devices.platforms import PLATFORMS
    from flashferry.transports import transport_named
    from tasks.tcp_config import TcpLines, plan_tune

    plan = plan_tune(
        TcpLines(lines=()),
        platform=PLATFORMS[0],
        transport=transport_named(transport),
        window_bytes=window_bytes,
    )
    return plan.commands


_FORECAST = frozenset(
    {
        *("host", "hint", "notes", "rtt_s", "wave", "image_reason", "transport_reason", "tune_reason", "ceilings"),
        *("expected_bytes_per_s", "expected_source", "is_assumed", "hash_bytes_per_s"),
        *("starts_s", "copy_s", "hash_s", "finish_s", "total_s"),
    }
)
"""Not compared per device: reasons and forecast, which is compared as a whole. Waves are compared by name."""


class Differs(Struct, frozen=True, kw_only=True):
    """A changed value; `before` or `after` is empty if it was or is missing."""

    what: str
    before: str
    after: str


class DeviceDiffers(Struct, frozen=True, kw_only=True):
    """Changes of one device."""

    host: str
    changes: tuple[Differs, ...]


class PlanDifference(Struct, frozen=True, kw_only=True):
    """Differences between two plans: devices, images, waves, policy and limits, window and forecast."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[DeviceDiffers, ...]
    images: tuple[Differs, ...]
    waves: tuple[Differs, ...]
    rules: tuple[Differs, ...]
    ends: tuple[Differs, ...]

    @property
    def is_none(self) -> bool:
        """Return whether the plans are equal except for the time of creation."""
        return not any(as_dict(self).values())


def difference(old: FleetPlan, new: FleetPlan) -> PlanDifference:
    """Return the differences between two plans."""
    before, after = ({device.host: device for device in plan.devices} for plan in (old, new))
    return PlanDifference(
        added=tuple(host for host in after if host not in before),
        removed=tuple(host for host in before if host not in after),
        changed=tuple(_devices(old, new, [(before[host], after[host]) for host in after if host in before])),
        images=tuple(
            _differing(*({one.name: _image(one.size_bytes, one.sha512) for one in p.images} for p in (old, new)))
        ),
        waves=tuple(_differing(*({one.name: _hosts(one.hosts) for one in plan.waves} for plan in (old, new)))),
        rules=tuple(_differing(_rules(old), _rules(new))),
        ends=tuple(_differing(_ends(old), _ends(new))),
    )


def forecast_end(plan: FleetPlan) -> str:
    """Return the forecast end of a plan, ISO 8601; empty if unknown."""
    try:
        return (datetime.fromisoformat(plan.starts_at) + timedelta(seconds=plan.duration_s)).isoformat(
            timespec="seconds"
        )
    except (ValueError, OverflowError):
        return ""


def _devices(
    old: FleetPlan, new: FleetPlan, pairs: Iterable[tuple[PlannedDevice, PlannedDevice]]
) -> Iterator[DeviceDiffers]:
    lines, waves = [expected_lines(plan) for plan in (old, new)], [_waves(plan) for plan in (old, new)]
    for one, other in pairs:
        changes = tuple(_differing(*(_of_device(device, lines[n], waves[n]) for n, device in enumerate((one, other)))))
        if changes:
            yield DeviceDiffers(host=other.host, changes=changes)


def _of_device(device: PlannedDevice, lines: Mapping[str, tuple[str, ...]], waves: Mapping[str, str]) -> dict[str, str]:
    values = {name: _word(value) for name, value in as_dict(device).items() if name not in _FORECAST}
    return values | {"wave": waves.get(device.host, ""), "lines": "; ".join(lines.get(device.host, ()))}


def _waves(plan: FleetPlan) -> dict[str, str]:
    return {host: wave.name for wave in plan.waves for host in wave.hosts}


def _image(size_bytes: int, sha512: str) -> str:
    return f"{size_bytes:,} bytes, SHA-512 {sha512}"


def _hosts(hosts: tuple[str, ...]) -> str:
    return f"{len(hosts)}: {', '.join(hosts)}"


def _rules(plan: FleetPlan) -> dict[str, str]:
    found = {"image_folders": _word(plan.image_folders)} | dict(_flat(to_json(plan.of_plan())))
    found |= {f"depot of {site.site}": site.depot for site in plan.sites if site.depot is not None}
    return found


def _flat(values: Mapping[str, object], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}: ")
        else:
            yield f"{before}{name}", _word(value)


def _ends(plan: FleetPlan) -> dict[str, str]:
    return {
        "begins": plan.starts_at,
        "must end by": plan.ends_at or "",
        "forecast end": forecast_end(plan),
        "fits": plan.fit.sentence,
    }


def _differing(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Differs]:
    for name in dict.fromkeys((*before, *after)):
        was, now = before.get(name, ""), after.get(name, "")
        if was != now:
            yield Differs(what=name, before=was, after=now)


def _word(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)


def object_of(digest: str) -> str:
    """Return the audit object of a plan."""
    return f"plan:{digest}"


def plan_json(plan: StoredPlan, why_not: str | None = None) -> dict[str, object]:
    """Return a plan's row as JSON types; `why_not` (empty: none) adds whether it can start."""
    details = dict(to_json(plan))
    if why_not is not None:
        details |= {"is_startable": not why_not, "why_not": why_not}
    return details


def plan_content_json(plan: FleetPlan) -> dict[str, object]:
    """Return a plan's content as JSON types, with expected configuration lines and forecast end."""
    lines = expected_lines(plan)
    details = dict(to_json(plan))
    details |= {
        "forecast_end": forecast_end(plan),
        "actions": {action.value: count for action, count in sorted(Counter(d.action for d in plan.devices).items())},
        "not_tuned": sum(not device.tune for device in plan.of(Action.STAGE)),
        "lines": [{"lines": list(one), "devices": hosts} for one, hosts in _by_lines(lines).items()],
        "lines_are": WORDS,
    }
    return details


def difference_json(found: PlanDifference, old: str, new: str) -> dict[str, object]:
    """Return the differences between two plans as JSON types, with both digests."""
    return {"before": old, "after": new, "is_none": found.is_none} | dict(to_json(found))


def _by_lines(lines: dict[str, tuple[str, ...]]) -> dict[tuple[str, ...], list[str]]:
    """Group devices by their configuration lines: most devices of a site have the same."""
    found: dict[tuple[str, ...], list[str]] = {}
    for host, ones in lines.items():
        found.setdefault(ones, []).append(host)
    return found
