"""Live state as tables of text, the differences between two such tables, and items that need attention. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from msgspec import Struct

from flashferry.core.redaction import sanitize
from flashferry.core.units import coarse_rate, counted, rough_duration
from flashferry.model.states import NOT_DONE, NOT_RESTORED, Phase, RunState
from flashferry.reports.words import DASH, as_fields, zone_word
from flashferry.service.listing import Listing, listing
from flashferry.service.live.collect import Snapshot
from flashferry.service.live.snapshot import SILENT_RUN_S, DeviceNow, RunNow, Totals, sum_up, sums_of
from flashferry.service.notices import key_of_unrestored
from flashferry.store.service.jobs import RECOVERS, Job

Row = Mapping[str, "Cell"]
Table = Mapping[str, Row]
Board = Mapping[str, Table]


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell.

    Attributes:
        tone: `good`, `bad`, `warn`, `quiet` or empty; repeats the text as a colour.
        path: Page that the cell links to, or empty.
    """

    text: str
    tone: str = ""
    path: str = ""

    @property
    def wire(self) -> str | list[str]:
        """Return the cell for JSON: the text alone, or a list of text, tone and path."""
        return [self.text, self.tone, self.path] if self.tone or self.path else self.text


def whole(board: Board) -> dict[str, object]:
    """Return a board as JSON types."""
    return {
        name: {"order": list(table), "rows": {key: _wire(row) for key, row in table.items()}}
        for name, table in board.items()
    }


def news(before: Board, after: Board) -> dict[str, object]:
    """Return the differences between two boards as JSON types: changed cells, and the row order if it changed.

    A row missing from a new order is removed; a new row has all its cells. Both boards have the same tables.
    """
    found: dict[str, object] = {}
    for name, table in after.items():
        old = before.get(name, {})
        rows = {key: changed for key, row in table.items() if (changed := _changed(old.get(key, {}), row))}
        details: dict[str, object] = {"rows": rows} if rows else {}
        if list(old) != list(table):
            details["order"] = list(table)
        if details:
            found[name] = details
    return found


def sse(kind: str, number: int, data: Mapping[str, object]) -> bytes:
    """Return a server-sent event with its data in one line."""
    text = json.dumps(data, separators=(",", ":"))
    return f"event: {kind}\nid: {number}\ndata: {text}\n\n".encode()


def _changed(before: Row, after: Row) -> dict[str, str | list[str]]:
    if before is after:
        return {}
    return {name: cell.wire for name, cell in after.items() if before.get(name) != cell}


def _wire(row: Row) -> dict[str, str | list[str]]:
    return {name: cell.wire for name, cell in row.items()}


_NAMED = 3
"""Devices named in a sentence."""


class Urgency(StrEnum):
    """Reason why an item needs attention."""

    NOT_RESTORED = "not restored"
    DEAD = "dead run"
    LATE = "late"
    WAVE = "wave"
    FAILED = "failed"
    REFUSED = "refused"
    INTERRUPTED = "interrupted"
    SILENT = "silent"
    HELD = "held"
    PLAN = "plan"

    @property
    def is_red(self) -> bool:
        """Return whether a device is left changed and no process is restoring it."""
        return self in (Urgency.NOT_RESTORED, Urgency.DEAD)


_ENDS = {
    Phase.FAILED: Urgency.FAILED,
    Phase.REFUSED: Urgency.REFUSED,
    Phase.INTERRUPTED: Urgency.INTERRUPTED,
}
"""Ends that need attention, each with a sentence of its own."""


class ActionItem(Struct, frozen=True, kw_only=True):
    """An item that needs attention.

    Attributes:
        key: Identifies the item as long as it exists.
        what: Run, plan or device.
    """

    key: str
    urgency: Urgency
    what: str
    sentence: str
    since: str = ""
    path: str = ""


def action_items(snapshot: Snapshot) -> tuple[ActionItem, ...]:
    """Return the items that need attention, most urgent first."""
    found = [*_lost(snapshot), *_plans(snapshot)]
    done_later: set[str] = set()
    # Latest first: a failure followed by a good run needs no attention.
    for run in snapshot.tonight:
        found += _of_run(run, snapshot.at, frozenset(done_later))
        done_later |= {one.host for one in run.devices if one.phase is Phase.DONE}
    order = list(Urgency)
    return tuple(sorted(found, key=lambda item: order.index(item.urgency)))


