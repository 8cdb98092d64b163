"""Figures of the code base's shape, to compare before and after a change; no test holds them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.house import ratchet
from tests.house.modules import LAB, ROOT, product, source_files, tree_of


def figures() -> Iterator[tuple[str, int]]:
    """Yield each figure with its name: lines, modules, imports, words."""
    lab = tuple(path for path in source_files() if f"{LAB.replace('.', '/')}/" in path.as_posix())
    ours = tuple(path for path in source_files() if path not in set(lab))
    for name, paths in (
        ("product without lab", ours),
        ("lab", lab),
        ("tests", tuple((ROOT / "tests").rglob("*.py"))),
        ("benchmarks", tuple((ROOT / "benchmarks").rglob("*.py"))),
        ("docs", tuple((ROOT / "docs").glob("*.md"))),
    ):
        yield f"{name}: files", len(paths)
        yield f"{name}: lines", sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)
    counts = sorted(len(one.imports - {one.name}) for one in product().values())
    yield "imports of own modules, median", counts[len(counts) // 2]
    yield "imports of own modules, 90th percentile", ratchet.imports_p90()
    yield f"modules that import more than {ratchet.MOST_IMPORTS}", len(ratchet.found_imports())
    yield "imports inside functions, product without lab", sum(_imports_in_functions(ours))
    yield "banned words", sum(ratchet.found_words().values())


def _imports_in_functions(paths: Iterable[Path]) -> Iterator[int]:
    for path in paths:
        found = {
            id(node)
            for function in ast.walk(tree_of(path))
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
            for node in ast.walk(function)
            if isinstance(node, ast.Import | ast.ImportFrom)
        }
        yield len(found)
