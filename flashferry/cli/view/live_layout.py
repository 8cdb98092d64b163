"""Layout of the live view: totals, a line per site, a line per device that needs attention. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from flashferry.cli.terminal.output import command
from flashferry.cli.view.layout import STYLES
from flashferry.cli.view.layout import rate as rate_with_unit
from flashferry.cli.view.live_devices import (
    LABELS,
    Line,
    Need,
    TerminalSize,
    amount,
    bar,
    choose,
    clock,
    cut,
    fit,
    joined,
    left,
    percent,
    rate,
)
from flashferry.core.redaction import sanitize
from flashferry.core.units import counted
from flashferry.model.states import NOT_DONE, Phase
from flashferry.monitor.progress import Device, Fleet, Tally

DIM, GOOD, BAD, WARN, DONE = "dim", "green", "bold red", "yellow", "cyan"

WIDE_ENOUGH = 80
"""Width below which a site's cap and a copy's verdict are left out."""

_STEP = 14
_RATE = 7
_LEFT = 8
_VERDICT = 13
_FEW_STEP = 20
_FEW_BAR = 16
_STYLES = {Need.RESTORING: BAD, Need.FAILED: BAD, Need.STALLED: WARN, Need.RETRY: WARN, Need.SLOW: WARN}
_IN_WORDS = frozenset({Need.RESTORING, Need.FAILED, Need.RETRY})
"""Needs shown as text instead of a bar."""


def few_lines(devices: Iterable[Device], screen: TerminalSize, now_s: float) -> list[Line]:
    """Return a line per device with units, for a run of few devices without a header."""
    found = list(devices)
    host = min(_FEW_STEP, max((len(device.host) for device in found), default=0))
    step = min(_FEW_STEP, max((len(device.step) for device in found), default=0))
    return [_few_line(device, host, step, screen, now_s) for device in found]


def _few_line(device: Device, host: int, step: int, screen: TerminalSize, now_s: float) -> Line:
    style = BAD if device.has_failed else ""
    names = [
        (fit(device.host, host), style),
        ("  ", ""),
        (fit(device.step, step), style),
    ]
    if device.waits:
        return joined([names, [(fit(device.waits, max(0, screen.width - host - step - 4)), WARN)]])
    if not device.is_copying:
        since = clock(now_s - device.since_s)
        space = max(0, screen.width - host - step - len(since) - 6)
        return joined([names, [(since, "")], [(fit(device.doing, space), DIM)] if device.doing else []])
    cells = [names, _device_bar(device, _FEW_BAR, screen), [(fit(percent(_share(device)), 4, right=True), "")]]
    cells.append([(fit(rate_with_unit(device.rate_bytes_per_s), 11, right=True), "")])
    seconds = _left_s(device)
    cells.append([(left(seconds) if seconds is not None else clock(now_s - device.since_s), "")])
    if device.verdict and screen.width >= 72 + host:
        cells.append([(f"{device.verdict} so far", DIM)])
    return joined(cells)


def device_header(devices: Sequence[Device], screen: TerminalSize, *, with_site: bool, has_copies: bool = True) -> Line:
    """Return the header above device lines. has_copies: include the columns of copies."""
    host, site, width = _widths(devices, screen, with_site=with_site)
    words = [fit("device", host), *([fit("site", site)] if site else []), fit("step", _STEP)]
    if not has_copies:
        return [("  ".join(words), DIM)]
    words += [fit("copied", width + 6), fit("MB/s", _RATE, right=True), fit("left", _LEFT, right=True)]
    return [("  ".join([*words, *(["limited by"] if screen.width >= WIDE_ENOUGH else [])]), DIM)]


def device_lines(
    chosen: Iterable[tuple[Device, Need]], screen: TerminalSize, now_s: float, *, with_site: bool
) -> list[Line]:
    """Return a line per device, in the columns of `device_header`."""
    found = list(chosen)
    widths = _widths([device for device, _ in found], screen, with_site=with_site)
    return [_line(device, need, widths, screen, now_s) for device, need in found]


def _widths(devices: Sequence[Device], screen: TerminalSize, *, with_site: bool) -> tuple[int, int, int]:
    """Return the widths of name, site (0: not shown) and bar."""
    verdict = _VERDICT + 2 if screen.width >= WIDE_ENOUGH else 0
    space = screen.width - (_STEP + 2) - (2 + 6) - (_RATE + 2) - (_LEFT + 2) - verdict
    host = min(max(6, *(len(device.host) for device in devices)), max(12, space - 6))
    site = 0
    if with_site and space - host >= 20:
        site = min(max(4, *(len(device.site) for device in devices)), 16)
        space -= site + 2
    return host, site, max(4, min(24, space - host))


def _line(device: Device, need: Need, widths: tuple[int, int, int], screen: TerminalSize, now_s: float) -> Line:
    host, site, width = widths
    style = STYLES[device.phase.tone] if need is Need.FAILED and not device.has_failed else _STYLES.get(need, "")
    cells: list[Line] = [[(fit(device.host, host), style)]]
    cells += [[(fit(device.site, site), DIM)]] if site else []
    cells.append([(fit(_step(device, need, now_s), _STEP), style)])
    used = host + 2 + (site + 2 if site else 0) + _STEP + 2
    if text := _text(device, need):
        return joined([*cells, [(fit(text, max(0, screen.width - used)), style)]])
    if not device.is_copying:
        return joined(cells)
    seconds = _left_s(device)
    cells += [
        _device_bar(device, width, screen),
        [(fit(percent(_share(device)), 4, right=True), "")],
        [(fit(rate(device.rate_bytes_per_s), _RATE, right=True), style)],
        [(fit(clock(seconds) if seconds is not None else "", _LEFT, right=True), "")],
    ]
    if screen.width >= WIDE_ENOUGH:
        cells.append([(device.verdict or "", DIM)])
    return joined(cells)


def _step(device: Device, need: Need, now_s: float) -> str:
    """Return a device's step, with its duration if there is no bar."""
    if need is Need.FAILED:
        return device.phase.label
    if need is Need.RETRY:
        return "retry"
    if need is Need.STALLED:
        return f"stalled {clock(now_s - device.moved_s)}"
    if need is Need.SLOW:
        return "slow"
    if device.waits:
        return "waits"
    return device.step if device.is_copying else f"{device.step} {clock(now_s - device.since_s)}"


