"""Devices over all runs, one with its history, and trends of speeds and nights."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from markupsafe import Markup

from flashferry.core.codec import to_json
from flashferry.model.states import NOT_RESTORED, Phase, State, label_of, phase_of
from flashferry.reports.graphs import svg
from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.errors import NotFound
from flashferry.service.pages.frame import view_page
from flashferry.service.principal import Actor
from flashferry.service.run_visibility import is_visible, sites_of
from flashferry.service.service import Service
from flashferry.service.trends import device_graph, fleet_graph, site_speeds
from flashferry.store.fleet_view import KnownDevice, device_runs, known_devices
from flashferry.store.history import History, Measurement
from flashferry.store.reader import is_run_alive

router = APIRouter()

SHOWN_NIGHTS = 30
Words = Annotated[str, Query(max_length=200)]


@view_page(router, "/devices", "devices.html")
def devices(service: TheService, actor: TheActor, q: Words = "", site: Words = "") -> object:
    """Return the devices of all runs, each with its last run and speed."""
    seen = _seen(service, actor)
    history = History.read(service.state)
    chosen = [one for one in seen if site in ("", one.site) and _has_words(one, q)]
    alive = _alive(service, chosen)
    newest = {one.host: copies[-1] for one in chosen if (copies := history.of(one.host))}
    return {
        "devices": [_row(one, alive, newest.get(one.host)) for one in chosen],
        "all": len(seen),
        "sites": sorted({one.site for one in seen if one.site}),
        "site_names": service.settings.site_names,
        "q": q,
        "site": site,
    }


@view_page(router, "/devices/{name:path}", "device.html")
def device(name: str, service: TheService, actor: TheActor) -> object:
    """Return a device: its copies over time, and its runs."""
    sites = sites_of(actor)
    had = [one for one in device_runs(service.state, name) if is_visible(one.site, sites)]
    if not had:
        raise NotFound(f"no run had a device {name!r}", hint="The page of devices lists them")
    mine = {one.run_id for one in had}
    alive = _alive(service, had)
    history = History.read(service.state)
    copies = [one for one in history.of(name) if one.run_id in mine]
    return {
        "device": had[0],
        "site": service.settings.site_names.get(had[0].site, had[0].site),
        "runs": [to_json(one) | _state_word(one, alive) for one in had],
        "copies": copies,
        "no_gain": history.shown_not_to_gain(name),
        "graph": Markup(svg(device_graph(copies))),  # noqa: S704 -- svg escapes what it is given
    }


@view_page(router, "/trends", "trends.html")
def trends(service: TheService, actor: TheActor) -> object:
    """Return speeds by day and by site, and the series of the nights in the lab."""
    site_of = {one.host: one.site for one in _seen(service, actor)}
    history = History.read(service.state)
    copies = [one for host in site_of for one in history.of(host)]
    return {
        "sites": [to_json(one) | {"gain": one.gain} for one in site_speeds(copies, site_of)],
        "site_names": service.settings.site_names,
        "fleet_graph": Markup(svg(fleet_graph(copies))),  # noqa: S704 -- svg escapes what it is given
        **_nights(service.state),
    }


def _nights(state: Path) -> dict[str, object]:
    # Late: few look at the nights in a lab, and they bring all that a night is made of.
    from flashferry.nightly.artefacts.page import DRAWN, drawn_series, night_line
    from flashferry.nightly.artefacts.report import series_report
    from flashferry.nightly.history import READ_NIGHTS, by_series, past, stored_nights

    series = [series_report(one) for one in by_series(past(state))]
    return {
        "nights": [night_line(one) for one in reversed(stored_nights(state, last=min(SHOWN_NIGHTS, READ_NIGHTS)))],
        "series": [{"name": one.name, "unit": one.unit, "points": one.points} for one in series],
        "series_graphs": Markup("").join(
            Markup('<figure class="trend">{}</figure>').format(drawn_series(one)) for one in series if one.unit in DRAWN
        ),
    }


def _row(one: KnownDevice, alive: Collection[str], newest: Measurement | None) -> dict[str, object]:
    speed = newest.bytes_per_s if newest is not None and newest.counts else None
    details: dict[str, object] = to_json(one)
    return details | {"speed": to_json(newest), "speed_bytes_per_s": speed} | _state_word(one, alive)


def _seen(service: Service, actor: Actor) -> tuple[KnownDevice, ...]:
    sites = sites_of(actor)
    return tuple(one for one in known_devices(service.state) if is_visible(one.site, sites))


def _has_words(one: KnownDevice, words: str) -> bool:
    details = " ".join(filter(None, (one.host, one.address, one.site, one.model, one.release, one.outcome, one.image)))
    return all(word in details.casefold() for word in words.casefold().split())


def _alive(service: Service, had: Iterable[KnownDevice]) -> frozenset[str]:
    """Return the live runs among those without an outcome for a device."""
    open_runs = {one.run_id for one in had if one.is_held or one.outcome is None}
    return frozenset(run_id for run_id in open_runs if is_run_alive(service.state, run_id))


def _state_word(one: KnownDevice, alive: Collection[str]) -> dict[str, str]:
    """Return the state of a device in its run, and its tone."""
    is_alive = one.run_id in alive
    is_open = is_alive and (one.is_held or one.outcome is None)
    if is_open:
        has_started = one.is_held or one.state != State.PLANNED
        return {"word": (Phase.IN_PROGRESS if has_started else Phase.QUEUED).label, "tone": ""}
    phase = phase_of(one.outcome, one.state, is_alive=False)
    word = phase.label if one.outcome is None else label_of(one.outcome)
    return {"word": f"{word}, {NOT_RESTORED}", "tone": "bad"} if one.is_held else {"word": word, "tone": phase.tone}
