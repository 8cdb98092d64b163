"""Command classes on top of typer: grouped help, options for this host or a service, errors as JSON.

Help shows an option's short names and first long name; its other long names are accepted as former names.
"""

from __future__ import annotations

import copy
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from msgspec import Struct
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import sanitize
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
"""Typer's exception for a usage error."""

_OPTIONS = Subject.RUN.value
_ORDER = (_OPTIONS, DEVICES, IMAGE, TUNING, SERVER, WAVES, OUTPUT)
"""Order of option groups in the help of all verbs."""
_WIDEST = 28
"""Longer option names have their text on the next line, to fit into 80 columns."""
_NO_LIMIT = 1000
_EXPECTED = {
    "int_parsing": "a whole number",
    "float_parsing": "a number",
    "greater_than_equal": "{ge} or more",
    "less_than_equal": "{le} at most",
}
"""What was expected, by typer's kind of error."""

SERVICE_VARIABLE = "FLASHFERRY_SERVICE"
"""Variable for the address of a remote service, as `--service`; never set for a service's jobs."""

SERVICE_TOKEN_VARIABLE = "FLASHFERRY_SERVICE_TOKEN"  # noqa: S105 -- the name of a variable
"""Variable for the service's token; not an option, since any user can read command lines."""

_WITH_VALUE = frozenset({"--service", "--service-ca", "--service-token-file"})
"""Options before the verb that take a value."""
_ALL = "--help-all"
_HELP_TEXT = "Show this message and exit."

_WHY = {
    DEVICES: "the service has its own inventory, and looks up logins itself",
    SERVER: "the service's host serves the images",
    WAVES: "a run at the service carries out a plan as it stands",
    TUNING: "a run at the service carries out a plan as it stands",
    IMAGE: "the service uses what it knows of its images",
}
"""Why the options of a group cannot be given to a service."""

_INSTEAD = {
    DEVICES: "Choose devices with --host, --group and --filter; the rest is [runs] in the service's service.toml",
    WAVES: "Set it when the plan is made",
    TUNING: "Set it when the plan is made",
}


class Offered(Struct, frozen=True, kw_only=True):
    """Metadata of an option's annotation: where the option is accepted. Without it, everywhere.

    Attributes:
        here: Accepted on this host.
        at_service: Accepted with a remote service.
        metavar: Placeholder for the value in the help for a service; None: the same as on this host.
        help: Help text for a service; None: the same as on this host.
    """

    here: bool = True
    at_service: bool = True
    metavar: str | None = None
    help: str | None = None


HERE, AT_SERVICE = Offered(at_service=False), Offered(here=False)


def words_from_verb(arguments: Sequence[str]) -> list[str]:
    """Return the arguments from the verb on, without the options before it."""
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        del rest[: 2 if rest[0] in _WITH_VALUE else 1]
    return rest


