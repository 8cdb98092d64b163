"""Lines are matched as the IOS parser matches them."""

import tomllib
from pathlib import Path

import pytest

from flashferry.lab.standin import commands
from flashferry.lab.standin.config_rules import MODES, RANGE, tree_of
from flashferry.lab.standin.grammar import Ambiguous, Incomplete, Invalid, Matched, Node, match, variants, walk

TREE: Node[str] = Node()
for _line in (
    "show version", "show running-config", "show running-config all", "configure terminal", "copy FS: FS:",
    "terminal length <0-512>", "set WORD", "ping A.B.C.D", "note LINE", "connect", "configure", "modem InOut",
):  # fmt: skip
    TREE.add(_line, _line)


@pytest.mark.parametrize(
    ("line", "action", "arguments"),
    [
        ("show version", "show version", ()),
        ("  sh   ver ", "show version", ()),
        ("SH RUN", "show running-config", ()),
        ("sh run a", "show running-config all", ()),
        ("conf", "configure", ()),
        ("conf t", "configure terminal", ()),
        ("copy ftp://a/b flash:", "copy FS: FS:", ("ftp://a/b", "flash:")),
        ("term len 0", "terminal length <0-512>", ("0",)),
        ("modem inout", "modem InOut", ()),
        ("MODEM IN", "modem InOut", ()),
        ("ping 192.0.2.1", "ping A.B.C.D", ("192.0.2.1",)),
        ("note  two  words ", "note LINE", ("two  words",)),
    ],
)
def test_whole_commands(line: str, action: str, arguments: tuple[str, ...]) -> None:
    """Keywords may be cut; parameters come out as typed."""
    found = match(TREE, line)
    assert isinstance(found, Matched)
    assert (found.action, found.arguments) == (action, arguments)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("show", Incomplete()),
        ("term len", Incomplete()),
        ("co", Ambiguous()),
        ("con", Ambiguous()),
        ("foo", Invalid(offset=0)),
        ("show vezsion", Invalid(offset=7)),
        ("show version now", Invalid(offset=13)),
        ("term length 513", Invalid(offset=12)),
        ("term length -1", Invalid(offset=12)),
        ("copy here flash:", Invalid(offset=5)),
        ("ping 192.0.2.300", Invalid(offset=5)),
    ],
)
def test_refusals(line: str, expected: object) -> None:
    """The caret stands under the first character that fits nothing, a value under its start."""
    assert match(TREE, line) == expected


@pytest.mark.parametrize(
    ("command", "low", "high"),
    [
        ("ip tcp window-size", 68, 1073741823),
        ("ip tcp synwait-time", 5, 300),
        ("ip tcp queuemax", 5, 100000),
    ],
)
def test_ranges_of_the_configuration(command: str, low: int, high: int) -> None:
    """The limits that Cisco prints are taken, what lies beyond is refused at the number."""
    for value in (low, high):
        assert isinstance(match(tree_of("config"), f"{command} {value}"), Matched)
    for value in (low - 1, high + 1):
        assert match(tree_of("config"), f"{command} {value}") == Invalid(offset=len(command) + 1)


def test_help_lists_what_may_follow() -> None:
    """A place in the tree knows its keywords and values, and whether the line may end."""
    place = walk(TREE, "show run")
    assert place is not None
    assert place.helps() == ["all", "<cr>"]
    assert walk(TREE, "term len").helps() == ["<0-512>"]
    assert walk(TREE, "show nothing") is None
    assert walk(TREE, "con") is None


def test_every_section_has_its_commands() -> None:
    """Each mode that a line opens has a tree."""
    actions = [node.action for mode in MODES for node in _nodes(tree_of(mode)) if node.action]
    opened = {action.rule.section for action in actions if action.rule.section}
    assert opened - {RANGE} | {"config"} == set(MODES)


def _nodes(node: Node) -> list[Node]:
    below = [*node.keywords.values(), *node.parameters.values()]
    return [node, *(each for child in below for each in _nodes(child))]


def test_no_row_takes_a_command_from_another() -> None:
    """Within a table of the exec commands each form of a command has one function, so that no later row hides one."""
    tables = tomllib.loads(Path(commands.__file__).with_name("commands.toml").read_text(encoding="utf-8"))
    for name, rows in tables.items():
        seen: dict[str, str] = {}
        for specification, function in rows.items():
            for variant in variants(specification):
                assert seen.setdefault(variant, function) == function, f"{name}: {variant}"
