"""A night that takes a lab up and down, to be killed in the midst of it.

`python victim.py URL CA USER PASSWORD TITLE`
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from flashferry.nightly.backend import Deadline
from flashferry.nightly.cml.access import ControllerAccess
from flashferry.nightly.cml.backend import CmlBackend
from tests.component.nightly.cml.standing import LINK, notes, topology


def main() -> None:
    url, ca_file, username, password, title = sys.argv[1:]
    access = ControllerAccess(url=url, ca_file=Path(ca_file), username=username, password=password)
    backend = CmlBackend(access, poll_s=0.1)
    deadline = Deadline.after(60)
    backend.preflight(topology(title))
    lab = backend.up(topology(title), notes=notes(title, pid=os.getpid()), deadline=deadline)
    backend.nodes(lab)
    backend.condition(lab, LINK)
    backend.artefacts(lab)
    backend.down(lab, deadline=deadline)


main()
