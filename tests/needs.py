"""What a test needs of its host: it skips with the reason where that is missing, and fails in CI."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import pytest


def lacking(reason: str) -> NoReturn:
    """Skip the running test with the reason; in CI, where nothing may be left out, fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"This must not be skipped in CI: {reason}")
    pytest.skip(reason)


def need_root(what: str) -> None:
    """Leave the running test out unless the process is root's.

    Args:
        what: What takes root, for the reason: "an sshd".
    """
    if os.geteuid() != 0:
        lacking(f"needs root: {what}")


OUTSIDERS_VARIABLE = "FLASHFERRY_OUTSIDERS_PYTHON"


def need_packages(*names: str) -> Path:
    """Return an interpreter that has packages which are no dependencies of ours; else skip, in CI too."""
    python = Path(os.environ.get(OUTSIDERS_VARIABLE, sys.executable))
    ask = "import sys; from importlib.metadata import version; [version(name) for name in sys.argv[1:]]"
    if subprocess.run([str(python), "-c", ask, *names], capture_output=True, check=False).returncode:
        pytest.skip(f"{python} has not all of {', '.join(names)}; name one that has by {OUTSIDERS_VARIABLE}")
    return python


def skip_lines(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return a line for each reason by which tests were skipped, with their number, the most frequent first."""
    reasons: Counter[str] = Counter()
    for report in reports:
        # pytest's own form: file, line, "Skipped: reason".
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple | list) else str(report.longrepr)
        reasons[reason.removeprefix("Skipped: ")] += 1
    by_count = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return [f"SKIPPED [{count}] {reason}" for reason, count in by_count]
