"""Read a YAML file with a mapping; errors name the file and, if the parser reports it, the line.

ruamel.yaml is the reference. It takes 0.5 ms per device, so libyaml's event parser, 25 times as fast, is tried first;
it is used only for files that both read alike.

A parser's message is never shown, because it quotes the file, which may have a password there: one that starts with `*`
is an alias in YAML, one with `!` a tag, and for a duplicate key ruamel prints both values.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.reader import ReaderError

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import reading
from flashferry.core.redaction import keep_secrets_in
from flashferry.core.value_description import described

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
    ("another document", "expected one document, found '---' and another one after it"),
    ("unhashable", f"a list or a mapping stands in place of a key; a value that begins with {{ or [: {_IN_QUOTES}"),
    ("timestamp", f"a value looks like a date that there is not; {_IN_QUOTES}"),
)
"""Parts of the parser's messages, and our message instead."""


def read_mapping(path: Path) -> dict[str, Any]:
    """Return a YAML file's mapping, empty if the file is absent or empty, and register its secrets to be masked.

    Raises:
        ConfigInvalid: It cannot be read, is not YAML, or is no mapping.
    """
    try:
        with reading(path) as file:
            content = _loaded(file.read())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigInvalid(
            f"{path}: cannot be read: {error.strerror}",
            hint="Check the file's permissions, and that it is a plain file",
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
            f"{path}: not valid YAML: brackets are nested too deep", hint="Write one key per line instead"
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
            f"{path}: expected a mapping, found {described(content)}",
            hint="Write 'key: value' lines, with a blank after the colon",
        )
    return content


def _loaded(source: bytes) -> Any:
    """Parse a document. Errors are those of ruamel.yaml, whose warnings quote lines and are suppressed."""
    # A document that libyaml rejects may be valid, and error messages are made from ruamel's error.
    with suppress(Exception):
        return _from_events(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return YAML(typ="safe").load(source)


class _Unusual(Exception):
    """A document has something that only ruamel.yaml may parse."""


_MOST_DEPTH = 30
_UNUSUAL = re.compile(
    "[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
    r"|\\|^[%?]|^---(?!\n|$)|^\.\.\.|[?,:\[{ -]\?",
    re.MULTILINE,
)
"""Constructs in which YAML 1.1, as libyaml reads it, and 1.2 may differ: line breaks, tabs, escapes, directives, block
text, explicit keys."""

_NO_KEY: Any = object()


def _from_events(source: bytes) -> Any:
    """Parse a document by libyaml's events, which needs little memory.

    Raises:
        Exception: It has something unusual or wrong, or this PyYAML was built without libyaml.
    """
    text = source.decode()
    if _UNUSUAL.search(text):
        raise _Unusual
    parser = yaml.cyaml.CParser(text)
    plain = _plain_values()
    above: list[tuple[Any, Any]] = []
    root: Any = _NO_KEY
    holder = key = None
    while (event := parser.get_event()) is not None:
        kind = type(event)
        if kind is yaml.ScalarEvent:
            if event.anchor is not None or event.tag is not None or event.style in ("|", ">"):
                raise _Unusual
            value = event.value if event.style else plain(event.value)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            if event.anchor is not None or event.tag is not None or len(above) > _MOST_DEPTH:
                raise _Unusual
            value = {} if kind is yaml.MappingStartEvent else []
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            holder, key = above.pop()
            continue
        elif kind is yaml.AliasEvent or (kind is yaml.DocumentStartEvent and root is not _NO_KEY):
            raise _Unusual  # an alias, or a second document
        else:
            continue
        if holder is None:
            root = value
        elif type(holder) is list:
            holder.append(value)
        elif key is _NO_KEY:
            if value in holder:  # a duplicate, or a list in place of a key
                raise _Unusual
            key = value
            continue
        else:
            holder[key] = value
            key = _NO_KEY
        if kind is not yaml.ScalarEvent:
            above.append((holder, key))
            holder, key = value, _NO_KEY
    return None if root is _NO_KEY else root


_SURE_TEXT = re.compile(r"(?=[A-Za-z/])(?![Tt]rue$|TRUE$|[Ff]alse$|FALSE$|[Nn]ull$|NULL$)[\w./:@-]+|\d+\.\d+\.\d+\.\d+")


def _plain_values() -> Callable[[str], Any]:
    """Return a function that converts an unquoted scalar as ruamel.yaml does."""
    safe = YAML(typ="safe")
    resolve, construct = safe.resolver.resolve, safe.constructor.construct_document

    @lru_cache(maxsize=4096)
    def other(text: str) -> Any:
        tag = resolve(ScalarNode, text, (True, False))
        if str(tag).endswith((":merge", ":value")):
            raise _Unusual
        return construct(ScalarNode(tag, text))

    return lambda text: text if _SURE_TEXT.fullmatch(text) else other(text)


def line_of(path: Path, *keys: object) -> str:
    """Return the line of a key, or of its nearest parent that exists, as ` (line 7)`; empty if unknown.

    For error messages only, because it parses the file again.

    Args:
        path: The file.
        keys: Path of keys to it, the outermost first; entries of a list by their index, from 0.
    """
    try:
        with reading(path) as file:
            node = _composed(file.read())
    except Exception:  # noqa: BLE001 -- the error message is complete without a line
        return ""
    line = ""
    for key in keys:
        found = _entry(node, key)
        if found is None:
            break
        name, node = found
        line = f" (line {name.start_mark.line + 1})"
    return line


def _composed(source: bytes) -> Any:
    """Return the node tree of a document, which is alike for both parsers."""
    with suppress(Exception):
        return yaml.compose(source, Loader=yaml.CBaseLoader)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return YAML(typ="safe").compose(source)


def _entry(node: Any, key: object) -> tuple[Any, Any] | None:
    """Return key and value node of a mapping's entry; for a list the entry as both; None if there is none."""
    if node is None or node.id == "scalar":
        return None
    if node.id == "sequence":
        return (node.value[key], node.value[key]) if isinstance(key, int) and 0 <= key < len(node.value) else None
    return next(((name, value) for name, value in node.value if name.value == str(key)), None)


def _said(error: MarkedYAMLError) -> str:
    """Return our message about a parser's error."""
    problem = str(error.problem)
    mark = error.problem_mark
    if (twice := _DUPLICATE.match(problem)) and mark is not None and (mark.column == 0 or _is_plain_word(twice[1])):
        return f"key '{twice[1]}' stands twice"
    return next((said for part, said in _SAID if part in problem), "check its indentation, quotes and brackets")


def _is_plain_word(key: str) -> bool:
    """Return whether a key is one of Nornir's, which may be quoted."""
    return key in {"hostname", "port", "username", "password", "platform", "groups", "data", "connection_options"}
