"""`python -m tests.adversary`: play seeds, print what breaks, put the table into docs/adversary.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from flashferry.core.values import replace
from tests.adversary import report
from tests.adversary.case import Case, alone, case_of
from tests.adversary.judge import complaints
from tests.adversary.kinds import KINDS
from tests.adversary.player import Ground, open_ground
from tests.adversary.scenes import SCENES
from tests.adversary.transcript import transcript


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what is asked for; return 1 where a judgement is broken."""
    options = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="adversary-") as folder, open_ground(Path(folder)) as ground:
        for name in ground.zygote.missing_limits:
            sys.stderr.write(f"limit {name} is not there any more: it lasts as long as it does\n")
        if options.scene or options.seed is not None:
            return _play_one(ground, options)
        return _play_many(ground, options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.adversary", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, metavar="N", help="play so many seeds (default: 100)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="start with this seed (default: 0)")
    parser.add_argument("--jobs", type=int, default=4, metavar="N", help="so many cases at a time (default: 4)")
    parser.add_argument("--seed", type=int, metavar="N", help="play this one alone")
    parser.add_argument("--only", action="append", metavar="BEHAVIOUR", help="of its behaviours only this; repeatable")
    parser.add_argument("--alone", type=int, metavar="N", help="instead of seeds every kind alone, N times, plainly")
    parser.add_argument("--bare", action="store_true", help="leave all behaviours away: every seed must come out well")
    parser.add_argument("--scene", choices=SCENES, help="play a scene instead of a seed")
    parser.add_argument("--transcript", type=Path, metavar="FILE", help="write what was shown and typed")
    parser.add_argument("-v", "--verbose", action="store_true", help="print what the commands said")
    parser.add_argument("--results", type=Path, metavar="FILE", help="keep the results; add to those that are there")
    parser.add_argument("--update-docs", action="store_true", help="put the table into docs/adversary.md")
    return parser


def _play_one(ground: Ground, options: argparse.Namespace) -> int:
    case = SCENES[options.scene] if options.scene else _case(options.seed, options)
    played = ground.play(case)
    broken = complaints(played.found)
    _write(f"{case}\n")
    if options.verbose:
        for said in played.found.said:
            _write(f"--- {said.verb} of {said.controller}: {said.ending}, {said.code}\n{said.stderr}")
    _write(f"in play: {', '.join(sorted(played.found.struck)) or 'nothing'}\n")
    _write("".join(f"  {one}\n" for one in broken) or "  all four judgements hold\n")
    if options.transcript:
        options.transcript.write_text(transcript(played), encoding="utf-8")
    return 1 if broken else 0


def _case(seed: int, options: argparse.Namespace) -> Case:
    case = case_of(seed)
    only = [] if options.bare else options.only
    if only is None:
        return case
    return replace(case, behaviours=tuple(one for one in case.behaviours if one.name in only))


def _cases(options: argparse.Namespace) -> list[Case]:
    if options.alone:
        return [alone(kind, number) for kind in KINDS for number in range(options.alone)]
    return [_case(seed, options) for seed in range(options.first, options.first + options.seeds)]


def _play_many(ground: Ground, options: argparse.Namespace) -> int:
    known = report.load(options.results) if options.results and options.results.exists() else []
    results = {(one.seed, one.case): one for one in known}
    started = time.monotonic()
    cases = _cases(options)
    for number, played in enumerate(ground.play_all(cases, jobs=options.jobs), start=1):
        result = report.result_of(played)
        results[(result.seed, result.case)] = result
        mark = ",".join(map(str, sorted(result.judgements))) or "."
        _write(f"{number:4}/{len(cases)} {mark:6} {result.seconds:6.1f} s  {played.case}\n")
        _write("".join(f"            ({judgement}) {sentence}\n" for judgement, sentence in result.broken))
    ordered = sorted(results.values(), key=lambda one: (one.seed, one.case))
    _write(f"\n{report.table(ordered)}\n{time.monotonic() - started:.0f} s\n")
    if options.results:
        report.save(options.results, ordered)
    if options.update_docs:
        report.update_docs(ordered)
    return 1 if any(one.broken for one in ordered) else 0


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
