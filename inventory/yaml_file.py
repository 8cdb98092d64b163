"""Read a YAML file that holds a mapping, with errors that name the file and, where the parser knows it, the line.

The parser's own words quote what it stumbled over, and in an inventory that may be a password: one that begins with `*`
is an alias to YAML, one with `!` a tag, and of a key that stands twice it prints both values. So its errors are told in
words of ours, and what it warns of, with the lines in question, is not told at all.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode
from ruamel.yaml.reader import ReaderError

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import reading
from flashferry.core.outside import keep_secrets_in

_DUPLICATE = re.compile(r'found duplicate key "([\w.-]+)"')
_IN_QUOTES = "put it in quotes"
_SAID = (
    ("duplicate key", "a key stands twice"),
    ("undefined alias", f"a value that begins with * is an alias, and nothing of that name is defined; {_IN_QUOTES}"),
    ("tag", f"a value that begins with ! is a tag, which is not known here; {_IN_QUOTES}"),
    ("character '\\t'", "a tab stands where only blanks may; indent with blanks"),
    ("cannot start any token", f"a value begins with a sign that YAML keeps for itself, such as @ or %; {_IN_QUOTES}"),
    (
        "mapping values are not",
        f"there is one colon too many, or a line is indented wrongly; a value with ': ' in it: {_IN_QUOTES}",
    ),
    ("escape", "a backslash in double quotes begins something that YAML does not know; use single quotes"),
    ("end of stream", "a quote is not closed"),
    ("expected ',' or", "a bracket or brace is not closed, or a comma is missing"),
    ("indentation indicators", f"a value that begins with | or > stands for a text below it; {_IN_QUOTES}"),
    ("another document", "expected one document, found '---' and another one behind it"),
    ("unhashable", f"a list or a mapping stands in place of a key; a value that begins with {{ or [: {_IN_QUOTES}"),
    ("timestamp", f"a value looks like a date that there is not; {_IN_QUOTES}"),
)
"""Parts of the parser's sentences, and what is said instead."""


def read_mapping(path: Path) -> dict[str, Any]:
    """Return a YAML file's mapping; an absent or empty file is an empty one. Its secrets are masked from then on.

    Raises:
        ConfigInvalid: It cannot be read, is not YAML, or holds something else.
    """
    try:
        # The parser warns with the lines that it warns of.
        with reading(path) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content = YAML(typ="safe").load(file)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigInvalid(
            f"{path}: cannot be read: {error.strerror}", hint="Check the file's rights, and that it is a plain file"
        ) from None
    except MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigInvalid(
            f"{path}{line}: not valid YAML: {_said(error)}",
            hint="Correct that place; an editor that knows YAML shows it",
        ) from None
    except (ReaderError, UnicodeError):
        raise ConfigInvalid(
            f"{path}: expected text in UTF-8, found something else or a control character",
            hint="Save it as UTF-8 with an editor for plain text",
        ) from None
    except RecursionError:
        raise ConfigInvalid(
            f"{path}: not valid YAML: brackets stand in brackets, too many of them", hint="Write one key a line instead"
        ) from None
    except Exception:  # noqa: BLE001 -- what a value is taken for and cannot be: each kind has errors of its own
        raise ConfigInvalid(
            f"{path}: not valid YAML: a value cannot be read as the number, date or key that it looks like",
            hint="Put it in quotes",
        ) from None
    if content is None:
        return {}
    keep_secrets_in(content)
    if not isinstance(content, dict):
        raise ConfigInvalid(
            f"{path}: expected a mapping, found {type(content).__name__}",
            hint="Write 'key: value' lines, with a blank behind the colon",
        )
    return content


def line_of(path: Path, *keys: object) -> str:
    """Return where a key stands, or what it stands below, for behind a sentence: ` (line 7)`; else nothing.

    The file is parsed once more, so it is for complaints only.

    Args:
        path: The file.
        keys: The key and those that it stands below, the outermost first; a list's entries by their number, from 0.
    """
    try:
        with reading(path) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            node: Node | None = YAML(typ="safe").compose(file)
    except Exception:  # noqa: BLE001 -- a line is a help; without it the complaint stands all the same
        return ""
    line = ""
    for key in keys:
        found = _entry(node, key)
        if found is None:
            break
        name, node = found
        line = f" (line {name.start_mark.line + 1})"
    return line


def _entry(node: Node | None, key: object) -> tuple[Node, Node] | None:
    """Return key and value of a mapping's entry; of a list's entry the value alone, as both."""
    if isinstance(node, SequenceNode) and isinstance(key, int) and 0 <= key < len(node.value):
        return node.value[key], node.value[key]
    if not isinstance(node, MappingNode):
        return None
    return next(((name, value) for name, value in node.value if name.value == str(key)), None)


def _said(error: MarkedYAMLError) -> str:
    """Return what is wrong in words of ours."""
    problem = str(error.problem)
    mark = error.problem_mark
    if (twice := _DUPLICATE.match(problem)) and mark is not None and (mark.column == 0 or _is_plain_word(twice[1])):
        return f"key '{twice[1]}' stands twice"
    return next((said for part, said in _SAID if part in problem), "check its indentation, quotes and brackets")


def _is_plain_word(key: str) -> bool:
    """Return whether a key is one that every inventory has."""
    return key in {"hostname", "port", "username", "password", "platform", "groups", "data", "connection_options"}
