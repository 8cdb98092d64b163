"""How IOS refuses a line."""

from __future__ import annotations

from flashferry.lab.standin.grammar import Ambiguous, Incomplete, Invalid

AUTHORIZATION_FAILED = "Command authorization failed.\n\n"
"""What AAA command authorization answers, outside and inside configuration mode (captures)."""


def refusal(found: Invalid | Incomplete | Ambiguous, command: str, *, column: int) -> str:
    """Return the error as IOS prints it; ``column`` is where the command begins in the echoed line."""
    if isinstance(found, Invalid):
        return f"{' ' * (column + found.offset)}^\n% Invalid input detected at '^' marker.\n\n"
    if isinstance(found, Incomplete):
        return "% Incomplete command.\n\n"
    return f'% Ambiguous command:  "{command.strip()}"\n'
