"""`python -m tests.e2e.outsiders`: pyATS, Genie and ntc-templates visit every platform of the stand-in.

pyATS is no dependency of this project (794 MB): `--python` names an interpreter that has it and ntc-templates, as the
environment of `flashferry lab peers` does once ntc-templates is added to it.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.e2e.outsiders.report import complaints, table, update_docs
from tests.e2e.outsiders.visit import PYTHON_VARIABLE, visit_all


def main(arguments: list[str] | None = None) -> int:
    """Return 0 where each platform lets pyATS in and refuses none of the commands that its hardware has, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.outsiders", description="Outsiders visit the stand-in.")
    parser.add_argument(
        "--python", type=Path, default=os.environ.get(PYTHON_VARIABLE, sys.executable),
        help=f"an interpreter with pyATS and ntc-templates (default: {PYTHON_VARIABLE}, else this one)",
    )  # fmt: skip
    parser.add_argument("--update-docs", action="store_true", help="write the table of docs/lab.md")
    options = parser.parse_args(arguments)
    visited = visit_all(Path(options.python))
    sys.stdout.write(table(visited))
    wrong = complaints(visited)
    sys.stdout.writelines(f"{sentence}\n" for sentence in wrong)
    if options.update_docs:
        update_docs(visited)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
