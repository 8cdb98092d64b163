"""`python -m tests.e2e.outsiders`: pyATS, Genie and ntc-templates visit every platform of the stand-in.

pyATS is no dependency of this project (794 MB): `--python` names an interpreter that has it and ntc-templates, as the
environment of `flashferry lab peers` does once ntc-templates is added to it. With `--installs` pyATS and pyntc
(`--pyntc-python`, by default the same interpreter) drive upgrades instead. With `--calls` every tool does its calls, by
the interpreters that the variables of `calls.py` name.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.e2e.outsiders.calls import TOOLS, call_all, calls_table
from tests.e2e.outsiders.installs import PYNTC_VARIABLE, drive_all, installs_table, versions_of
from tests.e2e.outsiders.report import (
    CALLS_BEGIN,
    CALLS_END,
    INSTALLS_BEGIN,
    INSTALLS_END,
    complaints,
    put_into_docs,
    table,
    update_docs,
)
from tests.e2e.outsiders.visit import PYTHON_VARIABLE, visit_all


def main(arguments: list[str] | None = None) -> int:
    """Return 0 where each platform lets pyATS in and refuses none of the commands that its hardware has, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.outsiders", description="Outsiders visit the stand-in.")
    parser.add_argument(
        "--python", type=Path, default=os.environ.get(PYTHON_VARIABLE, sys.executable),
        help=f"an interpreter with pyATS and ntc-templates (default: {PYTHON_VARIABLE}, else this one)",
    )  # fmt: skip
    parser.add_argument("--update-docs", action="store_true", help="write the table of docs/lab.md")
    parser.add_argument("--calls", action="store_true", help="have every tool that is there do its calls")
    parser.add_argument("--installs", action="store_true", help="have pyATS and pyntc drive upgrades")
    parser.add_argument(
        "--pyntc-python", type=Path, default=os.environ.get(PYNTC_VARIABLE),
        help=f"an interpreter with pyntc (default: {PYNTC_VARIABLE}, else that of --python)",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.calls:
        return call(update_docs=options.update_docs)
    if options.installs:
        pythons = {"pyATS": Path(options.python), "pyntc": Path(options.pyntc_python or options.python)}
        return install_all(pythons, update_docs=options.update_docs)
    visited = visit_all(Path(options.python))
    sys.stdout.write(table(visited))
    wrong = complaints(visited)
    sys.stdout.writelines(f"{sentence}\n" for sentence in wrong)
    if options.update_docs:
        update_docs(visited)
    return 1 if wrong else 0


def call(*, update_docs: bool) -> int:
    """Return 0 where every tool is there and every call does as it should, or fails for a known reason; else 1."""
    there = {tool: found for tool in TOOLS if (found := tool.versions()) is not None}
    called = [one for tool in there for one in call_all(tool)]
    versions = {name: version for found in there.values() for name, version in found.items()}
    absent = [tool.name for tool in TOOLS if tool not in there]
    shown = calls_table(called, versions, absent)
    sys.stdout.write(shown)
    if update_docs:
        put_into_docs(shown, CALLS_BEGIN, CALLS_END)
    return 1 if absent or any(one.wrong for one in called) else 0


def install_all(pythons: dict[str, Path], *, update_docs: bool) -> int:
    """Return 0 where every upgrade ends as it is known to end, else 1."""
    versions: dict[str, str] = {}
    for tool, python in pythons.items():
        found = versions_of(tool, python)
        if found is None:
            sys.stderr.write(f"{python} has not all that {tool} needs.\n")
            return 1
        versions |= found
    driven = drive_all(pythons)
    sys.stdout.write(installs_table(driven, versions))
    if update_docs:
        put_into_docs(installs_table(driven, versions), INSTALLS_BEGIN, INSTALLS_END)
    return 0 if all(each.is_as_expected for each in driven) else 1


if __name__ == "__main__":
    sys.exit(main())
