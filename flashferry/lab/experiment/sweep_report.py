"""The sweep in words and colours: goodput of every sender, regret of `auto`, agreement of the verdicts."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING, Any

from flashferry.lab.experiment import page
from flashferry.lab.experiment.sweep import SACKS, SENDERS, WINDOWS, Arm, Place, Regret, by_place, regrets
from flashferry.lab.experiment.tables import conditions, markdown, mb, percent, runs_csv

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashferry.lab.experiment.cell import Sender
    from flashferry.lab.experiment.measured import Measured
    from flashferry.lab.experiment.study import Plan

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


def _regret(regret: Regret | None) -> str:
    if regret is None:
        return ""
    waste = " !" if regret.wastes else ""
    return f"{max(0.0, regret.share) * 100:.0f} %{waste}"


def in_short(runs: Sequence[Measured], found: Sequence[Regret], places: dict[Place, dict[Sender, Arm]]) -> list[str]:
    """Return the sentences that matter."""
    near = sum(regret.share <= NEAR_SHARE for regret in found)
    wasteful = [regret for regret in found if regret.wastes and _is_avoidable(places[regret.place])]
    arms = [arm for senders in places.values() for arm in senders.values()]
    right, judged = sum(arm.right_verdicts for arm in arms), sum(arm.runs for arm in arms)
    failed = sum(bool(run.error) for run in runs)
    lines = [
        f"auto is within {NEAR_SHARE:.0%} of the best sender at {near} of {len(found)} places ({_part(near, found)}).",
        f"It sends more than 5 % again, where another sender does not, at {len(wasteful)} places"
        + "".join(f"; {regret.place.name}" for regret in wasteful) + ".",
        f"{right} of {judged} verdicts name what the cell was built to be limited by "
        f"({right / judged:.0%})." if judged else "No run was judged.",
    ]  # fmt: skip
    return [*lines, f"{failed} runs failed."] if failed else lines


def _is_avoidable(senders: dict[Sender, Arm]) -> bool:
    return any((arm.again_share or 0.0) <= 0.05 for sender, arm in senders.items() if sender != SENDERS[-1])


def _part(count: int, of: Sequence[object]) -> str:
    return f"{count / len(of):.0%}" if of else "none"


def write_sweep(runs: Sequence[Measured], plan: Plan) -> str:
    """Write report.json, runs.csv, report.md and report.html into the folder; return the text for people."""
    places = by_place(runs)
    found = regrets(places)
    sentences = in_short(runs, found, places)
    text = "\n\n".join(
        (
            f"`{plan.command}`; {conditions(runs)}",
            "\n".join(f"- {each}" for each in sentences),
            "What auto misses of the best sender's goodput (! = it sends more than 5 % again):",
            heat_map(found),
            "Goodput in MB/s / share sent again, medians:",
            goodput_table(places),
        )
    )
    plan.folder.mkdir(parents=True, exist_ok=True)
    (plan.folder / "report.md").write_text(text + "\n", encoding="utf-8")
    (plan.folder / "runs.csv").write_text(runs_csv(runs), encoding="utf-8")
    document = {"schema": SCHEMA, "command": plan.command, "conditions": conditions(runs), "in_short": sentences}
    rows = {"places": _rows(places)}
    (plan.folder / "report.json").write_text(json.dumps(document | rows, indent=1) + "\n", encoding="utf-8")
    parts = [
        page.introduction(plan.command, conditions(runs)),
        f"<style>{_STYLE}</style>",
        "".join(f"<p>{escape(each)}</p>" for each in sentences),
        "<h2>What auto misses of the best sender's goodput</h2>",
        _coloured(heat_map(found)),
        "<h2>Goodput in MB/s / share sent again, medians</h2>",
        page.table(goodput_table(places)),
    ]
    (plan.folder / "report.html").write_text(page.page("The sweep", parts), encoding="utf-8")
    return text


def _rows(places: dict[Place, dict[Sender, Arm]]) -> list[dict[str, Any]]:
    return [
        asdict(place) | {"senders": {sender.name: asdict(arm) for sender, arm in senders.items()}}
        for place, senders in places.items()
    ]


def _coloured(markdown_table: str) -> str:
    """Return the heat map as HTML, each cell in the colour of its regret."""
    return _MISSED.sub(_with_colour, page.table(markdown_table))


def _with_colour(cell: re.Match[str]) -> str:
    step = sum(int(cell["percent"]) / 100 > limit for limit in _STEPS)
    return f'<td class="n h{step}">{cell["text"]}'
