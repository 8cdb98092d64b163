"""How commands take their words: help in groups, names that older scripts know, errors that programs can read.

An option shows its short names and its first long one. Long names behind that one are what it was called before: they
are taken as ever, so that no script breaks, and stand in no help.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from flashferry.core.outside import shown
from flashferry.model.setting import Subject

DEVICES = "Devices and logins"
IMAGE = Subject.IMAGE.value
TUNING = Subject.TUNING.value
WAVES = Subject.WAVES.value
SERVER = Subject.SERVER.value
OUTPUT = "Output and state"

UsageError: type[Exception] = next(
    one for one in typer.BadParameter.__mro__ if one.__name__ == "UsageError"
)  # typer takes it from click or brings its own, and exports only what is derived from it
"""What wrong words on the command line end in."""

_OPTIONS = Subject.RUN.value
_ORDER = (_OPTIONS, DEVICES, IMAGE, TUNING, SERVER, WAVES, OUTPUT)
"""Of the groups, the same in all verbs."""
_WIDEST = 28
"""Longer words have their text on the next line, so that eighty columns have room for both."""
_NO_LIMIT = 1000
_EXPECTED = {
    "int_parsing": "a whole number",
    "float_parsing": "a number",
    "greater_than_equal": "{ge} or more",
    "less_than_equal": "{le} at most",
}
"""What was expected, by the kind of fault that typer's check found."""


SERVICE_VARIABLE = "FLASHFERRY_SERVICE"
"""Where a remote service is, for who does not want to type it each time; the job of a service never has it."""

SERVICE_TOKEN_VARIABLE = "FLASHFERRY_SERVICE_TOKEN"  # noqa: S105 -- the name of a variable
"""Holds the token for it, which never stands in the command line: everybody on the host can read that."""

_WITH_VALUE = frozenset({"--service", "--service-ca", "--service-token-file"})
"""Options before the verb that take a value."""


def behind_options(arguments: Sequence[str]) -> list[str]:
    """Return the words of a command line from the verb on, without the options before it and their values."""
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        del rest[: 2 if rest[0] in _WITH_VALUE else 1]
    return rest


def service_named(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return where the service is that a command line is for; empty: it is for this host."""
    found = environment.get(SERVICE_VARIABLE, "")
    before = list(arguments[: len(arguments) - len(behind_options(arguments))])
    for number, word in enumerate(before):
        if word == "--service":
            found = "".join(before[number + 1 : number + 2])
        elif word.startswith("--service="):
            found = word.removeprefix("--service=")
    return found.strip()


def told_in_our_words(error: Any) -> Any:
    """Return an error of words as one that says what was expected and what was found; what we know no better stays."""
    if (text := _expected(error)) is None:
        return error
    parameter = getattr(error, "param", None)
    is_option = getattr(parameter, "param_type_name", "") == "option"
    name = f"{parameter.opts[-1]}: " if parameter is not None and is_option else ""
    return UsageError(name + shown(text), error.ctx)


def _expected(error: Any) -> str | None:
    """Return what was expected and found, by typer's words or by those of the check behind them; None: not known."""
    found, apart, choices = str(getattr(error, "message", "")).rpartition(" is not one of ")
    if apart and (words := re.findall(r"'([^']*)'", choices)):
        listed = " or ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else words[0]
        return f"expected {listed}, found {found.removeprefix('Value error, ')}"
    faults: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    if not faults or (kind := _EXPECTED.get(faults[0]["type"])) is None:
        return None
    return f"expected {kind.format_map(faults[0].get('ctx', {}))}, found {faults[0]['input']!r}"


class Verb(TyperCommand):
    """A command whose options are shown in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the groups, those without a name first."""
        _write_options(self, ctx, formatter)


class InterruptedByOperator(Exception):
    """Ctrl-C where nobody waits for it; typer would end with 130 and no word."""


class Family(TyperGroup):
    """A command with commands of its own, which are shown in groups too."""

    def invoke(self, ctx: Any) -> Any:
        """Do what the words say.

        Raises:
            InterruptedByOperator: Ctrl-C came while nobody waited for it.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise InterruptedByOperator from None

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write options, then commands."""
        _write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, group by group."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            assert command is not None
            group = getattr(command, "rich_help_panel", None) or "Commands"
            # Its whole first sentence: cut to a line it would end in the midst of one.
            groups.setdefault(group, []).append((name, command.get_short_help_str(_NO_LIMIT)))
        _write_groups(groups, formatter)


class App(typer.Typer):
    """A command line, or a family of it, in our manner: no markup, no panels, `-h` as well as `--help`."""

    def __init__(self, **options: Any) -> None:
        context = {"help_option_names": ["--help", "-h"]}
        super().__init__(
            **{"no_args_is_help": True, "add_completion": False, **options},
            cls=Family,
            rich_markup_mode=None,
            context_settings=context,
        )

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        """Return what makes a command of a function."""
        return super().command(name, **{"cls": Verb, **options})


def _write_options(command: Any, ctx: Any, formatter: Any) -> None:
    groups: dict[str, list[tuple[str, str]]] = {name: [] for name in _ORDER}
    for parameter in command.get_params(ctx):
        if (record := parameter.get_help_record(ctx)) is None:
            continue
        if parameter.param_type_name == "argument":
            # What has to be given comes before what may be.
            groups = {"Arguments": [], **groups} if "Arguments" not in groups else groups
            groups["Arguments"].append(record)
        else:
            panel = getattr(parameter, "rich_help_panel", None) or _OPTIONS
            groups.setdefault(panel, []).append(record)
    _write_groups(groups, formatter)


def _write_groups(groups: Mapping[str, list[tuple[str, str]]], formatter: Any) -> None:
    """Write what is not empty, all texts in one column."""
    widths = [len(words) for rows in groups.values() for words, _ in rows]
    widest = max((width for width in widths if width <= _WIDEST), default=0)
    for name, rows in groups.items():
        if rows:
            with formatter.section(name):
                formatter.write_dl([(words.ljust(widest), told) for words, told in rows], col_max=widest)
