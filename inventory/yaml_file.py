"""Read a YAML file that holds a mapping, with errors that name the file and, where the parser knows it, the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from inventory.errors import ConfigInvalid


def read_mapping(path: Path) -> dict[str, Any]:
    """Return a YAML file's mapping; an absent or empty file is an empty one.

    Raises:
        ConfigInvalid: It cannot be read, is not YAML, or holds something else.
    """
    if not path.exists():
        return {}
    try:
        content = YAML(typ="safe").load(path)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        line = f" line {mark.line + 1}" if mark else ""
        raise ConfigInvalid(f"{path}{line}: not valid YAML: {error.problem or error}") from None
    except (OSError, YAMLError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"{path}: cannot be read: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigInvalid(f"{path}: expected a mapping, found {type(content).__name__}")
    return content
