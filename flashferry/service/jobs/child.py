"""The first thing that a job's process does: `python -m flashferry.service.jobs.child FOLDER`.

What it does is `flashferry.core.apart.child`'s; this is the name by which units of systemd begin it (docs/service.md).
Nothing of the service is loaded here.
"""

from __future__ import annotations

import sys

from flashferry.core.apart.child import main

if __name__ == "__main__":
    main(sys.argv[1:])
