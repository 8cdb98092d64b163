"""What the demos share: how a scenario runs and ends, its lines, its made-up images, and its last checks."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import typer

from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import say
from flashferry.cli.view.layout import BAD, GOOD, console
from flashferry.lab.demo.programs import Broken, Programs
from flashferry.lab.errors import LabError
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from flashferry.lab.world import Site


class Environment(Protocol):
    """What a scenario runs on: a lab, and programs in it."""

    @property
    def programs(self) -> Programs:
        """The programs that run."""


AnyEnvironment = TypeVar("AnyEnvironment", bound=Environment)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeUpImage:
    """An image of random bytes, named as the vendor names those of a model.

    Attributes:
        name: The file's name.
        model: Which models get it, as the inventory's image rules have it.
    """

    name: str
    model: str
    size_bytes: int


def write_image_rules(inventory: Path, images: Iterable[MadeUpImage]) -> None:
    """Write which model gets which image beside an inventory."""
    lines = [f'  - {{model: "{one.model}", image: "{one.name}"}}' for one in images]
    (inventory / "images.yaml").write_text("\n".join(["rules:", *lines, ""]), encoding="utf-8")


def play(
    opened: Callable[[threading.Event, threading.Event], AbstractContextManager[AnyEnvironment]],
    scenario: Callable[[AnyEnvironment], Sequence[str]],
) -> None:
    """Open an environment, run a scenario on it, end all of it, and exit.

    Args:
        opened: Yields the environment; takes an event that is set when it is to end, and one when it is to end at once.
        scenario: Returns what is not as it should be, in sentences.

    Raises:
        typer.Exit: Always.
    """
    hurry = threading.Event()

    def end(first: bool) -> None:
        if first:
            say("ending all of it; routers under way are put back, unless Ctrl-C comes again")
        else:
            hurry.set()

    try:
        with stop_on_signals(announce=end) as stop, opened(stop, hurry) as environment:
            code = _played(environment, scenario)
    except LabError as error:
        say(f"error: {error}")
        code = ExitCode.USAGE
    raise typer.Exit(int(code))


def _played(environment: AnyEnvironment, scenario: Callable[[AnyEnvironment], Sequence[str]]) -> ExitCode:
    try:
        wrong = scenario(environment)
    except Broken as error:
        if environment.programs.stop.is_set():
            return ExitCode.INTERRUPTED
        say(f"error: {environment.programs.trouble() or error}")
        return ExitCode.INTERNAL
    return ExitCode.DEVICES_FAILED if wrong else ExitCode.OK


def step(number: int, text: str) -> None:
    """Print the heading of a step."""
    print_line()
    print_line(f"{number}. {text}", style="bold")


def print_line(text: str = "", style: str = "") -> None:
    """Print a line."""
    console().print(text, style=style or None, soft_wrap=True)


def models_at(site: Site) -> str:
    """Return how many routers of which platform a site has, in words."""
    return ", ".join(f"{count} {platform}" for platform, count in Counter(one.platform for one in site.devices).items())


def print_checks(checks: Iterable[tuple[str, Iterable[str]]]) -> tuple[str, ...]:
    """Print what is well, then what is not; return the latter.

    Args:
        checks: What should be so, and sentences that say where it is not.
    """
    wrong: list[str] = []
    for text, sentences in checks:
        found = tuple(sentences)
        wrong += found
        if text and not found:
            print_line(text, style=GOOD)
    for sentence in wrong:
        print_line(f"NOT WELL: {sentence}", style=BAD)
    return tuple(wrong)
