"""pyftpdlib as it is shipped, in a process of its own: `python -m benchmarks.stock_pyftpdlib DIRECTORY`.

Default handlers, default logging (to standard error), sendfile. The one change: its limit of 512 sockets is lifted,
since it would refuse what is to be measured. It prints its port.
"""

import sys
import warnings
from typing import Any

with warnings.catch_warnings():
    # asyncore and asynchat are deprecated in 3.11.
    warnings.simplefilter("ignore", DeprecationWarning)
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import FTPHandler
    from pyftpdlib.servers import FTPServer


def main(directory: str) -> None:
    """Serve a directory to everybody who asks, on loopback, until killed."""
    authorizer: Any = DummyAuthorizer()
    authorizer.add_anonymous(directory)

    class Handler(FTPHandler):  # type: ignore[misc]  # the library ships no types
        """The stock handler; a subclass only because the library keeps settings on classes."""

    Handler.authorizer = authorizer
    server: Any = FTPServer(("127.0.0.1", 0), Handler)
    server.max_cons = 100_000
    print(server.address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
