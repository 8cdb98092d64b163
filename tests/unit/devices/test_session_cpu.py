"""How busy a device is, in its own figures."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.devices.errors import DeviceRefused, DeviceUnreachable
from flashferry.devices.platforms.ios import IOS_XE
from flashferry.devices.session import cpu_use, cpu_use_in

HEAD = "CPU utilization for five seconds: 34%/12%; one minute: 20%; five minutes: 8%"


def test_both_figures_are_read():
    """The head of the list, wherever it stands in the answer."""
    found = cpu_use_in(f"{HEAD}\r\n PID Runtime(ms) ...")
    assert (found.five_seconds, found.one_minute) == (34, 20)
    assert str(found) == "34 % in five seconds, 20 % in a minute"


@pytest.mark.parametrize("text", ["", "% Invalid input detected", "CPU utilization: n/a"])
def test_what_is_not_told_is_not_read(text):
    """None, and never a figure."""
    assert cpu_use_in(text) is None


def session(answer):
    def ask(command):
        assert command == IOS_XE.commands.cpu
        if isinstance(answer, Exception):
            raise answer
        return answer

    return SimpleNamespace(platform=IOS_XE, ask=ask)


def test_a_device_that_refuses_the_command_is_not_read():
    """It ends no speed test; a session that is lost does."""
    assert cpu_use(session(HEAD)).one_minute == 20
    assert cpu_use(session(DeviceRefused("no"))) is None
    with pytest.raises(DeviceUnreachable):
        cpu_use(session(DeviceUnreachable("lost")))