def _lost(snapshot: Snapshot) -> Iterator[ActionItem]:
    for one in snapshot.lost:
        yield ActionItem(
            key=f"lost {one.run_id} {one.host}",
            urgency=Urgency.NOT_RESTORED,
            what=one.host,
            sentence=f"left changed by run {one.run_id}, which is not in the journal: run 'flashferry recover'",
        )


def _of_run(run: RunNow, now: datetime, done_later: frozenset[str]) -> Iterator[ActionItem]:
    path = f"/runs/{run.run_id}"
    if run.unrestored:
        is_dead = run.state is RunState.DIED
        count = counted(len(run.unrestored), "device")
        how = "the run died" if is_dead else "the run ended"
        yield ActionItem(
            key=key_of_unrestored(run.run_id),
            urgency=Urgency.DEAD if is_dead else Urgency.NOT_RESTORED,
            what=run.run_id,
            sentence=f"{how} and left {count} changed and not restored: {_names(run.unrestored)}",
            since=run.last_seen_at if is_dead else run.finished_at or "",
            path=path,
        )
    elif run.state is RunState.DIED and any(one.phase is Phase.NOT_STARTED for one in run.devices):
        left = f"{counted(run.whole.not_started, 'device')} {Phase.NOT_STARTED.label}"
        yield ActionItem(
            key=f"died {run.run_id}",
            urgency=Urgency.HELD,
            what=run.run_id,
            sentence=f"died; nothing is left changed, {left}",
            since=run.last_seen_at,
            path=path,
        )
    if run.is_alive:
        yield from _of_one_alive(run, now, path)
    for phase, urgency in () if run.unrestored else _ENDS.items():
        ended = [one for one in run.devices if one.phase is phase and one.host not in done_later]
        if ended:
            yield ActionItem(
                key=f"{phase} {run.run_id}",
                urgency=urgency,
                what=run.run_id,
                sentence=f"{counted(len(ended), 'device')} {phase.label}: {_names([one.host for one in ended])}",
                since=min(one.updated_at for one in ended),
                path=f"{path}?state={phase.label}",
            )


def _of_one_alive(run: RunNow, now: datetime, path: str) -> Iterator[ActionItem]:
    if run.waiting_wave is not None:
        yield ActionItem(
            key=f"wave {run.run_id} {run.waiting_wave}",
            urgency=Urgency.WAVE,
            what=run.run_id,
            sentence=f"wave {run.wave_label(run.waiting_wave)} waits for approval",
            since=run.hold_since,
            path=path,
        )
    elif run.hold in ("paused", "stopping"):
        yield ActionItem(
            key=f"{run.hold} {run.run_id}",
            urgency=Urgency.HELD,
            what=run.run_id,
            sentence="paused: running devices finish, no new ones start" if run.hold == "paused" else "is stopping",
            since=run.hold_since,
            path=path,
        )
    elif (silent_s := _silent_s(run, now)) is not None and silent_s > SILENT_RUN_S:
        yield ActionItem(
            key=f"silent {run.run_id}",
            urgency=Urgency.SILENT,
            what=run.run_id,
            sentence="running, without an event for over a minute",
            since=run.last_event_at,
            path=path,
        )
    if run.spare is not None and run.spare.total_seconds() < 0:
        yield ActionItem(
            key=f"late {run.run_id}",
            urgency=Urgency.LATE,
            what=run.run_id,
            sentence=f"will end {rough_duration(-run.spare.total_seconds())} after its window at the present rate",
            path=path,
        )


def _plans(snapshot: Snapshot) -> Iterator[ActionItem]:
    for plan in snapshot.plans:
        yield ActionItem(
            key=f"plan {plan.digest}",
            urgency=Urgency.PLAN,
            what=plan.title or f"plan {plan.digest[:12]}",
            sentence=f"plan of {plan.made_by} for {counted(plan.devices, 'device')} waits for approval",
            since=plan.made_at,
            path=f"/plans/{plan.digest}",
        )


def _silent_s(run: RunNow, now: datetime) -> float | None:
    try:
        return (now - datetime.fromisoformat(run.last_event_at)).total_seconds()
    except ValueError:
        return None


