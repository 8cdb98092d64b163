"""No step spells a command or a configuration line: it asks the platform of its device."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import tasks
from flashferry.core.values import field_names
from flashferry.devices.platforms import PLATFORMS
from flashferry.devices.platforms.platform import Commands
from flashferry.transports import TRANSPORTS

TASKS = Path(tasks.__file__).parent

NAMES = field_names(Commands)
_FIXED = {getattr(platform.commands, name) for platform in PLATFORMS for name in NAMES if name != "save"}
"""All but what people are told in many a hint to give themselves."""
_WITH_A_PATH = {
    ask("x").removesuffix("x")
    for platform in PLATFORMS
    for ask in (platform.list_command, platform.read_command, platform.delete_command, platform.signature_command)
}
_SETTINGS = {
    *(platform.tcp.family for platform in PLATFORMS),
    *(setting.command for transport in TRANSPORTS for setting in transport.settings),
    *(one.setting.command for platform in PLATFORMS for one in platform.ssh.windows),
}
_SPELLED = re.compile("|".join(rf"(?:^|['\"]){re.escape(one)}" for one in sorted(_FIXED | _WITH_A_PATH | _SETTINGS)))

KEPT = {(name, "show ip interface brief") for name in ("fetch_check.py", "service_state.py")}
"""The name by which ntc-templates knows a table's reading."""


def spelled(source: str) -> list[str]:
    """Return the texts of a module, docstrings aside, that begin with a command or quote one."""
    tree = ast.parse(source)
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [str(node.value) for node in texts if id(node) not in told and _SPELLED.search(str(node.value))]


@pytest.mark.parametrize("path", sorted(TASKS.rglob("*.py")), ids=lambda path: path.name)
def test_no_step_spells_a_command(path):
    """Adding a platform touches its own file."""
    found = [text for text in spelled(path.read_text(encoding="utf-8")) if (path.name, text) not in KEPT]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        'session.ask(f"dir {path}")',
        'line = "ip tcp window-size 1"',
        'ask("show privilege")',
        "raise X(f\"'verify {x}'\")",
    ],
)
def test_the_wall_stands(source):
    """The look finds what it is there for."""
    assert spelled(source)
