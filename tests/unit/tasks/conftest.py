"""A device that answers from a table, for what decides on answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flashferry.devices.dialogue import Dialogue
from flashferry.devices.errors import DeviceRefused
from flashferry.devices.platforms.ios import IOS_XE
from flashferry.devices.session import DeviceSession, Facts
from templates.rows import Refusal, first
from templates.version import SoftwareVersion, parse_version
from tests.patience import PATIENCE_S

PROMPT = "r1#"


class TableDevice:
    """Stands for a DeviceSession: answers by command, notes what was asked, refuses what it does not know."""

    name = "r1"
    privileged = True
    alive = True
    rtt_s = 0.1
    local_address = "192.0.2.10"
    width_refusal: str | None = None
    prompt_pattern = r"(?m)^r1#\s*$"
    platform = IOS_XE
    check_privileged = DeviceSession.check_privileged

    def __init__(self, answers: dict[str, str]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self._version: str | None = None

    def ask(self, command: str, *, limit_s: float = PATIENCE_S) -> str:
        assert limit_s > 0
        output = self._answer(command)
        if (refusal := first(Refusal, output)) is not None:
            raise DeviceRefused(f"'{command}': {refusal.text}", host=self.name)
        return output

    def converse(self, command: str, dialogue: Dialogue, on_wait: Callable[[], None]) -> None:
        dialogue.take(f"{command}\r\n")
        assert not dialogue.is_over
        on_wait()
        dialogue.take(f"{self._answer(command)}\r\n{PROMPT}")
        assert dialogue.due is None
        assert dialogue.is_over

    def show_version(self) -> str:
        if self._version is None:
            self._version = self.ask("show version")
        return self._version

    @property
    def version(self) -> SoftwareVersion:
        return parse_version(self.show_version())

    def show_privilege(self) -> str:
        return self.ask("show privilege")

    def running_config(self) -> str:
        return self.ask("show running-config")

    def startup_config(self) -> str:
        return self.ask("show startup-config")

    def facts(self) -> Facts:
        return Facts(hostname="r1", vendor="Cisco", model="C8000V", os_version="", serial_number="9X")

    def _answer(self, command: str) -> str:
        self.asked.append(command)
        found = next((text for start, text in self.answers.items() if command.startswith(start)), None)
        return found if found is not None else "      ^\n% Invalid input detected at '^' marker.\n"


@pytest.fixture
def table_device() -> Callable[[dict[str, str]], TableDevice]:
    """Make a device from its answers, by the beginning of the command; the first that fits counts."""
    return TableDevice