def _names(hosts: tuple[str, ...] | list[str]) -> str:
    named = ", ".join(hosts[:_NAMED])
    return f"{named} and {len(hosts) - _NAMED} more" if len(hosts) > _NAMED else named


_URGENT_WORDS = {
    Urgency.NOT_RESTORED: NOT_RESTORED,
    Urgency.DEAD: NOT_RESTORED,
    Urgency.LATE: "too late",
    Urgency.WAVE: "approve",
    Urgency.FAILED: Phase.FAILED.label,
    Urgency.REFUSED: Phase.REFUSED.label,
    Urgency.INTERRUPTED: Phase.INTERRUPTED.label,
    Urgency.SILENT: "silent",
    Urgency.HELD: "held",
    Urgency.PLAN: "approve",
}

_HOLDS = {"paused": ("paused", "warn"), "stopping": ("stopping", "warn"), "waiting": ("waits for approval", "warn")}
_NONE = Cell(DASH, "quiet")
_SITELESS = "no site"


def clock(at: datetime, now: datetime) -> str:
    """Return a time of day in the time zone of `now`, with the weekday if it is not today."""
    at = at.astimezone(now.tzinfo)
    return f"{at:%H:%M}" if at.date() == now.date() else f"{at:%a %H:%M}"


def current_runs(snapshot: Snapshot) -> tuple[RunNow, ...]:
    """Return the runs summed up on the wall screen: live or unrestored ones, else the last one of tonight."""
    found = tuple(one for one in snapshot.tonight if one.is_alive or one.unrestored)
    return found or snapshot.tonight[:1]


def tonight_board(snapshot: Snapshot, site_names: Mapping[str, str]) -> Board:
    """Return the wall screen. `site_names` maps sites to display names."""
    items, runs = action_items(snapshot), current_runs(snapshot)
    return {
        "now": {"now": _now_row(snapshot, items, runs)},
        "needs": {one.key: _item_row(one, snapshot.at) for one in items},
        "sites": _sites(runs, snapshot.at, site_names),
        "runs": {one.run_id: run_row(one, snapshot) for one in snapshot.tonight},
    }


def _now_row(snapshot: Snapshot, items: Sequence[ActionItem], runs: Sequence[RunNow]) -> Row:
    sums = sum_up([one.whole for one in runs], snapshot.at)
    unrestored = sum(len(one.unrestored) for one in snapshot.tonight) + len(snapshot.lost)
    end, spare = _end(runs, snapshot.at)
    text, tone = _alarm(snapshot, items, unrestored)
    return {
        "alarm": Cell(text, tone),
        "clock": Cell(clock(snapshot.at, snapshot.at)),
        "unrestored": Cell(str(unrestored), "bad" if unrestored else "good"),
        "wanted": Cell(str(len(items)), "warn" if items else ""),
        "end": end,
        "spare": spare,
        "window": _window(runs, snapshot.at),
        "done": Cell(f"{sums.done} of {sums.devices}"),
        "copying": Cell(str(sums.copying)),
        "rate": Cell(coarse_rate(sums.rate_bytes_per_s)),
        "waiting": Cell(str(sums.waiting)),
        **_ends(sums),
    }


def _ends(sums: Totals) -> Row:
    """Return the number of devices per end that is not done, coloured if not 0."""
    return {phase.name.lower(): Cell(str(sums.of(phase)), phase.tone if sums.of(phase) else "") for phase in NOT_DONE}


def _not_done(sums: Totals) -> Cell:
    """Return the counts of devices that ended and are not done, such as `1 failed, 2 refused`, in the worst tone."""
    found = [phase for phase in NOT_DONE if sums.of(phase)]
    text = ", ".join(f"{sums.of(phase)} {phase.label}" for phase in found)
    return Cell(text, found[0].tone) if found else Cell("0", "quiet")


