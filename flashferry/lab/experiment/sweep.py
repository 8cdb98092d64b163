"""The sweep: every path of a grid, with each receiver, from each sender; and how far `auto` is from the best.

Each run lasts the same time and counts what the client has got by then. A file of fixed size would take ten seconds in
one cell and a quarter of an hour in another, and a file fitted to each arm would compare different things.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from html import escape

from flashferry.lab.experiment import page
from flashferry.lab.experiment.cell import Cell, LinkSetting, Measured, Receiver, Sender, median_again
from flashferry.lab.experiment.harness import markdown, write
from flashferry.lab.experiment.study import Plan
from flashferry.lab.experiment.tables import conditions, mb, percent, runs_csv
from flashferry.tcp.models import cubic_bytes_per_s, repair_bytes_per_s, window_limited_bytes_per_s
from flashferry.tcp.receive_window import choose_window

STUDY = "sweep"
CAP_SHARE = 0.98
LOSSES = (0.0, 0.0001, 0.001, 0.01)
RTTS_S = (0.01, 0.05, 0.1, 0.3)
WINDOWS = ("default", "64 kB", "auto")
SACKS = (True, False)

SENDERS = (
    Sender(program="ours", control="cubic"),
    Sender(program="ours", control="bbr"),
    Sender(program="ours", control="bbr", cap_share=CAP_SHARE),
    Sender(program="ours", control="auto", cap_share=CAP_SHARE),
)

AUTO = SENDERS[-1]
_DEFAULT_WINDOW_BYTES, _UNSCALED_WINDOW_BYTES = 16_384, 65_535
_MSS_BYTES = 1460
_NEAR = 1.25
"""Ceilings so close to the least one limit a cell as well."""

_FEW_LOSSES = 3
"""With fewer losses to be expected in a run, chance decides whether loss or the link limits it."""

MOST_AGAIN = 0.05


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Place:
    """A cell of the grid, for any sender."""

    loss_ratio: float
    rtt_s: float
    sack: bool
    window: str

    @property
    def name(self) -> str:
        """Return it in a line."""
        sack = "SACK" if self.sack else "no SACK"
        return f"{self.loss_ratio:.2%} loss, {self.rtt_s * 1e3:g} ms, {sack}, window {self.window}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """Medians over the seeds of a sender at a place; `again_share` is None if unknown."""

    runs: int
    bytes_per_s: float
    again_share: float | None
    right_verdicts: int


def window_bytes(window: str, rtt_s: float, rate_bps: float) -> int:
    """Return the receive window that a word of `WINDOWS` stands for on a path."""
    if window == "auto":
        return choose_window(rtt_s, rate_bps).window_bytes
    return _DEFAULT_WINDOW_BYTES if window == "default" else _UNSCALED_WINDOW_BYTES


def cells(
    seeds: Iterable[int],
    *,
    seconds: float,
    losses: Sequence[float] = LOSSES,
    rtts_s: Sequence[float] = RTTS_S,
    windows: Sequence[str] = WINDOWS,
    sacks: Sequence[bool] = SACKS,
) -> list[Cell]:
    """Return the cells of the sweep, or of a part of the grid."""
    grid = itertools.product(seeds, losses, rtts_s, sacks, windows, SENDERS)
    return [
        _cell(Place(loss_ratio=loss, rtt_s=rtt_s, sack=sack, window=window), sender, seed, seconds)
        for seed, loss, rtt_s, sack, window, sender in grid
    ]


def _cell(place: Place, sender: Sender, seed: int, seconds: float) -> Cell:
    link = LinkSetting(loss_ratio=place.loss_ratio, rtt_s=place.rtt_s)
    window = window_bytes(place.window, place.rtt_s, link.rate_bps)
    return Cell(
        study=STUDY,
        arm=place.name,
        receiver=Receiver(kind="pull", window_bytes=window, sack=place.sack),
        sender=sender,
        link=link,
        # More than the link can carry meanwhile.
        size_bytes=int(link.payload_bytes_per_s * seconds * _NEAR),
        seed=seed,
        seconds=seconds,
        keeps_samples=False,
    )


def place_of(cell: Cell) -> Place:
    """Return where a cell lies in the grid."""
    words = {window_bytes(word, cell.link.rtt_s, cell.link.rate_bps): word for word in WINDOWS}
    return Place(
        loss_ratio=cell.link.loss_ratio,
        rtt_s=cell.link.rtt_s,
        sack=cell.receiver.sack,
        window=words[cell.receiver.window_bytes or 0],
    )


def limits_of(cell: Cell, control: str) -> frozenset[str]:
    """Return the verdicts that are right for a cell: the least of its ceilings, and those close to it.

    `control`: Congestion control that was in force. Loss is a ceiling for CUBIC by its model. For BBR it is one only
    without SACK, by the round trip that every repair then takes; with SACK it repairs at any rate. So a start-up that
    overruns the queue costs BBR the rest of the copy: hundreds of round trips, one per hole. CUBIC may see the queue
    grow and leave slow start in time (HyStart, RFC 9406): either is right then.
    """
    link = cell.link
    assert cell.receiver.window_bytes is not None
    usable = cell.receiver.window_bytes // _MSS_BYTES * _MSS_BYTES
    ceilings = {"window": window_limited_bytes_per_s(usable, link.rtt_s), "bandwidth": link.payload_bytes_per_s}
    if cell.cap_bytes_per_s is not None:
        ceilings["cap"] = float(cell.cap_bytes_per_s)
    least = min(ceilings.values())
    near = {kind for kind, ceiling in ceilings.items() if ceiling <= _NEAR * least}
    by_loss = loss_ceiling_bytes_per_s(cell, control)
    if _overruns_queue(cell) and control.startswith("bbr"):
        return frozenset({"random loss"})
    losses = min(least, by_loss) * (cell.seconds or 0.0) / _MSS_BYTES * link.loss_ratio
    if by_loss < least / _NEAR and losses >= _FEW_LOSSES:
        return frozenset({"random loss"})
    loss_is_near = by_loss < _NEAR * least or _overruns_queue(cell)
    return frozenset(near | {"random loss"}) if loss_is_near else frozenset(near)


def _overruns_queue(cell: Cell) -> bool:
    """Return whether the start-up loses packets that take a round trip each to repair.

    That takes no SACK, a window above what path and queue hold, and no cap: paced below the link's rate nothing queues.
    """
    link = cell.link
    if cell.receiver.sack or cell.cap_bytes_per_s is not None:
        return False
    held = link.payload_bytes_per_s * link.rtt_s + link.queue_packets * _MSS_BYTES
    return (cell.receiver.window_bytes or 0) > held


def loss_ceiling_bytes_per_s(cell: Cell, control: str) -> float:
    """Return what the losses of a cell's link leave to a congestion control; infinite where they cost it nothing."""
    loss, rtt_s = cell.link.loss_ratio, cell.link.rtt_s
    by_repair = math.inf if cell.receiver.sack else repair_bytes_per_s(loss, rtt_s, _MSS_BYTES)
    by_control = math.inf if control.startswith("bbr") else cubic_bytes_per_s(loss, rtt_s, _MSS_BYTES)
    return min(by_repair, by_control)


