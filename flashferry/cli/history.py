"""`flashferry history [DEVICE]`: a device's timed copies over time, and the forecast for the next one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry.cli.backend import runs_of
from flashferry.cli.command_line import Offered
from flashferry.cli.options.shared import JsonOption, StateOption
from flashferry.cli.terminal.output import finish
from flashferry.cli.view.layout import BAD, console, is_wide, line, rate, show
from flashferry.core.units import counted, milliseconds, short_duration
from flashferry.core.values import as_dict
from flashferry.model.exit_codes import ExitCode
from flashferry.store.measurements import DELIVERED
from flashferry.tcp.speed_test_size import TYPICAL_IMAGE_BYTES
from inventory.transport_policy import USUAL

if TYPE_CHECKING:
    from rich.text import Text

    from flashferry.api import DeviceHistory
    from flashferry.api.runs import TransportHistory
    from flashferry.store.history import History
    from flashferry.store.measurements import Measurement

_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDTH = 30
_LEAST = 3
"""Least number of copies for a trend."""


def history(
    ctx: typer.Context,
    device: Annotated[
        str | None,
        typer.Argument(metavar="DEVICE", help="Its name in the inventory."),
        Offered(help="Its name in the service's inventory."),
    ] = None,
    last: Annotated[
        int,
        typer.Option("--last", metavar="N", min=1, max=100_000, help="How many copies to show."),
        Offered(help="How many copies to show; at a service 2000 at most."),
    ] = 20,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Show how fast a device took its copies over time; without a device, the newest copy of each."""
    with runs_of(ctx, state_dir) as backend:
        if device is not None:
            found, one = backend.device_history(device, last)
            result = as_dict(one)
            finish("history", ExitCode.OK, result, as_json=json, human=lambda: print_device(one, found))
        newest = backend.history()
        without = backend.nothing("copy")
    result = {"devices": [newest.of(host)[-1] for host in newest.hosts], "damaged": newest.damaged}
    finish("history", ExitCode.OK, result, as_json=json, human=lambda: print_newest(newest, without))


def print_newest(found: History, without: str) -> None:
    """Print the newest copies of each device, or the sentence `without` if there is none."""
    if not found.hosts:
        console().print(without)
    series = [copies for host in found.hosts for copies in _series(found.of(host))]
    has_by = _has_choice(copies[-1] for copies in series)
    show(
        (_head(copies[-1].host, len(copies)) | _row(copies[-1], has_by=has_by) for copies in series),
        wide_only=frozenset({"copies", "RTT", "window", "control", "run"}),
    )
    _print_damage(found)


def print_device(one: DeviceHistory, found: History) -> None:
    """Print a device's copies, their trend, and the forecast for the next one."""
    copies, shown = found.of(one.device), one.measurements
    has_by = _has_choice(shown)
    show((_row(copy, has_by=has_by) for copy in shown), wide_only=frozenset({"control", "run"}))
    if len(shown) < len(copies):
        hidden = len(copies) - len(shown)
        earlier, them = counted(hidden, "earlier copy", "earlier copies"), "it" if hidden == 1 else "them all"
        console().print(f"{earlier}: --last {len(copies)} shows {them}")
    for copy in shown:
        if copy.outcome != DELIVERED:
            line(_when(copy), f"not delivered: {copy.outcome}", BAD)
    for text in trend(copies):
        console().print(text)
    for series in one.by_transport:
        _print_expected(series, by="" if len(one.by_transport) == 1 else f", by {series.transport}")
    _print_damage(found)


def _print_expected(series: TransportHistory, *, by: str) -> None:
    for words, expected in (("tuned", series.expected_tuned), ("as it is", series.expected_as_it_is)):
        if expected is not None:
            took = short_duration(TYPICAL_IMAGE_BYTES / expected.bytes_per_s)
            size = f"{TYPICAL_IMAGE_BYTES / 1e6:.0f} MB"
            text = f"{size} to flash: {took} at {rate(expected.bytes_per_s)} ({expected.source})"
            line(f"expected {words}{by}", text)
    if series.shown_not_to_gain is not None:
        line(f"tuning gains nothing{by}", series.shown_not_to_gain)


def _print_damage(found: History) -> None:
    if found.damaged:
        line("journal", f"{counted(found.damaged, 'record')} left out, for damage", BAD)


def _series(copies: Sequence[Measurement]) -> list[list[Measurement]]:
    """Group a device's copies by transport, the transport of the newest copy first."""
    found: dict[str, list[Measurement]] = {one.transport: [] for one in reversed(copies)}
    for one in copies:
        found[one.transport].append(one)
    return list(found.values())


def _has_choice(copies: Iterable[Measurement]) -> bool:
    """Return whether any copy used a transport other than the default."""
    return any(one.transport != USUAL for one in copies)


def _head(host: str, copies: int) -> dict[str, str | Text]:
    return {"device": host, "copies": str(copies)}


def _row(one: Measurement, *, has_by: bool) -> dict[str, str | Text]:
    by: dict[str, str | Text] = {"by": one.transport} if has_by else {}
    return {
        "when": _when(one),
        **by,
        "copy": f"{one.kind.split()[0]}, {'tuned' if one.tuned else 'as it is'}",
        "size": _size(one.size_bytes),
        "speed": rate(one.bytes_per_s),
        "RTT": milliseconds(one.rtt_s) if one.rtt_s else "-",
        "window": _size(one.window_bytes) if one.window_bytes else "-",
        "control": one.congestion_control or "-",
        "verdict": one.verdict,
        "run": one.run_id,
    }


def _when(one: Measurement) -> str:
    """Return the time of a copy in UTC, without the year on a narrow terminal."""
    at = one.at[:16].replace("T", " ")
    return at if is_wide() else at[5:]


def _size(size_bytes: int) -> str:
    if size_bytes >= 999_500:
        return f"{size_bytes / 1e6:.3g} MB" if size_bytes < 999_500_000 else f"{size_bytes / 1e6:.0f} MB"
    return f"{size_bytes / 1e3:.3g} kB"


def trend(copies: Sequence[Measurement]) -> Iterator[str]:
    """Yield a line of speed blocks per kind of copy that occurs several times, the oldest copy on the left.

    Copies by different transports are different kinds; the line then names the transport.

    Args:
        copies: A device's copies, the oldest first.
    """
    series = _series(copies)
    kinds = [(to_null, tuned) for to_null in (False, True) for tuned in (True, False)]
    for by in series:
        for kind in kinds:
            speeds = [one.bytes_per_s for one in by if (one.to_null, one.tuned) == kind and one.counts]
            if len(speeds) >= _LEAST:
                to_null, tuned = kind
                what = f"{'to null:' if to_null else 'to flash'}, {'tuned' if tuned else 'as it is'}"
                if len(series) > 1:
                    what = f"{f'by {by[0].transport}':<8} {what}"
                last = speeds[-_WIDTH:]
                yield f"{what:<18} {blocks(last)}  last {rate(last[-1])}, best {rate(max(speeds))}"


def blocks(speeds: Sequence[float]) -> str:
    """Return one block character per speed, relative to the fastest."""
    top = max(speeds, default=0.0) or 1.0
    return "".join(_BLOCKS[min(int(speed / top * len(_BLOCKS)), len(_BLOCKS) - 1)] for speed in speeds)