def _alarm(snapshot: Snapshot, items: Sequence[ActionItem], unrestored: int) -> tuple[str, str]:
    """Return the headline of the wall screen and its tone; the text changes only when the state does."""
    if snapshot.trouble:
        return f"Out of date: {snapshot.trouble}", "bad"
    requested = (
        "" if not items else f"{counted(len(items), 'item')} {'needs' if len(items) == 1 else 'need'} attention."
    )
    if unrestored:
        left = f"{'is' if unrestored == 1 else 'are'} changed and {NOT_RESTORED}"
        return f"{counted(unrestored, 'device')} {left}. {requested}".strip(), "bad"
    if items:
        return f"Nothing is left changed. {requested}", "warn"
    is_busy = any(one.is_alive for one in snapshot.runs)
    return f"Nothing is left changed, nothing needs attention{'' if is_busy else ', nothing is running'}.", "good"


def _end(runs: Sequence[RunNow], now: datetime) -> tuple[Cell, Cell]:
    """Return cells with the expected end of all runs and the least spare time."""
    alive = [one for one in runs if one.is_alive]
    if not alive:
        return Cell("nothing is running", "quiet"), Cell("")
    ends = [one.ends_at for one in alive if one.ends_at is not None]
    if not ends:
        end = Cell("not known yet", "quiet")
    else:
        is_at_least = len(ends) < len(alive) or any(one.is_at_least for one in alive)
        end = _end_cell(max(ends), now, is_at_least=is_at_least)
    return end, _spare(alive)


def _end_cell(at: datetime, now: datetime, *, is_at_least: bool) -> Cell:
    return Cell(f"{clock(at, now)}{' or later' if is_at_least else ''}")


def _window(runs: Sequence[RunNow], now: datetime) -> Cell:
    ends = [one.until for one in runs if one.is_alive and one.until is not None]
    if not ends:
        return Cell("no window" if any(one.is_alive for one in runs) else "")
    return Cell(f"window ends {clock(min(ends), now)}")


def _spare(alive: Sequence[RunNow]) -> Cell:
    known = [one for one in alive if one.spare is not None]
    least = min(known, key=lambda one: one.spare or timedelta(), default=None)
    return Cell("") if least is None else _spare_of(least)


def _spare_of(run: RunNow) -> Cell:
    if run.spare is None:
        return Cell("")
    seconds = run.spare.total_seconds()
    if seconds < 0:
        return Cell(f"{rough_duration(-seconds)} too late", "bad")
    if run.is_at_least:
        return Cell(f"{rough_duration(seconds)} to spare at most", "warn" if seconds < 900 else "")
    return Cell(f"{rough_duration(seconds)} to spare", "warn" if seconds < 900 else "good")


def _item_row(item: ActionItem, now: datetime) -> Row:
    return {
        "word": Cell(_URGENT_WORDS[item.urgency], "bad" if item.urgency.is_red else "warn"),
        "what": Cell(sanitize(item.what), "", item.path),
        "sentence": Cell(sanitize(item.sentence)),
        "since": Cell(clock(at, now)) if (at := time_of(item.since)) is not None else Cell(""),
    }


def _sites(runs: Sequence[RunNow], now: datetime, names: Mapping[str, str]) -> Table:
    by_site: dict[str, list[Totals]] = {}
    for run in runs:
        for site, sums in run.sites.items():
            by_site.setdefault(site, []).append(sums)
    return {site: _site_row(site, sum_up(found, now), now, names) for site, found in sorted(by_site.items())}


def _site_row(site: str, sums: Totals, now: datetime, names: Mapping[str, str]) -> Row:
    is_open = bool(sums.waiting or sums.in_progress)
    return {
        "site": Cell(sanitize(names.get(site, site) or _SITELESS)),
        "share": Cell(str(_percent(sums))),
        "done": Cell(f"{sums.done} of {sums.devices}", "" if is_open or sums.done < sums.devices else "good"),
        "copying": Cell(str(sums.copying)) if is_open else _NONE,
        "failed": _not_done(sums),
        "rate": Cell(coarse_rate(sums.rate_bytes_per_s)) if sums.copying else _NONE,
        "cap": Cell(coarse_rate(sums.cap_bytes_per_s)) if sums.cap_bytes_per_s else _NONE,
        "eta": Cell(clock(sums.ends_at, now)) if sums.ends_at is not None else _NONE,
    }


