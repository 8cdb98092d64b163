"""Outsiders do their calls on stand-ins, where an interpreter has them; the table in the docs is of these tools."""

import pytest

from tests.e2e.outsiders.calls import KNOWN, KNOWN_ON_IOS, TOOLS, Called, Tool, call_all, calls_table
from tests.e2e.outsiders.report import CALLS_BEGIN, CALLS_END, DOCS


@pytest.mark.lab
@pytest.mark.soak
@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_an_outsider_does_its_calls(tool: Tool) -> None:
    """Every call does what it should, or fails for the known reason that it has on a real device too."""
    if tool.versions() is None:
        pytest.skip(f"{tool.python} has not all of {', '.join(tool.packages)}; name one that has by {tool.variable}")
    assert [(one.platform, one.wrong) for one in call_all(tool) if one.wrong] == []


def test_a_failure_without_a_reason_counts() -> None:
    """A call that failed is wrong unless its reason is known, and the table names both."""
    tool, name = next(iter(KNOWN))
    called = Called(tool=tool, platform="p", answers=((name, "raises"), ("other", "Error: x"), ("third", "")))
    assert called.wrong == (("other", "Error: x"),)
    shown = calls_table([called], {"lib": "1"}, ["absent-tool"])
    assert f"| {tool} | p | 1 of 3 | `{name}`: {KNOWN[tool, name]}; `other`: Error: x |" in shown
    assert "lib 1. Not run: absent-tool." in shown
    tool, name = next(iter(KNOWN_ON_IOS))
    found = [Called(tool=tool, platform=p, answers=((name, "raises"),)).wrong for p in ("iosv-15.8", "c8000v-17.15")]
    assert found == [(), ((name, "raises"),)]


def test_the_table_in_the_docs_is_of_these_tools() -> None:
    """Each platform of each tool is in a row, without a failure that has no reason."""
    table = DOCS.read_text(encoding="utf-8").partition(CALLS_BEGIN)[2].partition(CALLS_END)[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if " of " in line]
    found = [(row[0], platform) for row in rows for platform in row[1].split(", ")]
    assert found == [(tool.name, platform) for tool in TOOLS for platform in tool.platforms]
    reasons = [f"`{name}`: {reason}" for (_, name), reason in (KNOWN | KNOWN_ON_IOS).items()]
    assert [row for row in rows if row[3] != "none" and not set(row[3].split("; ")) <= set(reasons)] == []
