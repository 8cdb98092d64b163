"""What the configuration says about a line and a privilege level."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from flashferry.lab.standin.grammar import Matched, match

if TYPE_CHECKING:
    from flashferry.lab.standin.configuration import Configuration
    from flashferry.lab.standin.grammar import Node

DEFAULT_EXEC_TIMEOUT_S = 600.0
"""`exec-timeout 10 0`, the documented default of a line."""


def allows(configuration: Configuration, level: int, command: Matched[Any], user_commands: Node[Any]) -> bool:
    """Return whether a level between 1 and 15 may use a command.

    It may use those of user mode and those that a `privilege exec level N COMMAND` line lowers to it.
    """
    if isinstance(match(user_commands, command.text), Matched):
        return True
    for line in configuration.lines():
        found = re.fullmatch(r"privilege exec (?:all )?level (\d+) (.+)", line.text)
        if found and int(found[1]) <= level and (command.text + " ").startswith(found[2] + " "):
            return True
    return False


def is_denied(command: str, denied: tuple[str, ...]) -> bool:
    """Return whether AAA refuses a command that is written out: it is one of the denied, or begins with its words."""
    return any(f"{command} ".startswith(f"{each} ") for each in denied)


def exec_timeout_s(configuration: Configuration, vty: int) -> float | None:
    """Return after how many seconds without a key a vty closes; None for never."""
    for line in configuration.lines():
        found = re.fullmatch(r"line vty (\d+)(?: (\d+))?", line.text)
        if found and int(found[1]) <= vty <= int(found[2] or found[1]):
            texts = [c.text.split() for c in line.children if c.text.startswith("exec-timeout ")]
            if not texts:
                break
            seconds = 60.0 * int(texts[0][1]) + (float(texts[0][2]) if len(texts[0]) > 2 else 0)
            return seconds or None
    return DEFAULT_EXEC_TIMEOUT_S
