"""Run many command lines, each in a process of its own that has all imports behind it: a script, not to be imported.

    python -P forks.py MODULE [SECONDS-SINCE-1970]

Standard input has a JSON list of argument lists; standard output gets one of [exit code, its output, its errors].

A command costs half a second of imports when it is started by itself; the suite starts about a hundred.
With a time given it is that time for them, as far as Python tells it: a page that says how old a figure is stays as it
is.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import tempfile
import time
from importlib import import_module


def run(module: object, arguments: list[str]) -> list[object]:
    """Return exit code and output of a command line."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            sys.argv = ["flashferry", *arguments]
            code = 99
            try:
                module.main()  # type: ignore[attr-defined]
                code = 0
            except SystemExit as ended:
                code = int(ended.code or 0)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        return [code, out.read(), err.read()]


def stand_still(at_s: float) -> None:
    """Let it be a certain time for all modules that are imported from here on."""

    class Still(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
            return cls.fromtimestamp(at_s, tz)

    datetime.datetime = Still  # type: ignore[misc]
    time.time = lambda: at_s


if __name__ == "__main__":
    if sys.argv[2:]:
        stand_still(float(sys.argv[2]))
    product = import_module(sys.argv[1])
    # Everything that verbs need is imported here, once.
    program = import_module("flashferry.cli.program")
    for names in program.COMMANDS.values():
        list(map(program.command_named, names))
    asked = json.load(sys.stdin)
    json.dump([run(product, one) for one in asked], sys.stdout)
