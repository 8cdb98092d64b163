"""A product that sends a wrong line within a section finds out: the stand-in's caret, and nothing stored."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flashferry.devices.host_keys import HostKeys
from flashferry.devices.login import Login
from flashferry.devices.session import DeviceSession
from flashferry.lab.world import World, in_core
from inventory.host_key_rules import HostKeyPolicy
from tasks import dead_man
from tasks.applet import applet_line, without_applet
from tasks.tcp_config import Change

pytestmark = pytest.mark.lab

NAME = "FLASHFERRY-3F2A"
CHANGE = Change(keyword=NAME, before=None, ours=applet_line(NAME))
UNDO = ("no ip tcp window-size",)


@pytest.fixture
def session(world: World, device: Any, tmp_path: Path) -> Iterator[DeviceSession]:
    keys = HostKeys(path=tmp_path / "known", policy=HostKeyPolicy.ACCEPT_NEW, device="r1")
    login = Login(
        name="r1", address=device.address, port=device.port, username=device.username, password=device.password,
        enable_secret=device.enable_secret, host_keys=keys,
    )  # fmt: skip
    with in_core(world):
        opened = DeviceSession(login)
    yield opened
    opened.close()


def _applets(session: DeviceSession) -> list[str]:
    return [line for line in session.running_config().splitlines() if "event manager" in line or "action " in line]


def test_the_products_own_lines_are_taken(session: DeviceSession) -> None:
    """As they are the applet is armed, and goes again."""
    assert dead_man.arm(session, CHANGE, undo=UNDO, countdown_s=5400).reason == ""
    assert len(_applets(session)) > 1
    session.configure((without_applet(CHANGE.ours),))
    assert _applets(session) == []


@pytest.mark.parametrize(
    ("right", "wrong", "word"),
    [
        ("event timer countdown", "event timer count-down", "-down"),
        ("maxrun", "maxruns", "s 60"),
        ('cli command "enable"', 'cli comand "enable"', "and"),
        ("syslog priority", "sislog priority", "islog"),
        ("event timer countdown time 5400", "ip address 192.0.2.1 255.255.255.0", "ddress"),
    ],
)
def test_a_mutated_line_of_a_section_is_refused_under_its_column(
    monkeypatch: pytest.MonkeyPatch, session: DeviceSession, right: str, wrong: str, word: str
) -> None:
    """The run goes on without an applet and says which line; none of it is left, and the caret is where IOS has it."""
    body = dead_man.applet_body

    def mutated(*args: Any, **more: Any) -> tuple[str, ...]:
        return tuple(line.replace(right, wrong) for line in body(*args, **more))

    monkeypatch.setattr(dead_man, "applet_body", mutated)
    report = dead_man.arm(session, CHANGE, undo=UNDO, countdown_s=5400)
    assert not report.is_armed
    assert wrong in report.reason
    assert "does not take all of the applet" in report.reason
    assert _applets(session) == []
    line = next(each for each in mutated(NAME, UNDO, 5400, configure="configure terminal") if wrong in each)
    shown = session.configure((CHANGE.ours, line, without_applet(CHANGE.ours))).replace("\r", "")
    found = re.search(rf"^(.*\(config-applet\)#)\n{re.escape(line)}\n( *)\^\n% Invalid input", shown, re.MULTILINE)
    assert found, shown
    assert line[len(found[2]) - len(found[1]) :].startswith(word)
