"""Entry point of a job's process: `python -m flashferry.service.jobs.child FOLDER`, as systemd units start it.

The work is done by `flashferry.core.jobs.child`. Nothing of the service is loaded here.
"""

from __future__ import annotations

import sys

from flashferry.core.jobs.child import main

if __name__ == "__main__":
    main(sys.argv[1:])
