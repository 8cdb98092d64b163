"""The live view of a run as lines: totals, a line per site, a line per device that matters. Pure: no terminal."""

from __future__ import annotations

from collections.abc import Mapping

from flashferry.cli.terminal.output import command
from flashferry.cli.view.live_cells import Line, Look, amount, bar, clock, cut, fit, joined, left, percent, rate
from flashferry.cli.view.live_choice import WORDS, Need, choose
from flashferry.cli.view.live_device_lines import WIDE_ENOUGH, device_header, device_lines, few_lines
from flashferry.core.described import counted
from flashferry.monitor.progress import Fleet, Phase, Tally

FEW = 8
"""So many devices need no totals and no sites: the lines are theirs."""

DIM, GOOD, BAD, WARN, DONE = "dim", "green", "bold red", "yellow", "cyan"

_COMMANDS = {
    "paused": "run continue",
    "waiting": "run approve",
}
_SITE_COLUMNS = 16
_LEAST_DEVICE_LINES = 6


def lines_of(fleet: Fleet, look: Look, *, now_s: float, elapsed_s: float) -> list[Line]:
    """Return the view of a run in no more lines and columns than the terminal has.

    Args:
        fleet: Where the devices stand.
        look: What the terminal can show.
        now_s: The time, on the clock of who follows.
        elapsed_s: How long the run has been going on.
    """
    lines = _few(fleet, look, now_s, elapsed_s) if fleet.total <= FEW else _many(fleet, look, now_s, elapsed_s)
    return [cut(line, look) for line in lines[: max(1, look.height)]]


def _few(fleet: Fleet, look: Look, now_s: float, elapsed_s: float) -> list[Line]:
    heads = _held(fleet, look)
    room = max(1, look.height - 2 - len(heads))
    under_way = [one for one in fleet.devices.values() if not one.is_over and one.phase is not Phase.QUEUED]
    under_way.sort(key=lambda device: not device.is_copying)
    hidden = len(under_way[room:])
    parts = [f"{fleet.whole.over} of {counted(fleet.total, 'device')} through"]
    failed = sum(device.has_failed for device in fleet.devices.values())
    parts += [f"{failed} with a failure"] if failed else []
    parts += [f"{hidden} more under way"] if hidden else []
    summary = [(f"{', '.join(parts)}, {clock(elapsed_s)}", DIM)]
    return [*heads, *few_lines(under_way[:room], look, now_s), summary]


def _many(fleet: Fleet, look: Look, now_s: float, elapsed_s: float) -> list[Line]:
    heads = [_counts(fleet, elapsed_s, look), _bytes(fleet, look), *_wave(fleet, look), *_held(fleet, look)]
    room = look.height - 1 - len(heads)
    sites = _sites(fleet, look, room - _LEAST_DEVICE_LINES) if len(fleet.sites) > 1 else []
    room -= len(sites)
    # A line of words above the devices, one below them for those that have no line.
    chosen = choose(fleet.devices.values(), room=max(1, room - 2), now_s=now_s)
    shown = [device for device, _ in chosen.shown]
    rows = device_lines(chosen.shown, look, now_s, with_site=len(fleet.sites) > 1) if shown else []
    head = [device_header(shown, look, with_site=len(fleet.sites) > 1)] if shown else []
    return [*heads, *sites, *head, *rows, *_rest(chosen.hidden)]


def _counts(fleet: Fleet, elapsed_s: float, look: Look) -> Line:
    devices = fleet.whole.devices
    failed, not_begun = devices[Phase.FAILED], devices[Phase.NOT_BEGUN]
    queued = devices[Phase.QUEUED] + fleet.total - fleet.whole.total
    line: Line = [(f"{devices[Phase.DONE]} of {counted(fleet.total, 'device')} done", "bold"), (", ", "")]
    line += [(f"{failed} failed", BAD), (", ", "")] if failed else []
    line += [(f"{not_begun} not begun", WARN), (", ", "")] if not_begun else []
    line += [(f"{devices[Phase.UNDER_WAY]} under way, {queued} queued", "")]
    length = sum(len(text) for text, _ in line)
    line.append((fit(clock(elapsed_s), max(0, look.width - length), right=True), DIM))
    return line


def _bytes(fleet: Fleet, look: Look) -> Line:
    whole = fleet.whole
    words = [percent(whole.share)]
    if whole.todo_bytes:
        words.append(amount(whole.acked_bytes, whole.todo_bytes))
    if whole.copies:
        words.append(f"{rate(whole.rate_bytes_per_s)} MB/s")
    if (seconds := left_s(fleet)) is not None:
        words.append(f"about {left(seconds)}")
    text = "  ".join(words)
    return joined([_bar(whole, min(60, look.width - len(text) - 2), look), [(text, "")]])


