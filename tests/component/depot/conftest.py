"""A real depot in a process of its own, runs that use it, and clients that fetch."""

from __future__ import annotations

import contextlib
import ftplib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from flashferry.depot.client import DepotClient
from flashferry.depot.status import find_depot
from flashferry.fileserver import Ticket, TicketRequest, TransferState
from tests.patience import PATIENCE_S
from tests.patience import until as until_so

IMAGE = "image.bin"


@dataclass
class DepotBench:
    """A depot that can be killed and started anew, and what there is around it."""

    folder: Path
    content: bytes
    more: tuple[str, ...] = ()
    process: subprocess.Popen[str] | None = None
    told: dict[str, object] = field(default_factory=dict)
    runs: list[DepotClient] = field(default_factory=list)

    @property
    def socket(self) -> Path:
        """The depot's socket."""
        return self.folder / "state" / "depot.sock"

    @property
    def image(self) -> Path:
        """The one image."""
        return self.folder / IMAGE

    def start(self) -> None:
        """Start it, and wait until it is ready; at the port that it had before."""
        port = str(self.told.get("ports", {}).get("ftp", 0))
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "flashferry", "depot", "--json", "--listen", "127.0.0.1"),
                *("--port", port, *self.more),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"FLASHFERRY_STATE_DIR": str(self.folder / "state")},
        )
        self.told = json.loads(self.process.stdout.readline() or self.process.stderr.read())

    def end(self, number: signal.Signals) -> int:
        """End it by a signal; return its status."""
        with self.process as process:
            process.send_signal(number)
            return process.wait(PATIENCE_S)

    def run(self, purpose: str = "stage", **more) -> DepotClient:
        """Return a run that has come in, with the image."""
        run = self.stranger(purpose, **more)
        run.open((self.image,))
        return run

    def stranger(self, purpose: str = "stage", **more) -> DepotClient:
        """Return one that offers nothing yet."""
        run = DepotClient(self.socket, purpose, **more)
        self.runs.append(run)
        return run

    def ticket(self, run: DepotClient, **more) -> Ticket:
        return run.issue_ticket(TicketRequest(image_name=IMAGE, **more))

    def fetch(self, run: DepotClient, ticket: Ticket, *, most: int | None = None) -> bytes:
        """Fetch with a ticket; return what came, until the end or `most` bytes."""
        got = bytearray()
        with contextlib.closing(ftplib.FTP()) as ftp:
            ftp.connect("127.0.0.1", run.port_of("ftp"), timeout=PATIENCE_S)
            ftp.login(ticket.username, ticket.password)
            with contextlib.suppress(ftplib.Error, OSError), ftp.transfercmd(f"RETR {IMAGE}") as data:
                while (most is None or len(got) < most) and (some := data.recv(65_536)):
                    got += some
        return bytes(got)

    def fetch_refused(self, run: DepotClient, ticket: Ticket) -> bool:
        """Tell whether nobody is let in with a ticket."""
        try:
            self.fetch(run, ticket)
        except ftplib.error_perm as error:
            return str(error).startswith("530")
        return False

    @contextlib.contextmanager
    def fetching(self, run: DepotClient, ticket: Ticket) -> Iterator[list[bytes]]:
        """Fetch in a thread for as long as the block lasts; what came is in the list that is yielded, at its end."""
        found: list[bytes] = []
        thread = threading.Thread(target=lambda: found.append(self.fetch(run, ticket)), daemon=True)
        thread.start()
        yield found
        thread.join(PATIENCE_S)

    def until_sending(self, run: DepotClient, *tickets: Ticket) -> None:
        """Wait until tickets are being sent."""
        for one in tickets:
            until(lambda one=one: run.progress(one.ticket_id).state is TransferState.TRANSFERRING)

    def part(self) -> None:
        """End all runs, and put the image back."""
        for run in self.runs:
            run.close()
        self.runs.clear()
        if not self.image.exists() or self.image.read_bytes() != self.content:
            self.image.write_bytes(self.content)

    def close(self) -> None:
        """End everything."""
        self.part()
        if self.process is not None and self.process.poll() is None:
            self.end(signal.SIGKILL)


def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    until_so(condition, "what was to come true")


@contextlib.contextmanager
def depot_in(folder: Path) -> Iterator[DepotBench]:
    """Run a depot in a new folder."""
    content = os.urandom(2_000_000)
    (folder / IMAGE).write_bytes(content)
    bench = DepotBench(folder=folder, content=content)
    with contextlib.closing(bench):
        bench.start()
        yield bench


@pytest.fixture
def depot(tmp_path: Path) -> Iterator[DepotBench]:
    """A depot of the test's own, to be ended."""
    with depot_in(tmp_path) as bench:
        yield bench


@pytest.fixture(scope="module")
def lasting_depot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DepotBench]:
    """One for all tests of a module."""
    with depot_in(tmp_path_factory.mktemp("depot")) as bench:
        yield bench


@pytest.fixture
def shared_depot(lasting_depot: DepotBench) -> Iterator[DepotBench]:
    """The same, without the runs of the test before."""
    yield lasting_depot
    lasting_depot.part()
    until(lambda: not find_depot(lasting_depot.folder / "state").view.runs)
