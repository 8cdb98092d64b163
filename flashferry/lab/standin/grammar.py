"""Commands as a tree of words, matched as the IOS parser does: abbreviations, ranges, exact errors.

Facts
-----
A keyword may be cut as long as it stays unambiguous; a whole keyword wins over longer ones. What does not
fit is marked by a caret under the first character that fits nothing; a number outside its range is marked
at its start. A line that ends too early is incomplete. (Cisco IOS Configuration Fundamentals, "Using
the Command-Line Interface"; error texts as in the captures.)

Specifications use Cisco's own help notation: ``ip tcp window-size <68-1073741823>``, ``WORD``, ``LINE`` for
the rest of the line, ``A.B.C.D``, ``FS:`` for a name in a file system or a URL, and ``INTERFACE`` for an interface in
one word or two (``KIND NUMBER``).
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from flashferry.lab.standin.configuration import Configuration

Action = TypeVar("Action")

_RANGE = re.compile(r"<(\d+)-(\d+)>")

_SHAPES = {
    "FS:": re.compile(r"[A-Za-z][\w-]*:"),
    "INTERFACE": re.compile(r"[A-Za-z]+\d[\d/.]*$"),
    "KIND": re.compile(r"(fa|fo|gi|et|lo|tu|vl|te|tw)[a-z]*$", re.IGNORECASE),
    "NUMBER": re.compile(r"\d[\d/.]*$"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched(Generic[Action]):
    """A whole command.

    Attributes:
        action: What was registered for it.
        arguments: The words that are not keywords, as typed.
        words: All words, keywords written out.
        file_systems: Names in front of a colon where a file is named, each with its column.
        interfaces: Names of interfaces, each with its column.
    """

    action: Action
    arguments: tuple[str, ...]
    words: tuple[str, ...]
    file_systems: tuple[tuple[str, int], ...] = ()
    interfaces: tuple[tuple[str, int], ...] = ()

    @property
    def text(self) -> str:
        """The command written out."""
        return " ".join(self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalid:
    """A word that fits nothing; ``offset`` is the column of the caret in the line."""

    offset: int


@dataclass(frozen=True, slots=True)
class Incomplete:
    """The line ends too early."""


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A word is short for several keywords."""


@dataclass(slots=True)
class Node(Generic[Action]):
    """A place in the tree: the keywords and parameters that may follow, and the action of a line that ends here."""

    keywords: dict[str, Node[Action]] = field(default_factory=dict)
    parameters: dict[str, Node[Action]] = field(default_factory=dict)
    action: Action | None = None

    def add(self, specification: str, action: Action) -> None:
        """Register a command."""
        node = self
        for token in specification.split():
            branch = node.parameters if _is_parameter(token) else node.keywords
            node = branch.setdefault(token, Node())
        node.action = action

    def helps(self) -> list[str]:
        """Return what may follow here, in the order of IOS help."""
        ends = ["<cr>"] if self.action is not None else []
        return sorted(self.keywords) + sorted(self.parameters) + ends


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int


def match(root: Node[Action], line: str) -> Matched[Action] | Invalid | Incomplete | Ambiguous:
    """Match a line against a tree."""
    node = root
    arguments: list[str] = []
    words: list[str] = []
    places: list[tuple[str, int]] = []
    interfaces: list[tuple[str, int]] = []
    tokens = [_Token(m.group(), m.start()) for m in re.finditer(r"\S+", line)]
    for token in tokens:
        found = _keyword(node, token.text)
        if isinstance(found, Ambiguous):
            return found
        if found is not None:
            words.append(found)
            node = node.keywords[found]
            continue
        parameter = _parameter(node, token.text)
        if parameter is None:
            return Invalid(offset=token.start + _good_prefix(node, token.text))
        value = line[token.start :].rstrip() if parameter == "LINE" else token.text
        arguments.append(value)
        words.append(value)
        if parameter == "FS:":
            places.append((value.partition(":")[0].lower(), token.start))
        if parameter == "INTERFACE":
            interfaces.append((value, token.start))
        elif parameter == "NUMBER":
            interfaces.append((f"{words[-2]}{value}", token.start))
        node = node.parameters[parameter]
        if parameter == "LINE":
            break
    if node.action is None:
        return Incomplete()
    return Matched(
        action=node.action, arguments=tuple(arguments), words=tuple(words), file_systems=tuple(places),
        interfaces=tuple(interfaces),
    )  # fmt: skip


def walk(root: Node[Action], line: str) -> Node[Action] | None:
    """Return the place in the tree after the words of a line, for help; None when they fit nothing."""
    node = root
    for word in line.split():
        found = _keyword(node, word)
        if isinstance(found, Ambiguous):
            return None
        parameter = None if found else _parameter(node, word)
        if found:
            node = node.keywords[found]
        elif parameter:
            node = node.parameters[parameter]
        else:
            return None
    return node


def _is_parameter(token: str) -> bool:
    return (
        token in {"WORD", "LINE", "A.B.C.D", "FS:", "INTERFACE", "KIND", "NUMBER"}
        or _RANGE.fullmatch(token) is not None
    )


def _keyword(node: Node[Action], word: str) -> str | Ambiguous | None:
    word = word.lower()
    if word in node.keywords:
        return word
    candidates = [keyword for keyword in node.keywords if keyword.startswith(word)]
    if len(candidates) > 1:
        return Ambiguous()
    return candidates[0] if candidates else None


def _parameter(node: Node[Action], word: str) -> str | None:
    return next((parameter for parameter in node.parameters if _accepts(parameter, word)), None)


def _accepts(parameter: str, word: str) -> bool:
    bounds = _RANGE.fullmatch(parameter)
    if bounds:
        return word.isdecimal() and int(bounds[1]) <= int(word) <= int(bounds[2])
    if parameter == "A.B.C.D":
        try:
            ipaddress.IPv4Address(word)
        except ValueError:
            return False
        return True
    if parameter in _SHAPES:
        return _SHAPES[parameter].match(word) is not None
    return True


def _good_prefix(node: Node[Action], word: str) -> int:
    """Return how many characters of a word still fit some keyword."""
    word = word.lower()
    cuts = range(len(word), 0, -1)
    return next((cut for cut in cuts if any(key.startswith(word[:cut]) for key in node.keywords)), 0)


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


AUTHORIZATION_FAILED = "Command authorization failed.\n\n"

"""What AAA command authorization answers, outside and inside configuration mode (captures)."""


def refusal(found: Invalid | Incomplete | Ambiguous, command: str, *, column: int) -> str:
    """Return the error as IOS prints it; ``column`` is where the command begins in the echoed line."""
    if isinstance(found, Invalid):
        return f"{' ' * (column + found.offset)}^\n% Invalid input detected at '^' marker.\n\n"
    if isinstance(found, Incomplete):
        return "% Incomplete command.\n\n"
    return f'% Ambiguous command:  "{command.strip()}"\n'
