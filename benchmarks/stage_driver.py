"""The command line driven in front of a world, as the benchmarks of whole runs do it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from flashferry.lab.world import World


def flashferry(world: World, state: Path, *arguments: str) -> tuple[float, dict[str, Any]]:
    """Run flashferry in front of a world; return its wall time in seconds and its JSON document."""
    inside = [sys.executable, "-P", "-m", "flashferry.lab.enter", str(world.core_pid), "--"]
    command = [*inside, sys.executable, "-P", "-m", "flashferry", *arguments, "--json"]
    started = time.monotonic()
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"FLASHFERRY_STATE_DIR": str(state)},
    )
    spent_s = time.monotonic() - started
    if done.returncode != 0:
        sys.exit(f"exit code {done.returncode}: {done.stderr}")
    return spent_s, json.loads(done.stdout)
