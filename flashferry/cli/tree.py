"""The command line as values: commands, their options and arguments, and what each value may be.

Options are read as their help shows them; what is hidden is not among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from inventory.transport_policy import AUTO, NAMES, ORDER
from tasks.tcp_config import EXTRAS

PROGRAM = "flashferry"

_WORD = re.compile(r"[a-z][a-z0-9-]*")
_BEHIND = re.compile(r"\s+\[(?:default|env var|required|\d|x[<>=])[^\]]*\]$")
"""What a help text says of defaults and variables, behind its sentence."""
_NAMES = re.compile(r"^(?:-{1,2}[\w-]+(?:, | ))+")
"""The names of an option, as its help begins."""
_TYPE = re.compile(r"\s*<[^<>]*>$")


class Kind(Enum):
    """What kind of value an option or an argument takes."""

    ANY = "any"
    FILE = "file"
    FOLDER = "folder"
    DEVICE = "device"
    GROUP = "group"


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """What may stand in the place of a value.

    Attributes:
        placeholder: What the help shows in its place.
        kind: Its kind.
        words: Words that are among its values; all of them where its kind is any.
    """

    placeholder: str
    kind: Kind = Kind.ANY
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option as its help shows it.

    Attributes:
        names: Its names, short ones first.
        told: What it does, in words.
        value: The value that it takes; None for a flag.
        group: The group of the help that it stands in; empty: the first.
        variable: The environment variable that stands for it, or empty.
        is_repeated: Whether it may be given several times.
        is_required: Whether it has to be given.
    """

    names: tuple[str, ...]
    told: str
    value: Value | None
    group: str
    variable: str
    is_repeated: bool
    is_required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """What stands behind a command by its place.

    Attributes:
        told: What it is, in words; may be empty.
        value: Its value; its placeholder is in brackets where it may be left out.
        is_repeated: Whether several may stand there.
    """

    told: str
    value: Value
    is_repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command, or a family of them.

    Attributes:
        path: Its words behind the program's name; none for the program itself.
        group: The group of the help that it stands in, or empty.
        told: What it does, in words, paragraphs separated by empty lines.
        options: Its options.
        arguments: Its arguments, in order.
        commands: Those below it.
    """

    path: tuple[str, ...]
    group: str
    told: str
    options: tuple[Option, ...]
    arguments: tuple[Argument, ...]
    commands: tuple[Command, ...]

    @property
    def name(self) -> str:
        """Return its last word, or the program's name."""
        return self.path[-1] if self.path else PROGRAM

    @property
    def words(self) -> str:
        """Return what is typed for it, with the program's name."""
        return " ".join((PROGRAM, *self.path))

    @property
    def short(self) -> str:
        """Return what it does in a sentence or so: the first paragraph."""
        return self.told.partition("\n\n")[0]

    def __iter__(self) -> Iterator[Command]:
        """Yield it and all below it, each before those below it."""
        yield self
        for one in self.commands:
            yield from one


_NAMED = {
    "--host": Value(placeholder="NAME", kind=Kind.DEVICE),
    "--device-is": Value(placeholder="DEVICE", kind=Kind.DEVICE),
    "--group": Value(placeholder="NAME", kind=Kind.GROUP),
    "--transport": Value(placeholder="NAMES", words=(*NAMES, AUTO)),
    "--transports": Value(placeholder="NAME,NAME", words=ORDER),
    "--extra": Value(placeholder="NAME", words=tuple(EXTRAS)),
    "--resume": Value(placeholder="RUN", words=("latest",)),
}
"""Values of options whose placeholder does not say what they may be."""

_PLACEHOLDERS = {
    "FILE": Kind.FILE,
    "PATH": Kind.FILE,
    "<path>": Kind.FILE,
    "WORLD": Kind.FILE,
    "DIR": Kind.FOLDER,
    "FOLDER": Kind.FOLDER,
    "DEVICE": Kind.DEVICE,
}


def command_tree() -> Command:
    """Return the whole command line, in the help's order; which imports all of its modules."""
    from typer.main import get_command

    from flashferry.cli.main import COMMANDS, build

    tree = _command(get_command(build([])), (), None)
    order = [name for names in COMMANDS.values() for name in names]
    return replace(tree, commands=tuple(sorted(tree.commands, key=lambda one: order.index(one.name))))


def _command(made: Any, path: tuple[str, ...], parent: Any) -> Command:
    context = made.context_class(made, info_name=path[-1] if path else PROGRAM, parent=parent, **made.context_settings)
    shown = [(one, record) for one in made.get_params(context) if (record := one.get_help_record(context)) is not None]
    below = getattr(made, "commands", {})
    return Command(
        path=path,
        group=getattr(made, "rich_help_panel", None) or "",
        told=_paragraphs(made.help or ""),
        options=tuple(_option(one, record) for one, record in shown if one.param_type_name == "option"),
        arguments=tuple(_argument(one, record) for one, record in shown if one.param_type_name == "argument"),
        commands=tuple(_command(one, (*path, name), context) for name, one in below.items() if not one.hidden),
    )


def _paragraphs(text: str) -> str:
    """Return a docstring with each of its paragraphs on one line."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n")).strip()


def _option(one: Any, record: tuple[str, str]) -> Option:
    names = tuple(sorted(one.opts, key=lambda name: name.startswith("--")))
    # What the help shows behind the names is the value.
    placeholder = "" if one.is_flag or one.count else _NAMES.sub("", record[0])
    return Option(
        names=(*names, *one.secondary_opts),
        told=_BEHIND.sub("", record[1]),
        value=_value(names[-1], placeholder) if placeholder else None,
        group=getattr(one, "rich_help_panel", None) or "",
        variable=one.envvar if isinstance(one.envvar, str) else "",
        is_repeated=bool(one.multiple),
        is_required=bool(one.required),
    )


def _argument(one: Any, record: tuple[str, str]) -> Argument:
    placeholder = _TYPE.sub("", record[0])
    return Argument(
        told=_BEHIND.sub("", record[1] or ""),
        value=_value("", placeholder),
        is_repeated=one.nargs != 1,
    )


def _value(name: str, placeholder: str) -> Value:
    if name in _NAMED and _NAMED[name].placeholder == placeholder:
        return _NAMED[name]
    parts = placeholder.removesuffix("...").strip("[]").split("|")
    if len(parts) > 1:
        parts = [part.strip("<>") for part in parts]
    kinds = [_PLACEHOLDERS[part] for part in parts if part in _PLACEHOLDERS]
    words = tuple(part for part in parts if _WORD.fullmatch(part)) if len(parts) > 1 else ()
    if "RUN" in parts:
        words = ("latest",)
    return Value(placeholder=placeholder, kind=kinds[0] if kinds else Kind.ANY, words=words)
