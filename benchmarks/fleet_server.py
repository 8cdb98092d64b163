"""An FTP server for the naive fleet: `python -m benchmarks.fleet_server IMAGE CAP`; ours, in a process of its own.

Every transfer is held to CAP bytes per second. It prints its port and a URL, and serves until its input ends.
"""

import sys
from pathlib import Path

from benchmarks.fleet_watch import say
from flashferry.fileserver import FileServer, FixedLogin, SenderProfile, ServerSettings
from ftpserver import ftp_listener

USER, PASSWORD = "naive", "naive-fleet"


def main(image: str, cap: str) -> None:
    """Serve."""
    profile = SenderProfile(cap_bytes_per_s=int(cap))
    with FileServer(ServerSettings(image_paths=(Path(image),), listeners=(ftp_listener(),), profile=profile)) as server:
        server.admit(FixedLogin(username=USER, password=PASSWORD))
        say("ready", port=server.port)
        sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
