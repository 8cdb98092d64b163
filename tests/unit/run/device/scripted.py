"""A scripted device, its journal and its server, for the run of a device's run."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace

from nornir.core.exceptions import NornirSubTaskError
from nornir.core.inventory import Defaults, Host

from flashferry.devices.platforms.ios import IOS_XE
from flashferry.fileserver import ImageFile, Ticket, TransferState
from flashferry.images.safe_open import FileIdentity
from flashferry.model.policy import StagePolicy
from flashferry.run.context import RunContext
from flashferry.run.device.device_run import CopyOrder, DeviceRun
from tasks.partial_file import FlashFile

IMAGE_BYTES = 1000


class Router:
    """Holds configuration lines by keyword."""

    name = "r1"
    platform = IOS_XE
    peer_address = "192.0.2.1"

    def __init__(self) -> None:
        self.lines: dict[str, str] = {}

    def configure(self, lines, *, unless=None):
        if unless is not None and unless(lambda command: self.running_config()):
            return ""
        for line in lines:
            words = line.split()
            if words[0] == "no":
                self.lines.pop(words[3], None)
            else:
                self.lines[words[2]] = line
        return "\n".join(f"{line}\nr1(config)#" for line in lines)

    def running_config(self):
        return "\n".join(["version 17.12", *self.lines.values(), "end"])

    def startup_config(self):
        return "version 17.12\nend"


class Journal:
    """Keeps what is on disk, and every state."""

    directory = Path("/nonexistent")

    def __init__(self) -> None:
        self.changes: tuple[str, ...] = ()
        self.kept: object = None
        self.transfers: list[object] = []

    def replan(self, run_id, host, changes):
        self.changes = tuple(change.ours for change in changes)

    def move(self, run_id, host, state):
        pass

    def release(self, run_id, host, record=None):
        pass

    def record(self, run_id, host, record):
        self.kept = record

    def add_transfer(self, run_id, host, entry):
        self.transfers.append(entry)


class Server:
    """Answers with the account that it is given."""

    port = 2121

    def port_of(self, transport):
        return self.port

    def __init__(self) -> None:
        self.tickets = itertools.count(1)
        self.revoked: list[str] = []
        self.requests: list[object] = []
        self.account = SimpleNamespace(record=None, state="waiting", bytes_acked=0, size_bytes=IMAGE_BYTES)

    def image(self, name):
        return ImageFile(
            name=name,
            size_bytes=IMAGE_BYTES,
            md5="0" * 32,
            sha512="0" * 128,
            path=Path("/nonexistent", name),
            identity=FileIdentity(device=1, inode=2, size_bytes=IMAGE_BYTES, mtime_ns=3, ctime_ns=4),
        )

    def issue_ticket(self, request):
        self.requests.append(request)
        return Ticket(ticket_id=f"t{next(self.tickets)}", username="u" * 8, password="p" * 16, image_name="x.bin")

    def prepare_push(self, socket):
        pass

    def open_push(self, request, close):
        self.requests.append(request)
        return SimpleNamespace(ticket_id=f"t{next(self.tickets)}", close=close)

    def progress(self, ticket_id):
        return self.account

    def wait(self, ticket_id, timeout_s):
        return self.account

    def revoke(self, ticket_id):
        self.revoked.append(ticket_id)


class Steps:
    """Stands for a Nornir task: runs a step's script, by the step's name."""

    parent_task = None

    def __init__(self, **scripts) -> None:
        self.host = Host(name="r1", hostname="192.0.2.1", platform="ios", defaults=Defaults())
        self.scripts = scripts
        self.done: list[str] = []

    def run(self, task, name, **arguments):
        self.done.append(name)
        try:
            return [SimpleNamespace(result=self.scripts[name](task, **arguments))]
        except Exception as error:  # noqa: BLE001 -- as Nornir wraps whatever a step raises
            raise NornirSubTaskError(task=task, result=[SimpleNamespace(exception=error)]) from None


def context(*, to_null=False, server_address=None, **settings) -> RunContext:
    return RunContext(
        run_id="run",
        image=Server().image("x.bin"),
        server=Server(),
        journal=Journal(),
        policy=StagePolicy(**settings),
        to_null=to_null,
        server_address=server_address,
        emit=lambda event: None,
        interrupted=lambda: False,
        started_s=0.0,
    )


def checked(task, given):
    """Return the run of a device's run, taken to where its check is done."""
    run = DeviceRun(task, given)
    run.update(
        check=SimpleNamespace(rtt_s=0.1, server_address="192.0.2.10", file_system="flash:", overwrites_silently=False)
    )
    return run


def order(given, target="flash:x.bin"):
    return CopyOrder(image=given.image, target=target)


class Clock:
    """Goes on only while somebody sleeps."""

    def __init__(self, monkeypatch, *modules) -> None:
        self.now_s, self.slept = 0.0, []
        stand_in = SimpleNamespace(monotonic=lambda: self.now_s, sleep=self.sleep)
        for module in modules:
            monkeypatch.setattr(module, "time", stand_in)

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now_s += seconds


class Flash:
    """Tells what is at the target: a size, None, or an error, by the clock."""

    def __init__(self, monkeypatch, at, *modules) -> None:
        self.at = at
        for module in modules:
            monkeypatch.setattr(module, "file_at", lambda session, path: self.look(path))

    def look(self, path):
        found = self.at()
        if isinstance(found, Exception):
            raise found
        return FlashFile(path=path, size_bytes=found)


def account(state=TransferState.DELIVERED, acked=IMAGE_BYTES, record=None):
    return SimpleNamespace(record=record, state=state, bytes_acked=acked, size_bytes=IMAGE_BYTES, last_error="")


class EndingServer(Server):
    """Ends a transfer when its ticket is revoked."""

    def revoke(self, ticket_id):
        super().revoke(ticket_id)
        self.account = account(TransferState.FAILED, self.account.bytes_acked, self.account.record)
