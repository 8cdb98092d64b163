"""Entry point of a job's process: `python -m flashferry.service.jobs.child FOLDER`, as systemd units start it.

The work is done by `flashferry.core.jobs`; the service itself is not imported here.
"""

from __future__ import annotations

import sys

from flashferry.core.jobs import main

if __name__ == "__main__":
    main(sys.argv[1:])
