"""Entry point of the program."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def main() -> None:
    """Run the command line. Every expected failure is one sentence on standard error and an exit code."""
    _open_streams()
    # Imported here: `--version` does not need the command line.
    if sys.argv[1:] == ["--version"]:
        from importlib.metadata import version

        with suppress(OSError):
            print(f"flashferry {version('flashferry')}", flush=True)  # noqa: T201 -- nothing that could need masking
            return
    from flashferry.cli.program import run  # imports typer

    run(sys.argv[1:])


def _open_streams() -> None:
    """Open streams that were closed before the start (`>&-`) on the null device; Python sets them to None."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 -- until the end
