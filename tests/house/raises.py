"""Where the product makes an error of its own, as its files show it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from tests.house.modules import SOURCES, source_files, tree_of

BASE = "FlashferryError"


@dataclass(frozen=True, slots=True, kw_only=True)
class Raise:
    """One call of an error's class.

    Attributes:
        file: The file that it stands in, below the project's folder.
        line: Its line.
        classes: Names of the classes that it may be, mostly one.
        hint: What it gives as a hint, or None where it gives none.
    """

    file: str
    line: int
    classes: tuple[str, ...]
    hint: ast.expr | None


@cache
def trees() -> Mapping[str, ast.Module]:
    """Return the product's files but the lab's, by name, read."""
    names = {path.relative_to(SOURCES).as_posix(): path for path in source_files()}
    return {name: tree_of(path) for name, path in names.items() if not name.startswith("flashferry/lab/")}


@cache
def error_classes() -> Mapping[str, tuple[str, ast.ClassDef]]:
    """Return the classes below `FlashferryError`, itself among them, by name, each with its file."""
    classes = {
        one.name: (file, one)
        for file, tree in trees().items()
        for one in ast.walk(tree)
        if isinstance(one, ast.ClassDef)
    }
    found = {BASE: classes[BASE]}
    while True:
        more = {
            name: (file, one)
            for name, (file, one) in classes.items()
            if name not in found and any(isinstance(base, ast.Name) and base.id in found for base in one.bases)
        }
        if not more:
            return found
        found |= more


@cache
def raises() -> tuple[Raise, ...]:
    """Return each call of an error's class; also one of a name that a few lines above was made to stand for classes."""
    return tuple(_raises())


def _raises() -> Iterator[Raise]:
    for file, tree in trees().items():
        chosen = dict(_chosen(tree))
        stand_ins = {name for _, name in chosen}
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
                continue
            name = call.func.id
            if name not in error_classes() and name not in stand_ins:
                continue
            classes = (name,) if name in error_classes() else chosen.get((_function_of(tree, call), name), ())
            if classes:
                hint = next((given.value for given in call.keywords if given.arg == "hint"), None)
                is_none = isinstance(hint, ast.Constant) and hint.value is None
                yield Raise(file=file, line=call.lineno, classes=classes, hint=None if is_none else hint)


def _chosen(tree: ast.Module) -> Iterator[tuple[tuple[int, str], tuple[str, ...]]]:
    """Yield names that stand for one of several classes of errors: `kind = A if ... else B`."""
    for one in ast.walk(tree):
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.IfExp) and isinstance(one.targets[0], ast.Name):
            ends = (one.value.body, one.value.orelse)
            names = tuple(end.id for end in ends if isinstance(end, ast.Name) and end.id in error_classes())
            if len(names) == len(ends):
                yield (_function_of(tree, one), one.targets[0].id), names


def _function_of(tree: ast.Module, node: ast.stmt | ast.expr) -> int:
    """Return the line of the innermost function around a node, 0 for none."""
    around = [
        one.lineno
        for one in ast.walk(tree)
        if isinstance(one, ast.FunctionDef) and one.lineno <= node.lineno <= (one.end_lineno or 0)
    ]
    return max(around, default=0)
