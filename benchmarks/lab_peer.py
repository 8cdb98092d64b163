"""Stock pyftpdlib in the core of a lab: `python -m benchmarks.lab_peer PID ADDRESS DIRECTORY CONTROL`; prints its port.

Its data connections send by the congestion control CONTROL, set per socket; otherwise it is as shipped. The peer of
the lab's own measurements must not be the server that the lab is there to judge.
"""

import socket
import sys
import warnings
from typing import Any

from flashferry.lab.enter import enter_core

with warnings.catch_warnings():
    # asyncore and asynchat are deprecated in 3.11.
    warnings.simplefilter("ignore", DeprecationWarning)
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import DTPHandler, FTPHandler
    from pyftpdlib.servers import FTPServer

LOGIN = "bench:bench9word"


def main(pid: str, address: str, directory: str, control: str) -> None:
    """Serve until killed."""
    enter_core(int(pid))
    authorizer: Any = DummyAuthorizer()
    authorizer.add_user(*LOGIN.split(":"), directory)

    class Data(DTPHandler):
        """The stock data channel with a congestion control of our choice."""

        def __init__(self, sock: socket.socket, cmd_channel: Any) -> None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
            super().__init__(sock, cmd_channel)

    class Handler(FTPHandler):
        """The stock handler; a subclass only because the library keeps settings on classes."""

    Handler.authorizer = authorizer
    Handler.dtp_handler = Data
    server: Any = FTPServer((address, 0), Handler)
    server.max_cons = 10_000
    print(server.address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
