"""A real server process on loopback and one image: what the benches of all its protocols share."""

import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flashferry.core.values import replace
from flashferry.fileserver import (
    FileServer,
    Limits,
    ListenerSettings,
    SenderProfile,
    ServerSettings,
    Ticket,
    TicketRequest,
    TransferProgress,
    TransferState,
)
from tests.component.fileserver.passing_time import PASSED
from tests.patience import PATIENCE_S, until

IMAGE = "csr1000v-universalk9.16.11.01.SPA.bin"
OTHER = "other.bin"
_READINGS = 20
_NEVER_S = 10 * PATIENCE_S
_LIMITS = dict.fromkeys(("login_deadline_s", "idle_s", "data_connect_s", "ban_s"), _NEVER_S)
"""What no client of a test meets, however long it stood still itself; where one is to pass, the test sets it."""


@dataclass(kw_only=True)
class ServerBench:
    """A server, its image, and what a test needs to look at both."""

    server: FileServer
    directory: Path
    content: bytes
    image_name: str = IMAGE
    other_name: str = OTHER

    @property
    def pid(self) -> int:
        """The process that is looked at."""
        return self.server.pid

    def ticket(self, image_name: str = IMAGE, **more: Any) -> Ticket:
        return self.server.issue_ticket(TicketRequest(image_name=image_name, **more))

    def pass_time(self, seconds: float) -> None:
        """Let time pass in the first listener's process of a server with a `clock`: for tickets, transfers, sessions.

        What expires after that many seconds does; what was not waited for when this is called has all its time left.
        """
        place = ("127.0.0.1", self.server.port_of("clock"))
        with socket.create_connection(place, timeout=PATIENCE_S) as clock, clock.makefile("rb") as answers:
            clock.sendall(f"{seconds}\n".encode())
            assert answers.readline() == PASSED

    def until(self, ticket: Ticket, wanted: Callable[[TransferProgress], bool]) -> TransferProgress:
        """Wait until a snapshot is as wanted; fail with what it was."""

        def seen() -> TransferProgress | None:
            progress = self.server.progress(ticket.ticket_id)
            return progress if wanted(progress) else None

        return until(seen, lambda: f"another snapshot than {self.server.progress(ticket.ticket_id)}")  # type: ignore[return-value]

    def delivered(self, ticket: Ticket) -> TransferProgress:
        """Wait until a ticket is delivered, whatever became of a try before."""
        return self.until(ticket, lambda seen: seen.state is TransferState.DELIVERED)

    def final(self, ticket: Ticket) -> TransferProgress:
        progress = self.server.wait_final(ticket.ticket_id, PATIENCE_S)
        assert progress.state.is_final, progress
        return progress

    @staticmethod
    def settles(condition: Callable[[], bool]) -> bool:
        """Wait until a condition holds, and return that it does."""
        return until(condition, "a condition of the server's")

    def descriptors(self) -> int:
        """Count what the process has open."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def memory_kib(self) -> int:
        """Return the resident memory of the process in KiB."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0])

    def cpu_s(self) -> float:
        """Return the processor time that the process has taken."""
        return cpu_s(self.pid)


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on (proc(5))."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()


def cpu_s(pid: int) -> float:
    """Return the processor time that a process has taken."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def until_asleep(pid: int) -> None:
    """Wait until a process sleeps in nine of ten readings: one that spins is never seen asleep, on any machine."""
    states: deque[str] = deque(maxlen=_READINGS)

    def asleep() -> bool:
        states.append(_stat(pid)[0])
        return states.count("S") >= 0.9 * _READINGS

    until(asleep, "a process that sleeps while it has nothing to do")


@contextlib.contextmanager
def serving(
    folder: Path,
    listeners: tuple[ListenerSettings, ...],
    options: dict[str, Any],
    *,
    profile: dict[str, Any] | None = None,
) -> Iterator[ServerBench]:
    """Run a server of `folder/images` whose limits no client meets; no error of its own may have come about in the end.

    Args:
        folder: A new folder.
        listeners: What is served.
        options: A test's own settings: `size` of the image, `clock` where time is to pass for the first listener's
            process, keys of `Limits` and `SenderProfile` by `limits` and `profile`, else those of `ServerSettings`.
        profile: What the protocol's tests have as a profile besides.
    """
    directory = folder / "images"
    directory.mkdir()
    more = dict(options)
    content = os.urandom(more.pop("size", 300_000))
    (directory / IMAGE).write_bytes(content)
    (directory / OTHER).write_bytes(b"not for you")
    own_limits, own_profile = more.pop("limits", {}), more.pop("profile", {})
    if more.pop("clock", False):
        clock = replace(listeners[0], protocol="passing_time:Clock", port=0, other_ports=(), transports=("clock",))
        listeners = (*listeners, replace(clock, options={}))
    settings = ServerSettings(
        image_paths=(directory,),
        listeners=listeners,
        limits=Limits(**(_LIMITS | {"failed_login_delay_s": 0.05, "failed_logins": 3} | own_limits)),
        profile=SenderProfile(**({"stall_after_s": _NEVER_S} | (profile or {}) | own_profile)),
        **({"sample_interval_s": 0.05} | more),
    )
    with pytest.MonkeyPatch.context() as environment:
        # Where the serving process finds the clock; what stands beside this file has names of packages.
        environment.setenv("PYTHONPATH", str(Path(__file__).parent / "fileserver"))
        server = FileServer(settings)
        server.start()
    with contextlib.closing(server):
        server.open()
        yield ServerBench(server=server, directory=directory, content=content)
        assert not [note for note in server.notices if "internal error" in note], server.notices
