"""A plan for people: images, sites, what needs attention, totals, and whether it fits.

Progress of the checks is printed on standard error; for many devices as counts, since the plan has the reasons.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from flashferry.cli.terminal.output import EventLines, say
from flashferry.cli.view.layout import BAD, GOOD, alike, console, line, names, rate, show
from flashferry.core.units import counted, link_rate, rough_duration
from flashferry.model.fleet_plan import Action, DepotAdvice, FleetPlan, PlannedDevice, SiteForecast
from flashferry.model.link_rates import STATED
from flashferry.model.policy import carried
from flashferry.planning.forecast import clock
from inventory.transport_policy import USUAL

if TYPE_CHECKING:
    from flashferry.model.waves import Wave
    from flashferry.monitor.events import Event

EVERY_S = 2.0
FEW = 10
"""Number of devices up to which each has its line."""


class PlanProgress:
    """Prints the events of planning. Thread-safe."""

    def __init__(self, devices: int) -> None:
        self._devices = devices
        self._lines = EventLines()
        self._lock = threading.Lock()
        self._done = 0
        self._failed = 0
        self._printed_s = 0.0

    def __call__(self, event: Event) -> None:
        """Print or count an event; one without a device is about an image being hashed."""
        if event.host is None:
            self._lines(event)
            return
        with self._lock:
            self._done += 1
            self._failed += event.status == "failed"
            is_due = event.at_s - self._printed_s >= EVERY_S or self._done == self._devices
            if is_due:
                self._printed_s = event.at_s
            done, failed = self._done, self._failed
        if self._devices <= FEW:
            self._lines(event)
        elif is_due:
            trouble = f", {failed} of them refused or out of reach" if failed else ""
            say(f"checked {done} of {counted(self._devices, 'device')}{trouble}")


MOST_ROWS = 40
"""Number of devices above which only those that need attention have a row."""

NARROW_COLUMNS = 96
"""Width below which the model's column is left out."""

FEW_WAVES = 8
"""Number of waves above which they are only counted."""


def print_plan(plan: FleetPlan) -> None:
    """Print a plan."""
    _print_images(plan)
    _print_sites(plan)
    _print_waves(plan)
    _print_devices(plan)
    _print_attention(plan)
    _print_settings(plan)
    _print_totals(plan)
    _print_fit(plan)
    _print_depots(plan)


def _print_images(plan: FleetPlan) -> None:
    for image in plan.images:
        count = sum(device.image == image.name and device.action is Action.STAGE for device in plan.devices)
        whom = _devices(count) if count else "no device"
        console().print(f"image {image.name}: {_size(image.size_bytes)}, MD5 {image.md5}, for {whom}")


def _print_sites(plan: FleetPlan) -> None:
    if plan.sites:
        console().print()
        show((_site_row(plan, site) for site in plan.sites), wide_only=frozenset({"to carry", "begins", "closes"}))
    if with_lan := [site for site in plan.sites if site.depot is not None or site.neighbours]:
        console().print()
        show((_lan_row(plan, site) for site in with_lan), wide_only=frozenset({"LAN"}))


def _lan_row(plan: FleetPlan, site: SiteForecast) -> dict[str, str | Text]:
    is_stated = site.lan_source == STATED
    return {
        "site": site.site,
        "images from": "its depot" if site.depot is not None else "neighbours",
        "at depot": _clock(plan, site.at_depot_s) if site.at_depot_s is not None else "-",
        "over the link": _size(site.bytes),
        "over the LAN": _size(site.lan_bytes),
        "LAN": ("" if is_stated else "~") + link_rate(site.lan_rate_bps) if site.lan_rate_bps else "-",
        "saves": f"{_size(site.saved_bytes)}, {_saved(site.saved_s)}",
    }


def _site_row(plan: FleetPlan, site: SiteForecast) -> dict[str, str | Text]:
    return {
        "site": site.site,
        "devices": str(site.devices),
        "at once": f"{site.peak_copies} of {site.copies}",
        "link": link_rate(site.link_rate_bps) if site.link_rate_bps else "not known",
        "for copies": f"{site.cap_share:.0%}" if site.link_rate_bps else "-",
        "used": f"{site.load_share:.0%}" if site.load_share is not None else "-",
        "to carry": _size(site.bytes),
        "begins": _clock(plan, site.starts_s),
        "busy for": rough_duration(site.busy_s),
        "done at": _clock(plan, site.ends_s),
        "closes": f"{datetime.fromisoformat(site.closes_at):%a %H:%M}" if site.closes_at else "-",
    }


def _saved(seconds: float) -> str:
    """Return how much earlier, or later, a depot makes a site's end."""
    return rough_duration(seconds) if seconds >= 0 else f"costs {rough_duration(-seconds)}"


def _print_waves(plan: FleetPlan) -> None:
    if len(plan.waves) < 2:
        return
    console().print()
    shown = plan.waves if len(plan.waves) <= MOST_ROWS else plan.waves[:MOST_ROWS]
    show(_wave_row(plan, wave) for wave in shown)
    if len(shown) < len(plan.waves):
        console().print(f"and {counted(len(plan.waves) - len(shown), 'wave')} more")


