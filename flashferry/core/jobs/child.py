"""Start of a job's process: `python -m flashferry.core.jobs.child FOLDER`.

It claims the job by a file that only one process can create, redirects the verb's output into the job's folder, and
executes the verb. So a service that was killed meanwhile, or systemd, can start a job repeatedly, and it runs once. No
module of the service is imported here.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import NoReturn

from flashferry.core.jobs.processes import JobFolder, claim
from flashferry.core.state_folder import open_private

TAKEN = 75
"""Exit code if another process has the job: EX_TEMPFAIL of sysexits.h."""

_LOGIN = ("FLASHFERRY_USERNAME", "FLASHFERRY_PASSWORD", "FLASHFERRY_ENABLE_SECRET")
"""Variables removed because the verb looks up the devices' credentials itself."""
_FORMS = ("FLASHFERRY_JSON", "FLASHFERRY_OUTPUT", "FLASHFERRY_PLAIN")
"""Variables removed because they would change the form of the verb's output."""
_ELSEWHERE = (
    *("FLASHFERRY_SERVICE", "FLASHFERRY_SERVICE_CA", "FLASHFERRY_SERVICE_TOKEN", "FLASHFERRY_SERVICE_TOKEN_FILE"),
)
"""Variables removed because they would make the verb send the job to a service."""


def main(arguments: list[str]) -> NoReturn:
    """Execute the verb of a job in this process; exit with `TAKEN` if another process has the job."""
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