def _percent(sums: Totals) -> int:
    """Return the progress, 0 to 100, by bytes where known; 100 only if all devices are done."""
    if sums.over >= sums.devices:
        # Failed devices are over but not done: only a full success shows a full bar.
        return 100 * sums.done // max(1, sums.devices)
    total = sums.acked_bytes + sums.left_bytes
    share = sums.acked_bytes / total if total else sums.over / max(1, sums.devices)
    return min(99, int(share * 100))


def run_row(run: RunNow, snapshot: Snapshot) -> Row:
    """Return a run's row in a table of runs."""
    word, tone = run_word(run)
    job = snapshot.jobs.get(run.run_id)
    return {
        "run": Cell(run.run_id, "", f"/runs/{run.run_id}"),
        "state": Cell(word, tone),
        "what": Cell(run.verb),
        "by": Cell(sanitize(by)) if (by := run.actor or (job.requested_by if job else "")) else _NONE,
        "done": Cell(f"{run.whole.done} of {run.whole.devices}"),
        "failed": _not_done(run.whole),
        "unrestored": Cell(str(len(run.unrestored)), "bad") if run.unrestored else Cell("0", "quiet"),
        "wave": Cell(sanitize(run.wave)) if run.wave and run.is_alive else _NONE,
        "rate": Cell(coarse_rate(run.whole.rate_bytes_per_s)) if run.whole.copying else _NONE,
        "end": _run_end(run, snapshot.at),
    }


def run_word(run: RunNow) -> tuple[str, str]:
    """Return the state of a run in words, and its tone."""
    if run.state is RunState.DIED:
        return (f"died, {NOT_RESTORED}", "bad") if run.unrestored else ("died", "warn")
    if run.state is RunState.FINISHED:
        if run.unrestored:
            return f"ended, {NOT_RESTORED}", "bad"
        if (stopped_by := run.stopped_by) is not None:
            return f"stopped by {sanitize(stopped_by)}" if stopped_by else "stopped", "warn"
        if run.whole.failed:
            return "ended with failures", "warn"
        is_done = all(one.phase is Phase.DONE or one.is_left_by_plan for one in run.devices)
        return ("ended", "good") if is_done else ("ended, not all done", "warn")
    return _HOLDS.get(run.hold, (Phase.IN_PROGRESS.label, ""))


def _run_end(run: RunNow, now: datetime) -> Cell:
    if not run.is_alive:
        at = time_of(run.finished_at or "")
        return Cell(f"ended {clock(at, now)}", "quiet") if at is not None else _NONE
    if run.ends_at is None:
        return Cell("not known yet", "quiet")
    end, spare = _end_cell(run.ends_at, now, is_at_least=run.is_at_least), _spare_of(run)
    return Cell(f"{end.text}, {spare.text}", spare.tone) if spare.text else end


def _offers(run: RunNow, job: Job | None) -> str:
    """Return what the actions offered on a run's page depend on: a page that shows others is loaded again."""
    if run.is_alive:
        return "alive" if run.waiting_wave is None else f"wave {run.waiting_wave}"
    if job is not None and job.is_open and job.kind in RECOVERS:
        return f"{job.kind} at work"
    return "left changed" if run.unrestored else "over"


def _ended_at(run: RunNow, now: datetime) -> Cell:
    at = time_of(run.finished_at or (run.last_seen_at if run.state is RunState.DIED else ""))
    return Cell(clock(at, now)) if at is not None else _NONE


def run_board(
    run: RunNow,
    snapshot: Snapshot,
    site_names: Mapping[str, str],
    devices: Sequence[DeviceNow] | None = None,
    listed: int = 0,
) -> Board:
    """Return a run: its head, sites, waves, and devices.

    Args:
        run: The run.
        snapshot: The snapshot with it.
        site_names: Display names of sites.
        devices: Those of one page; None: all, in order of importance.
        listed: The number of devices on all pages.
    """
    end, spare = _end([run], snapshot.at)
    events_view = time_of(run.last_event_at) if run.is_alive else None
    silent_s = (snapshot.at - events_view).total_seconds() if events_view is not None else None
    job = snapshot.jobs.get(run.run_id)
    head = dict(run_row(run, snapshot)) | {
        "copying": Cell(str(run.whole.copying)),
        "waiting": Cell(str(run.whole.waiting)),
        "heard": Cell(f"{silent_s:.0f} s ago", "bad" if silent_s > 60 else "") if silent_s is not None else _NONE,
        **_ends(run.whole),
        "rate": Cell(coarse_rate(run.whole.rate_bytes_per_s)),
        "end_at": end if run.is_alive else _ended_at(run, snapshot.at),
        "spare": spare,
        "window": _window([run], snapshot.at),
        "hold": Cell(sanitize(_hold_text(run, snapshot.at)), "warn" if run.hold else ""),
        "steering": Cell("", run.hold),
        "offers": Cell(_offers(run, job)),
    }
    if devices is not None:
        head["listed"] = Cell(counted(listed, "device"))
    return {
        "run": {"run": head},
        "sites": _sites([run], snapshot.at, site_names),
        "waves": {str(wave): _wave_row(run, wave, snapshot.at) for wave in run.waves if len(run.waves) > 1},
        "devices": {
            one.host: device_row(run, one, site_names) for one in (in_order(run) if devices is None else devices)
        },
    }


