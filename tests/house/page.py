"""docs/architecture.md: rooms from what the packages say of themselves, and where to go for what."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.house.modules import LAB, ROOT, Module, rooms

PAGE = ROOT / "docs" / "architecture.md"
GUIDE = Path(__file__).with_name("guide.md")
"""What no file says of itself: the way of one image, and where to go for what."""

COMMAND = "python -m tests.house --update-docs"

_HEAD = f"""\
# The house

Made by `{COMMAND}` from the packages' own docstrings, the contract for imports in `pyproject.toml` and the guide in
`tests/house/guide.md`; a test fails where it is stale, or names a file that is not there.

Four folders at the top are what the product is known by: `inventory/ tasks/ ftpserver/ templates/`. Everything else is
below `flashferry/`. Imports run downwards only: each room below may be used by those above it, never the other way
round; `make check` holds it.
"""


def page(modules: Mapping[str, Module]) -> str:
    """Return the whole page."""
    parts = (_HEAD, *_rooms(modules), GUIDE.read_text(encoding="utf-8"))
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def named_files(text: str) -> tuple[str, ...]:
    """Return the files that a text names in backticks: those with a slash and an ending."""
    return tuple(re.findall(r"`([\w./-]+/[\w.-]+\.(?:py|md|toml|textfsm|html|css|js))`", text))


def _rooms(modules: Mapping[str, Module]) -> Iterator[str]:
    yield "## The rooms, from the top to the bottom\n"
    for room in rooms():
        yield f"### `{_folder(room, modules)}`\n\n{_paragraphs(modules[room])}\n"
        inside = [one for one in modules.values() if one.room == room and not one.is_package]
        if inside:
            yield "\n".join(_line(one, room) for one in sorted(inside, key=lambda one: str(one.path)))
    yield (
        f"### `{LAB.replace('.', '/')}/`\n\nStand-in devices, the WAN link, worlds made of both, and experiments. It "
        "imports nothing of what it judges; experiments alone drive the tool. See [the lab](lab.md)."
    )


def _folder(room: str, modules: Mapping[str, Module]) -> str:
    return room.replace(".", "/") + ("/" if modules[room].is_package else ".py")


def _paragraphs(module: Module) -> str:
    return module.docstring.replace("``", "`")


def _line(module: Module, room: str) -> str:
    return f"- `{module.name.removeprefix(room + '.')}`: {module.summary}"
