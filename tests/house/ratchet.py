"""What the house rules still let pass: banned words by file, wide imports by module; the list may only shrink.

`words.toml` has the words. `ratchet.json` has today's violations; `python -m tests.house --update-ratchet` takes over
what became fewer, and refuses what became more.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.house.modules import ROOT, SOURCES, Module, product, source_files, tree_of

LIST = Path(__file__).with_name("ratchet.json")
COMMAND = "python -m tests.house --update-ratchet"
MOST_IMPORTS = 9
"""Modules of ours that a module may import; what imports more is listed."""
MOST_IMPORTS_P90 = 13
"""Modules of ours that nine of ten modules may import at most; to be lowered to `MOST_IMPORTS`."""

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_TEXTS = ("templates/**/*.html", "templates/**/*.txt", "flashferry/**/*.yaml", "docs/*.md", "*.md")

Counts = Mapping[str, int]


@cache
def banned() -> Mapping[str, frozenset[str]]:
    """Return the banned words: those of `text`, and those of `names` alone."""
    content = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
    return {name: frozenset(words) for name, words in content.items()}


def count_text(text: str, words: Collection[str]) -> int:
    """Return how often a text has one of some words, alone or as a part of a name."""
    return len(_pattern(frozenset(words)).findall(text))


def count_names(tree: ast.AST, words: Collection[str]) -> int:
    """Return how many names that a file defines have one of some words as a part."""
    return sum(any(part.lower() in words for part in _PART.findall(name)) for name in _defined(tree))


def found_words() -> dict[str, int]:
    """Return the number of banned words by file, without files that have none."""
    files = [*source_files(), *(path for glob in _TEXTS for path in sorted(ROOT.glob(glob)))]
    counts = {}
    for path in files:
        count = count_text(path.read_text(encoding="utf-8"), banned()["text"])
        if path.suffix == ".py":
            count += count_names(tree_of(path), banned()["names"])
            count += any(part in banned()["names"] for part in path.stem.split("_"))
        root = SOURCES if path.suffix == ".py" else ROOT
        counts[path.relative_to(root).as_posix()] = count
    return {name: count for name, count in sorted(counts.items()) if count}


def found_imports(modules: Mapping[str, Module] | None = None) -> dict[str, int]:
    """Return the number of own modules that a module imports, where it is more than `MOST_IMPORTS`."""
    counts = {one.name: len(one.imports - {one.name}) for one in (modules or product()).values()}
    return {name: count for name, count in sorted(counts.items()) if count > MOST_IMPORTS}


def imports_p90(modules: Mapping[str, Module] | None = None) -> int:
    """Return the number of own modules that nine of ten modules do not exceed."""
    counts = sorted(len(one.imports - {one.name}) for one in (modules or product()).values())
    return counts[-(-9 * len(counts) // 10) - 1]


def found() -> dict[str, dict[str, int]]:
    """Return what is violated now, as the list has it."""
    return {"words": found_words(), "imports": found_imports()}


def listed() -> dict[str, dict[str, int]]:
    """Return what is listed."""
    content: dict[str, dict[str, int]] = json.loads(LIST.read_text(encoding="utf-8"))
    return content


def differences(allowed: Counts, counts: Counts) -> Iterator[str]:
    """Yield a sentence for each count that is not as listed."""
    for name in sorted({*allowed, *counts}):
        most, count = allowed.get(name, 0), counts.get(name, 0)
        if count > most:
            yield f"{name}: at most {most} allowed, found {count}; use words of the glossary, or fewer imports"
        elif count < most:
            yield f"{name}: {most} listed, found {count}; run {COMMAND}"


def update(old: Mapping[str, Counts], new: Mapping[str, Counts]) -> None:
    """Write the list, where no kind of violation became more in all; files may be renamed.

    Raises:
        SystemExit: A sum grew.
    """
    for kind, counts in new.items():
        was, now = sum(old.get(kind, counts).values()), sum(counts.values())
        if now > was:
            more = "\n".join(one for one in differences(old[kind], counts) if "at most" in one)
            raise SystemExit(f"{kind}: {was} listed, found {now}; the list may only shrink:\n{more}")
    LIST.write_text(json.dumps(new, indent=1, sort_keys=True) + "\n", encoding="utf-8")


@cache
def _pattern(words: frozenset[str]) -> re.Pattern[str]:
    either = "|".join(sorted(words))
    capital = "|".join(sorted(word.capitalize() for word in words))
    return re.compile(rf"(?<![A-Za-z])(?i:{either})(?![a-z])|(?<=[a-z])(?:{capital})(?![a-z])")


def _defined(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
