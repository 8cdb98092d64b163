"""What many seeds came to: how often each behaviour struck, and the seeds that broke a judgement."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from flashferry.core.values import as_dict
from tests.adversary.finding import Ending
from tests.adversary.judge import Judgement, complaints
from tests.adversary.kinds import BY_NAME
from tests.adversary.player import Played

PAGE = Path(__file__).resolve().parents[2] / "docs" / "adversary.md"
BEGIN, END = "<!-- adversary: begin -->", "<!-- adversary: end -->"
NOTHING = "(nothing)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a seed came to, as the table needs it.

    Attributes:
        case: The case in a line.
        behaviours: What was drawn.
        struck: What of it came into play.
        is_done: Whether the last staging run said that it was done.
        broken: Complaints by judgement.
    """

    seed: int
    case: str
    behaviours: tuple[str, ...]
    struck: tuple[str, ...]
    is_done: bool
    broken: tuple[tuple[int, str], ...]
    seconds: float

    @property
    def judgements(self) -> frozenset[int]:
        """Return the judgements that are broken."""
        return frozenset(number for number, _ in self.broken)


def result_of(played: Played) -> Result:
    """Return a case's result."""
    found = played.found
    runs = [said for said in found.said if said.verb in {"stage", "resume", "probe"} and said.ending is Ending.ENDED]
    return Result(
        seed=played.case.seed,
        case=str(played.case).partition(": ")[2],
        behaviours=tuple(one.name for one in played.case.behaviours),
        struck=tuple(sorted(found.struck)),
        is_done=bool(runs) and any(one.get("outcome") in {"done", "already there"} for one in runs[-1].records),
        broken=tuple((int(one.judgement), one.sentence) for one in complaints(found)),
        seconds=round(found.seconds, 1),
    )


def save(path: Path, results: Iterable[Result]) -> None:
    """Write results to a file."""
    path.write_text(json.dumps([as_dict(one) for one in results], indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> list[Result]:
    """Return the results of a file."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    return [
        Result(
            **one | {name: tuple(one[name]) for name in ("behaviours", "struck")}
            | {"broken": tuple((number, sentence) for number, sentence in one["broken"])}
        )
        for one in stored
    ]  # fmt: skip


def table(results: list[Result]) -> str:
    """Return conditions, how often behaviours struck, and the breaking seeds in Markdown."""
    struck = {name: _in_play(name, results) for name in BY_NAME}
    least = min(struck.values())
    lines = [
        conditions(results),
        "",
        (
            f"{len(struck)} kinds of behaviour, each in play in {least} to {max(struck.values())} cases, fewest: "
            f"{', '.join(name for name, times in struck.items() if times == least)}. {_in_play(NOTHING, results)} "
            "cases had none."
        ),
    ]
    if broken := [one for one in results if one.broken]:
        lines += ["", *(line for one in broken for line in _broken(one))]
    return "\n".join(lines) + "\n"


def _in_play(name: str, results: list[Result]) -> int:
    """Return in how many cases a behaviour struck; `(nothing)`: how many had none."""
    return sum(name in one.struck if name != NOTHING else not one.behaviours for one in results)


def _broken(result: Result) -> Iterator[str]:
    yield f"- seed {result.seed}: {result.case}"
    yield from (f"  - ({number}) {sentence}" for number, sentence in result.broken)


def conditions(results: list[Result]) -> str:
    """Return what was played, when, with what, and what it came to."""
    commit = subprocess.run(
        ["git", "log", "-1", "--format=%h"], cwd=PAGE.parent.parent, capture_output=True, text=True, check=False
    ).stdout.strip()
    seeds = sorted(one.seed for one in results)
    span = f"{seeds[0]} to {seeds[-1]}" if seeds else "none"
    bad = sum(bool(one.broken) for one in results)
    done = sum(one.is_done for one in results)
    calm = sum(int(Judgement.CALM) in one.judgements for one in results)
    return (
        f"{len(results)} seeds ({span}): {bad} broke a judgement, {done} staged in the end"
        f"{f', {calm} without a behaviour came out badly' if calm else ''}. {datetime.now(UTC):%Y-%m-%d}, commit "
        f"{commit or 'unknown'}, flashferry {version('flashferry')}, asyncssh {version('asyncssh')}."
    )


def update_docs(results: list[Result]) -> None:
    """Put the table into the page, between its marks."""
    head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    tail = rest.split(END)[1]
    PAGE.write_text(f"{head}{BEGIN}\n{table(results)}{END}{tail}", encoding="utf-8")
