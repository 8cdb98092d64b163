"""The parent of a serving process that somebody has taken over: it ends the process, and does nothing that it says."""

import logging
import os
import pickle
import socket
import struct
import threading
from pathlib import Path

import pytest

from flashferry.fileserver import EventKind, FileServer, ListenerSettings, ServerGone, ServerSettings, TicketRequest
from flashferry.fileserver import child as module
from tests.patience import PATIENCE_S

_STAYS = b"stays"


class _Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, int]]:
        return os.mkdir, (str(self.path), 0o700)


def _framed(body: bytes) -> bytes:
    return struct.pack("!i", len(body)) + body


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setattr(module, "STOP_S", 0.5)


@pytest.mark.parametrize(
    "said",
    ["pickle", _framed(b"\x81\xa4type\xa9os.system"), _framed(b""), struct.pack("!i", 1 << 30), _STAYS],
    ids=["pickle", "no message of ours", "nothing", "more than any memory", "an end without an end"],
)
def test_what_is_no_message_ends_the_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, said: bytes | str
) -> None:
    """Nothing of it is carried out, the process is killed, and who waits for a ticket is told."""
    (tmp_path / "a.bin").write_bytes(b"image")
    made = tmp_path / "made"
    data = _framed(pickle.dumps(_Touch(made))) if isinstance(said, str) else said
    listener = ListenerSettings(protocol="taken_over:TakenOver", listen_address="127.0.0.1")
    gone = threading.Event()
    caplog.set_level(logging.CRITICAL, logger="flashferry.ftpserver")
    with FileServer(ServerSettings(image_paths=(tmp_path / "a.bin",), listeners=(listener,))) as server:
        server.events(lambda event: gone.set() if event.kind is EventKind.GONE else None)
        ticket = server.issue_ticket(TicketRequest(image_name="a.bin"))
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as intruder:
            intruder.sendall(data)
        assert gone.wait(PATIENCE_S)
        assert not server.ended_in_order
        with pytest.raises(ServerGone, match="SIGKILL"):
            server.wait(ticket.ticket_id, PATIENCE_S)
    assert not made.exists()
