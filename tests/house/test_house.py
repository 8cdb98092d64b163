"""The documents: the architecture as it is, every file and link that they name, and no cycle of imports."""

from __future__ import annotations

import re

import pytest

from tests.house.key_table import INVENTORY_PAGE, with_key_table
from tests.house.modules import LAB, ROOT, Module, cycles, product, rooms
from tests.house.roles_page import ROLES_PAGE, roles_page
from tests.house.settings_table import PLAN_PAGE, with_settings_table

DOCS = ROOT / "docs"
PAGE = DOCS / "architecture.md"

OURS = ("flashferry", "tasks", "ftpserver", "inventory", "templates", "tests", "benchmarks", "docs")


def test_the_architecture_has_every_package_in_the_order_of_imports():
    """The page's order is what import-linter holds; the lab stands apart, at its end."""
    heads = re.findall(
        r"^(?:- )?(`(?:flashferry\.)?[a-z]+`(?:, `[a-z.]+`)*): ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert re.findall(r"`([a-z.]+)`", " ".join(heads)) == [*rooms(), LAB]


def test_the_page_of_roles_is_what_its_command_writes():
    """What the service holds in front of its routes is what is documented."""
    assert ROLES_PAGE.read_text(encoding="utf-8") == roles_page(), "stale: run python -m tests.house --update-docs"


def test_the_table_of_inventory_keys_is_what_the_keys_say():
    """Each key once, in the order of the code."""
    text = INVENTORY_PAGE.read_text(encoding="utf-8")
    assert text == with_key_table(text), "stale: run python -m tests.house --update-docs"


def test_the_settings_of_the_documents_are_those_of_a_policy():
    """docs/plan.md lists each with its option, its name, and where it may change."""
    text = PLAN_PAGE.read_text(encoding="utf-8")
    assert text == with_settings_table(text), "stale: run python -m tests.house --update-docs"


README_BYTES = 8 * 1024
"""What the README may have: what it is, the first commands, limits, and where to read on."""

DOCUMENTS = ("README.md", "SECURITY.md", *(f"docs/{path.name}" for path in sorted(DOCS.glob("*.md"))))


def named_files(text):
    """Return the files that a text names in backticks: those with a slash and an ending."""
    return tuple(re.findall(r"`([\w./-]+/[\w.-]+\.(?:py|md|toml|textfsm|html|css|js))`", text))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_that_a_document_names_is_there(document):
    """Documents outlive moves only if somebody looks; what was printed on a day stays as it was."""
    named = [name for name in named_files((ROOT / document).read_text(encoding="utf-8")) if name.split("/")[0] in OURS]
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_readme_is_short():
    """A newcomer reads all of it; what is longer stands in docs/."""
    assert (ROOT / "README.md").stat().st_size <= README_BYTES


def test_the_index_has_every_document():
    """A page that docs/README.md does not name is found by nobody."""
    named = re.findall(r"\]\(([a-z-]+\.md)", (DOCS / "README.md").read_text(encoding="utf-8"))
    assert {path.name for path in DOCS.glob("*.md")} - {"README.md", *named} == set()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_of_a_document_leads_somewhere(document):
    """To a file that is there, and to a heading that it has."""
    text = (ROOT / document).read_text(encoding="utf-8")
    here = (ROOT / document).parent
    dead = []
    for target in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        name, _, heading = target.partition("#")
        path = here / name if name else ROOT / document
        if not path.exists() or (heading and heading not in anchors(path)):
            dead.append(target)
    assert dead == []


def anchors(document):
    """Return the anchors of a document's headings, as hosts of Git repositories make them."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), flags=re.MULTILINE):
        found.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return found


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_module_that_a_document_names_is_there(document):
    """`flashferry.run.concurrency` or something in it: a name that is imported from there."""
    text = (ROOT / document).read_text(encoding="utf-8")
    named = re.findall(r"`((?:flashferry|tasks|ftpserver|inventory|templates)(?:\.[a-z_]+)+)(?:\.[A-Z]\w*)?[`(]", text)
    files = {"inventory.csv", "inventory.xlsx", "tasks.py"}
    assert [name for name in named if name not in files and not _is_importable(name)] == []


def _is_importable(name: str) -> bool:
    """Tell whether a module, or what stands before the last word, is one of ours."""
    paths = [ROOT.joinpath(*words) for words in (name.split("."), name.split(".")[:-1]) if words]
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


def test_no_module_imports_one_that_imports_it():
    """Directly or over others, while it is loaded."""
    assert cycles(product()) == ()


def test_a_ring_of_imports_is_seen():
    """Over a third module, too; a line of imports is no ring."""
    ring = {"a.a": made("a.a", imports="a.b"), "a.b": made("a.b", imports="a.c"), "a.c": made("a.c", imports="a.a")}
    assert cycles(ring) == (("a.a", "a.b", "a.c"),)
    assert cycles(ring | {"a.c": made("a.c")}) == ()


def made(name: str, imports: str = "") -> Module:
    path = DOCS.joinpath(*name.split(".")).with_suffix(".py")
    return Module(name=name, path=path, docstring="", imports=frozenset(imports.split()))
