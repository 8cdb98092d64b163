"""The product's modules, as its own files show them: what they say of themselves, rooms, imports."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import flashferry

ROOT = Path(__file__).resolve().parents[2]
"""The project's folder."""

SOURCES = Path(flashferry.__file__).resolve().parents[1]
"""Where its packages are: the same folder, unless they come from a wheel."""

PACKAGES = ("flashferry", "tasks", "ftpserver", "inventory", "templates")
LAB = "flashferry.lab"


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One Python file of the product.

    Attributes:
        name: Dotted name; that of the package for an `__init__.py`.
        path: Its place below the project's folder.
        docstring: What it says of itself, whole.
        imports: Modules of ours that it imports, wherever in the file.
    """

    name: str
    path: Path
    docstring: str
    imports: frozenset[str]

    @property
    def is_package(self) -> bool:
        """Whether it is what a folder says of itself."""
        return self.path.name == "__init__.py"

    @property
    def room(self) -> str:
        """The room that it stands in: `flashferry.run`, `tasks`."""
        return room_of(self.name)


def room_of(name: str) -> str:
    """Return the room of a dotted name: two words below `flashferry`, else one."""
    words = name.split(".")
    return ".".join(words[: 2 if words[0] == "flashferry" else 1])


@cache
def tree_of(path: Path) -> ast.Module:
    """Return a file of ours, read; nobody changes what is found in it, for it is read once."""
    return ast.parse(path.read_text(encoding="utf-8"))


def source_files() -> tuple[Path, ...]:
    """Return the product's files, the lab's among them."""
    return tuple(path for package in PACKAGES for path in sorted((SOURCES / package).rglob("*.py")))


@cache
def product() -> Mapping[str, Module]:
    """Return the modules of the product by name, without the lab."""
    names = {_name(path): path for path in source_files() if not _name(path).startswith(LAB)}
    return {name: _module(name, path, frozenset(names)) for name, path in names.items()}


def rooms() -> tuple[str, ...]:
    """Return the rooms from the top to the bottom, as the contract for imports has them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers: list[str] = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    return tuple(room.strip() for layer in layers for room in layer.split("|"))


def cycles(modules: Mapping[str, Module]) -> tuple[tuple[str, ...], ...]:
    """Return the groups of modules that import each other in a ring while they are loaded."""
    return tuple(_cycles({one.name: one.imports for one in modules.values()}))


def _name(path: Path) -> str:
    words = path.relative_to(SOURCES).with_suffix("").parts
    return ".".join(words[:-1] if words[-1] == "__init__" else words)


def _module(name: str, path: Path, known: frozenset[str]) -> Module:
    tree = tree_of(path)
    return Module(
        name=name,
        path=path.relative_to(SOURCES),
        docstring=ast.get_docstring(tree) or "",
        imports=frozenset(_imports(tree, known)),
    )


def _imports(tree: ast.Module, known: frozenset[str]) -> Iterator[str]:
    """Yield what is imported of ours while the module is loaded; what only the type checker sees is left out."""
    hidden = {
        id(node)
        for guard in ast.walk(tree)
        if isinstance(guard, ast.If) and isinstance(guard.test, ast.Name) and guard.test.id == "TYPE_CHECKING"
        for node in ast.walk(guard)
    }
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                whole = f"{node.module}.{one.name}"
                if whole in known or node.module in known:
                    yield whole if whole in known else node.module


def _cycles(imports: Mapping[str, frozenset[str]]) -> Iterator[tuple[str, ...]]:
    """Yield groups of modules from each of which all others of the group are reached."""
    reached = {name: _reached(name, imports) for name in imports}
    seen: set[str] = set()
    for name in sorted(imports):
        ring = sorted(other for other in reached[name] if name in reached[other])
        if name not in seen and len(ring) > 1:
            seen.update(ring)
            yield tuple(ring)


def _reached(name: str, imports: Mapping[str, frozenset[str]]) -> frozenset[str]:
    found: set[str] = set()
    ahead = [name]
    while ahead:
        for other in imports[ahead.pop()]:
            if other not in found and other in imports:
                found.add(other)
                ahead.append(other)
    return frozenset(found)