def _ended_wave(run: RunNow, sums: Totals) -> Cell:
    """Return the state of a wave whose devices ended: finished if each was tried, failed or not."""
    if sums.not_started == sums.devices:
        return Cell(Phase.NOT_STARTED.label, Phase.NOT_STARTED.tone)
    if sums.interrupted or sums.not_started:
        return Cell("interrupted" if run.state is RunState.DIED else "stopped", "warn")
    return Cell("finished", "good" if sums.done == sums.devices else "warn")


def _wave_row(run: RunNow, wave: int, now: datetime) -> Row:
    sums = sums_of([one for one in run.devices if one.wave == wave], now)
    is_waiting = run.waiting_wave == wave
    if is_waiting:
        state = Cell("waits for approval", "warn")
    elif sums.over == sums.devices:
        state = _ended_wave(run, sums)
    elif sums.in_progress or sums.over:
        state = Cell(Phase.IN_PROGRESS.label)
    else:
        state = Cell(Phase.QUEUED.label, "quiet")
    return {
        "wave": Cell(sanitize(run.wave_label(wave))),
        "state": state,
        "share": Cell(str(_percent(sums))),
        "done": Cell(f"{sums.done} of {sums.devices}"),
        "failed": _not_done(sums),
        "under_way": Cell(str(sums.in_progress)) if sums.in_progress else _NONE,
        "waiting": Cell(str(sums.waiting)) if sums.waiting else _NONE,
    }


_ORDER = (
    Phase.FAILED,
    Phase.REFUSED,
    Phase.INTERRUPTED,
    Phase.IN_PROGRESS,
    Phase.QUEUED,
    Phase.NOT_STARTED,
    Phase.DONE,
)


def in_order(run: RunNow) -> list[DeviceNow]:
    """Return the devices of a run: unrestored, not done, active, queued, done."""
    unrestored = frozenset(run.unrestored)
    order = {phase: place for place, phase in enumerate(_ORDER, start=1)}
    return sorted(run.devices, key=lambda one: 0 if one.host in unrestored else order[one.phase])


def device_row(run: RunNow, one: DeviceNow, site_names: Mapping[str, str]) -> Row:
    """Return a device's row in its run."""
    is_left = one.host in run.unrestored
    word = f"{one.label}, {NOT_RESTORED}" if is_left else one.label
    share = 100 * one.acked_bytes // one.size_bytes if one.size_bytes else 0
    is_still = one.phase is Phase.IN_PROGRESS and 0 < one.acked_bytes < one.size_bytes and not one.rate_bytes_per_s
    limit = one.verdict if one.phase is Phase.IN_PROGRESS and one.rate_bytes_per_s else ""
    text = one.text or ("nothing moves" if is_still else limit) or ""
    return {
        "host": Cell(sanitize(one.host), "", device_path(run.run_id, one.host)),
        "site": Cell(sanitize(site_names.get(one.site, one.site) or _SITELESS)),
        "wave": Cell(str(one.wave)) if one.wave >= 0 else _NONE,
        "state": Cell(word, "bad" if is_left else "" if not one.phase.is_over else one.phase.tone),
        "step": Cell(sanitize(one.step)) if one.phase is Phase.IN_PROGRESS else Cell(""),
        "share": Cell(str(min(100, share))),
        "percent": Cell(f"{min(100, share)} %") if one.size_bytes and one.acked_bytes else Cell(""),
        "rate": Cell(coarse_rate(one.rate_bytes_per_s)) if one.rate_bytes_per_s else Cell(""),
        "left": Cell(rough_duration(one.left_bytes / one.rate_bytes_per_s)) if one.rate_bytes_per_s else Cell(""),
        "text": Cell(as_fields(sanitize(text)), "warn" if is_still else ""),
    }