def _wave_row(plan: FleetPlan, wave: Wave) -> dict[str, str | Text]:
    ends = [
        device.starts_s + device.total_s
        for device in plan.devices
        if device.wave == wave.number and device.starts_s is not None and device.total_s is not None
    ]
    return {
        "wave": wave.label,
        "done at": _clock(plan, max(ends)) if ends else "-",
        "devices": f"{len(wave.hosts)}: {names(wave.hosts)}" if len(plan.waves) <= FEW_WAVES else str(len(wave.hosts)),
    }


def _print_devices(plan: FleetPlan) -> None:
    late = frozenset(plan.fit.late)
    ordered = sorted(plan.devices, key=lambda device: _urgency(device, late))
    more = 0
    if len(ordered) > MOST_ROWS:
        ordered = [device for device in ordered if _urgency(device, late) < _CALM]
        ordered, more = ordered[:MOST_ROWS], max(len(ordered) - MOST_ROWS, 0)
    if not ordered:
        return
    console().print()
    left_out = {"image"} if len(plan.images) < 2 else set()
    if all(device.transport == USUAL for device in plan.devices):
        left_out |= {"by"}
    if not any(device.finish_s for device in plan.devices):
        left_out |= {"behind"}
    if console().width < NARROW_COLUMNS:
        left_out |= {"model"}
    rows = [_device_row(plan, device, late) for device in ordered]
    kept = [{key: cell for key, cell in row.items() if key not in left_out} for row in rows]
    show(kept, wide_only=frozenset({"image", "release", "begins"}))
    if more:
        console().print(f"and {_devices(more)} more that need attention; --output and --json have all of them")
    if any(device.is_assumed for device in ordered):
        console().print("~ assumed, not measured: see below")


_CALM = 4


def _urgency(device: PlannedDevice, late: frozenset[str]) -> int:
    if device.action is Action.UNREACHABLE:
        return 0
    if device.action is Action.REFUSED:
        return 1
    if device.host in late:
        return 2
    return 3 if device.notes else _CALM


def _device_row(plan: FleetPlan, device: PlannedDevice, late: frozenset[str]) -> dict[str, str | Text]:
    is_staged = device.action is Action.STAGE
    good = device.action not in {Action.REFUSED, Action.UNREACHABLE} and device.host not in late
    words = "too late" if device.host in late else device.action.value
    return {
        "device": device.host,
        "model": device.model or "-",
        "release": device.version or "-",
        "image": device.image or "-",
        "plan": Text(words, style=GOOD if good else BAD),
        "wave": str(device.wave) if device.wave >= 0 else "-",
        "by": device.transport if is_staged else "-",
        "tune": ("yes" if device.tune else "no") if is_staged else "-",
        "MB/s": _rate(plan, device),
        "begins": _clock(plan, device.starts_s) if device.starts_s is not None else "-",
        "copy": rough_duration(device.copy_s) if device.copy_s is not None else "-",
        "hash": rough_duration(device.hash_s) if device.hash_s is not None else "-",
        "behind": rough_duration(device.finish_s) if device.finish_s else "-",
        "in all": rough_duration(device.total_s) if device.total_s is not None else "-",
    }


def _rate(plan: FleetPlan, device: PlannedDevice) -> str:
    """Return a copy's forecast rate while others run beside it."""
    size = next((image.size_bytes for image in plan.images if image.name == device.image), 0)
    if not device.copy_s:
        return "-"
    figure = rate(size / device.copy_s).removesuffix(" MB/s")
    return f"~{figure}" if device.is_assumed else figure


def _print_attention(plan: FleetPlan) -> None:
    troubled = sorted((one for one in plan.devices if one.reason), key=lambda one: _urgency(one, frozenset()))
    _print_alike(((_why(one), one.host) for one in troubled if one.action is not Action.STAYS), BAD)
    _print_alike((_why(one), one.host) for one in troubled if one.action is Action.STAYS)
    _print_alike((f"note: {note}", device.host) for device in plan.devices for note in device.notes)
    _print_alike((text, one.host) for one in plan.of(Action.STAGE) for text in _after_the_restore(plan, one))
    _print_alike((f"not tuned: {one.tune_reason}", one.host) for one in plan.devices if one.tune_reason)
    ways = [one for one in plan.devices if one.transport_reason]
    _print_alike((f"by {one.transport}: {one.transport_reason}", one.host) for one in ways)
    _print_alike((one.ceilings, one.host) for one in plan.devices if one.ceilings)


def _after_the_restore(plan: FleetPlan, device: PlannedDevice) -> Iterator[str]:
    """Yield what a device does after its restore."""
    if device.other_places:
        where = counted(device.other_places, "other member or standby", "other members")
        yield f"once restored: copied inside the box to {where}, hashed there"
    if device.adds:
        yield "once restored: 'install add'" + ("" if plan.add else ", by the rule of its image")