def _text(device: Device, need: Need) -> str:
    if need is Need.RETRY or (device.waits and need is not Need.FAILED):
        return device.waits
    # The step's text already contains the word.
    return device.text.removeprefix(f"{device.phase.label}: ") if need in _IN_WORDS else device.doing


def _share(device: Device) -> float:
    return device.acked_bytes / max(device.size_bytes, 1)


def _left_s(device: Device) -> float | None:
    # At a rate that rounds to zero, a remaining time would be meaningless.
    if device.rate_bytes_per_s < 500.0:
        return None
    return (device.size_bytes - device.acked_bytes) / device.rate_bytes_per_s


def _device_bar(device: Device, width: int, screen: TerminalSize) -> Line:
    done, undone = bar(_share(device), width, plain=screen.plain)
    return [(done, DONE), (undone, DIM)]


FEW = 8
"""Number of devices up to which totals and sites are left out."""

_COMMANDS = {
    "paused": "run continue",
    "waiting": "run approve",
}
_SITE_COLUMNS = 16
_LEAST_DEVICE_LINES = 6


class SiteNotes(Struct, frozen=True, kw_only=True):
    """Notes on sites with an agent, by site.

    Attributes:
        silent: When a silent agent was last in contact.
        fetching: The image its depot is fetching, and how far that is.
    """

    silent: Mapping[str, str]
    fetching: Mapping[str, str]


