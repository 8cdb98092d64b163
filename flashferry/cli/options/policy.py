"""Command-line options for the settings of a run, derived from `flashferry.model.policy`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Any

import typer

from flashferry.cli.command_line import HERE, Offered
from flashferry.cli.options.shared import carried
from flashferry.model.policy import at_the_start, settings, with_the_plan
from flashferry.model.setting import Setting, Subject


def option_of(name: str) -> Any:
    """Return the option of a setting by name."""
    known = settings()[name]
    return typer.Option(
        known.option,
        metavar=known.metavar,
        min=known.least,
        max=known.most,
        help=known.explained,
        rich_help_panel=None if known.subject is Subject.RUN else known.subject.value,
    )


Md5Option = Annotated[str | None, option_of("md5"), HERE]
Sha512Option = Annotated[str | None, option_of("sha512"), HERE]


def policy_options(
    offered: Iterable[Setting], *, at_service: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add settings as options to a verb; those given are passed as its argument `chosen`, a dict by name.

    Args:
        offered: The settings, in help order.
        at_service: Names of the settings that a service accepts too.
    """
    shared = {one.name: _parameter(one, Offered(at_service=one.name in at_service)) for one in offered}

    def with_options(verb: Callable[..., None]) -> Callable[..., None]:
        return carried(verb, "chosen", shared, lambda given, _own: chosen_of(given))

    return with_options


def chosen_of(given: Mapping[str, Any]) -> dict[str, object]:
    """Return the values of the settings that were given.

    Args:
        given: Option values by name; None, or False for a switch without an off form, means not given.

    Raises:
        ConfigInvalid: A value is invalid.
    """
    known = settings()
    return {name: _value(known[name], value) for name, value in given.items() if _is_given(known[name], value)}


def _is_given(known: Setting, value: object) -> bool:
    return value is not None and value != [] and (value is not False or known.off != "")


def _value(known: Setting, given: Any) -> object:
    read = known.read or (lambda word: word)
    return tuple(dict.fromkeys(map(read, given))) if isinstance(given, list) else read(given)


def _parameter(known: Setting, mark: Offered) -> inspect.Parameter:
    return inspect.Parameter(
        known.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if known.is_flag and not known.off else None,
        annotation=Annotated[_kind(known), option_of(known.name), mark],
    )


def _kind(known: Setting) -> Any:
    """Return the type that Typer parses the option as."""
    if known.is_flag:
        return bool | None if known.off else bool
    if known.choices is not None:
        return known.choices | None
    if known.kind == tuple[str, ...]:
        return list[str] | None
    return str | None if known.least is None else int | None


WITH_THE_PLAN, AT_THE_START = with_the_plan(), at_the_start()
