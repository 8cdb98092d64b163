"""Golden files: what is compared with them, and how a difference is told."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "golden"
_DOCS = FOLDER.parents[2] / "docs"
ELSEWHERE = {"openapi": _DOCS / "openapi.json"}
"""Groups of one file that people look for in another place."""
UPDATE = "python -m tests.contract --update"


def stored(group: str) -> dict[str, str]:
    """Return a group's golden files by name."""
    if group in ELSEWHERE:
        path = ELSEWHERE[group]
        return {path.name: path.read_text(encoding="utf-8")} if path.exists() else {}
    folder = FOLDER / group
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def differences(golden: Mapping[str, str], captured: Mapping[str, str]) -> str:
    """Return how captured files differ from golden ones, as a unified diff; empty where they do not.

    Args:
        golden: Golden files by name.
        captured: What the product gives today, by the same names.
    """
    told = []
    for name in sorted(golden.keys() | captured.keys()):
        before, after = golden.get(name), captured.get(name)
        if before == after:
            continue
        told += difflib.unified_diff(
            (before or "").splitlines(),
            (after or "").splitlines(),
            f"golden/{name}" if before is not None else "(no golden file)",
            f"today/{name}" if after is not None else "(no longer given)",
            lineterm="",
            n=2,
        )
        told.append("")
    return "\n".join(told)


def check(group: str, captured: Mapping[str, str]) -> None:
    """Hold what the product gives against the golden files of a group.

    Raises:
        AssertionError: They differ; the message has the differences and the command that takes them over.
    """
    assert captured, f"{group}: nothing was captured"
    if found := differences(stored(group), captured):
        raise AssertionError(
            f"{group}: a contract of the product has changed.\n{found}\nIf that is meant, say so in the CHANGELOG and "
            f"run: {UPDATE} {group}"
        )


def update(group: str, captured: Mapping[str, str]) -> list[str]:
    """Write the golden files of a group anew; return the names of those that changed."""
    before = stored(group)
    folder = ELSEWHERE[group].parent if group in ELSEWHERE else FOLDER / group
    for name in before.keys() - captured.keys():
        (folder / name).unlink()
    for name, text in captured.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return sorted(name for name in before.keys() | captured.keys() if before.get(name) != captured.get(name))