def _why(device: PlannedDevice) -> str:
    return f"{device.action.value}: {device.reason}" + (f". {device.hint}" if device.hint else "")


def _print_alike(pairs: Iterable[tuple[str, str]], style: str = "") -> None:
    """Print each distinct sentence once, with its devices."""
    if more := alike(pairs, style):
        console().print(f"and {counted(more, 'sentence')} more; --output and --json have all of them")


def _print_settings(plan: FleetPlan) -> None:
    """Print the settings that differ from their defaults: they are approved with the plan."""
    for one, value in carried(plan):
        if not one.is_usual(value):
            line("setting", f"{one.label}: {one.in_words(value)}")


def _print_totals(plan: FleetPlan) -> None:
    counts = [(len(plan.of(action)), words) for action, words in _TOTALS]
    size = sum(site.bytes for site in plan.sites)
    console().print()
    sums = ", ".join(f"{count} {words}" for count, words in counts if count)
    console().print(f"{_devices(len(plan.devices))}: {sums or 'none'}; {_size(size)} to carry")


_TOTALS = (
    (Action.STAGE, "to be staged"),
    (Action.ALREADY_THERE, "have the image already"),
    (Action.STAYS, "stay as they are"),
    (Action.REFUSED, "refused"),
    (Action.UNREACHABLE, "unreachable"),
)


def _print_fit(plan: FleetPlan) -> None:
    for text in plan.assumptions:
        line("expected", text)
    style = {True: GOOD, False: BAD, None: ""}[plan.fit.fits]
    start = datetime.fromisoformat(plan.starts_at)
    end = f", to end by {datetime.fromisoformat(plan.ends_at):%a %H:%M}" if plan.ends_at else ""
    console().print(Text(f"Beginning {start:%a %H:%M}{end}: {plan.fit.sentence}.", style=style))
    for remedy in plan.fit.remedies:
        word = "faster" if plan.fit.fits is not False else "would fit" if remedy.fits else "would help"
        line(f"  {word}", f"{remedy.change}: done at {_clock(plan, remedy.ends_s)}")


def _print_depots(plan: FleetPlan) -> None:
    """Print what depots and neighbours save, and which sites should have a depot."""
    if plan.savings is not None:
        console().print(f"Depots and neighbours: {plan.savings.sentence}.")
    if plan.depot_advice:
        console().print()
        console().print("These sites should have a depot, each considered by itself (depot in the inventory):")
        _print_advice(plan.depot_advice[:MOST_ROWS])
        if (more := len(plan.depot_advice) - MOST_ROWS) > 0:
            console().print(f"and {counted(more, 'site')} more; --output and --json have all of them")
        console().print()


def _print_advice(shown: Sequence[DepotAdvice]) -> None:
    left_out = set()
    if all(one.nights_with is None or one.nights_with == one.nights for one in shown):
        left_out.add("nights")
    if not any(one.fits_with and not one.fits for one in shown):
        left_out.add("fits")
    show({key: cell for key, cell in _advice_row(one).items() if key not in left_out} for one in shown)


def _advice_row(advice: DepotAdvice) -> dict[str, str | Text]:
    nights, nights_with = ("-" if count is None else str(count) for count in (advice.nights, advice.nights_with))
    return {
        "site": advice.site,
        "devices": str(advice.devices),
        "over the link": f"{_size(advice.bytes_with)}, now {_size(advice.bytes)}",
        "takes": f"{rough_duration(advice.takes_with_s)}, now {rough_duration(advice.takes_s)}",
        "saves": rough_duration(advice.saved_s),
        "nights": f"{nights_with}, now {nights}",
        "fits": f"{'yes' if advice.fits_with else 'no'}, now {'yes' if advice.fits else 'no'}",
    }


def next_lines(plan: FleetPlan, out: Path | None, digest: str) -> tuple[str, ...]:
    """Return the commands for a plan. out: its file, or None if it was not saved; digest: shown by `stage`."""
    if out is not None:
        return f"SHA-256 {digest}", f"Kept in {out}{_what_for(plan, out)}"
    if plan.of(Action.STAGE):
        return ("Nothing was changed. With --output FILE the plan is kept, for 'flashferry stage --plan FILE'",)
    return ()


def _what_for(plan: FleetPlan, out: Path) -> str:
    """Return the command for a saved plan; one that stages nothing suggests no staging."""
    if plan.of(Action.STAGE):
        return f": look at it, then run 'flashferry stage --plan {out}' with the same inventory"
    is_troubled = plan.of(Action.UNREACHABLE) or plan.of(Action.REFUSED)
    return ", which stages nothing" + (": make a new one once the above is corrected" if is_troubled else "")


def _clock(plan: FleetPlan, seconds: float) -> str:
    return clock(datetime.fromisoformat(plan.starts_at), seconds)


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:,.2f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:,.1f} MB"


def _devices(count: int) -> str:
    return counted(count, "device")
