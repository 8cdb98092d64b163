"""Commands as a tree of words, matched as the IOS parser does: abbreviations, ranges, exact errors.

Facts
-----
A keyword may be cut as long as it stays unambiguous; a whole keyword wins over longer ones. What does not
fit is marked by a caret under the first character that fits nothing; a number outside its range is marked
at its start. A line that ends too early is incomplete. (Cisco IOS Configuration Fundamentals, "Using
the Command-Line Interface"; error texts as in the captures.)

Specifications use Cisco's own help notation: ``ip tcp window-size <68-1073741823>``, ``WORD``, ``LINE`` for
the rest of the line, ``A.B.C.D``, ``FS:`` for a name in a file system or a URL, ``INTERFACE`` for an interface in
one word or two (``KIND NUMBER``), ``{a|b}`` for one of several, ``[a]`` for what may be left out, and at the end
``@NAME`` for what another tree says, such as the entries of an access list.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from flashferry.lab.standin.configuration import Configuration

Action = TypeVar("Action")
_RANGE = re.compile(r"<(\d+)-(\d+)>")

_SHAPES = {
    "FS:": re.compile(r"[A-Za-z][\w-]*:"),
    "INTERFACE": re.compile(r"[A-Za-z][A-Za-z-]*\d[\d/.]*$"),
    "KIND": re.compile(r"(fa|fo|gi|et|lo|tu|vl|te|tw|po|se|bd|di|vi|nu)[a-z-]*$", re.IGNORECASE),
    "NUMBER": re.compile(r"\d[\d/.]*$"),
    "A.B.C.D/nn": re.compile(r"\d+(\.\d+){3}/([12]?\d|3[0-2])$"),
    "X:X:X:X::X/<0-128>": re.compile(r"[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*/\d{1,3}$"),
    "X:X:X:X::X": re.compile(r"[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*$"),
    "H.H.H": re.compile(r"[0-9A-Fa-f]{1,4}(\.[0-9A-Fa-f]{1,4}){2}$"),
    "HH:MM": re.compile(r"\d{1,2}:\d\d$"),
    "HH:MM:SS": re.compile(r"\d{1,2}:\d\d:\d\d$"),
    "ASN:nn": re.compile(r"[\d.]+:\d+$"),
    "VLANS": re.compile(r"\d{1,4}([,-]\d{1,4})*$"),
}
_NAMED = ("WORD", "LINE", "A.B.C.D")
_ONE_OF, _OPTIONAL = re.compile(r"\{([^{}\[\]]*)\}"), re.compile(r"\[([^{}\[\]]*)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched(Generic[Action]):
    """A whole command.

    Attributes:
        arguments: The words that are not keywords, as typed.
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
    tails: list[tuple[Node[Action], Action]] = field(default_factory=list)

    def add(self, specification: str, action: Action, parts: Mapping[str, Node[Action]] | None = None) -> None:
        """Register a command; ``parts`` are the trees that it names by ``@NAME``."""
        node = self
        for token in specification.split():
            if token.startswith("@"):
                node.tails.append(((parts or {})[token], action))
                return
            branch = node.parameters if is_parameter(token) else node.keywords
            node = branch.setdefault(token, Node())
        node.action = action

    def helps(self) -> list[str]:
        """Return what may follow here, in the order of IOS help."""
        keywords, parameters, ends = set(self.keywords), set(self.parameters), self.end() is not None
        for tail, _ in self.tails:
            more = [word for word in tail.helps() if word != "<cr>"]
            keywords.update(word for word in more if not is_parameter(word))
            parameters.update(word for word in more if is_parameter(word))
        return sorted(keywords) + sorted(parameters) + (["<cr>"] if ends else [])

    def end(self) -> Action | None:
        """Return the action of a line that ends here."""
        return self.action or next((action for tail, action in self.tails if tail.end() is not None), None)

    def follow(self, word: str) -> Step[Action] | Ambiguous | None:
        """Return where a word leads: a keyword comes before a parameter, an exact keyword before a cut one."""
        places = [(self, None), *((tail, action) for tail, action in self._all_tails())]
        short = word.lower()  # `engineID` is a keyword
        candidates = {key: place for place in places for key in place[0].keywords if key.lower().startswith(short)}
        keyword = next((key for key in candidates if key.lower() == short), None)
        if keyword is None and len(candidates) > 1:
            return Ambiguous()
        if candidates:
            keyword = keyword or next(iter(candidates))
            node, action = candidates[keyword]
            return Step(node=node.keywords[keyword], word=keyword, action=action)
        for node, action in places:
            for parameter, after in node.parameters.items():
                if _accepts(parameter, word):
                    return Step(node=after, word=word, action=action, parameter=parameter)
        return None

    def fits(self, word: str) -> int:
        """Return how many characters of a word still fit some keyword."""
        keys = [key for node in (self, *(tail for tail, _ in self._all_tails())) for key in node.keywords]
        cuts = range(len(word), 0, -1)
        return next((cut for cut in cuts if any(key.lower().startswith(word[:cut].lower()) for key in keys)), 0)

    def _all_tails(self) -> Iterator[tuple[Node[Action], Action]]:
        waiting = list(self.tails)
        for tail, action in waiting:
            yield tail, action
            waiting += [(further, action) for further, _ in tail.tails]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Generic[Action]):
    """One word further: the place after it, the word written out, and the action of a tree that was entered."""

    node: Node[Action]
    word: str
    action: Action | None = None
    parameter: str = ""


