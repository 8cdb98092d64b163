"""An experiment of bulk copies from what was asked to its files: results, tables, claims, graph, document."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashferry.core.codec import to_json
from flashferry.lab.errors import LabError
from flashferry.lab.experiment.bulk.claims import ssh_claims
from flashferry.lab.experiment.bulk.dd_claims import bulk_claims
from flashferry.lab.experiment.bulk.picture import picture
from flashferry.lab.experiment.bulk.play import Played, play
from flashferry.lab.experiment.bulk.seen import Claim
from flashferry.lab.experiment.bulk.studies import Series, series_of
from flashferry.lab.experiment.bulk.tables import document
from flashferry.lab.experiment.evidence import put

_TITLES = {
    "ciphers": "scp by cipher",
    "macs": "MACs under aes128-ctr",
    "compression": "scp with compression (-C) and without; pigz before ssh",
    "boards": "scp by cipher, AES instructions masked",
    "blocks": "dd through ssh by block size",
    "pipes": "Compressing pipes through ssh (dd) and nc",
    "dd-ciphers": "dd through ssh by cipher",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked for.

    Attributes:
        experiment: `ssh` or `bulk`.
        folder: Where results are kept.
        rounds: How many count.
        size_mib: Of a file.
        seed: Of the orders.
        only: Parts of the names of series; empty: all.
        document: Where tables go, or None.
        command: What was typed.
    """

    experiment: str
    folder: Path
    rounds: int
    size_mib: int
    seed: int
    only: tuple[str, ...] = ()
    document: Path | None = None
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of it.

    Attributes:
        text: Tables and claims.
        played: The figures.
        claims: What became of each.
        graph_name: Name of the graph's file.
    """

    text: str
    played: Played
    claims: tuple[Claim, ...]
    graph_name: str

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left to do."""
        return self.played.is_whole

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {**self.played.to_json(), "claims": to_json(self.claims)}


def run(asked: Asked, *, log: Callable[[str], None], interrupted: Callable[[], bool]) -> Report:
    """Do what is missing, and write all of it down.

    Raises LabError: there is no such series, the lab cannot be built here, or a file cannot be written.
    """
    series = chosen(asked)
    played = play(series, asked.folder, rounds=asked.rounds, seed=asked.seed, log=log, interrupted=interrupted)
    claims = tuple(ssh_claims(played) if asked.experiment == "ssh" else bulk_claims(played))
    graph_name = f"evidence-{asked.experiment}.svg"
    text = document(series, played, claims, asked.command)
    report = Report(text=text, played=played, claims=claims, graph_name=graph_name)
    graph = picture(series, played, _TITLES)
    _write(asked.folder / "report.json", json.dumps(report.to_json(), indent=1) + "\n")
    _write(asked.folder / graph_name, graph)
    if asked.document is not None:
        _write(asked.document.parent / graph_name, graph)
        put(asked.document, f"bulk-{asked.experiment}", f"![Graph]({graph_name})\n\n{text}")
    return report


def chosen(asked: Asked) -> tuple[Series, ...]:
    """Return the series that were asked for. Raises LabError: there is none of that name."""
    series = series_of(asked.experiment, asked.size_mib)
    found = tuple(one for one in series if not asked.only or any(part in one.name for part in asked.only))
    if not found:
        known = ", ".join(one.name for one in series)
        raise LabError(f"--series: expected part of one of {known}; give one of these, or leave it out for all.")
    return found


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LabError(f"{path}: cannot be written ({error.strerror}); give another folder by --output.") from None