def lines_of(
    fleet: Fleet,
    screen: TerminalSize,
    *,
    now_s: float,
    elapsed_s: float,
    silent: Mapping[str, str] | None = None,
    fetching: Mapping[str, str] | None = None,
) -> list[Line]:
    """Return the live view, within the terminal's size.

    Args:
        fleet: State of all devices.
        screen: The terminal's size.
        now_s: Current time on the follower's clock.
        elapsed_s: Duration of the run so far.
        silent: When each silent agent was last in contact, by site; None: no site has an agent.
        fetching: The image each site's depot is fetching; None: no site has an agent.
    """
    make = _few if fleet.total <= FEW else _many
    lines = make(fleet, screen, now_s, elapsed_s, SiteNotes(silent=_shown(silent), fetching=_shown(fetching)))
    return [cut(line, screen) for line in lines[: max(1, screen.height)]]


def _shown(notes: Mapping[str, str] | None) -> dict[str, str]:
    return {sanitize(site): sanitize(text) for site, text in (notes or {}).items()}


def _few(fleet: Fleet, screen: TerminalSize, now_s: float, elapsed_s: float, notes: SiteNotes) -> list[Line]:
    heads = [*_held(fleet, screen), *_notes_lines(notes, screen)]
    space = max(1, screen.height - 2 - len(heads))
    running = [one for one in fleet.devices.values() if not one.is_over and one.phase is not Phase.QUEUED]
    running.sort(key=lambda device: not device.is_copying)
    hidden = len(running[space:])
    parts = [f"{fleet.whole.over} of {counted(fleet.total, 'device')} through"]
    failed = sum(device.has_failed for device in fleet.devices.values())
    parts += [f"{failed} with a failure"] if failed else []
    parts += [f"{hidden} more under way"] if hidden else []
    summary = [(f"{', '.join(parts)}, {clock(elapsed_s)}", DIM)]
    return [*heads, *few_lines(running[:space], screen, now_s), summary]


def _many(fleet: Fleet, screen: TerminalSize, now_s: float, elapsed_s: float, notes: SiteNotes) -> list[Line]:
    heads = [_counts(fleet, elapsed_s, screen), _bytes(fleet, screen), *_wave(fleet, screen), *_held(fleet, screen)]
    space = screen.height - 1 - len(heads)
    sites = _sites(fleet, screen, space - _LEAST_DEVICE_LINES, notes) if len(fleet.sites) > 1 else []
    # Without site rows, one line has the copies of all sites.
    sites = sites or _notes_lines(notes, screen)
    space -= len(sites)
    # One line for the header above the devices, one for those that are hidden.
    chosen = choose(fleet.devices.values(), space=max(1, space - 2), now_s=now_s)
    drawn = [device for device, _ in chosen.shown]
    with_site = len(fleet.sites) > 1
    head = [device_header(drawn, screen, with_site=with_site, has_copies=fleet.has_copies)] if drawn else []
    rows = device_lines(chosen.shown, screen, now_s, with_site=with_site) if drawn else []
    return [*heads, *sites, *head, *rows, *_rest(chosen.hidden)]


def _counts(fleet: Fleet, elapsed_s: float, screen: TerminalSize) -> Line:
    devices = fleet.whole.devices
    queued = devices[Phase.QUEUED] + fleet.total - fleet.whole.total
    line: Line = [
        (f"{devices[Phase.DONE]} of {counted(fleet.total, 'device')} {Phase.DONE.label}", "bold"),
        (", ", ""),
    ]
    for phase in NOT_DONE:
        line += [(f"{devices[phase]} {phase.label}", STYLES[phase.tone]), (", ", "")] if devices[phase] else []
    line += [(f"{devices[Phase.IN_PROGRESS]} {Phase.IN_PROGRESS.label}, {queued} {Phase.QUEUED.label}", "")]
    length = sum(len(text) for text, _ in line)
    line.append((fit(clock(elapsed_s), max(0, screen.width - length), right=True), DIM))
    return line


