"""Our server with its parent, as `serve` runs it: `python -m benchmarks.own_server DIRECTORY USER PASSWORD`.

A fixed login, every reading streamed, and a listener for each event. It prints its port. Whoever measures this counts
the parent too, which keeps the records and hears of every transfer.
"""

import signal
import sys
from pathlib import Path

from flashferry.fileserver import FileServer, FixedLogin, Limits, ServerSettings
from ftpserver import ftp_listener


def main(directory: str, username: str, password: str) -> None:
    """Serve a directory on loopback until killed."""
    settings = ServerSettings(
        image_paths=(Path(directory),),
        listeners=(ftp_listener(listen_address="127.0.0.1"),),
        stream_samples=True,
        limits=Limits(login_deadline_s=120.0),
    )
    with FileServer(settings) as server:
        server.admit(FixedLogin(username=username, password=password))
        server.events(lambda _: None)
        print(server.port, flush=True)
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
