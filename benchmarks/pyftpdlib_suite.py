"""pyftpdlib's own functional tests against our server: `python benchmarks/pyftpdlib_suite.py FOLDER`.

FOLDER is an unpacked source distribution of the release that we use (`pip download --no-deps --no-binary :all:
pyftpdlib`), which stays where it is: nothing of it is kept here. Its tests run a server in a thread of their own; ours
takes that one's place, with a fixed login for their user and every file of their folder on offer at the moment it is
asked for. Prints each test with its outcome; docs/ftp-conformance.md says why those fail that fail.
"""

import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from ftpserver.catalogue import Catalogue, ImageFile
from ftpserver.errors import FtpServerError
from ftpserver.logins import FixedGrant
from ftpserver.process import Desk, FTPServer, IOLoop, session_class
from ftpserver.settings import Limits, ServerSettings
from ftpserver.tickets import seal


class Everything(FixedGrant):
    """A fixed login for whatever file the tests have just made."""

    __slots__ = ()

    def image(self, name: str) -> ImageFile | None:
        """Hash a file of the current folder and return it."""
        try:
            return Catalogue((Path.cwd() / name,)).image(name) if name and "/" not in name else None
        except FtpServerError:
            return None


def _login(username: str, password: str) -> Everything:
    salt_hex, hash_hex = seal(password)
    return Everything(
        username=username, salt_hex=salt_hex, password_hash_hex=hash_hex, images=(), source_addresses=(), site=""
    )


class Wrapper(threading.Thread):
    """Our server in a thread, in the shape of their wrapper."""

    daemon = True

    def __init__(self, addr: tuple[str, int] | None = None) -> None:
        super().__init__(name="test-ftpd")
        host, port = addr or ("127.0.0.1", 0)
        limits = Limits(failed_login_delay_s=0.001, failed_logins=1000, commands_burst=10_000)
        settings = ServerSettings(image_paths=(Path(__file__),), listen_address=host or "::", limits=limits)
        self._desk = Desk(settings, lambda _: None)
        for username, password in (("user", "12345"), ("anonymous", "anon@")):
            self._desk.admit(_login(username, password))
        family = socket.AF_INET6 if ":" in (host or "::") else socket.AF_INET
        listener = socket.create_server((host, port), family=family, dualstack_ipv6=host in ("", "::"))
        self.handler = session_class(self._desk, settings)
        self._ioloop: Any = IOLoop()
        self.server: Any = FTPServer(listener, self.handler, ioloop=self._ioloop)
        self.host, self.port = listener.getsockname()[:2]
        self.lock = threading.Lock()
        self._is_over = threading.Event()

    def run(self) -> None:
        """Serve until stopped."""
        while not self._is_over.is_set():
            with self.lock:
                self._ioloop.loop(0.001, blocking=False)

    def stop(self) -> None:
        """End it with all its sessions."""
        self._is_over.set()
        self.join()
        self.server.close_all()


class Outcomes:
    """Prints each test's outcome, and what it expected."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print one."""
        if report.when == "call" or report.outcome != "passed":
            lines = [line for line in str(report.longrepr).splitlines() if line.startswith("E  ")]
            found = lines[0] if report.failed and lines else ""
            print(f"{report.outcome:8} {report.nodeid.partition('::')[2]}  {found}")


def main() -> None:
    """Run the tests of the folder given."""
    folder = Path(sys.argv[1]).resolve()
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    import tests as theirs

    theirs.FtpdThreadWrapper = Wrapper  # type: ignore[attr-defined]
    options = ["-p", "no:cacheprovider", "-p", "no:terminal", "-c", "/dev/null", "-W", "ignore", "-x", "--maxfail=1000"]
    sys.exit(pytest.main([*options, *sys.argv[2:], str(folder / "tests" / "test_functional.py")], plugins=[Outcomes()]))


if __name__ == "__main__":
    main()