def left_s(fleet: Fleet) -> float | None:
    """Return seconds until all copies are through: at the rate of now, and not before the slowest site's."""
    found = [tally.left_s for tally in (fleet.whole, *fleet.sites.values())]
    return max((seconds for seconds in found if seconds is not None), default=None)


def _wave(fleet: Fleet, look: Look) -> list[Line]:
    return [[(fit(f"wave {fleet.wave}", look.width), "bold")]] if fleet.wave else []


def _held(fleet: Fleet, look: Look) -> list[Line]:
    """Return what holds up the run and the command that lets it go on, in as many lines as that takes."""
    if not fleet.hold:
        return []
    verb = _COMMANDS.get(fleet.hold)
    told = f"{fleet.hold_text}: {command(f'{verb} {fleet.run_id}')}" if verb else fleet.hold_text
    text = told if fleet.hold in told else f"{fleet.hold}: {told}"
    return [[(text[start : start + look.width], WARN)] for start in range(0, len(text), max(1, look.width))]


def _sites(fleet: Fleet, look: Look, room: int) -> list[Line]:
    """Return a line per site, those with something to do first where there are too many; words above them."""
    if room < 3:
        return []
    names = list(fleet.sites)
    hidden: list[str] = []
    if len(names) > room - 1:
        by_need = sorted(names, key=lambda name: _site_order(fleet.sites[name]))
        kept = set(by_need[: room - 2])
        hidden = [name for name in names if name not in kept]
        names = [name for name in names if name in kept]
    width = max(4, *(len(name) for name in names))
    width = min(width, _SITE_COLUMNS if look.width < 100 else 2 * _SITE_COLUMNS)
    lines = [_site_header(width, look), *(_site(name, fleet.sites[name], width, look) for name in names)]
    if hidden:
        over = sum(fleet.sites[name].over == fleet.sites[name].total for name in hidden)
        lines.append([(f"{len(hidden)} more sites, {over} of them through", DIM)])
    return lines


def _site_order(tally: Tally) -> tuple[bool, bool, float]:
    return tally.over == tally.total, not tally.devices[Phase.UNDER_WAY], -(tally.left_s or 0.0)


def _site_header(width: int, look: Look) -> Line:
    words = [fit("site", width), *(fit(word, 4, right=True) for word in ("done", "busy", "wait", "fail"))]
    words += [fit("copied", _bar_width(width, look) + 6), fit("MB/s", 7, right=True)]
    words += [fit("of cap", 7, right=True)] if look.width >= WIDE_ENOUGH else []
    return [("  ".join([*words, fit("left", 8, right=True)]), DIM)]


def _site(name: str, tally: Tally, width: int, look: Look) -> Line:
    counts = tally.devices
    failed = counts[Phase.FAILED]
    is_over = tally.over == tally.total
    cap = tally.cap_bytes_per_s
    cells: list[Line] = [
        [(fit(name or "(none)", width), DIM if is_over else "")],
        [(fit(str(counts[Phase.DONE]), 4, right=True), GOOD if is_over and not failed else "")],
        [(fit(str(counts[Phase.UNDER_WAY]), 4, right=True), "")],
        [(fit(str(counts[Phase.QUEUED] + counts[Phase.NOT_BEGUN]), 4, right=True), "")],
        [(fit(str(failed), 4, right=True), BAD if failed else DIM)],
        _bar(tally, _bar_width(width, look), look),
        [(fit(percent(tally.share), 4, right=True), "")],
        [(fit(rate(tally.rate_bytes_per_s) if tally.copies else "", 7, right=True), "")],
        *([[(fit(rate(cap) if cap else "", 7, right=True), DIM)]] if look.width >= WIDE_ENOUGH else []),
        [(fit(clock(tally.left_s) if tally.left_s is not None else "", 8, right=True), "")],
    ]
    return joined(cells)


def _bar_width(site_width: int, look: Look) -> int:
    """Return what is left for a site's bar beside its figures."""
    cap = 9 if look.width >= WIDE_ENOUGH else 0
    return max(4, min(40, look.width - site_width - 4 * 6 - 2 - 6 - 9 - cap - 10))


def _bar(tally: Tally, width: int, look: Look) -> Line:
    done, undone = bar(tally.share, max(4, width), plain=look.plain)
    return [(done, GOOD if tally.share >= 1 else DONE), (undone, DIM)]


def _rest(hidden: Mapping[Need, int]) -> list[Line]:
    """Return a line that says how many devices have none."""
    words = ", ".join(f"{count} {WORDS[need]}" for need, count in sorted(hidden.items()))
    return [[(f"not shown: {words}", DIM)]] if words else []
