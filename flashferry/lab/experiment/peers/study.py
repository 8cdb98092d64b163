"""All tools in all situations: several at a time, for they mostly wait, and none that was played before."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flashferry.lab.errors import LabError
from flashferry.lab.experiment.peers.play import Found, play

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from flashferry.lab.experiment.peers.tools import Tool

SCHEMA = "flashferry.peers/2"
_ORDER = (("stall",), ("success", "already there"), ("unreachable",), ("kill -9",), ("full flash",))
"""Worlds in the order they start, the long ones first; situations of one are played on the same device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeersPlan:
    """How the tools are played.

    Attributes:
        python: Python of the peers' environment.
        size_bytes: Size of the image.
        ceiling_s: How long a tool may take.
        parallel: How many worlds at a time.
    """

    python: Path | None
    size_bytes: int
    ceiling_s: float
    parallel: int

    @property
    def settings(self) -> dict[str, Any]:
        """What decides whether a result of an earlier run holds for this one."""
        return {"size_bytes": self.size_bytes, "ceiling_s": self.ceiling_s}


def read_found(path: Path, plan: PeersPlan) -> list[Found]:
    """Return the results of an earlier run with the same settings; none where there was none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise LabError(f"{path}: cannot be read ({error}); name another folder by --output.") from None
    if document.get("schema") != SCHEMA or document.get("settings") != plan.settings:
        raise LabError(f"{path}: holds results of other settings; name another folder by --output.")
    rows = document["found"]
    for row in rows:
        for key in ("lines_left", "recovered_lines"):
            row[key] = None if row[key] is None else tuple(row[key])
    return [Found(**row) for row in rows]


def play_missing(
    requested: Sequence[tuple[Tool, str]],
    plan: PeersPlan,
    found: Sequence[Found],
    *,
    keep: Callable[[Found], None],
    log: Callable[[str], None],
    interrupted: Callable[[], bool],
) -> None:
    """Play what is wanted and not found yet; ``keep`` gets each result as it comes, in any thread."""
    known = {(each.tool, each.situation) for each in found}
    missing = {(tool, situation) for tool, situation in requested if (tool.name, situation) not in known}
    tools = dict.fromkeys(tool for tool, _ in requested)

    def work(tool: Tool, situations: Sequence[str]) -> None:
        if interrupted():
            return
        try:
            for one in play(tool, situations, python=plan.python, size_bytes=plan.size_bytes, ceiling_s=plan.ceiling_s):
                log(f"{one.tool}, {one.situation}: {one.outcome} after {one.seconds:.1f} s")
                if (tool, one.situation) in missing:
                    keep(one)
        except (LabError, OSError, subprocess.SubprocessError) as error:
            # One world that breaks on a busy machine is no reason to lose the others; its cells say "not played".
            log(f"{tool.name}, {', '.join(situations)}: {error}")

    started = []
    with ThreadPoolExecutor(plan.parallel) as pool:
        for situations in _ORDER:
            for tool in tools:
                if any((tool, each) in missing for each in situations):
                    # A second copy needs the first one before it, also where only the second is missing.
                    last = max(i for i, each in enumerate(situations) if (tool, each) in missing)
                    started.append(pool.submit(work, tool, situations[: last + 1]))
    for each in started:
        each.result()  # a fault of ours is raised, not lost
