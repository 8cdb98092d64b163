"""Lines of devices in the live view: step, progress of the copy, what limits it, or why it failed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flashferry.cli.view.layout import STYLES
from flashferry.cli.view.layout import rate as rate_with_unit
from flashferry.cli.view.live_devices import Line, Need, TerminalSize, bar, clock, fit, joined, left, percent, rate
from flashferry.monitor.progress import Device

DIM, BAD, WARN, DONE = "dim", "bold red", "yellow", "cyan"

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
    cells = [names, _bar(device, _FEW_BAR, screen), [(fit(percent(_share(device)), 4, right=True), "")]]
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
        _bar(device, width, screen),
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


def _bar(device: Device, width: int, screen: TerminalSize) -> Line:
    done, undone = bar(_share(device), width, plain=screen.plain)
    return [(done, DONE), (undone, DIM)]
