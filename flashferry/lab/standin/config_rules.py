"""Which configuration commands there are, read from `config_grammar.toml`, and what each does to the configuration."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from flashferry.lab.standin.configuration import encode7, typed9
from flashferry.lab.standin.grammar import Ambiguous, Incomplete, Invalid, Matched, Node, is_parameter, match, variants
from flashferry.lab.standin.routing import GLOBAL_TABLE, vrf_names
from flashferry.lab.standin.trustpoints import shown_row

if TYPE_CHECKING:
    from flashferry.lab.standin.configuration import Configuration

Form = Literal["set", "no", "default"]
Refusal = Invalid | Incomplete | Ambiguous


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One configuration command; `config_grammar.toml` says what its marks mean."""

    specification: str
    naming: int = 0
    section: str | None = None
    default: str | None = None
    shows_no: bool = False
    is_free: bool = False
    rewrite: Callable[[str], str] | None = None
    group: str | None = None
    written: tuple[str, str] | None = None
    is_fixed: bool = False
    adds: bool = False
    no_takes_all: bool = False
    no_takes_list: bool = False

    @functools.cached_property
    def keywords(self) -> int:
        """How many words of it are keywords; all count the same where none of it is left open."""
        tokens = self.specification.split()
        return sum(not is_parameter(token) for token in tokens) if tokens[-1:] == ["LINE"] else 99

    def shown(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Return words as the configuration shows them."""
        full, short = self.written or ("", "")
        return tuple(short if word == full else word for word in words) if full else words

    def key(self, words: tuple[str, ...]) -> str:
        """Return the key of a line with these words."""
        if self.is_free:
            return " ".join(words)
        if self.group is not None:
            return self.group
        parameters = [i for i, token in enumerate(self.specification.split()) if is_parameter(token)]
        if self.naming and len(parameters) < self.naming:  # a keyword stands in the parameter's place
            return " ".join(words)
        if self.naming:
            return " ".join(words[: parameters[self.naming - 1] + 1])
        return " ".join(words[: parameters[0]] if parameters else words)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAction:
    """What a line of a configuration mode means."""

    rule: Rule
    form: Form

    def line(self, matched: Matched[ConfigAction]) -> str:
        """Return the line as IOS shows it."""
        text = " ".join(self.rule.shown(matched.words))
        return self.rule.rewrite(text) if self.rule.rewrite else text

    def key(self, matched: Matched[ConfigAction]) -> str:
        """Return the key of the line that is set or removed."""
        words = matched.words if self.form == "set" else matched.words[1:]
        if self.rule.no_takes_list:
            return self.line(matched) if self.form == "set" else " ".join(words[:2])
        return self.rule.key(self.rule.shown(words))


def _secret(line: str, word: str, own: str, kinds: tuple[str, ...], form: Callable[[str], str]) -> str:
    """Show ``secret [0] X`` or ``password [0] X`` in a kind of its own; what is typed in such a form stays as it is."""
    head, _, tail = line.partition(f" {word} ")
    kind, _, rest = tail.partition(" ")
    return line if rest and kind in kinds else f"{head} {word} {own} {form(rest if rest and kind == '0' else tail)}"


def _without_host(line: str) -> str:
    """Show an entry of a standard list without the word `host`, as releases with flat lists do."""
    head, number, rest = line.split(" ", 2)
    return f"{head} {number} {rest.replace(' host ', ' ')}" if number.isdecimal() and int(number) < 100 else line


def _with_sequence(line: str) -> str:
    """Show a `route-map` line with what it has by default: it permits, and is the tenth."""
    words = line.split()
    if words[0] == "route-map" and len(words) < 4:
        words += ["permit"] * (len(words) == 2)
        words += ["10"]
    return " ".join(words)


SHOWN: Mapping[str, Callable[[str], str]] = {
    "type7": lambda line: _secret(line, "password", "7", ("7",), encode7),
    "hashed": lambda line: _secret(line, "secret", "9", ("5", "8", "9"), typed9),
    "without-host": _without_host,
    # As stock configurations of 17.12 and later do; that it is so of what was typed without a window is assumed.
    "with-bulk-window": lambda line: f"{line} 131072",
    "with-seconds": lambda line: line if len(line.split()) > 2 else f"{line} 0",
    "route-map": _with_sequence,
    "shown-row": shown_row,
}
"""How a line is shown that is not shown as it was typed, by the grammar's word for it."""


def _rule(specification: str, marks: str) -> Rule:
    values: dict[str, Any] = {}
    for mark in filter(None, marks.split("; ")):
        word, _, rest = mark.partition(" ")
        if word in _VALUES:
            name, read = _VALUES[word]
            values[name] = read(rest)
        elif word == "default":
            values["default"] = rest or specification
        else:
            values[_FLAGS[mark]] = True
    return Rule(specification=specification, **values)


_VALUES: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "names": ("naming", int), "opens": ("section", str), "group": ("group", str),
    "shown": ("rewrite", SHOWN.__getitem__), "written": ("written", lambda rest: tuple(rest.split())),
}  # fmt: skip

