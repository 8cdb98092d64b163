"""The templates of ntc-templates, each read by itself.

Its own reader finds a template by an index of all platforms and commands, a thousand expressions, compiled first:
a third of a second, at the first device of a run. We know which template we want.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from io import StringIO

from textfsm import TextFSM, TextFSMError


def ntc_rows(command: str, output: str) -> tuple[dict[str, str | list[str]], ...]:
    """Return what the template of a command of `cisco_ios` finds in an output; nothing where it does not fit it."""
    machine = TextFSM(StringIO(_source(command)))
    names = [name.lower() for name in machine.header]
    try:
        found = machine.ParseText(output)
    except TextFSMError:
        return ()
    return tuple(dict(zip(names, row, strict=True)) for row in found)


@cache
def _source(command: str) -> str:
    name = f"cisco_ios_{command.replace(' ', '_')}.textfsm"
    return (files("ntc_templates") / "templates" / name).read_text(encoding="utf-8")
