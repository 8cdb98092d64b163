"""What people type is answered as IOS answers it: counted over two tables, `typed.SHOW` and `typed.EVERYDAY`."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.lab.standin.typed import EVERYDAY, SHOW

REFUSED_AT_MOST = {"csr1000v-16.11": 11, "c9300-17.6": 3, "iosv-15.8": 18, "isr4321-16.6": 12}
"""Switches have no `show interfaces GigabitEthernet1`, routers no `show vlan brief`: each platform refuses some."""


@pytest.mark.parametrize("platform", REFUSED_AT_MOST)
def test_show_commands_are_answered(make_console: Callable[..., Any], platform: str) -> None:
    """Of 148 as few are refused as the hardware lacks, and each invalid word has its caret."""
    assert len(SHOW) == len(set(SHOW)) == 148
    console = make_console(platform)
    refused = []
    for command in SHOW:
        answer = console.show(command)
        if "% Invalid" in answer or "% Incomplete" in answer or "% Ambiguous" in answer:
            refused.append(command)
            assert "% Invalid" not in answer or "^\n% Invalid input detected at '^' marker." in answer
    assert len(refused) <= REFUSED_AT_MOST[platform], refused


def test_there_are_106_everyday_things() -> None:
    """Each has a name of its own."""
    assert len({name for name, _, _ in EVERYDAY}) == len(EVERYDAY) == 106


@pytest.mark.parametrize(("name", "typed", "answer"), EVERYDAY, ids=[name for name, _, _ in EVERYDAY])
def test_everyday_things_go_as_on_ios(
    make_console: Callable[..., Any], name: str, typed: tuple[str, ...], answer: str
) -> None:
    """The screen has what IOS shows."""
    console = make_console(address="127.0.0.2") if "127.0.0.1" in " ".join(typed) else make_console()
    assert re.search(answer, console.type(*typed)), name
