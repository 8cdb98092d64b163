"""The results as Markdown and JSON."""

import dataclasses
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.summary import Spread, Summary
from flashferry.lab.experiment.harness import missed_targets, targets_table

if TYPE_CHECKING:
    from benchmarks.isolation import Ground
    from benchmarks.measures import Figure

_LEFT_OUT = (
    "memory, ",
    "memory per idle session at 100,",
    "memory per transferring session at 100,",
    "throughput, 4 clients that",
)
"""Beginnings of the rows that a page can do without."""
_PLAIN = ("command", "versions", "congestion_controls", "notices", "took_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """All that came of one session of measurements.

    Attributes:
        command: As it was typed.
        ground: Where it took place.
        versions: Of the servers.
        congestion_controls: What each server was seen to send with.
        clients: Numbers of clients that fetched at once.
        crowds: Numbers of sessions that were held.
        figures: Every single figure.
        notices: What was left out or went wrong, in sentences.
        took_s: How long it took.
    """

    command: str
    ground: "Ground"
    versions: dict[str, str]
    congestion_controls: dict[str, str]
    clients: tuple[int, ...]
    crowds: tuple[int, ...]
    figures: "tuple[Figure, ...]"
    notices: tuple[str, ...]
    took_s: float


def to_json(session: Session) -> str:
    """Return everything, each single figure included."""
    values: dict[str, Any] = {
        "schema": "flashferry.benchmarks.ftp_servers/1",
        "host": _host(),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **{
            name: getattr(session, name) for name in ("command", "versions", "congestion_controls", "notices", "took_s")
        },
        "ground": {
            **dataclasses.asdict(session.ground),
            "server_cpus": sorted(session.ground.server_cpus),
            "client_cpus": sorted(session.ground.client_cpus),
        },
        "targets": [dataclasses.asdict(target) for target in Summary(session.figures).targets()],
        "figures": [dataclasses.asdict(figure) for figure in session.figures],
    }
    return json.dumps(values, indent=1) + "\n"


def to_markdown(session: Session, *, for_document: bool = False) -> str:
    """Return the tables; `for_document`: the rows that a page needs, and of the targets those that are missed."""
    summary = Summary(session.figures)
    names = list(session.congestion_controls)
    header = " | ".join(f"{name} {session.versions.get(name, '')}".strip() for name in names)
    lines = [*_preamble(session), "", f"| measure | {header} |", f"|---|{'---|' * len(names)}"]
    for title, cell in _rows(summary, session):
        cells = [cell(name) for name in names]
        if set(cells) == {"-"} or (for_document and title.startswith(_LEFT_OUT)):
            continue
        lines.append(f"| {title} | {' | '.join(cells)} |")
    targets = [(each.text, each.found, each.met) for each in summary.targets()]
    lines += ["", missed_targets(targets) if for_document else targets_table(targets)]
    return "\n".join(lines) + "\n"


def conditions(command: str) -> dict[str, Any]:
    """Return what every figure must say of the machine."""
    return {
        "command": command,
        "at": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
    }


def about(part: Mapping[str, Any]) -> str:
    """Return in a sentence how a part came about, from its `conditions` and `took_s`."""
    return (
        f"`{part['command']}`, {part['at']} UTC, {part['took_s']} s, Linux {part['kernel']}, {part['cpus']} CPUs, "
        f"Python {part['python']}, load {part['load_average']} before"
    )


def _host() -> dict[str, Any]:
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def _preamble(session: Session) -> list[str]:
    ground, host = session.ground, _host()
    seen = ", ".join(f"{name} {seen or 'unknown'}" for name, seen in session.congestion_controls.items())
    pinned = (
        f"servers on processor {sorted(ground.server_cpus)}, clients on {sorted(ground.client_cpus)}"
        if ground.server_cpus
        else "nothing pinned"
    )
    where = "a network namespace of its own" if ground.namespace else "the host's loopback"
    about = (
        f"`{session.command}`, {time.strftime('%Y-%m-%d', time.gmtime())}, {session.took_s:.0f} s, Linux "
        f"{host['kernel']} {host['machine']}, {host['cpus']} CPUs, Python {host['python']}, in {where}; {pinned}."
    )
    lines = [about, f"Congestion control seen on the data connections: {seen}. Medians, in brackets least and most."]
    return [*lines, *(f"Note: {notice}." for notice in session.notices)]


def _rows(summary: Summary, session: Session) -> "list[tuple[str, Callable[[str], str]]]":
    rows: list[tuple[str, Callable[[str], str]]] = []

    def add(title: str, find: "Callable[[str], Spread | None]", scale: float = 1.0, digits: int = 0) -> None:
        rows.append((title, lambda name: spread.show(scale, digits) if (spread := find(name)) else "-"))

    def measured(measure: str, point: int) -> "Callable[[str], Spread | None]":
        return lambda name: summary.spread(name, measure, point)

    def per_session(kind: str, count: int, *, held: bool = False) -> "Callable[[str], Spread | None]":
        return lambda name: summary.per_session(name, kind, count, held=held)

    for count in session.clients:
        add(f"throughput, {_many(count, 'client')}, MB/s", measured("throughput_bytes_per_s", count), 1e6)
    add("throughput, 4 clients that copy, MB/s", measured("copying_throughput_bytes_per_s", 4), 1e6)
    for count in session.clients:
        add(f"processor time, {_many(count, 'client')}, s/GB", measured("cpu_s_per_gb", count), digits=3)
    add("logins per second, 4 clients", measured("logins_per_s", 4))
    for kind in ("idle", "transferring"):
        for count in (0, *session.crowds):
            add(f"memory, {_many(count, f'{kind} session')}, PSS in MB", measured(f"pss_{kind}_bytes", count), 1e6, 1)
        for count in session.crowds[1:]:
            add(f"memory per {kind} session at {count:,}, kB", per_session(kind, count), 1000, 1)
    most = session.crowds[-1]
    add(f"the same at {most:,} after 50 s, kB", per_session("transferring", most, held=True), 1000, 1)
    add(f"processor share of {most:,} stalled transfers", measured("cpu_share_held", most), digits=2)
    return rows


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def print_progress(text: str) -> None:
    """Say what is going on, on standard error."""
    print(text, file=sys.stderr, flush=True)