_FLAGS = {
    "free": "is_free", "fixed": "is_fixed", "adds": "adds", "shows no": "shows_no", "no takes all": "no_takes_all",
    "no takes list": "no_takes_list",
}  # fmt: skip

_GRAMMAR = tomllib.loads(Path(__file__).with_name("config_grammar.toml").read_text(encoding="ascii"))


@functools.cache
def rules_of(mode: str) -> tuple[Rule, ...]:
    """Return the commands of a mode, those of the global one under `config`."""
    return tuple(_rule(each, marks) for text, marks in _GRAMMAR[mode].items() for each in variants(text))


@functools.cache
def _part(name: str) -> Node[ConfigAction]:
    """Return what ``@NAME`` stands for; a line of it that is empty means that the command may end there."""
    root: Node[ConfigAction] = Node()
    for text in _GRAMMAR[name]:
        for each in variants(text):
            root.add(each, _WITHIN, _parts(each))
    return root


def _parts(specification: str) -> dict[str, Node[ConfigAction]]:
    return {token: _part(token) for token in specification.split() if token.startswith("@")}


_WITHIN = ConfigAction(rule=Rule(specification=""), form="set")


def build_tree(rules: tuple[Rule, ...]) -> Node[ConfigAction]:
    """Return the tree of a mode with the set, ``no`` and ``default`` forms of its rules."""
    root: Node[ConfigAction] = Node()
    for rule in rules:
        root.add(rule.specification, ConfigAction(rule=rule, form="set"), _parts(rule.specification))
    for rule in rules:
        for form in _removals(rule):
            for word in ("no", "default"):
                action = ConfigAction(rule=rule, form="no" if word == "no" else "default")
                root.add(f"{word} {form}", action, _parts(form))
    return root


def _removals(rule: Rule) -> tuple[str, ...]:
    """Return what may stand after ``no``: the key alone, and the whole line."""
    tokens = rule.specification.split()
    if rule.is_free:
        start = rule.specification.removesuffix(" LINE")
        if rule.no_takes_list:
            return (" ".join(tokens[:2]), rule.specification)
        return (start, rule.specification) if rule.no_takes_all else (rule.specification,)
    key = rule.key(tuple(tokens))
    whole = rule.specification
    return (key,) if key == whole else (key, whole)


@functools.cache
def tree_of(mode: str, unknown: tuple[str, ...] = ()) -> Node[ConfigAction]:
    """Return the tree of a mode, without the commands that the release does not know, by their first words."""
    starts = tuple(f"{start} " for start in unknown)
    rules = rules_of("config-if" if mode == RANGE else mode)
    return build_tree(tuple(rule for rule in rules if not f"{rule.specification} ".startswith(starts)))


RANGE = "config-if-range"
"""The mode of several interfaces at once, whose commands are those of one."""

MODES = tuple(mode for mode in _GRAMMAR if not mode.startswith("@"))
"""All modes that there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A mode, and the lines that opened it, the outermost first."""

    mode: str = "config"
    lines: tuple[str, ...] = ()

    @property
    def section(self) -> str:
        """The line at the top, empty for the global mode."""
        return self.lines[0] if self.lines else ""


