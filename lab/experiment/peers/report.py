"""The tools side by side: a table per question."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from lab.experiment.peers.play import SITUATIONS, Found
from lab.experiment.tables import markdown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SCHEMA = "flashferry.peers/1"


def side_by_side(found: Sequence[Found]) -> str:
    """Return a row per tool and a column per situation: how it ended, after how long, what it left."""
    at = {(each.tool, each.situation): each for each in found}
    tools = dict.fromkeys(each.tool for each in found)
    rows = ((tool, *(_told(at.get((tool, situation))) for situation in SITUATIONS)) for tool in tools)
    return markdown(("tool", *SITUATIONS), rows)


def _told(found: Found | None) -> str:
    if found is None:
        return ""
    left = f"; {len(found.lines_left)} lines left" if found.lines_left else ""
    sent = f"; {found.link_bytes / 1e6:.2f} MB sent" if found.situation == "already there" else ""
    wrong = "; no image" if found.outcome == "ok" and not found.is_there else ""
    return f"{found.outcome}, {found.seconds:.1f} s{sent}{wrong}{left}"


def write_peers(found: Sequence[Found], folder: Path, *, command: str, conditions: str) -> str:
    """Write peers.json and peers.md; return the text for people."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "schema": SCHEMA, "command": command, "conditions": conditions, "found": [asdict(each) for each in found],
    }  # fmt: skip
    (folder / "peers.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    said = "\n".join(f"- {each.tool}, {each.situation}: {each.said or 'nothing'}" for each in found)
    lines = "\n".join(
        f"- {each.tool}, {each.situation}: {', '.join(each.lines_left)}" for each in found if each.lines_left
    )  # fmt: skip
    text = (
        f"`{command}`; {conditions}\n\n{side_by_side(found)}\n\nLast words:\n{said}\n\nLines left:\n{lines or 'none'}"
    )
    (folder / "peers.md").write_text(text + "\n", encoding="utf-8")
    return text
