"""Paging: ``--More--`` after each screen, as IOS does until `terminal length 0`.

Facts: the mark is `` --More-- `` with a blank on each side and without a line end; space goes on by a screen, Enter
by a line, any other key ends the output; the mark is rubbed out by backspaces and blanks before the next line
(Cisco IOS Configuration Fundamentals, "Customizing the display"; unicon and netmiko look for ``--More--``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashferry.lab.standin.terminal import Terminal

MARK = " --More-- "
_ERASE_MARK = "\b" * 9 + " " * 8 + "\b" * 9
"""Back to the second column, over the mark, and back to the first: as IOS sends it (public session logs)."""


async def page(terminal: Terminal, text: str, rows: int) -> None:
    """Write a text, a screen of ``rows`` lines at a time; 0 rows means without pauses."""
    lines = text.splitlines(keepends=True)
    if rows <= 0 or len(lines) < rows:
        terminal.write(text)
        return
    due, at = rows - 1, 0
    while True:
        terminal.write("".join(lines[at : at + due]))
        at += due
        if at >= len(lines):
            return
        terminal.write(MARK)
        key = await terminal.key()
        terminal.write(_ERASE_MARK)
        if key not in b" \r\n":
            return
        due = rows - 1 if key == 0x20 else 1
