"""pyATS itself visits the stand-ins, where an interpreter has it; and the table in the docs is of these visits."""

import os
import sys
from pathlib import Path

import pytest

from tests.e2e.outsiders.everyday import COMMANDS, PLATFORMS
from tests.e2e.outsiders.report import BEGIN, DOCS, END, complaints
from tests.e2e.outsiders.visit import PYTHON_VARIABLE, Visits, versions, visit_all

PYTHON = Path(os.environ.get(PYTHON_VARIABLE, sys.executable))


@pytest.fixture(scope="module")
def python() -> Path:
    if versions(PYTHON) is None:
        pytest.skip(f"{PYTHON} has no pyATS with ntc-templates; name an interpreter that has by {PYTHON_VARIABLE}")
    return PYTHON


@pytest.mark.lab
@pytest.mark.soak
def test_pyats_connects_with_its_defaults_and_reads_what_it_asks(python: Path) -> None:
    """Every platform lets it in; nothing the hardware has is refused, and Genie reads all that it has parsers for."""
    visits = visit_all(python)
    assert {name: seen["connected"] for name, seen in visits.platforms.items()} == dict.fromkeys(PLATFORMS, True)
    assert complaints(visits) == []


@pytest.mark.lab
@pytest.mark.soak
def test_pyats_connects_where_the_testbed_names_no_platform(python: Path) -> None:
    """`os: ios` or `os: iosxe` is enough, also for an SD-WAN router, which unicon then finds out by itself."""
    visits = visit_all(python, commands=False, named=False)
    assert {name: seen["why"] for name, seen in visits.platforms.items()} == dict.fromkeys(PLATFORMS, "")


def _visits(genie: str = "read", refused: str = "", connected: bool = True) -> Visits:
    answer = {"output": "x", "refused": refused, "genie": genie, "ntc": "read"}
    seen = {"connected": connected, "why": "no", "commands": {"show clock": answer}}
    return Visits(versions={}, platforms=dict.fromkeys(PLATFORMS, seen), server="198.18.0.1")


def test_complaints_are_found() -> None:
    """Who is not let in, what is refused and what cannot be read is told; an answer without rows is no complaint."""
    assert complaints(_visits()) == complaints(_visits(genie="nothing")) == complaints(_visits(genie="none")) == []
    assert len(complaints(_visits(genie="SchemaMissingKeyError: x"))) == len(PLATFORMS)
    assert len(complaints(_visits(refused="yes"))) == len(PLATFORMS)
    assert len(complaints(_visits(connected=False))) == len(PLATFORMS)


def test_the_table_in_the_docs_is_of_these_commands() -> None:
    """Every platform lets pyATS in, nothing is refused, and each exception is one of the commands."""
    found = DOCS.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert f"pyATS connects to {len(PLATFORMS)} of {len(PLATFORMS)} platforms ({', '.join(PLATFORMS)}); 0 of" in found
    others = [line.split("`")[1] for line in found.splitlines() if line.startswith("- `")]
    assert f"{len(COMMANDS) - len(others)} of {len(COMMANDS)} commands are read on every platform" in found
    assert set(others) <= {each.text.replace("{port}", "PORT").replace("{server}", "HOST") for each in COMMANDS}