def service_named(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the address of the service that a command line selects, or an empty string for this host."""
    found = environment.get(SERVICE_VARIABLE, "")
    before = list(arguments[: len(arguments) - len(words_from_verb(arguments))])
    for number, word in enumerate(before):
        if word == "--service":
            found = "".join(before[number + 1 : number + 2])
        elif word.startswith("--service="):
            found = word.removeprefix("--service=")
    return found.strip()


def is_typed(ctx: typer.Context, name: str) -> bool:
    """Return whether a parameter was given on the command line, rather than by the environment."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def is_at_service(ctx: Any) -> bool:
    """Return whether a command is carried out by a remote service."""
    root = ctx.find_root()
    return bool(str(root.params.get("service", os.environ.get(SERVICE_VARIABLE, ""))).strip())


def in_our_words(error: Any) -> Any:
    """Translate a usage error to one that says what was expected and found; return unknown errors unchanged."""
    if (text := _expected(error)) is None:
        return error
    parameter = getattr(error, "param", None)
    is_option = getattr(parameter, "param_type_name", "") == "option"
    name = f"{parameter.opts[-1]}: " if parameter is not None and is_option else ""
    return UsageError(name + sanitize(text), error.ctx)


def _expected(error: Any) -> str | None:
    """Return what was expected and found, from the text of typer or of our own check; None if it is unknown."""
    found, apart, choices = str(getattr(error, "message", "")).rpartition(" is not one of ")
    if apart and (words := re.findall(r"'([^']*)'", choices)):
        listed = " or ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else words[0]
        return f"expected {listed}, found {found.removeprefix('Value error, ')}"
    faults: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    if not faults or (kind := _EXPECTED.get(faults[0]["type"])) is None:
        return None
    return f"expected {kind.format_map(faults[0].get('ctx', {}))}, found {faults[0]['input']!r}"


class _PlainValues:
    """Convert parameters of plain types; leave all other types and all errors to typer.

    Typer's own conversion imports pydantic, which takes a fifth of the start time.
    """

    def __init__(self, parameter: Any) -> None:
        self._usual = parameter.get_runtime_param

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Convert a parameter's value for the command's function."""
        kind, info = param.type_descriptor.annotation, param.type_descriptor.parameter_info
        is_many = param.multiple or param.nargs == -1
        if value is None:
            return () if is_many else None
        try:
            if is_many and get_origin(kind) is list and isinstance(value, list | tuple):
                return [_plain(one, get_args(kind)[0], info) for one in value]
            return _plain(value, kind, info)
        except ValueError:
            return self._usual().coerce(value, param=param, ctx=ctx)


def _plain(value: Any, kind: Any, info: Any) -> Any:
    """Convert a value to a plain type. Raises `ValueError`: the type is not plain, or the value does not fit it."""
    if info.parser is not None or isinstance(value, bool):
        raise ValueError(kind)
    if kind is str and isinstance(value, str):
        return value
    if kind is Path and not info.exists and (os.access(value, os.R_OK) or not os.path.lexists(value)):
        return Path(value)
    if kind in {int, float} and re.fullmatch(
        r"-?\d{1,15}" if kind is int else r"-?\d{1,15}(\.\d*)?", str(value), re.ASCII
    ):
        number = kind(value)
        if (info.min is None or number >= info.min) and (info.max is None or number <= info.max) and not info.clamp:
            return number
    if isinstance(kind, type) and issubclass(kind, Enum):
        return value if isinstance(value, kind) else kind(value)
    raise ValueError(kind)


class _Parameters:
    """Parameters of a command or command group: only those accepted here, with quick conversion of plain types.

    Args:
        command: Typer's command.
        usual: Returns typer's own parameters.
    """

    def __init__(self, command: Any, usual: Callable[[Any], list[Any]]) -> None:
        self._command, self._usual = command, usual
        self._at: dict[bool, list[Any]] = {}

    def here(self, ctx: Any) -> list[Any]:
        """Return the parameters accepted on this host or at the service, whichever is selected."""
        at_service = is_at_service(ctx)
        if at_service not in self._at:
            marks = marks_of(self._command)
            found = self._usual(ctx)
            for one in found:
                one.get_runtime_param = partial(_same, _PlainValues(one))
            self._at[at_service] = [
                kept for one in found if (kept := _parameter_at(one, marks.get(one.name), at_service=at_service))
            ]
        return self._at[at_service]

    def parsed(self, ctx: Any, args: list[str], parse: Callable[[Any, list[str]], list[str]]) -> list[str]:
        """Parse the arguments with typer's `parse`.

        Raises:
            ConfigInvalid: An option is accepted only on this host, and a service is selected.
        """
        if _ALL in args:
            ctx.meta[_ALL] = True
            args = ["--help" if one == _ALL else one for one in args]
        try:
            return parse(ctx, args)
        except UsageError as error:
            name = str(getattr(error, "option_name", ""))
            local = next((one for one in self._command.params if name in (*one.opts, *one.secondary_opts)), None)
            if local is None or not is_at_service(ctx):
                raise
            raise _not_at_service(ctx, name, str(getattr(local, "rich_help_panel", "") or "")) from None


def marks_of(command: Any) -> dict[str, Offered]:
    """Return the `Offered` metadata of a command's parameters by name."""
    if command.callback is None:
        return {}
    # Typer's wrapper has no annotations of its own.
    parameters = inspect.signature(command.callback, eval_str=True).parameters
    return {name: _mark_of(one.annotation) for name, one in parameters.items()}


def _same(value: _PlainValues) -> _PlainValues:
    return value


def _mark_of(kind: object) -> Offered:
    marks = [one for one in get_args(kind) if isinstance(one, Offered)] if get_origin(kind) is Annotated else []
    return marks[0] if marks else Offered()


def _parameter_at(parameter: Any, mark: Offered | None, *, at_service: bool) -> Any:
    """Return a parameter as the help shows it on this host or for a service; None if it is not accepted there."""
    if mark is None:
        return parameter
    if not (mark.at_service if at_service else mark.here):
        return None
    if not at_service or (mark.metavar is None and mark.help is None):
        return parameter
    changed = copy.copy(parameter)
    changed.metavar, changed.help = mark.metavar or parameter.metavar, mark.help or parameter.help
    return changed


def _not_at_service(ctx: Any, option: str, panel: str) -> ConfigInvalid:
    words = " ".join(ctx.command_path.split()[1:])
    return ConfigInvalid(
        f"{option} cannot be given with --service: {_WHY.get(panel, 'its API does not carry it')}",
        hint=_INSTEAD.get(panel, f"Leave it out; '{words} --help' after --service lists what it takes"),
    )


class Verb(TyperCommand):
    """Command whose help shows options in groups; with `first` options, `--help` shows only these."""

    first: tuple[str, ...] = ()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._parameters = _Parameters(self, super().get_params)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters accepted here."""
        return self._parameters.here(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, see `_Parameters.parsed`."""
        return self._parameters.parsed(ctx, args, super().parse_args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the option groups, the unnamed group first."""
        shown_alone = () if ctx.meta.get(_ALL) or is_at_service(ctx) else self.first
        _write_options(self, ctx, formatter, shown_alone)


def verb_with_first(*names: str) -> type[Verb]:
    """Return a command class whose `--help` shows only these options, and `--help-all` all of them."""
    return type("Verb", (Verb,), {"first": names})


class InterruptedByOperator(Exception):
    """Ctrl-C arrived while no handler was active. Typer would exit with 130 and without a message."""


class Family(TyperGroup):
    """Command group, with its subcommands in groups too.

    Attributes:
        later: Commands that are imported only when they are called: name -> (`module:function`, first sentence of its
            help).
    """

    later: Mapping[str, tuple[str, str]] = {}

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._parameters = _Parameters(self, super().get_params)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters accepted here."""
        return self._parameters.here(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, see `_Parameters.parsed`."""
        return self._parameters.parsed(ctx, args, super().parse_args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands available here."""
        return [*self.later] or [name for name in super().list_commands(ctx) if self.get_command(ctx, name) is not None]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or None if it is not available here."""
        if cmd_name in self.later and cmd_name not in self.commands:
            module, _, function = self.later[cmd_name][0].partition(":")
            self.commands[cmd_name] = command_of(cmd_name, getattr(import_module(module), function))
        found = super().get_command(ctx, cmd_name)
        only_at_service = getattr(getattr(found, "callback", None), "only_at_service", False)
        return None if only_at_service and not is_at_service(ctx) else found

    def invoke(self, ctx: Any) -> Any:
        """Run the command.

        Raises:
            InterruptedByOperator: Ctrl-C arrived while no handler was active.
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
        """Write each command with its whole first sentence."""
        rows = [(name, text) for name, (_, text) in self.later.items()] or [
            (name, self.get_command(ctx, name).get_short_help_str(_NO_LIMIT)) for name in self.list_commands(ctx)
        ]
        _write_groups({"Commands": rows}, formatter)


def only_at_service(command: Callable[..., None]) -> Callable[..., None]:
    """Mark a command as available only at a remote service."""
    # Read by Family; typer's wrapper copies the function's `__dict__`.
    vars(command)["only_at_service"] = True
    return command


class App(typer.Typer):
    """Typer application without markup and panels, with `-h` as well as `--help`."""

    def __init__(self, **options: Any) -> None:
        context = {"help_option_names": ["--help", "-h"]}
        super().__init__(
            **{"no_args_is_help": True, "add_completion": False, "cls": Family, **options},
            rich_markup_mode=None,
            context_settings=context,
        )

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        """Return the decorator that registers a function as a command."""
        return super().command(name, **{"cls": Verb, **options})


def app_of(text: str, later: Mapping[str, tuple[str, str]]) -> App:
    """Return an app with this help whose commands are imported when they are called; see `Family.later`."""
    app = App(help=text, cls=type("Family", (Family,), {"later": later}))
    app.callback()(_no_options)
    return app


def _no_options() -> None:
    """Take no options before the command."""


def command_of(name: str, function: Callable[..., None], cls: type[Verb] = Verb) -> Any:
    """Return a command that calls a function with its options."""
    app = App()
    app.command(name, cls=cls)(function)
    return get_command(app)


def _write_options(command: Any, ctx: Any, formatter: Any, first: Sequence[str] = ()) -> None:
    groups: dict[str, list[tuple[str, str]]] = {name: [] for name in _ORDER}
    left_out = 0
    for parameter in command.get_params(ctx):
        if (record := parameter.get_help_record(ctx)) is None:
            continue
        if parameter.param_type_name == "argument":
            # Required options come first.
            groups = {"Arguments": [], **groups} if "Arguments" not in groups else groups
            groups["Arguments"].append(record)
        elif not first:
            groups.setdefault(getattr(parameter, "rich_help_panel", None) or _OPTIONS, []).append(record)
        elif parameter.name in first or parameter.name == "help":
            groups[_OPTIONS].append(record)
        else:
            left_out += 1
    if first:
        order = {name: number for number, name in enumerate(first)}
        names = {record: one.name for one in command.get_params(ctx) if (record := one.get_help_record(ctx))}
        groups[_OPTIONS].sort(key=lambda record: order.get(names[record], len(order)))
        groups[_OPTIONS].append((_ALL, f"Show all options: {left_out} more."))
    _write_groups(groups, formatter)


def _write_groups(groups: Mapping[str, list[tuple[str, str]]], formatter: Any) -> None:
    """Write the groups that are not empty, with their texts aligned in one column."""
    widths = [len(words) for rows in groups.values() for words, _ in rows]
    widest = max((width for width in widths if width <= _WIDEST), default=0)
    for name, rows in groups.items():
        if rows:
            with formatter.section(name):
                formatter.write_dl([(words.ljust(widest), text) for words, text in rows], col_max=widest)