def variants(specification: str) -> list[str]:
    """Return the specifications that one with alternatives and options stands for."""
    found = _ONE_OF.search(specification)
    choices = found[1].split("|") if found else []
    if found is None:
        found = _OPTIONAL.search(specification)
        choices = [found[1], ""] if found else []
    if found is None:
        return [" ".join(specification.split())]
    return [
        each for choice in choices
        for each in variants(specification[: found.start()] + choice + specification[found.end() :])
    ]  # fmt: skip


def match(root: Node[Action], line: str) -> Matched[Action] | Invalid | Incomplete | Ambiguous:
    """Match a line against a tree."""
    node, entered = root, None
    arguments: list[str] = []
    words: list[str] = []
    places: list[tuple[str, int]] = []
    interfaces: list[tuple[str, int]] = []
    for token in re.finditer(r"\S+", line):
        found = node.follow(token[0])
        if isinstance(found, Ambiguous):
            return found
        if found is None:
            return Invalid(offset=token.start() + node.fits(token[0]))
        entered, parameter = entered or found.action, found.parameter
        if not parameter:
            words.append(found.word)
            node = found.node
            continue
        value = line[token.start() :].rstrip() if parameter == "LINE" else token[0]
        arguments.append(value)
        words.append(value)
        if parameter == "FS:":
            places.append((value.partition(":")[0].lower(), token.start()))
        if parameter == "INTERFACE":
            interfaces.append((value, token.start()))
        elif parameter == "NUMBER":
            interfaces.append((f"{words[-2]}{value}", token.start()))
        node = found.node
        if parameter == "LINE":
            break
    end = node.end()
    if end is None:
        return Incomplete()
    return Matched(
        action=entered or end, arguments=tuple(arguments), words=tuple(words), file_systems=tuple(places),
        interfaces=tuple(interfaces),
    )  # fmt: skip


def walk(root: Node[Action], line: str) -> Node[Action] | None:
    """Return the place in the tree after the words of a line, for help; None when they fit nothing."""
    node = root
    for word in line.split():
        found = node.follow(word)
        if not isinstance(found, Step):
            return None
        node = found.node
    return node


def is_parameter(token: str) -> bool:
    """Return whether a word of a specification stands for what is typed in its place."""
    is_named = token in _NAMED or token in _SHAPES or token.startswith("@")
    return is_named or _RANGE.fullmatch(token) is not None


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
    words = vty_value(configuration, vty, "exec-timeout").split()
    return (60.0 * int(words[0]) + float((*words, "0")[1]) or None) if words else DEFAULT_EXEC_TIMEOUT_S


def vty_value(configuration: Configuration, vty: int, key: str) -> str:
    """Return what follows a key in the section of a vty line; empty where the line has none."""
    for line in configuration.lines():
        found = re.fullmatch(r"line vty (\d+)(?: (\d+))?", line.text)
        if found and int(found[1]) <= vty <= int(found[2] or found[1]):
            return next((c.text[len(key) + 1 :] for c in line.children if c.text.startswith(f"{key} ")), "")
    return ""


def login_level(configuration: Configuration, user: str, vty: int) -> int:
    """Return the privilege level that a user logs in with on a vty line.

    `login local` gives the level of the username. With `aaa new-model` a method list of `aaa authorization exec` does,
    the default one or that of the line's `authorization exec`; every server stands for the local usernames. Without
    such a list, for the methods `none` and `if-authenticated`, and for a user without a level, the line's `privilege
    level` counts, which is 1 by default (Cisco IOS Security Configuration Guide, "Configuring Authorization").
    """
    own = re.match(r"privilege (\d+)", configuration.value(f"username {user}") or "")
    line = int(vty_value(configuration, vty, "privilege level") or 1)
    if configuration.find("aaa new-model") is not None and not _authorizes_exec(configuration, vty):
        return line
    return int(own[1]) if own else line


def _authorizes_exec(configuration: Configuration, vty: int) -> bool:
    """Return whether a method of the line's list knows levels."""
    named = vty_value(configuration, vty, "authorization exec") or "default"
    methods = (configuration.value(f"aaa authorization exec {named}") or "").split()
    return methods[:1] not in ([], ["none"], ["if-authenticated"])


AUTHORIZATION_FAILED = "Command authorization failed.\n\n"
"""What AAA command authorization answers, outside and inside configuration mode (captures)."""


def refusal(found: Invalid | Incomplete | Ambiguous, command: str, *, column: int) -> str:
    """Return the error as IOS prints it; ``column`` is where the command begins in the echoed line."""
    if isinstance(found, Invalid):
        return f"{' ' * (column + found.offset)}^\n% Invalid input detected at '^' marker.\n\n"
    if isinstance(found, Incomplete):
        return "% Incomplete command.\n\n"
    return f'% Ambiguous command:  "{command.strip()}"\n'
