"""Hanging up: it comes behind every other failure, so it must not fail itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flashferry.devices import session
from flashferry.devices.netmiko_driver import ios_driver
from flashferry.devices.platforms import recognize
from flashferry.devices.platforms.platform import Platform
from flashferry.devices.session import DeviceSession
from flashferry.devices.transcript import Recent, Recorder


class BrokenLine:
    """Stands for netmiko's connection: its channel cannot say goodbye, because the peer has gone a moment ago."""

    prompt = "r1#"
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


VERSION = "{} (ARM) processor (revision V00) with 634859K/6147K bytes of memory.\nProcessor board ID 9X\n"


@pytest.mark.parametrize(
    ("shown", "model"),
    [
        (VERSION.format("cisco IE-3105-18T2C"), "IE-3105-18T2C"),
        (VERSION.format("Allen-Bradley 1783-CMS20DN"), "1783-CMS20DN"),
        ("Processor board ID 9X\n", ""),
    ],
)
def test_a_model_that_napalm_does_not_know(monkeypatch: pytest.MonkeyPatch, shown: str, model: str):
    """It looks for Cisco's name and writes `Unknown` elsewhere, which nobody may take for a model."""
    driver = object.__new__(ios_driver())
    driver.known_answers = {"show version": shown}
    driver.device = SimpleNamespace(prompt="r1#")
    monkeypatch.setattr(driver, "_send_command", lambda command: driver.known_answers[command])
    monkeypatch.setattr(session, "open_driver", lambda _: driver)
    login: Any = SimpleNamespace(name="r1", address="", port=22, username="", recorder=Recorder(Recent()))
    assert DeviceSession(login).facts().model == model
    assert DeviceSession(login).facts().serial_number == "9X"


def test_a_platform_is_recognized_once_per_session(monkeypatch: pytest.MonkeyPatch):
    """Every step asks for it, some of them for each command; what the device runs does not change in a session."""
    asked: list[str] = []

    def counted(version: str) -> Platform:
        asked.append(version)
        return recognize(version)

    shown = VERSION.format("cisco ISR4331")
    driver = SimpleNamespace(device=SimpleNamespace(prompt="r1#"), known_answers={"show version": shown})
    monkeypatch.setattr(session, "open_driver", lambda _: driver)
    monkeypatch.setattr(session, "recognize", counted)
    login: Any = SimpleNamespace(name="r1", address="", port=22, username="", recorder=Recorder(Recent()))
    opened = DeviceSession(login)
    assert opened.platform is opened.platform
    assert asked == [shown]
