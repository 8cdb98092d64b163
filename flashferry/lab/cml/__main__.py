"""`python -m flashferry.lab.cml`: a stand-in controller as a process of its own, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from pathlib import Path

from flashferry.lab.cml.definitions import text_table
from flashferry.lab.cml.faults import switch_table
from flashferry.lab.cml.runtime import BootTimes, ClockRuntime
from flashferry.lab.cml.standin import standin_controller


def main() -> None:
    """Serve, and print one line of JSON with where and how."""
    arguments = _arguments()
    if arguments.switches:
        sys.stdout.write(f"{switch_table()}\n{text_table()}")
        return
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    times = BootTimes(queued_s=arguments.boot_s / 5, started_s=arguments.boot_s, stagger_s=arguments.boot_s / 10)
    host, _, port = arguments.control.rpartition(":")
    control_at = (host, int(port)) if port.isdecimal() else Path(arguments.control)
    with standin_controller(
        address=arguments.address,
        port=arguments.port,
        runtime=ClockRuntime(times),
        version=arguments.version,
        control_at=control_at,
        folder=arguments.folder,
    ) as running:
        sys.stdout.write(json.dumps(running.as_json()) + "\n")
        sys.stdout.flush()
        over.wait()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m flashferry.lab.cml", description=__doc__)
    parser.add_argument("--address", default="127.0.0.1", help="Where to listen (127.0.0.1).")
    parser.add_argument("--port", type=int, default=0, help="The port of HTTPS (a free one).")
    parser.add_argument("--version", help="The controller's version (2.10.0+build.5).")
    parser.add_argument("--boot-s", type=float, default=5.0, help="Seconds that a node boots (5).")
    parser.add_argument(
        "--control", default="127.0.0.1:0", help="Where switches are turned: HOST:PORT, or a path for a unix socket."
    )
    parser.add_argument("--folder", type=Path, help="An existing folder for certificates and images (one that goes).")
    parser.add_argument("--switches", action="store_true", help="Show the tables of switches and refusals and end.")
    return parser.parse_args()


if __name__ == "__main__":
    main()