def _bytes(fleet: Fleet, screen: TerminalSize) -> Line:
    whole = fleet.whole
    words = [percent(whole.share)]
    if whole.todo_bytes:
        words.append(amount(whole.acked_bytes, whole.todo_bytes))
    if whole.copies:
        words.append(f"{rate(whole.rate_bytes_per_s)} MB/s")
    if (seconds := left_s(fleet)) is not None:
        words.append(f"about {left(seconds)}")
    text = "  ".join(words)
    return joined([_tally_bar(whole, min(60, screen.width - len(text) - 2), screen), [(text, "")]])


def left_s(fleet: Fleet) -> float | None:
    """Return the seconds until all copies end, at present rates and not before the slowest site's."""
    found = [tally.left_s for tally in (fleet.whole, *fleet.sites.values())]
    return max((seconds for seconds in found if seconds is not None), default=None)


def _wave(fleet: Fleet, screen: TerminalSize) -> list[Line]:
    # The waves of an activation are called rounds.
    notes = fleet.wave if fleet.wave.startswith("round ") else f"wave {fleet.wave}"
    return [[(fit(notes, screen.width), "bold")]] if fleet.wave else []


def _held(fleet: Fleet, screen: TerminalSize) -> list[Line]:
    """Return the lines for what holds up the run, with the command that continues it."""
    if not fleet.hold:
        return []
    verb = _COMMANDS.get(fleet.hold)
    notes = f"{fleet.hold_text}: {command(f'{verb} {fleet.run_id}')}" if verb else fleet.hold_text
    text = notes if fleet.hold in notes else f"{fleet.hold}: {notes}"
    return [[(text[start : start + screen.width], WARN)] for start in range(0, len(text), max(1, screen.width))]


def _notes_lines(notes: SiteNotes, screen: TerminalSize) -> list[Line]:
    """Return a line for silent sites and one for images that depots are fetching, if there are any."""
    words = (("silent", notes.silent, WARN), ("fetching", notes.fetching, ""))
    lines = [(name, ", ".join(f"{site or '(none)'} {text}" for site, text in of.items()), at) for name, of, at in words]
    return [[(fit(f"{name}: {text}", screen.width), style)] for name, text, style in lines if text]


def _sites(fleet: Fleet, screen: TerminalSize, space: int, notes: SiteNotes) -> list[Line]:
    """Return a header and a line per site; with too many sites, those in need of attention first."""
    if space < 3:
        return []
    names, hidden = _fitting(fleet, space, notes.silent)
    width = max(4, *(len(name) for name in names))
    width = min(width, _SITE_COLUMNS if screen.width < 100 else 2 * _SITE_COLUMNS)
    has_copies = fleet.has_copies
    lines = [_site_header(width, screen, has_copies=has_copies)]
    for name in names:
        tally, copies = fleet.sites[name], list[Line]()
        if name in notes.silent:
            copies = _silent_copies(notes.silent[name], tally, width, screen, has_copies=has_copies)
        elif name in notes.fetching and not tally.copies:
            copies = [[(notes.fetching[name], DONE)]]
        elif has_copies:
            copies = _copies(tally, width, screen)
        lines.append(joined([*_counts_of(name, tally, width), *copies]))
    return [*lines, *_more(fleet, hidden, notes.silent)]


def _more(fleet: Fleet, hidden: list[str], silent: Mapping[str, str]) -> list[Line]:
    """Return a line about the sites that did not fit."""
    over = sum(fleet.sites[name].over == fleet.sites[name].total for name in hidden)
    silent_hidden = sum(name in silent for name in hidden)
    notes = f"{len(hidden)} more sites, {over} of them through" + (f", {silent_hidden} silent" if silent_hidden else "")
    return [[(notes, DIM)]] if hidden else []


