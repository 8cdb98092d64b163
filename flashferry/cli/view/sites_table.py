"""Tables for `sites list` and `sites show`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.text import Text

from flashferry.cli.terminal.output import command
from flashferry.cli.view.layout import BAD, GOOD, console, line, names, show
from flashferry.core.units import counted
from flashferry.model.states import label_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flashferry.sites.centre.overview import PartOverview, RunOverview, SiteOverview, SiteRequest

_IMAGES = 2
_CLOCK_S = 0.5


def print_sites(found: Sequence[SiteOverview]) -> None:
    """Print a row per site, and below them each site's faults."""
    fetches = any(one.fetching for one in found)
    show((_site_row(one, fetches=fetches) for one in found), wide_only=frozenset({"agent"}))
    for one in found:
        if one.trouble:
            line(f"site {one.site}", one.trouble, BAD)


def _site_row(one: SiteOverview, *, fetches: bool) -> dict[str, str | Text]:
    images = ", ".join(one.images[:_IMAGES]) + (
        f" and {len(one.images) - _IMAGES} more" if one.images[_IMAGES:] else ""
    )
    return {
        "site": one.site,
        "agent": one.agent or "-",
        "release": one.release or "-",
        "last heard": one.heard,
        "clock": _clock(one.clock_ahead_s, one.clock_within_s or 0.0),
        "ready": Text("no", style=BAD) if one.trouble else Text("yes", style=GOOD),
        "in hand": ", ".join(dict.fromkeys(one.runs)) or "-",
        "depot has": images or "-",
        **({"depot fetches": one.fetching.in_words if one.fetching else "-"} if fetches else {}),
    }


def _clock(ahead_s: float | None, within_s: float) -> str:
    if ahead_s is None:
        return "-"
    if abs(ahead_s) <= within_s and within_s >= _CLOCK_S:
        return f"within {abs(ahead_s) + within_s:.1f} s"
    return "right" if abs(ahead_s) < _CLOCK_S else f"{ahead_s:+.1f} s"


def print_site_runs(runs: Sequence[RunOverview]) -> None:
    """Print a row per run at sites, or a sentence if there is none."""
    if not runs:
        console().print("no run was given to sites yet")
    show(_run_row(run) for run in runs)


def print_site_run_lines(runs: Sequence[RunOverview]) -> None:
    """Print a line per run at sites with the command for it, as part of `status`."""
    for run in runs:
        count = counted(_devices(run).total(), "device")
        sites = counted(len({part.site for part in run.parts}), "site")
        state = _state_of(run)
        text = f"given to {sites}, {state.plain}, began {_time(run.begun_at)}, {count}: {_tally(run)}"
        line(run.run_id, text, str(state.style))
        if run.ended_at is None:
            line(run.run_id, f"'{command(f'sites show {run.run_id}')}' shows each site")
        _print_left_in_hand(run)


def _print_left_in_hand(run: RunOverview) -> None:
    for part in run.parts:
        if part.left_in_hand:
            text = f"not proven restored: {names(part.left_in_hand)}; run 'flashferry recover' at site {part.site}"
            line(run.run_id, text, BAD)


def _devices(run: RunOverview) -> Counter[str]:
    return sum((Counter(part.devices) for part in run.parts), Counter[str]())


def _tally(run: RunOverview) -> str:
    return _counted(dict(_devices(run).most_common()))


def _counted(outcomes: Mapping[str, int]) -> str:
    """Return how many devices have which outcome label; some outcomes share a label."""
    found: Counter[str] = Counter()
    for outcome, count in outcomes.items():
        found[label_of(outcome)] += count
    return ", ".join(f"{count} {label}" for label, count in found.items())


def _run_row(run: RunOverview) -> dict[str, str | Text]:
    return {
        "run": run.run_id,
        "began": _time(run.begun_at),
        "by": run.begun_by or "-",
        "run is": _state_of(run),
        "sites": str(len({part.site for part in run.parts})),
        "devices": str(_devices(run).total()),
        "of them": _tally(run),
    }


def _state_of(run: RunOverview) -> Text:
    if run.ended_at:
        return Text("ended")
    words = ["stopped" if run.stopped else "paused" if run.paused else "under way"]
    words += [f"wave {run.waiting_wave} waits"] if run.waiting_wave is not None else []
    return Text(", ".join(words), style=BAD if run.stopped else GOOD)


def print_site_run(run: RunOverview) -> None:
    """Print the state of a run at each site, and who asked what."""
    state = f"ended {_time(run.ended_at)}" if run.ended_at else "under way"
    by = f", by {run.begun_by}" if run.begun_by else ""
    console().print(f"run {run.run_id}: {state}, began {_time(run.begun_at)}{by}, plan {run.plan_digest[:12]}…")
    if run.stopped:
        console().print(f"it starts nothing more: {run.stopped}", style=BAD)
    elif run.approved_wave is not None and run.ended_at is None:
        console().print(f"sites may start up to wave {run.approved_wave}")
    if run.waiting_wave is not None:
        approve = command(f"sites approve {run.run_id} --wave {run.waiting_wave}")
        console().print(f"wave {run.waiting_wave} waits: '{approve}' lets sites start it")
    if run.paused:
        console().print(f"paused: {names(run.paused)}")
    if run.left_out:
        console().print(f"left out: {counted(len(run.left_out), 'device')}: {names(run.left_out)}")
    has_canaries = any(part.is_canaries for part in run.parts)
    show(_part_row(part, has_canaries=has_canaries) for part in run.parts)
    for part in run.parts:
        if part.sentence:
            which = ", canaries" if part.is_canaries else ""
            line(f"site {part.site}{which}", part.sentence, BAD if part.state == "refused" else "")
        if part.fetching:
            line(f"site {part.site}", f"its depot fetches {part.fetching.in_words}")
    _print_left_in_hand(run)
    for one in run.wishes:
        line(_time(one.wish.at), _request_line(one))


def _part_row(part: PartOverview, *, has_canaries: bool) -> dict[str, str | Text]:
    return {
        "site": part.site,
        "part": "canaries" if part.is_canaries else "others" if has_canaries else "all",
        "part is": Text(part.state, style=BAD if part.state == "refused" else ""),
        "last word": part.heard,
        "all here": "yes" if part.is_whole else "not yet",
        "devices": str(sum(part.devices.values())),
        "of them": _counted(part.devices),
    }


def _request_line(one: SiteRequest) -> str:
    what = one.wish.what if one.wish.wave is None else f"{one.wish.what} up to wave {one.wish.wave}"
    where = f" at {one.site}" if one.site else ""
    return f"{one.wish.actor or 'someone'} asked for: {what}{where}" + (
        f" ({one.wish.reason})" if one.wish.reason else ""
    )


def _time(at: str | None) -> str:
    return f"{(at or '')[:19].replace('T', ' ')} UTC"
