"""Page of sites with agents: agent, depot and open parts of runs at each site, and the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from fastapi import APIRouter

from flashferry.core.codec import to_json
from flashferry.core.errors import ConfigInvalid
from flashferry.model.states import Outcome, label_of
from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.pages.frame import view_page
from flashferry.service.site_centre import CentreSeen, SeenSiteRun, centre_seen, has_centre
from flashferry.sites.centre.centre import our_release
from flashferry.sites.centre.overview import PartOverview, SiteOverview
from flashferry.sites.centre.settings import CentreSettings
from flashferry.store.database import moment_of
from flashferry.store.sites.agents import Fetching
from flashferry.store.sites.runs import OPEN, PartState

router = APIRouter()
_CLOCK_S = 0.5
"""Smaller deviations are not errors: they include the delay of the network."""
_PART_TONES = {PartState.REFUSED: "bad", PartState.RUNNING: "good", PartState.HELD: "warn"}


@view_page(router, "/sites", "sites.html")
def sites(service: TheService, actor: TheActor) -> object:
    """Return sites and their runs, or how to set sites up."""
    found = {"at": service.moment(), "has_centre": has_centre(service.state), "release": our_release()}
    try:
        seen = centre_seen(service, actor)
    except ConfigInvalid as error:
        nothing = CentreSeen(settings=None, has_ledger=False, sites=(), runs=())
        return found | {"trouble": error.message, "hint": error.hint or ""} | _details(nothing, service.now())
    return found | {"trouble": "", "hint": ""} | _details(seen, service.now())


def _details(seen: CentreSeen, at: datetime) -> dict[str, object]:
    settings = seen.settings
    rows = [] if settings is None else [_site(one, settings, seen.runs, at) for one in seen.sites]
    return {
        "has_settings": settings is not None,
        "has_ledger": seen.has_ledger,
        "silent_after_s": None if settings is None else settings.silent_after_s,
        "sites": rows,
        "has_contact": any(row["word"] not in ("silent", "no contact yet") for row in rows),
        "runs": [_run(one) for one in seen.runs],
    }


def _site(
    one: SiteOverview, settings: CentreSettings, runs: Sequence[SeenSiteRun], at: datetime
) -> Mapping[str, object]:
    """Return a site's row."""
    details: dict[str, object] = to_json(one)
    within_s = one.clock_within_s or 0.0
    is_off = abs(one.clock_ahead_s or 0.0) - within_s > settings.clock_bound_s
    stands = site_state(one, settings.silent_after_s, at)
    return (
        details
        | stands
        | {"fetched": None if stands["word"] == "silent" else fetched(one.fetching)}
        | {
            "clock": clock(one.clock_ahead_s, within_s),
            "clock_tone": "bad" if is_off else "",
            "parts": _in_hand(one.site, runs),
        }
    )


def site_state(one: SiteOverview, silent_after_s: float, at: datetime) -> dict[str, str]:
    """Return the state of a site in words, its tone, and a reason if there is one.

    An agent that sent no message for `silent_after_s` seconds counts as silent.
    """
    if one.heard_at is None:
        return {"word": "no contact yet", "tone": "warn", "why": ""}
    if (at - moment_of(one.heard_at)).total_seconds() > silent_after_s:
        return {"word": "silent", "tone": "warn", "why": ""}
    if one.trouble:
        return {"word": "not ready", "tone": "bad", "why": one.trouble}
    return {"word": "ready", "tone": "good", "why": ""}


def fetched(fetching: Fetching | None) -> dict[str, object] | None:
    """Return the image that a depot is fetching, with progress; None: none."""
    if fetching is None:
        return None
    return {"image": fetching.image, "phase": fetching.phase, "percent": fetching.percent}


def clock(ahead_s: float | None, within_s: float = 0.0) -> str:
    """Return the deviation of a clock in words; empty if unknown."""
    if ahead_s is None:
        return ""
    if abs(ahead_s) <= within_s and within_s >= _CLOCK_S:
        return f"within {abs(ahead_s) + within_s:.1f} s"
    return "right" if abs(ahead_s) < _CLOCK_S else f"{abs(ahead_s):.1f} s {'ahead' if ahead_s > 0 else 'behind'}"


def _in_hand(site: str, runs: Sequence[SeenSiteRun]) -> list[dict[str, object]]:
    """Return the open parts of a site, each with the number of its run on the page."""
    return [
        {"run": one.run.run_id, "number": number, "state": part.state, "is_canaries": part.is_canaries}
        for number, one in enumerate(runs, 1)
        for part in one.run.parts
        if part.site == site and part.state in OPEN
    ]


def _run(one: SeenSiteRun) -> dict[str, object]:
    details: dict[str, object] = to_json(one.run)
    devices = [count for part in one.run.parts for count in part.devices.items()]
    return details | {
        "unrestored": list(one.unrestored),
        "has_canaries": any(part.is_canaries for part in one.run.parts),
        "parts": [_part(part) for part in one.run.parts],
        "all": sum(count for _, count in devices),
        "through": sum(count for outcome, count in devices if outcome != "open"),
    }


def _part(part: PartOverview) -> dict[str, object]:
    details: dict[str, object] = to_json(part)
    tallies = [
        {"count": count, "word": label_of(word), "tone": Outcome(word).tone if word in set(Outcome) else "quiet"}
        for word, count in part.devices.items()
    ]
    return details | {"tone": _PART_TONES.get(PartState(part.state), ""), "tallies": tallies}
