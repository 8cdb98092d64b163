"""A run in a separate process that a pilot kills while the router is tuned."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.api.fleet_options import state_folder
from flashferry.devices.connection import ENABLE_SECRET
from inventory.transport_policy import AS_USUAL

if TYPE_CHECKING:
    from nornir.core.inventory import Host

    from flashferry.pilot.step_results import PilotOptions

KILLED_COPY_S = 30.0
"""Intended duration of its copies: it must not end by itself before it is killed."""

_POLL_S = 0.1


def killed_run(options: PilotOptions, host: Host, scratch: Path, interrupted: Callable[[], bool]) -> str:
    """Start a tuned speed test in a separate process, kill it once its lines are set, and return its run id."""
    events = scratch / "kill.jsonl"
    words = ["--host", options.host, "--tuned", "--seconds", str(KILLED_COPY_S), "--json"]
    words += ["--events", str(events), "--transcript", str(scratch / "kill")]
    words += [
        "--inventory",
        str(options.fleet.inventory),
        "--state-dir",
        str(state_folder(options.fleet.state_dir)),
        *_options_of(options),
    ]
    with (scratch / "kill.json").open("wb") as out, (scratch / "kill.txt").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "flashferry", "probe", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=_environment(host),
            start_new_session=True,
        )
        try:
            while process.poll() is None and not _is_tuned(events):
                if interrupted():
                    # The run restores the router itself.
                    process.send_signal(signal.SIGTERM)
                    process.wait()
                time.sleep(_POLL_S)
        finally:
            # Kill the whole process group, as a power failure would.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return next((str(one["run_id"]) for one in _events(events) if one.get("run_id")), "")


def _options_of(options: PilotOptions) -> list[str]:
    """Return the command-line options for that run, equal to our own."""
    fleet, server = options.fleet, options.server
    given = {
        "--host-keys": fleet.host_keys.value if fleet.host_keys is not None else None,
        "--known-hosts": fleet.known_hosts,
        "--address": server.address,
        "--port": server.port,
        "--certificate": server.certificate,
        "--key": server.key,
        "--depot": server.depot,
        "--transport": None if options.transport == AS_USUAL else options.transport,
        **{f"--{name}-port": port for name, port in server.other_ports.items()},
    }
    words = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    return [*words, *(["--at-depot"] if fleet.at_depot else [])]


def _environment(host: Host) -> dict[str, str]:
    """Return the environment for that run, with the router's login, which must not appear in a process list."""
    login = {
        "FLASHFERRY_USERNAME": host.username,
        "FLASHFERRY_PASSWORD": host.password,
        "FLASHFERRY_ENABLE_SECRET": host.get(ENABLE_SECRET),
    }
    kept = {name: value for name, value in os.environ.items() if name != "FLASHFERRY_SERVICE"}
    return kept | {name: str(value) for name, value in login.items() if value}


def _is_tuned(events: Path) -> bool:
    return any(one.get("step") == "tune" and one.get("status") == "done" for one in _events(events))


def _events(path: Path) -> Iterator[dict[str, object]]:
    """Yield the events of a file that may be incomplete or missing."""
    with suppress(FileNotFoundError):
        for line in path.read_bytes().splitlines():
            with suppress(ValueError):
                if isinstance(found := json.loads(line), dict):
                    yield found
