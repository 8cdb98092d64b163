"""The entry point of the program."""

from __future__ import annotations

import sys


def main() -> None:
    """Run a command; every expected failure is one sentence on standard error and an exit code."""
    # Imported here: the version needs none of the command line.
    if sys.argv[1:] == ["--version"]:
        from importlib.metadata import version

        print(f"flashferry {version('flashferry')}", flush=True)  # noqa: T201 -- nothing that could need masking
        return
    from flashferry.cli.program import run

    run(sys.argv[1:])
