"""pyATS and pyntc drive whole upgrades of stand-ins, where an interpreter has them."""

import os
import sys
from pathlib import Path

import pytest

from tests.e2e.outsiders.installs import DRIVES, PACKAGES, PYNTC_VARIABLE, Drive, Driven, drive_all, versions_of
from tests.e2e.outsiders.report import DOCS, INSTALLS_BEGIN, INSTALLS_END
from tests.e2e.outsiders.visit import PYTHON_VARIABLE

VARIABLES = {"pyATS": PYTHON_VARIABLE, "pyntc": PYNTC_VARIABLE}


@pytest.mark.lab
@pytest.mark.soak
@pytest.mark.parametrize("tool", PACKAGES)
def test_a_tool_drives_its_upgrades(tool: str) -> None:
    """Each ends with the release that it should, told by another session; or fails for the reason that is known."""
    python = Path(os.environ.get(VARIABLES[tool], sys.executable))
    if versions_of(tool, python) is None:
        pytest.skip(f"{python} has not all of {', '.join(PACKAGES[tool])}; name one that has by {VARIABLES[tool]}")
    driven = drive_all({tool: python})
    assert [each for each in driven if not each.is_as_expected] == []


def _driven(drive: Drive, *, failed: str = "", release: str = "") -> Driven:
    return Driven(drive=drive, failed=failed, release=release or drive.release)


def test_what_is_as_expected() -> None:
    """The wanted release without a failed step; where a reason is known, only that one."""
    works = next(each for each in DRIVES if not each.why)
    fails = next(each for each in DRIVES if each.why)
    assert _driven(works).is_as_expected
    assert not _driven(works, failed="execute_install_add: answers False").is_as_expected
    assert not _driven(works, release="1.2.3").is_as_expected
    assert _driven(fails, failed=f"install_os: {fails.answer}: x").is_as_expected
    assert not _driven(fails).is_as_expected
    assert not _driven(fails, failed="install_os: ReadTimeout: x").is_as_expected


def test_the_table_in_the_docs_is_of_these_upgrades() -> None:
    """Each is in a row of its tool and mode, which fails where a reason is known and works elsewhere."""
    table = DOCS.read_text(encoding="utf-8").partition(INSTALLS_BEGIN)[2].partition(INSTALLS_END)[0]
    rows = [[cell.strip() for cell in line.split("|")][1:-1] for line in table.splitlines() if line.startswith("| py")]
    for drive in DRIVES:
        result = f"fails: {drive.why}" if drive.why else "works"
        assert [
            row for row in rows if row[:2] + row[3:] == [drive.tool, drive.way, result] and drive.platform in row[2]
        ]
    assert sum(len(row[2].split(", ")) for row in rows) == len(DRIVES)
