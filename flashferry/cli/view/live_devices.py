"""Cells of the live view, and the choice of devices shown in it. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from enum import IntEnum
from statistics import median

from msgspec import Struct, field
from rich.cells import cell_len, set_cell_size

from flashferry.model.states import Phase
from flashferry.monitor.progress import Device
from tasks.verify import VERIFY

Span = tuple[str, str]
"""Text and its style, or an empty style."""

Line = list[Span]

GAP = "  "


class TerminalSize(Struct, frozen=True, kw_only=True):
    """Size of a terminal.

    Attributes:
        width: Columns.
        height: Lines.
        plain: Whether it can show only ASCII.
    """

    width: int
    height: int
    plain: bool = False


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Pad or cut a text to a width; a cut text ends with an ellipsis."""
    text = "".join(character if character.isprintable() else " " for character in text)
    length = cell_len(text)
    if length <= width:
        return " " * (width - length) + text if right else text + " " * (width - length)
    return set_cell_size(text, max(0, width - 1)) + "…" if width > 0 else ""


def joined(cells: Iterable[Line]) -> Line:
    """Join cells to a line with gaps between them; empty cells are left out."""
    line: Line = []
    for cell in cells:
        if line and cell:
            line.append((GAP, ""))
        line += cell
    return line


def cut(line: Line, screen: TerminalSize) -> Line:
    """Cut a line to the terminal's width, in characters it can show."""
    kept: Line = []
    width = screen.width
    for text, style in line:
        if screen.plain:
            text = text.replace("…", "~").encode("ascii", "replace").decode()
        if width <= 0:
            break
        length = cell_len(text)
        kept.append((text, style) if length <= width else (set_cell_size(text, width), style))
        width -= length
    return kept


_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"))


def bar(share: float, width: int, *, plain: bool) -> tuple[str, str]:
    """Return the done and the remaining part of a progress bar.

    Args:
        share: Done part, 0 to 1.
        width: Columns of both parts together.
        plain: Whether only ASCII can be shown.
    """
    # Full only if all is done, whatever rounding gives.
    filled = width if share >= 1 else min(width - 1, int(share * width))
    done, undone = ("#", ".") if plain else ("━", "─")
    return done * filled, undone * (width - filled)


def percent(share: float) -> str:
    """Return a share in percent; 100 % only if all is done."""
    return f"{min(int(share * 100), 99 if share < 1 else 100)}%"


def rate(bytes_per_s: float) -> str:
    """Return a rate in MB/s with about three digits and no unit; a dash for none."""
    found = bytes_per_s / 1e6
    if found < 0.000_5:
        return "-"
    return f"{found:.3f}" if found < 1 else f"{found:.2f}" if found < 100 else f"{found:,.0f}"


def amount(done_bytes: float, all_bytes: float) -> str:
    """Return done and total amount in one unit that fits the total."""
    for size, unit in _UNITS:
        if all_bytes >= size:
            return f"{done_bytes / size:,.1f} of {all_bytes / size:,.1f} {unit}"
    return f"{done_bytes / 1e6:.2f} of {all_bytes / 1e6:.2f} MB"


def clock(seconds: float) -> str:
    """Return a duration as `4:05` or `1:02:03`."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 1000:
        return f"{hours // 24} days"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def left(seconds: float | None) -> str:
    """Return the remaining time, or an empty string if it is unknown."""
    return "" if seconds is None else f"{clock(seconds)} left"


STALLED_AFTER_S = 10.0
"""Time without an acknowledgement after which a copy counts as stalled."""

_SLOW_SHARE = 1 / 3

_LEAST_PEERS = 4

_SETTLED_S = 30.0


class Need(IntEnum):
    """Why a device is shown, in display order."""

    RESTORING = 0
    FAILED = 1
    STALLED = 2
    RETRY = 3
    SLOW = 4
    VERIFY = 5
    COPY = 6
    OTHER = 7


_ACTIONABLE = frozenset({Phase.FAILED, Phase.REFUSED, Phase.INTERRUPTED})
"""Final phases that need action."""

LABELS: Mapping[Need, str] = {
    Need.RESTORING: "being restored",
    Need.FAILED: "not done",
    Need.STALLED: "stalled",
    Need.RETRY: "to be tried again",
    Need.SLOW: "slow",
    Need.VERIFY: "verifying",
    Need.COPY: "copying",
    Need.OTHER: "at other steps",
}
"""Labels for counts of hidden devices."""


class Choice(Struct, frozen=True, kw_only=True):
    """The devices that are shown.

    Attributes:
        shown: Devices with their needs, in order.
        hidden: Number of further devices by need.
    """

    shown: tuple[tuple[Device, Need], ...] = ()
    hidden: Mapping[Need, int] = field(default_factory=dict)


def choose(devices: Iterable[Device], *, space: int, now_s: float) -> Choice:
    """Choose the devices for `space` lines; queued and successful devices are never shown.

    Failed devices get at least a quarter of the lines, the latest first.
    """
    found = list(devices)
    usual = _usual_rates(found, now_s)
    needs = [(need, device) for device in found if (need := need_of(device, usual.get(device.site), now_s)) is not None]
    needs.sort(key=_order)
    failed = [one for one in needs if one[0] is Need.FAILED]
    others = [one for one in needs if one[0] is not Need.FAILED]
    kept = failed[: max(space // 4, space - len(others))]
    shown = sorted([*kept, *others[: max(0, space - len(kept))]], key=_order)
    hidden = Counter(need for need, _ in needs)
    hidden.subtract(need for need, _ in shown)
    return Choice(shown=tuple((device, need) for need, device in shown), hidden=+hidden)


def need_of(device: Device, usual_bytes_per_s: float | None, now_s: float) -> Need | None:
    """Return why a device gets a line, or None.

    Args:
        device: The device.
        usual_bytes_per_s: Usual rate of its site's copies; None if too few run.
        now_s: Current time on the follower's clock.
    """
    if device.is_over or device.phase is Phase.QUEUED:
        is_amiss = device.has_failed or device.phase in _ACTIONABLE
        return Need.FAILED if is_amiss else None
    if device.is_retrying:
        return Need.RETRY
    if device.has_failed:
        return Need.RESTORING
    if not device.is_copying:
        return Need.VERIFY if device.step == VERIFY.word else Need.OTHER
    if device.acked_bytes < device.size_bytes and now_s - device.moved_s >= STALLED_AFTER_S:
        return Need.STALLED
    may_be_slow = usual_bytes_per_s is not None and not device.has_all
    is_slow = may_be_slow and device.rate_bytes_per_s < (usual_bytes_per_s or 0.0) * _SLOW_SHARE
    return Need.SLOW if is_slow and now_s - device.copying_since_s >= _SETTLED_S else Need.COPY


def _usual_rates(devices: list[Device], now_s: float) -> dict[str, float]:
    """Return the usual copy rate by site, for sites with enough copies that run long enough."""
    rates: defaultdict[str, list[float]] = defaultdict(list)
    for device in devices:
        if device.is_flowing and now_s - device.copying_since_s >= _SETTLED_S:
            rates[device.site].append(device.rate_bytes_per_s)
    return {site: median(found) for site, found in rates.items() if len(found) >= _LEAST_PEERS}


def _order(one: tuple[Need, Device]) -> tuple[int, float, str]:
    need, device = one
    if need is Need.COPY:
        return need, -device.acked_bytes / max(1, device.size_bytes), device.host
    if need is Need.FAILED:
        return need, -device.since_s, device.host
    if need is Need.STALLED:
        return need, device.moved_s, device.host
    return need, device.since_s, device.host