def device_path(run_id: str, host: str) -> str:
    """Return the path of the page of a device in a run."""
    return f"/runs/{quote(run_id, safe='')}/devices/{quote(host, safe='')}"


def _hold_text(run: RunNow, now: datetime) -> str:
    at = time_of(run.hold_since)
    since = f" since {clock(at, now)} {zone_word(at.astimezone(now.tzinfo))}" if at is not None else ""
    if run.waiting_wave is not None:
        return f"Wave {run.wave_label(run.waiting_wave)} waits for approval{since}."
    words = {
        "paused": f"Paused{since}: running devices finish, no new ones start.",
        "stopping": f"Stopping{since}: copies under way are cut, every device is restored.",
    }
    return words.get(run.hold, "")


def time_of(text: str) -> datetime | None:
    """Parse a time of the journal; None if it is not valid."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


_COLUMNS: Mapping[str, Callable[[DeviceNow], Any]] = {
    "device": lambda one: one.host,
    "site": lambda one: one.site,
    "wave": lambda one: one.wave,
    "state": lambda one: one.label,
    "copied": lambda one: one.acked_bytes / one.size_bytes if one.size_bytes else 0.0,
    "rate": lambda one: one.rate_bytes_per_s,
    "left": lambda one: one.left_bytes / one.rate_bytes_per_s if one.rate_bytes_per_s else 0.0,
}
"""What each column is sorted by."""

_LONGEST_WORDS, _LONGEST_NUMBER = 200, 6


class DeviceQuery(Struct, frozen=True, kw_only=True):
    """What a page of a run was asked for.

    Attributes:
        state: `all`, `not restored`, or a phase; an unknown one filters nothing.
        words: All of them stand in a shown row.
        sort: Column, with `-` before it: descending.
        page: Its number, from 1.
        host: Only this device; empty: any.
    """

    state: str = "all"
    words: str = ""
    sort: str = ""
    page: int = 1
    host: str = ""

    @classmethod
    def of(cls, text: str) -> DeviceQuery:
        """Return the query in the address of a page; what is not valid there is as if it was not given."""
        given = dict(parse_qsl(text))
        number = given.get("page", "")
        return cls(
            state=given.get("state", "all"),
            words=given.get("q", "")[:_LONGEST_WORDS],
            sort=given.get("sort", ""),
            host=given.get("host", ""),
            page=int(number) if number.isascii() and number.isdigit() and 0 < len(number) < _LONGEST_NUMBER else 1,
        )


def device_page(run: RunNow, query: DeviceQuery) -> Listing[DeviceNow]:
    """Return a page of the devices of a run."""
    chosen = [
        one for one in in_order(run) if query.host in {"", one.host} and _is_chosen(run, one, query.state, query.words)
    ]
    given = {"q": query.words, "state": "" if query.state == "all" else query.state}
    path = f"/runs/{quote(run.run_id, safe='')}"
    return listing(chosen, _COLUMNS, path=path, sort=query.sort, page=max(1, query.page), given=given)


def channel_of(run_id: str, shown: Listing[DeviceNow]) -> str:
    """Return the name by which a stream carries a page of a run: the run, `?`, and the page's query."""
    return f"{run_id}?{shown.address.partition('?')[2]}"


def channel_of_device(run_id: str, host: str) -> str:
    """Return the name by which a stream carries one device of a run."""
    return f"{run_id}?{urlencode({'host': host})}"


def _is_chosen(found: RunNow, one: DeviceNow, state: str, words: str) -> bool:
    if state == "not restored" and one.host not in found.unrestored:
        return False
    if any(state in (phase, phase.label) for phase in Phase) and state not in (one.phase, one.phase.label):
        return False
    details = " ".join((one.host, one.site, one.label, one.step, one.text, one.verdict or "")).casefold()
    return all(word in details for word in words.casefold().split())
