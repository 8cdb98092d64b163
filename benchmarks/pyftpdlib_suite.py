"""pyftpdlib's own functional tests against our server: `python -m benchmarks.pyftpdlib_suite FOLDER [--update-docs]`.

FOLDER is an unpacked source distribution of the release that we use (`pip download --no-deps --no-binary :all:
pyftpdlib==2.2.0`), which stays where it is: nothing of it is kept here. Its tests need psutil. They run a server in a
thread of their own; ours takes that one's place, with the limits it has for everybody but for the wait behind a failed
login and the number of commands, a fixed login for their user, and every file of their folder on offer at the moment it
is asked for.

benchmarks/pyftpdlib_reasons.toml says of each test that does not pass what it wants and why it does not get it. The
exit code is 1 where the run and that file disagree: a test fails without a reason or passes in spite of one, one whose
reason is the wording fails with our words put into theirs too, or one is skipped.
"""

import argparse
import ftplib
import os
import platform
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from benchmarks.pyftpdlib_table import Reasons, mistakes, to_markdown
from flashferry.fileserver.errors import FileServerError
from flashferry.fileserver.fixed_login import FixedGrant
from flashferry.fileserver.protocol import IOLoop, ServingContext
from flashferry.fileserver.settings import Limits, ServerSettings
from flashferry.fileserver.ticket_accounts import seal
from flashferry.fileserver.ticket_service import TicketService
from flashferry.images.catalogue import Catalogue
from flashferry.images.image import ImageFile
from flashferry.lab.experiment.harness import put
from ftpserver import FtpOptions, ftp_listener
from ftpserver.data import FTPServer, ImageChannel
from ftpserver.protocol import session_class

DOCUMENT = Path(__file__).parents[1] / "docs" / "ftp-conformance.md"


class Everything(FixedGrant):
    """A fixed login for whatever file the tests have just made."""

    __slots__ = ()

    def image(self, name: str) -> ImageFile | None:
        """Hash a file of the current folder and return it."""
        try:
            return Catalogue((Path.cwd() / name,)).image(name) if name and "/" not in name else None
        except FileServerError:
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
        limits = Limits(failed_login_delay_s=0.001, commands_burst=10_000)
        listeners = (ftp_listener(listen_address=host or "::"),)
        settings = ServerSettings(image_paths=(Path(__file__),), listeners=listeners, limits=limits)
        self._tickets = TicketService(settings, lambda _: None)
        for username, password in (("user", "12345"), ("anonymous", "anon@")):
            self._tickets.admit(_login(username, password))
        family = socket.AF_INET6 if ":" in (host or "::") else socket.AF_INET
        listener = socket.create_server((host, port), family=family, dualstack_ipv6=host in ("", "::"))
        context = ServingContext(tickets=self._tickets, settings=settings, loop=IOLoop.instance())
        self.handler = session_class(context, FtpOptions())
        # Tests set attributes on it: none is to be there for the next test.
        self.handler.dtp_handler = type("Channel", (ImageChannel,), {})
        # Their tests look for sessions there.
        self._ioloop: Any = IOLoop.instance()
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
    """Prints each test's outcome with what it expected, and keeps them.

    Attributes:
        found: Test, as class and name, to `passed`, `failed` or `skipped`.
    """

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take one."""
        if report.when == "call" or report.outcome != "passed":
            name = report.nodeid.partition("::")[2].replace("::", ".")
            lines = [line for line in str(report.longrepr).splitlines() if line.startswith("E  ")]
            self.found[name] = report.outcome
            print(f"{report.outcome:8} {name}  {lines[0] if report.failed and lines else ''}")


def _run(folder: Path, names: list[str] | None = None) -> dict[str, str]:
    outcomes, file = Outcomes(), folder / "tests" / "test_functional.py"
    chosen = [f"{file}::{name.replace('.', '::')}" for name in names] if names is not None else [str(file)]
    options = ["-p", "no:cacheprovider", "-p", "no:terminal", "-p", "no:randomly", "-c", "/dev/null", "-W", "ignore"]
    pytest.main([*options, *chosen], plugins=[outcomes])
    return outcomes.found


def _run_in_their_words(folder: Path, reasons: Reasons) -> dict[str, str]:
    plain = ftplib.FTP.getmultiline

    def in_their_words(client: ftplib.FTP) -> str:
        reply = plain(client)
        return reasons.words.get(reply, reply)

    with mock.patch.object(ftplib.FTP, "getmultiline", in_their_words):
        return _run(folder, reasons.of_wording)


def _about(folder: Path, took_s: float) -> str:
    lines = (folder / "PKG-INFO").read_text().splitlines()
    version = next(line.partition(": ")[2] for line in lines if line.startswith("Version: "))
    at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    where = f"Linux {platform.release()}, Python {platform.python_version()}"
    return f"Run on {at} with the suite of pyftpdlib {version}, in {took_s:.0f} s, {where}."


def main() -> None:
    """Run the tests of the folder given, and compare with the reasons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="an unpacked source distribution of pyftpdlib")
    parser.add_argument("--update-docs", action="store_true", help="put the table into docs/ftp-conformance.md")
    options = parser.parse_args()
    folder = options.folder.resolve()
    if not (folder / "tests" / "test_functional.py").is_file():
        parser.error(f"{folder}: expected a source distribution of pyftpdlib, found no tests/test_functional.py in it")
    reasons, started_s = Reasons.read(Path(__file__).with_name("pyftpdlib_reasons.toml")), time.monotonic()
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    import tests as theirs

    theirs.FtpdThreadWrapper = Wrapper  # type: ignore[attr-defined]
    outcomes = _run(folder)
    print("Those whose reason is the wording, with our words put into theirs:")
    found = mistakes(outcomes, _run_in_their_words(folder, reasons), reasons)
    markdown = to_markdown(outcomes, reasons, _about(folder, time.monotonic() - started_s))
    print(f"\n{markdown}")
    for mistake in found:
        print(mistake, file=sys.stderr)
    if options.update_docs and not found:
        put(DOCUMENT, "pyftpdlib_suite", markdown)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