GLOBAL = Place()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A line that is known, and the place in which it is."""

    place: Place
    matched: Matched[ConfigAction]

    @property
    def opened(self) -> Place | None:
        """The mode that the line opens."""
        action = self.matched.action
        if action.rule.section is None or action.form != "set":
            return None
        return Place(mode=action.rule.section, lines=(*self.place.lines, action.key(self.matched)))


def find(stack: tuple[Place, ...], line: str, unknown: tuple[str, ...] = ()) -> Found | Refusal:
    """Match a line in the innermost mode, then in those around it, as IOS does; else refuse it where it fits furthest.

    Where the grammar leaves the rest of a line open it would swallow commands of the modes around; so the one of which
    it has more keywords comes first.
    """
    refused: list[Refusal] = []
    known: list[Found] = []
    for place in (*reversed(stack), GLOBAL):
        found = match(tree_of(place.mode, unknown if place is GLOBAL else ()), line)
        if isinstance(found, Matched):
            known.append(Found(place=place, matched=found))
        else:
            refused.append(found)
    if known:
        return max(known, key=lambda each: each.matched.action.rule.keywords)
    return max(refused, key=lambda each: each.offset if isinstance(each, Invalid) else len(line))


def apply(configuration: Configuration, matched: Matched[ConfigAction], place: Place = GLOBAL) -> None:
    """Change the configuration by a command that was matched in the mode of ``place``."""
    action = matched.action
    rule, key = action.rule, action.key(matched)
    if rule.is_fixed:
        return
    text = action.line(matched)
    if rule.adds and action.form == "set":
        text = _with_more(getattr(configuration.find(key), "text", key), text, key)

    def put(text: str, key: str) -> None:
        if place.lines:
            configuration.put_child(place.lines, text, key=key, order=_order(place.mode))
        else:
            configuration.put(text, key=key)

    def remove(key: str) -> bool:
        return configuration.remove_child(place.lines, key) if place.lines else configuration.remove(key)

    if action.form == "set":
        remove(f"no {key}")
        if text == rule.default:
            remove(key)
        else:
            put(text, key)
        return
    shown = rule.shows_no and not (action.form == "default" and rule.default is not None)
    while remove(key) and (rule.no_takes_all or rule.no_takes_list):
        pass
    if shown:
        put(f"no {key}", f"no {key}")
    else:
        remove(f"no {key}")


def _with_more(old: str, new: str, key: str) -> str:
    """Return the line of a user who has privilege and password of an old line, but for what a new one says."""
    parts = []
    for pattern in (r" privilege \d+", r" (?:secret|password) .+"):
        found = re.search(pattern, new.removeprefix(key)) or re.search(pattern, old.removeprefix(key))
        parts.append(found[0] if found else "")
    return key + "".join(parts) if any(parts) else new


@functools.cache
def _order(mode: str) -> tuple[str, ...]:
    rules = rules_of("config-if" if mode == RANGE else mode)
    return tuple(rule.key(tuple(rule.specification.split())) for rule in rules if not rule.is_free)


def beyond_window(found: Matched[ConfigAction], line: str, largest_bytes: int | None) -> Invalid | None:
    """Refuse a window above the largest that a device takes: out of range is a caret under the number."""
    if largest_bytes is None or found.words[:3] != ("ip", "tcp", "window-size"):
        return None
    return Invalid(offset=line.index(found.arguments[0])) if int(found.arguments[0]) > largest_bytes else None


def on_interface(target: Configuration, found: Matched[ConfigAction], section: str) -> tuple[str, bool]:
    """Do what a change of an interface's VRF does first: its address goes, and the VRF has to be there.

    Both sentences are those of public logs; that for an unknown VRF is of older releases.
    """
    is_set = found.words[:2] == ("vrf", "forwarding")
    line = target.find(section)
    if line is None or not (is_set or found.words[:3] == ("no", "vrf", "forwarding")):
        return "", True
    now, requested = line.vrf, found.arguments[0] if is_set else GLOBAL_TABLE
    if is_set and requested not in vrf_names(target):
        return f"% VRF {requested} not configured.\n", False
    if now == requested:
        return "", True
    why = f"enabling VRF {requested}" if is_set else f"disabling VRF {now}"
    return _without_address(target, section, why), True


def _without_address(target: Configuration, section: str, why: str) -> str:
    line = target.find(section)
    found = match(tree_of("config-if"), "no ip address")
    if line is None or line.address is None or not isinstance(found, Matched):
        return ""
    apply(target, found, Place(mode="config-if", lines=(section,)))
    name = section.removeprefix("interface ")
    return f"% Interface {name} IPv4 disabled and address(es) removed due to {why}\n"
