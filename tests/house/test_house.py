"""The house stands as docs/architecture.md says: its page is new, its figures are kept, its files are found."""

from __future__ import annotations

import re

import pytest

from tests.house.modules import SMALL_LINES, Module, figures, product, rooms
from tests.house.page import COMMAND, PAGE, named_files, page
from tests.house.roles_page import ROLES_PAGE, roles_page

OURS = ("flashferry", "tasks", "ftpserver", "inventory", "templates", "tests", "benchmarks", "docs")
MOST_LINES, MOST_SMALL_SHARE, MOST_IN_A_FOLDER = 450, 0.04, 36
"""A twenty-fifth of the modules may have a subject that is no longer than 60 lines: twelve when there were 305."""


def test_the_page_is_what_its_command_writes():
    """What packages say of themselves is what the page says."""
    assert PAGE.read_text(encoding="utf-8") == page(product()), f"stale: run {COMMAND}"


def test_the_page_of_roles_is_what_its_command_writes():
    """What the service holds in front of its routes is what is documented."""
    assert ROLES_PAGE.read_text(encoding="utf-8") == roles_page(), f"stale: run {COMMAND}"


def test_every_file_that_the_page_names_is_there():
    """A file that was moved is found missing here, not by the reader."""
    named = named_files(page(product()))
    assert named
    assert [name for name in named if not (PAGE.parents[1] / name).exists()] == []


DOCUMENTS = ("README.md", "SECURITY.md", *(f"docs/{path.name}" for path in sorted(PAGE.parent.glob("*.md"))))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_that_a_document_names_is_there(document):
    """Documents outlive moves only if somebody looks; what was printed on a day stays as it was."""
    root = PAGE.parents[1]
    named = [name for name in named_files((root / document).read_text(encoding="utf-8")) if name.split("/")[0] in OURS]
    assert [name for name in named if not (root / name).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_module_that_a_document_names_is_there(document):
    """`flashferry.run.slots` or something in it: a name that is imported from there."""
    text = (PAGE.parents[1] / document).read_text(encoding="utf-8")
    named = re.findall(r"`((?:flashferry|tasks|ftpserver|inventory|templates)(?:\.[a-z_]+)+)(?:\.[A-Z]\w*)?[`(]", text)
    files = {"inventory.csv", "inventory.xlsx", "tasks.py"}
    assert [name for name in named if name not in files and not _is_importable(name)] == []


def _is_importable(name: str) -> bool:
    """Tell whether a module, or what stands before the last word, is one of ours."""
    paths = [PAGE.parents[1].joinpath(*words) for words in (name.split("."), name.split(".")[:-1]) if words]
    return any(path.with_suffix(".py").exists() or path.is_dir() for path in paths)


def test_every_room_says_what_it_holds():
    """A sentence for the list, and at least one more for who comes in."""
    modules = product()
    short = [room for room in rooms() if len(modules[room].docstring.split("\n\n")) < 2 and modules[room].is_package]
    assert short == []


def test_every_module_has_a_room():
    """None stands outside the rooms that the contract for imports names."""
    outside = {one.room for one in product().values()} - {*rooms(), "flashferry", "flashferry.__main__"}
    assert outside == set()


def test_modules_are_as_long_as_a_subject():
    """None over 450 lines, few under 60, no folder with more than 36, and no ring of imports."""
    found = figures(product())
    assert found.longest[1] <= MOST_LINES, found.longest
    assert len(found.small) <= MOST_SMALL_SHARE * found.modules, found.small
    assert found.widest[1] <= MOST_IN_A_FOLDER, found.widest
    assert found.cycles == ()


def test_functions_stay_small():
    """Half of them have at most 7 lines, nine of ten at most 19."""
    found = figures(product())
    assert (found.median_lines, found.p90_lines) <= (7, 19)


@pytest.mark.parametrize("lines", [SMALL_LINES - 1, SMALL_LINES])
def test_small_is_under_sixty_lines(lines):
    """One of sixty is none of them."""
    assert bool(figures({"a.b": made("a.b", lines)}).small) is (lines < SMALL_LINES)


def test_a_ring_of_imports_is_seen():
    """Over a third module, too; a line of imports is no ring."""
    ring = {"a.a": made("a.a", imports="a.b"), "a.b": made("a.b", imports="a.c"), "a.c": made("a.c", imports="a.a")}
    assert figures(ring).cycles == (("a.a", "a.b", "a.c"),)
    assert figures(ring | {"a.c": made("a.c")}).cycles == ()


def made(name: str, lines: int = 100, imports: str = "") -> Module:
    path = PAGE.parent.joinpath(*name.split(".")).with_suffix(".py")
    return Module(name=name, path=path, lines=lines, docstring="", imports=frozenset(imports.split()), functions=(7, 7))
