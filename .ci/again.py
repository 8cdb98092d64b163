"""Take a second look at the tests that failed: each runs again alone, once everything else has ended.

A test that fails again is red. So is, without a second look, a test that uses neither a process nor a thread, for no
load of the machine can turn it red, and a run with more than ten failures. A test that passes is printed by name with
commit and pressure, and added to second_look.jsonl beside this file, which is committed: a test that stands there
twice has to be mended or quarantined (docs/testing.md).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_name("second_look.jsonl")
MOST_FAILURES = 10
LIMIT_S = 600


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed test.

    Attributes:
        node_id: Its name as pytest takes it; empty where it was no test, such as a file that cannot be imported.
        name: Its name for people.
        is_concurrent: Whether it used a process or a thread, so that load may have turned it red.
    """

    node_id: str
    name: str
    is_concurrent: bool


def failures(report: Path) -> list[Failure]:
    """Return the failures of a run, each test once.

    Args:
        report: JUnit XML in the `xunit1` form, which has the file of each test.

    Raises:
        OSError: There is no report.
        ET.ParseError: It was not written to its end.
    """
    return list(dict.fromkeys(_failures(ET.parse(report).getroot())))


def _failures(root: ET.Element) -> Iterator[Failure]:
    for case in root.iter("testcase"):
        if case.find("failure") is None and case.find("error") is None:
            continue
        file, name = case.get("file", ""), case.get("name", "")
        inside = case.get("classname", "").removeprefix(file.removesuffix(".py").replace("/", ".")).strip(".")
        node_id = "::".join([file, *inside.split("."), name] if inside else [file, name]) if file else ""
        is_concurrent = any(one.get("name") == "concurrent" for one in case.iter("property"))
        yield Failure(
            node_id=node_id, name=node_id or f"{case.get('classname')} {name}".strip(), is_concurrent=is_concurrent
        )


def verdict(failed: list[Failure]) -> str:
    """Return why a run is red without a second look; empty where each of its failures gets one."""
    if not failed:
        return "the run failed, but no test did: see its output"
    if len(failed) > MOST_FAILURES:
        return f"{len(failed)} tests failed; more than {MOST_FAILURES} are not looked at again"
    if sure := [one.name for one in failed if not (one.is_concurrent and one.node_id)]:
        return f"load cannot turn these red, for they use neither a process nor a thread: {', '.join(sure)}"
    return ""


def passes_alone(node_id: str) -> bool:
    """Run one test by itself and return whether it passed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", node_id]
    try:
        return subprocess.run(command, cwd=CHECKOUT, check=False, timeout=LIMIT_S).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def main() -> int:
    """Look again; return 0 where all passed the second time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("report", type=Path, help="JUnit XML of the run")
    parser.add_argument("--pressure", default="unknown", help="PSI of the run, for the list")
    given = parser.parse_args()
    try:
        failed = failures(given.report)
    except (OSError, ET.ParseError) as error:
        print(f"second look: {given.report}: expected the report of a run, found none: {error}")
        return 1
    if reason := verdict(failed):
        print(f"second look: red: {reason}")
        return 1
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    ).stdout.strip()
    red = [one for one in failed if not passes_alone(one.node_id)]
    passed = [one for one in failed if one not in red]
    with LIST.open("a", encoding="utf-8") as file:
        for one in passed:
            at = datetime.now(UTC).isoformat(timespec="seconds")
            line = json.dumps({"id": one.node_id, "commit": commit, "at": at, "pressure": given.pressure})
            file.write(f"{line}\n")
            print(f"second look: passed alone: {line}")
    for one in red:
        print(f"second look: red again: {one.node_id}")
    print(f"second look: {len(passed)} of {len(failed)} passed alone")
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())
