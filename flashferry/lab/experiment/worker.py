"""``python -m flashferry.lab.experiment.worker FOLDER``: one bench by itself; cells in, records out, as JSON lines.

A process per link, because a network namespace belongs to a thread and a bench moves its whole process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from pathlib import Path

from flashferry.lab.errors import LabError
from flashferry.lab.experiment.bench import open_bench
from flashferry.lab.experiment.cell import cell_from_json

READY = {"ready": True}


def main() -> None:
    """Serve until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the owner ends us, by this:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    # asyncssh offers what old IOS needs, and its library warns of that.
    warnings.filterwarnings("ignore", message="Diffie-Hellman over finite fields")
    # Standard output is for records alone, whatever a library prints.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        with open_bench(Path(sys.argv[1])) as bench:
            answers.write(json.dumps(READY) + "\n")
            for line in sys.stdin:
                answers.write(json.dumps(bench.play(cell_from_json(json.loads(line))).to_json()) + "\n")
    except LabError as error:
        answers.write(json.dumps({"error": str(error)}) + "\n")


if __name__ == "__main__":
    main()
