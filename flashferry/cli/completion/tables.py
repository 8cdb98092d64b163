"""What completion goes by, alike for all shells: a command's verbs, its options, and what each value may be. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flashferry.cli.tree import Command, Value

ANY_PLACE = "@"
"""Stands for each place behind a command where as many words may follow as somebody likes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """What may stand behind a command.

    Attributes:
        where: The command's words; empty for the program itself.
        verbs: Commands below it, each with what it does.
        flags: All of its options by all of their names, each with what it does.
        values: What options take a value, and which; and places behind the command, by their number from 1 on.
    """

    where: str
    verbs: tuple[tuple[str, str], ...]
    flags: tuple[tuple[str, str], ...]
    values: tuple[tuple[str, Value], ...]


def tables(tree: Command) -> tuple[Offered, ...]:
    """Return a table for each command."""
    return tuple(
        Offered(
            where=" ".join(one.path),
            verbs=tuple((below.name, sentence(below.told)) for below in one.commands),
            flags=tuple((name, sentence(option.told)) for option in one.options for name in option.names),
            values=(*_of_options(one), *_of_places(one)),
        )
        for one in tree
    )


def by_value(found: tuple[Offered, ...]) -> dict[tuple[str, tuple[str, ...]], list[str]]:
    """Return what takes which kind of value: kind and words, and behind them each command with its option or place."""
    places: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for one in found:
        for what, value in one.values:
            places.setdefault((value.kind.value, value.words), []).append(f"{one.where} {what}")
    return places


def _of_options(one: Command) -> Iterator[tuple[str, Value]]:
    for option in one.options:
        if option.value is not None:
            for name in option.names:
                yield name, option.value


def _of_places(one: Command) -> Iterator[tuple[str, Value]]:
    for number, argument in enumerate(one.arguments, start=1):
        yield (ANY_PLACE if argument.is_repeated else str(number)), argument.value


def sentence(text: str) -> str:
    """Return the first sentence of a text, without its full stop: what a list of candidates has room for."""
    first = " ".join(text.partition("\n\n")[0].split()).partition(". ")[0]
    return first.partition(": ")[0].rstrip(".") if len(first) > _LONG else first.rstrip(".")


_LONG = 90
"""Characters; of longer sentences what stands behind a colon is left out."""