def _fitting(fleet: Fleet, space: int, silent: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the sites that fit, and those that do not."""
    names = list(fleet.sites)
    if len(names) <= space - 1:
        return names, []
    kept = set(sorted(names, key=lambda name: (name not in silent, *_site_order(fleet.sites[name])))[: space - 2])
    return [name for name in names if name in kept], [name for name in names if name not in kept]


def _site_order(tally: Tally) -> tuple[bool, bool, float]:
    return tally.over == tally.total, not tally.devices[Phase.IN_PROGRESS], -(tally.left_s or 0.0)


_NOT_DONE = "not done"
"""Column header for devices that failed, were refused, interrupted or not started."""


def _site_header(width: int, screen: TerminalSize, *, has_copies: bool) -> Line:
    words = [fit("site", width), *(fit(word, 4, right=True) for word in ("done", "busy", "wait")), _NOT_DONE]
    if not has_copies:
        return [("  ".join(words), DIM)]
    words += [fit("copied", _bar_width(width, screen) + 6), fit("MB/s", 7, right=True)]
    words += [fit("of cap", 7, right=True)] if screen.width >= WIDE_ENOUGH else []
    return [("  ".join([*words, fit("left", 8, right=True)]), DIM)]


def _counts_of(name: str, tally: Tally, width: int) -> list[Line]:
    """Return the device counts of a site's line."""
    counts = tally.devices
    gravest = next((phase for phase in NOT_DONE if counts[phase]), None)
    is_over = tally.over == tally.total
    return [
        [(fit(name or "(none)", width), DIM if is_over else "")],
        [(fit(str(counts[Phase.DONE]), 4, right=True), GOOD if is_over and gravest is None else "")],
        [(fit(str(counts[Phase.IN_PROGRESS]), 4, right=True), "")],
        [(fit(str(counts[Phase.QUEUED]), 4, right=True), "")],
        [
            (
                fit(str(sum(counts[phase] for phase in NOT_DONE)), len(_NOT_DONE), right=True),
                STYLES[gravest.tone] if gravest is not None else DIM,
            )
        ],
    ]


def _silent_copies(text: str, tally: Tally, width: int, screen: TerminalSize, *, has_copies: bool) -> list[Line]:
    """Return a silent site's copies as last reported, and since when.

    Rate and remaining time are left out: they would look current.
    """
    space = 7 + 2 + 8 + (9 if screen.width >= WIDE_ENOUGH else 0)
    if not has_copies or len(text) > space:
        return [[(text, WARN)]]
    far: Line = [(fit(percent(tally.share), 4, right=True), DIM)]
    return [_tally_bar(tally, _bar_width(width, screen), screen), far, [(fit(text, space, right=True), WARN)]]


def _copies(tally: Tally, width: int, screen: TerminalSize) -> list[Line]:
    """Return the copies part of a site's line."""
    cap = tally.cap_bytes_per_s
    return [
        _tally_bar(tally, _bar_width(width, screen), screen),
        [(fit(percent(tally.share), 4, right=True), "")],
        [(fit(rate(tally.rate_bytes_per_s) if tally.copies else "", 7, right=True), "")],
        *([[(fit(rate(cap) if cap else "", 7, right=True), DIM)]] if screen.width >= WIDE_ENOUGH else []),
        [(fit(clock(tally.left_s) if tally.left_s is not None else "", 8, right=True), "")],
    ]


def _bar_width(site_width: int, screen: TerminalSize) -> int:
    """Return the width of a site's bar."""
    cap = 9 if screen.width >= WIDE_ENOUGH else 0
    return max(4, min(40, screen.width - site_width - 3 * 6 - len(_NOT_DONE) - 2 - 2 - 6 - 9 - cap - 10))


def _tally_bar(tally: Tally, width: int, screen: TerminalSize) -> Line:
    done, undone = bar(tally.share, max(4, width), plain=screen.plain)
    return [(done, GOOD if tally.share >= 1 else DONE), (undone, DIM)]


def _rest(hidden: Mapping[Need, int]) -> list[Line]:
    """Return a line with the number of devices that have no line."""
    words = ", ".join(f"{count} {LABELS[need]}" for need, count in sorted(hidden.items()))
    return [[(f"not shown: {words}", DIM)]] if words else []
