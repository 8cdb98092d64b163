"""Ten cipher sweeps, and whether the tool chooses well: `python -m benchmarks.cipher_sweeps`; see docs/depots.md.

Two namespaces joined by veth, an sshd of our own, files in memory. A sweep is what `flashferry depot probe` does of
scp: interleaved rounds, medians, the choice by `best_of`. What is true is the median of all sweeps together. Once with
AES instructions, and once with both ends made to do without. CTR and CBC have hmac-sha2-256, so that `openssl speed`
can foretell what each cipher takes: it knows no umac. For chacha20 it tells half of it: OpenSSH has ChaCha20 of
OpenSSL (`EVP_chacha20` in its cipher-chachapoly-libcrypto.c), and a Poly1305 of its own in plain C (poly1305.c), which
`benchmarks/poly1305.c` is timed for.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import print_progress
from flashferry.depot.probing.copying import Copier, Sample
from flashferry.depot.probing.figures import Ceilings, Row, Trial, best_of
from flashferry.depot.probing.methods import Method, authenticates_itself
from flashferry.depot.probing.path import Measured, in_rounds
from flashferry.lab.errors import LabError
from flashferry.lab.experiment.bulk.play import FAR_ADDRESS, NO_AES, PORT, LocalFar, Sshd, Testbed, openssl_speeds
from flashferry.lab.experiment.bulk.studies import CHACHA, MODERN
from flashferry.lab.experiment.harness import put

_MODULE = "benchmarks.cipher_sweeps"
_RESULTS = Path(__file__).parent / "results"
_POLY_SOURCE = Path(__file__).with_name("poly1305.c")
_DOCUMENT = Path(__file__).parent.parent / "docs" / "depots.md"
_MAC = "hmac-sha2-256"
_STREAM, _POLY = "chacha20", "poly1305 in C"
_WITH, _WITHOUT = "With AES instructions", "Without AES instructions"
_NEAR = 1.05
_FAR_APART_S, _FAR_APART = 0.5, 1.3
"""Foretold costs that differ by less are not told apart: that is what the rest of ssh scatters by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What ten sweeps came to.

    Attributes:
        name: With or without AES instructions.
        costs: Processor seconds per GB of both ends by cipher, over all sweeps.
        choices: What each sweep chose.
        speeds: What `openssl speed` gave, and Poly1305 in plain C, bytes per second.
        conditions: How and when.
    """

    name: str
    costs: Mapping[str, float]
    choices: tuple[str, ...]
    speeds: Mapping[str, float]
    conditions: str = ""

    def foretold(self, cipher: str) -> float:
        """Return what a cipher with its MAC is to take by the speeds of its parts, at both ends."""
        return 2 * sum(1e9 / self.speeds[part] for part in parts_of(cipher))

    def is_near(self, cipher: str) -> bool:
        """Return whether a choice costs at most 5 % more than the best."""
        return self.costs[cipher] <= _NEAR * min(self.costs.values())

    def pairs(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """Return pairs that the foretold order tells apart, the cheaper first, and those that came out otherwise."""
        names = sorted(self.costs, key=self.foretold)
        told = [
            (a, b)
            for number, a in enumerate(names)
            for b in names[number + 1 :]
            if self.foretold(b) - self.foretold(a) > _FAR_APART_S and self.foretold(b) > _FAR_APART * self.foretold(a)
        ]
        return told, [(a, b) for a, b in told if self.costs[a] >= self.costs[b]]


def parts_of(cipher: str) -> tuple[str, ...]:
    """Return what ssh computes of each byte for a cipher and its MAC, by the names of speeds."""
    if cipher == CHACHA:
        return (_STREAM, _POLY)
    return (cipher,) if authenticates_itself(cipher) else (cipher, _MAC)


def measured_speeds(environment: Mapping[str, str]) -> dict[str, float]:
    """Return what one processor does of each part.

    Raises:
        LabError: There is no compiler of C, or Poly1305 came out wrong.
    """
    names = sorted({part for cipher in MODERN for part in parts_of(cipher)} - {_POLY})
    return openssl_speeds(environment, names=names) | {_POLY: _poly1305_bytes_per_s()}


def _poly1305_bytes_per_s() -> float:
    with tempfile.TemporaryDirectory(prefix="flashferry-") as folder:
        program = str(Path(folder) / "poly1305")
        try:
            subprocess.run(["cc", "-O2", "-o", program, str(_POLY_SOURCE)], check=True)
            done = subprocess.run([program], check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise LabError(
                f"{_POLY_SOURCE.name}: expected a figure, found: {error}; install a compiler (cc)."
            ) from None
    return float(done.stdout)


def methods() -> tuple[Method, ...]:
    """Return scp by each cipher of today."""
    return tuple(
        Method(name="scp -O", cipher=cipher, mac="" if authenticates_itself(cipher) else _MAC) for cipher in MODERN
    )


def _cipher(key: str) -> str:
    return key.split(" ")[2]


def _sweeps(
    ground: Testbed, name: str, environment: Mapping[str, str], options: argparse.Namespace, command: str
) -> Swept:
    size, path = options.size_mb << 20, ground.folder / "random"
    path.write_bytes(os.urandom(size))
    (ground.folder / "nothing").write_bytes(b"")
    trials: list[Trial] = []
    choices: list[str] = []
    with Sshd(ground.folder, address=FAR_ADDRESS, port=PORT, prefix=ground.far, environment=environment) as sshd:
        copier = Copier(
            access=sshd.access(ground.here),
            far=LocalFar(sshd.pid, ground.far),
            direction="push",
            samples={
                "random": Sample(source=str(path), size_bytes=size),
                "nothing": Sample(source=str(ground.folder / "nothing"), size_bytes=0),
            },
            target=str(ground.folder / "copy"),
            environment={**os.environ, **environment},
            watched=(sshd.pid,),
        )
        for number in range(options.sweeps):
            done = in_rounds(
                methods(), copier.copy, rounds=options.rounds, seed=options.seed + number, warms_up=number == 0
            )
            trials += done.trials
            best = best_of(done.rows(Ceilings()))
            assert best is not None
            choices.append(_cipher(best.key))
            print_progress(f"{name}: sweep {number + 1} of {options.sweeps} chose {choices[-1]}")
    rows: list[Row] = Measured(methods=methods(), trials=tuple(trials)).rows(Ceilings())
    costs = {_cipher(row.key): row.cost for row in rows if row.cost is not None}
    speeds = measured_speeds(environment)
    host = f"{os.cpu_count()} processors shared with other work (load {os.getloadavg()[1]:.1f} at the end)"
    copies = f"{options.size_mb} MiB a copy, {options.rounds} rounds a sweep"
    conditions = f"`{command}`, {time.strftime('%Y-%m-%d', time.gmtime())}, {host}, {copies}."
    return Swept(name=name, costs=costs, choices=tuple(choices), speeds=speeds, conditions=conditions)


def judged(swept: Swept, *, masked: bool) -> list[tuple[bool, str]]:
    """Return what is asked of the sweeps, and whether it is kept."""
    least = min(swept.costs, key=lambda name: swept.costs[name])
    near = sum(swept.is_near(name) for name in swept.choices)
    worst = max(swept.costs[name] for name in swept.choices) / swept.costs[least]
    told, wrong = swept.pairs()
    otherwise = ", ".join(f"{b} before {a}" for a, b in wrong)
    near_told = (
        f"{near} of {len(swept.choices)} sweeps chose a cipher within 5 % of the best ({least}); the worst choice "
        f"costs {worst - 1:.1%} more"
    )
    found = [
        (near == len(swept.choices), near_told),
        (
            not wrong,
            f"{len(told) - len(wrong)} of {len(told)} pairs that the speeds of their parts separate are in that order"
            + (f"; otherwise: {otherwise}" if wrong else ""),
        ),
    ]
    if masked:
        found.append((least == CHACHA, f"without AES instructions {least} is first; chacha20 asked for"))
    return found


def to_markdown(swept: Sequence[Swept]) -> str:
    """Return tables and judgements."""
    lines = []
    for one in swept:
        head = "| cipher | CPU s/GB, all sweeps | foretold for cipher and MAC | speeds of these, MB/s | chosen |"
        lines += [f"{one.name}: {one.conditions}", "", head, "|---|---|---|---|---|"]
        for name in sorted(one.costs, key=lambda cipher: one.costs[cipher]):
            speeds = ", ".join(f"{one.speeds[part] / 1e6:,.0f}" for part in parts_of(name))
            figures = f"{one.costs[name]:.2f} | {one.foretold(name):.2f} | {speeds}"
            lines.append(f"| {name} | {figures} | {one.choices.count(name)}x |")
        lines.append("")
        marks = judged(one, masked=one.name == _WITHOUT)
        lines += [*(f"- {text}: {'kept' if is_kept else '**missed**'}." for is_kept, text in marks), ""]
    return "\n".join(lines)


def for_document(swept: Sequence[Swept]) -> str:
    """Return costs and judgements: what the page needs of `to_markdown`."""
    parts = []
    for one in swept:
        by_cost = sorted(one.costs, key=lambda name: one.costs[name])
        first, last = by_cost[0], by_cost[-1]
        costs = f"from {first} {one.costs[first]:.2f} to {last} {one.costs[last]:.2f}"
        marks = judged(one, masked=one.name == _WITHOUT)
        lines = (f"- {text}: {'kept' if is_kept else '**missed**'}." for is_kept, text in marks)
        parts.append("\n".join((f"{one.name}: {one.conditions}", "", f"CPU s/GB: {costs}.", "", *lines)))
    return "\n\n".join(parts)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}", description=__doc__)
    parser.add_argument("--sweeps", type=int, default=10, help="sweeps of each kind (default: 10)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of a sweep that count (default: 3)")
    parser.add_argument("--size-mb", type=int, default=128, help="MiB of a copy (default: 128)")
    parser.add_argument("--seed", type=int, default=1, help="of the rounds' orders (default: 1)")
    parser.add_argument("--only", choices=("with", "without"), help="only with, or only without, AES instructions")
    parser.add_argument("--speeds-only", action="store_true", help="no sweeps: foretell anew for those of the results")
    parser.add_argument("--results", type=Path, default=_RESULTS, help="directory for the JSON file")
    parser.add_argument("--update-docs", action="store_true", help="put the tables into docs/depots.md too")
    return parser.parse_args(arguments)


def _known(path: Path) -> dict[str, Swept]:
    return {one["name"]: Swept(**one) for one in json.loads(path.read_text())} if path.exists() else {}


def _foretold_anew(known: Swept, environment: Mapping[str, str]) -> Swept:
    """Return sweeps with speeds that are measured now, which their conditions say."""
    taken = f" Speeds taken {time.strftime('%Y-%m-%d', time.gmtime())}, load {os.getloadavg()[0]:.1f}."
    conditions = known.conditions.partition(" Speeds taken")[0] + taken
    return dataclasses.replace(known, speeds=measured_speeds(environment), conditions=conditions)


def _kept(path: Path, found: Sequence[Swept]) -> list[Swept]:
    """Put what was found in place of what was found of the same kind before, and return all."""
    known = _known(path) | {one.name: one for one in found}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([dataclasses.asdict(known[name]) for name in sorted(known)], indent=1) + "\n")
    return [known[name] for name in sorted(known)]


def main(arguments: list[str]) -> int:
    """Run the command; return its exit code: 1 where a target is missed."""
    options = _options(arguments)
    command = " ".join(("python -m", _MODULE, *arguments))
    kinds = {"with": (_WITH, {}), "without": (_WITHOUT, NO_AES)}
    wanted = [kind for word, kind in kinds.items() if options.only in (None, word)]
    path = options.results / "cipher_sweeps.json"
    if options.speeds_only:
        known = _known(path)
        found = [_foretold_anew(known[name], environment) for name, environment in wanted]
    else:
        with Testbed() as ground:
            found = [_sweeps(ground, *kind, options, command) for kind in wanted]
    kept = _kept(path, found)
    markdown = to_markdown(kept)
    if options.update_docs:
        put(_DOCUMENT, "cipher_sweeps", for_document(kept))
    print(markdown)
    return 1 if "**missed**" in markdown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
