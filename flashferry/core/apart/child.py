"""The first thing that a job's process does: `python -m flashferry.core.apart.child FOLDER`.

It takes the job by a file that only one can make, sends what its verb prints into the job's folder, and becomes the
verb. So a job can be started any number of times, by a service that was killed in between or by systemd: it
is done once. Nothing of a service is loaded here.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import NoReturn

from flashferry.core.apart.processes import JobFolder, claim
from flashferry.core.state_folder import open_private

TAKEN = 75
"""Exit code where another process has the job: EX_TEMPFAIL of sysexits.h."""

_LOGIN = ("FLASHFERRY_USERNAME", "FLASHFERRY_PASSWORD", "FLASHFERRY_ENABLE_SECRET")
"""Logins of devices never come from the service: the verb looks them up."""
_FORMS = ("FLASHFERRY_JSON", "FLASHFERRY_OUTPUT", "FLASHFERRY_PLAIN")
"""What would have a verb print something else than it was asked for."""
_ELSEWHERE = (
    *("FLASHFERRY_SERVICE", "FLASHFERRY_SERVICE_CA", "FLASHFERRY_SERVICE_TOKEN", "FLASHFERRY_SERVICE_TOKEN_FILE"),
)
"""What would have it ask a service for what it is to do itself."""


def main(arguments: list[str]) -> NoReturn:
    """Become the verb of a job, or end where another process has it."""
    (name,) = arguments
    folder = JobFolder(path=Path(name))
    order = json.loads(folder.command.read_text(encoding="utf-8"))
    if not claim(folder.mark_file):
        sys.exit(TAKEN)
    environment = {key: value for key, value in os.environ.items() if key not in (*_LOGIN, *_FORMS, *_ELSEWHERE)}
    environment |= {"FLASHFERRY_JOB": order["job"], "FLASHFERRY_ACTOR": order["actor"]}
    with (
        open(os.devnull, "rb") as nothing,  # noqa: PTH123 -- a device, not a file
        open_private(folder.result, "ab") as result,
        open_private(folder.stderr, "ab") as stderr,
    ):
        for number, file in enumerate((nothing, result, stderr)):
            os.dup2(file.fileno(), number)
    program = [sys.executable, "-P", "-m", "flashferry", *order["words"]]
    os.execve(program[0], program, environment)  # noqa: S606 -- our own verb, without a shell


if __name__ == "__main__":
    main(sys.argv[1:])
