"""A configuration in TOML, read for `flashferry.model.file_keys`: what it holds, and on which line a key stands."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from flashferry.core.errors import ConfigInvalid
from flashferry.model.file_keys import Form

_TABLE = re.compile(r"\s*\[\s*([^\]]+?)\s*\]\s*(#.*)?")


def toml_of(path: Path, *, called: str, hint: str) -> dict[str, Any]:
    """Return what a file of TOML holds.

    Args:
        path: The file.
        called: What was expected, for the complaint that there is no file.
        hint: How one comes by such a file.

    Raises:
        ConfigInvalid: It cannot be read, or is none.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ConfigInvalid(f"{path}: expected {called}, found no file", hint=hint) from None
    except OSError as error:
        raise ConfigInvalid(
            f"{path}: cannot be read: {error.strerror}", hint="Check the file's rights, and that it is a plain file"
        ) from None
    return parsed_toml(content, where=str(path))


def parsed_toml(content: bytes, *, where: str, has_secrets: bool = False) -> dict[str, Any]:
    """Return what the bytes of such a file hold.

    Args:
        content: The bytes.
        where: The file, as complaints name it.
        has_secrets: Whether a syntax error names only its place: the line may hold a password.

    Raises:
        ConfigInvalid: It is no text, or none of TOML.
    """
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError:
        raise ConfigInvalid(
            f"{where}: expected text in UTF-8, found something else", hint="Save it as UTF-8 with an editor"
        ) from None
    except tomllib.TOMLDecodeError as error:
        what = f"found something else {str(error).rpartition('(')[2].rstrip(')')}" if has_secrets else f"found: {error}"
        raise ConfigInvalid(
            f"{where}: not valid TOML: expected keys and tables, {what}",
            hint="Correct that place; texts stand in quotes, lists in brackets",
        ) from None


def toml_form(manual: str) -> Form:
    """Return how such a file is written, for what is said where it is not.

    Args:
        manual: The document that has the table of its keys.
    """
    return Form(
        manual=manual,
        line_of=_line_of,
        list_hint='Write it in brackets: ["one", "two"]',
        mapping_hint="Write it as a table: its name in brackets on a line of its own, its keys below",
    )


def _line_of(path: Path, *keys: str | int) -> str:
    """Return ` (line N)` for where a key is given, empty where that is not found."""
    names = [str(key) for key in keys if isinstance(key, str)]
    lines = path.read_text(encoding="utf-8").splitlines()
    table: list[str] = []
    for count, line in enumerate(lines, start=1):
        if found := _TABLE.fullmatch(line):
            table = [part.strip().strip("\"'") for part in found[1].split(".")]
            if table == names:
                return f" (line {count})"
            continue
        key = line.partition("=")[0].strip().strip("\"'")
        if key and [*table, key] == names:
            return f" (line {count})"
    return _line_of(path, *names[:-1]) if len(names) > 1 else ""
