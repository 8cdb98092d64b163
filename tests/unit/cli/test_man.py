"""The manual page: all commands and options are on it, readers of roff take it, and its tables are whole."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import flashferry
from flashferry.cli.man.page import manual_page
from flashferry.cli.man.surroundings import OTHERS, variables
from flashferry.cli.tree import Command, command_tree
from flashferry.model.exit_codes import VERB_MEANINGS, ExitCode
from flashferry.store.journal import Journal
from tests.patience import PATIENCE_S

HOUSE = Path(flashferry.__file__).parents[1]


@pytest.fixture(scope="module")
def tree() -> Command:
    return command_tree()


@pytest.fixture(scope="module")
def page(tree: Command) -> str:
    return manual_page(tree, version="1.2.3")


def plain(text: str) -> str:
    """Return what a reader sees of lines in roff."""
    return re.sub(r"\\f[BIR]", "", text).replace(r"\-", "-").replace(r"\&", "").replace(r"\e", "\\")


def test_it_has_each_command_with_each_option_and_argument(tree, page):
    """Nobody has to ask the program what the page left out."""
    parts = {one.split('"')[1].removesuffix(" ..."): one for one in plain(page).split("\n.SS ")[1:] if '"' in one}
    for command in tuple(tree)[1:]:
        part = parts.pop(command.words)
        for option in command.options:
            assert "--help" in option.names or f"\n{', '.join(option.names)}" in part, (command.words, option.names)
        for argument in command.arguments:
            assert f"\n{argument.value.placeholder}\n" in part, command.words
    assert parts == {}


def test_it_has_the_usual_sections_in_the_usual_order(page):
    """`man` and `apropos` find what they look for."""
    usual = "NAME SYNOPSIS DESCRIPTION COMMANDS EXIT STATUS ENVIRONMENT FILES EXAMPLES SEE ALSO"
    assert " ".join(re.findall(r"^\.SH (.*)", page, re.MULTILINE)) == usual
    assert re.search(r'^\.TH FLASHFERRY 1 "" "flashferry 1\.2\.3" ', page, re.MULTILINE)
    assert re.search(r"^flashferry \\- [a-z]", page, re.MULTILINE)


def test_exit_codes_are_those_of_the_table(page):
    """Of each code what it means, and of each verb that has words of its own."""
    seen = " ".join(plain(page).split())
    for code in ExitCode:
        meaning = code.meaning
        assert f"{int(code)} {meaning[0].upper()}{meaning[1:]}." in seen
    for meanings in VERB_MEANINGS.values():
        for code, meaning in meanings.items():
            assert f"{int(code)}: {meaning}" in seen


def test_each_variable_that_is_read_anywhere_is_told(tree):
    """A variable that somebody adds stands on the page, or the page would not be whole."""
    of_file = re.compile(r'["\'](FLASHFERRY_[A-Z_]*[A-Z])["\']')
    rooms = [one for one in (HOUSE / "flashferry").iterdir() if one.name != "lab"]
    files = [
        file for room in (*rooms, HOUSE / "inventory") for file in ([room] if room.is_file() else room.rglob("*.py"))
    ]
    read = {
        name for file in files if file.suffix == ".py" for name in of_file.findall(file.read_text(encoding="utf-8"))
    }
    told = {one.name for one in variables(tree)}
    assert read - {"FLASHFERRY_ERROR"} <= told
    assert {"FLASHFERRY_STATE_DIR", "FLASHFERRY_INVENTORY", "FLASHFERRY_PASSWORD"} <= told
    assert len(told) == len(variables(tree))
    assert {name for name, _ in OTHERS if name.startswith("FLASHFERRY_")} <= {
        *read, "FLASHFERRY_USERNAME", "FLASHFERRY_PASSWORD", "FLASHFERRY_ENABLE_SECRET",
        "FLASHFERRY_CML_USERNAME", "FLASHFERRY_CML_PASSWORD",
    }  # fmt: skip


def test_the_files_that_it_names_are_called_so(page, tmp_path):
    """The journal and what stands beside it."""
    with Journal(tmp_path / "state"):
        made = {one.name for one in (tmp_path / "state").iterdir()}
    assert "journal.sqlite3" in made
    assert "journal.sqlite3" in page
    assert (HOUSE / "flashferry" / "depot" / "places.py").read_text().count("depot.sock") >= 1


def test_no_text_is_taken_for_a_request_or_an_escape():
    """Whatever a help text holds, it is shown."""
    one = Command(
        path=(), group="", told=".so /etc/passwd \\fBx", options=(), arguments=(),
        commands=(Command(path=("a",), group="", told="'br\n\n.. \u2026 -x", options=(), arguments=(), commands=()),),
    )  # fmt: skip
    lines = manual_page(one, version="1").splitlines()
    assert r"\&'br" in lines
    assert r"\&.. \[u2026] \-x" in lines
    assert not any(line.startswith((".so", "'", "..")) for line in lines)
    assert r"flashferry \- \&.so /etc/passwd \efBx" in lines


@pytest.mark.parametrize(
    "reader",
    [("mandoc", "-Tlint", "-Wwarning"), ("groff", "-ww", "-man", "-Tutf8", "-z")],
    ids=lambda words: words[0],
)
def test_readers_of_roff_find_nothing_wrong(page, reader, tmp_path):
    """But for the date, which it has not: it changes with the program alone."""
    if shutil.which(reader[0]) is None:
        pytest.skip(f"{reader[0]} is not installed")
    (tmp_path / "page.1").write_text(page)
    done = subprocess.run(
        [*reader, str(tmp_path / "page.1")], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    told = [line for line in (done.stdout + done.stderr).splitlines() if "missing date" not in line]
    assert told == []
