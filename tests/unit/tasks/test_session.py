"""Hanging up: it comes behind every other failure, so it must not fail itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tasks import session
from tasks.session import DeviceSession
from tasks.transcript import Recent, Recorder


class BrokenLine:
    """Stands for netmiko's connection: its channel cannot say goodbye, because the peer has gone a moment ago."""

    base_prompt = "r1"
    remote_conn: object | None = "channel"
    is_transport_closed = False

    def paramiko_cleanup(self) -> None:
        if self.remote_conn is not None:
            raise EOFError
        self.is_transport_closed = True


def test_a_line_that_breaks_while_we_hang_up(monkeypatch: pytest.MonkeyPatch):
    """It would end the attempts to restore, or hide why we hang up; the transport behind it is closed all the same."""
    line = BrokenLine()
    driver = SimpleNamespace(device=line)
    monkeypatch.setattr(session, "open_driver", lambda _: driver)
    login: Any = SimpleNamespace(name="r1", address="", port=22, username="", recorder=Recorder(Recent()))
    opened = DeviceSession(login)
    opened.abandon()
    opened.close()
    assert line.is_transport_closed
    assert driver.device is None