def by_place(runs: Sequence[Measured]) -> dict[Place, dict[Sender, Arm]]:
    """Return what every sender reached at every place."""
    found: dict[Place, dict[Sender, list[Measured]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if not run.error:
            found[place_of(run.cell)][run.cell.sender].append(run)
    return {
        place: {sender: _arm(own) for sender, own in senders.items()} for place, senders in sorted(found.items())
    }  # fmt: skip


def _arm(runs: Sequence[Measured]) -> Arm:
    right = [run for run in runs if run.judgement and run.judgement.kind in limits_of(run.cell, run.control)]
    return Arm(
        runs=len(runs),
        bytes_per_s=statistics.median(run.rate_bytes_per_s for run in runs),
        again_share=median_again(runs),
        right_verdicts=len(right),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Regret:
    """How far `auto` is from the best other sender at a place."""

    place: Place
    auto: Arm
    best_sender: Sender
    best: Arm

    @property
    def share(self) -> float:
        """The part of the best's goodput that `auto` misses; below 0 where it is the best itself."""
        return 1 - self.auto.bytes_per_s / self.best.bytes_per_s if self.best.bytes_per_s else 0.0

    @property
    def wastes(self) -> bool:
        """Whether `auto` sends more than 5 % again."""
        return (self.auto.again_share or 0.0) > MOST_AGAIN


def regrets(places: dict[Place, dict[Sender, Arm]]) -> list[Regret]:
    """Return the regret at each place that `auto` and another sender were run at."""
    found = []
    for place, senders in places.items():
        others = {sender: arm for sender, arm in senders.items() if sender != AUTO}
        if AUTO in senders and others:
            best = max(others, key=lambda sender: others[sender].bytes_per_s)
            found.append(Regret(place=place, auto=senders[AUTO], best_sender=best, best=others[best]))
    return found


SCHEMA = "flashferry.sweep/1"
NEAR_SHARE = 0.05
_STEPS = (0.05, 0.1, 0.2, 0.4)
_COLOURS = ("#1a7f37", "#9a6700", "#bc4c00", "#cf222e", "#82071e")
_MISSED = re.compile(r"<td class=n>(?P<text>(?P<percent>\d+) %( !)?)(?=<)")
_STYLE = "".join(f"td.h{number}{{background:{ink}33}}" for number, ink in enumerate(_COLOURS))


def goodput_table(places: dict[Place, dict[Sender, Arm]]) -> str:
    """Return the medians of every sender at every place, with the share sent again."""
    columns = ("loss", "RTT ms", "SACK", "window", *(sender.name.removeprefix("ours ") for sender in SENDERS))
    return markdown(columns, ((*_head(place), *(_goodput(senders, each) for each in SENDERS))
                              for place, senders in places.items()))  # fmt: skip


def _head(place: Place) -> tuple[str, ...]:
    return (f"{place.loss_ratio:.2%}", f"{place.rtt_s * 1e3:g}", "yes" if place.sack else "no", place.window)


def _goodput(senders: dict[Sender, Arm], sender: Sender) -> str:
    arm = senders.get(sender)
    return "" if arm is None else f"{mb(arm.bytes_per_s)} / {percent(arm.again_share)}"


def heat_map(found: Sequence[Regret]) -> str:
    """Return what `auto` misses at each place in percent: a row per loss and RTT, a column per SACK and window."""
    columns = [(sack, window) for sack in SACKS for window in WINDOWS]
    at = {regret.place: regret for regret in found}
    rows = []
    for loss, rtt_s in sorted({(regret.place.loss_ratio, regret.place.rtt_s) for regret in found}):
        places = (Place(loss_ratio=loss, rtt_s=rtt_s, sack=sack, window=window) for sack, window in columns)
        rows.append((f"{loss:.2%}", f"{rtt_s * 1e3:g}", *(_regret(at.get(place)) for place in places)))
    heads = (f"{'SACK' if sack else 'no SACK'}, {window}" for sack, window in columns)
    return markdown(("loss", "RTT ms", *heads), rows)


def _misses(found: Sequence[Regret]) -> str:
    """Return the places where `auto` misses more than a little of the best sender's goodput, the most first."""
    far = sorted((one for one in found if one.share > NEAR_SHARE), key=lambda one: -one.share)
    shown = "; ".join(f"{one.place.name}: {one.share:.0%}" for one in far)
    return f"Misses more than {NEAR_SHARE:.0%} of the best sender's goodput at: {shown or 'no place'}."


def _regret(regret: Regret | None) -> str:
    if regret is None:
        return ""
    waste = " !" if regret.wastes else ""
    return f"{max(0.0, regret.share) * 100:.0f} %{waste}"


def in_short(runs: Sequence[Measured], found: Sequence[Regret], places: dict[Place, dict[Sender, Arm]]) -> list[str]:
    """Return the sentences that matter."""
    near = sum(regret.share <= NEAR_SHARE for regret in found)
    part = f"{near / len(found):.0%}" if found else "none"
    wasteful = [regret for regret in found if regret.wastes and _is_avoidable(places[regret.place])]
    arms = [arm for senders in places.values() for arm in senders.values()]
    right, judged = sum(arm.right_verdicts for arm in arms), sum(arm.runs for arm in arms)
    failed = sum(bool(run.error) for run in runs)
    lines = [
        f"auto is within {NEAR_SHARE:.0%} of the best sender at {near} of {len(found)} places ({part}).",
        f"It sends more than 5 % again, where another sender does not, at {len(wasteful)} places"
        + "".join(f"; {regret.place.name}" for regret in wasteful) + ".",
        f"{right} of {judged} verdicts name what the cell was built to be limited by "
        f"({right / judged:.0%})." if judged else "No run was judged.",
    ]  # fmt: skip
    return [*lines, f"{failed} runs failed."] if failed else lines


def _is_avoidable(senders: dict[Sender, Arm]) -> bool:
    return any((arm.again_share or 0.0) <= 0.05 for sender, arm in senders.items() if sender != SENDERS[-1])


def write_sweep(runs: Sequence[Measured], plan: Plan) -> str:
    """Write report.json, runs.csv, report.md and report.html into the folder; return the text for people.

    The text lacks the tables of all places, which report.md has.
    """
    places = by_place(runs)
    found = regrets(places)
    sentences = in_short(runs, found, places)
    text = "\n\n".join(
        (
            f"`{plan.command}`; {conditions(runs)}",
            "\n".join(f"- {each}" for each in sentences),
            _misses(found),
        )
    )
    tables = (
        "What auto misses of the best sender's goodput (! = it sends more than 5 % again):",
        heat_map(found),
        "Goodput in MB/s / share sent again, medians:",
        goodput_table(places),
    )
    write(plan.folder / "report.md", "\n\n".join((text, *tables)) + "\n")
    write(plan.folder / "runs.csv", runs_csv(runs))
    document = {"schema": SCHEMA, "command": plan.command, "conditions": conditions(runs), "in_short": sentences}
    rows = [
        asdict(place) | {"senders": {sender.name: asdict(arm) for sender, arm in senders.items()}}
        for place, senders in places.items()
    ]
    write(plan.folder / "report.json", json.dumps(document | {"places": rows}, indent=1) + "\n")
    parts = [
        page.introduction(plan.command, conditions(runs)),
        f"<style>{_STYLE}</style>",
        "".join(f"<p>{escape(each)}</p>" for each in sentences),
        "<h2>What auto misses of the best sender's goodput</h2>",
        _coloured(heat_map(found)),
        "<h2>Goodput in MB/s / share sent again, medians</h2>",
        page.table(goodput_table(places)),
    ]
    write(plan.folder / "report.html", page.page("The sweep", parts))
    return text


def _coloured(markdown_table: str) -> str:
    """Return the heat map as HTML, each cell in the colour of its regret."""
    return _MISSED.sub(_with_colour, page.table(markdown_table))


def _with_colour(cell: re.Match[str]) -> str:
    step = sum(int(cell["percent"]) / 100 > limit for limit in _STEPS)
    return f'<td class="n h{step}">{cell["text"]}'
