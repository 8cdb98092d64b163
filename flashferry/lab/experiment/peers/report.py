"""The tools side by side: how each ended in each situation, and what it left on the router."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from flashferry.lab.experiment.peers.study import SCHEMA
from flashferry.lab.experiment.peers.tools import SITUATIONS, Tool
from flashferry.lab.experiment.tables import markdown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from flashferry.lab.experiment.peers.play import Found

_HEADINGS = ("copy", "image already there", "kill -9", "server unreachable", "flash full", "flash stalls")
_FAILURES = ("unreachable", "full flash", "stall")
_NOT_FOR_A_PUSH = "no server to reach"


def side_by_side(found: Sequence[Found], tools: Sequence[Tool]) -> str:
    """Return a row per tool and a column per situation: how it ended, and after how many seconds."""
    at = {(each.tool, each.situation): each for each in found}
    rows = (
        (tool.name, *(_part(at.get((tool.name, each)), tool, each) for each in SITUATIONS), tool.patience)
        for tool in tools
    )
    return markdown(("tool", *_HEADINGS, "waits for a silent copy"), rows)


def _part(found: Found | None, tool: Tool, situation: str) -> str:
    if found is None:
        return "not played" if situation in tool.situations else _NOT_FOR_A_PUSH
    words = [f"{found.outcome}, {found.seconds:.1f} s"]
    if situation == "already there":
        words.append(f"{found.link_bytes / 1e6:.2f} MB sent")
    if found.outcome == "ok" and not found.is_there:
        words.append("no image")
    if found.part_bytes:
        words.append(f"{found.part_bytes / 1e6:.2f} MB of a broken file left")
    if found.processes_left and found.outcome == "killed":
        words.append("its server process lives on")
    return "; ".join(words)


def lines_left(found: Sequence[Found], tools: Sequence[Tool]) -> str:
    """Return how many configuration lines differ from before, a row per tool."""
    return markdown(
        ("tool", "after success", "after failure", "after kill -9", "then, after `flashferry recover`"),
        (_left([each for each in found if each.tool == tool.name], tool) for tool in tools),
    )


def _left(found: Sequence[Found], tool: Tool) -> tuple[str, ...]:
    at = {each.situation: each for each in found}
    # What the ceiling ended was killed: it had no chance to put anything back.
    failures = [len(at[each].lines_left) for each in _FAILURES if each in at and at[each].outcome == "failed"]
    success, killed = at.get("success"), at.get("kill -9")
    recovered = killed.recovered_lines if killed else None
    return (
        tool.name,
        str(len(success.lines_left)) if success else "not played",
        str(max(failures)) if failures else "not played",
        str(len(killed.lines_left)) if killed else "not played",
        str(len(recovered)) if recovered is not None else "",
    )


def notes(found: Sequence[Found], tools: Sequence[Tool]) -> str:
    """Return what was left, and what a tool said last where it did not succeed."""
    names = {tool.name for tool in tools}
    shown = [each for each in found if each.tool in names]
    lines = [
        f"- {each.tool}, {each.situation}: left {', '.join(f'`{line}`' for line in each.lines_left)}"
        for each in shown if each.lines_left
    ]  # fmt: skip
    words = [f"- {each.tool}, {each.situation}: `{each.said}`" for each in shown if each.outcome == "failed"]
    return "\n".join(
        ["Lines left:", "", *(lines or ["- none"]), "", "What they said last where they failed:", "", *words]
    )  # fmt: skip


def write_peers(
    found: Sequence[Found], tools: Sequence[Tool], folder: Path, *, settings: Mapping[str, Any], heading: str
) -> str:
    """Write peers.json and peers.md; return the text for people.

    Args:
        found: All results.
        tools: The tools that are shown, in their order.
        folder: Where to.
        settings: What an earlier run is held against.
        heading: The command and the conditions.
    """
    folder.mkdir(parents=True, exist_ok=True)
    document = {"schema": SCHEMA, "settings": settings, "heading": heading, "found": [asdict(each) for each in found]}
    # Written beside and moved: a kill in between leaves the old one.
    new = folder / "peers.json.new"
    new.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    new.replace(folder / "peers.json")
    text = "\n\n".join((heading, side_by_side(found, tools), lines_left(found, tools), notes(found, tools)))
    (folder / "peers.md").write_text(text + "\n", encoding="utf-8")
    return text
