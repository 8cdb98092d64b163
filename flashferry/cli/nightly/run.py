"""`flashferry nightly run`: run a whole night. Prints a line per step; the exit code says where the fault lies."""

from __future__ import annotations

import re
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry import api
from flashferry.cli.images import file_bars
from flashferry.cli.nightly.begin import DEFAULT
from flashferry.cli.options.shared import JsonOption, StateOption
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import echo, finish, say
from flashferry.core.redaction import sanitize
from flashferry.core.units import duration
from flashferry.nightly.artefacts.report import night_lines, night_result
from flashferry.nightly.booting import ImageChoice
from flashferry.nightly.runner import play_night

if TYPE_CHECKING:
    from flashferry.nightly.night import NightStep, StepName
    from flashferry.nightly.runner import NightResult

_COLUMNS = 100
_BEFORE_UNIT, _NO_BREAK = re.compile(r"(?<=\d) (?=[A-Za-z])"), "\N{NO-BREAK SPACE}"
_SIGNS = {"passed": "", "failed": "FAILED ", "skipped": "skipped: "}


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The description of the night.")] = DEFAULT,
    image_file: Annotated[
        Path | None,
        typer.Option("--image-file", metavar="FILE", help="Upload a disk image (.qcow2) and have it booted."),
    ] = None,
    image_definition: Annotated[
        str | None,
        typer.Option("--image-definition", metavar="ID", help="Have an image booted that the controller has."),
    ] = None,
    image_for: Annotated[
        str | None,
        typer.Option("--image-for", metavar="DEFINITION", help="By which nodes, where the lab has several kinds."),
    ] = None,
    keep_image: Annotated[
        bool, typer.Option("--keep-image", help="Leave an uploaded image there; else it goes with the lab.")
    ] = False,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Take a lab up, run the tool on it, judge the night, and remove the lab, whatever happens."""
    image = ImageChoice(file=image_file, definition=image_definition, node_definition=image_for, is_kept=keep_image)
    with stop_on_signals(announce=_print_stopping) as stop, upload_bar(image_file) as on_progress:
        played = play_night(
            file,
            state=api.state_folder(state_dir),
            watcher=StepLines(),
            is_stopped=stop.is_set,
            image=image,
            on_progress=on_progress,
        )
    content: dict[str, object] = {"night": played.night, "folder": played.folder}
    finish("nightly-run", played.night.exit_code, content, as_json=json, human=lambda: _print(played))


def _print_stopping(first: bool) -> None:
    say(
        "interrupted: ending what is under way, then the lab is removed"
        if first
        else "still removing the lab; if this process is killed, run 'flashferry nightly reap'"
    )


@contextmanager
def upload_bar(file: Path | None) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar while a file is hashed and uploaded; yield the function that updates it."""
    if file is None:
        yield lambda _done, _size: None
        return

    bars = file_bars()
    task = bars.add_task(file.name, total=None)

    def draw(done: int, size: int) -> None:
        if not bars.live.is_started:
            bars.reset(task)
            bars.start()
        bars.update(task, completed=done, total=size)
        if done >= size:
            bars.stop()

    try:
        yield draw
    finally:
        bars.stop()


class StepLines:
    """Prints a line on standard error for each step that ended, with its duration."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def began(self, name: StepName) -> None:
        """Do nothing: a step is printed when it ends."""

    def ended(self, step: NightStep) -> None:
        """Print a step, unless it was not started."""
        if step.outcome.value == "skipped" and not step.duration_s:
            return
        took = f" ({duration(step.duration_s)})" if step.duration_s >= 1 else ""
        hint = f". {step.hint}" if step.hint else ""
        at_s = time.monotonic() - self._began_s
        sign = _SIGNS[step.outcome.value]
        head = f"{at_s:7.1f} s  {step.name.value:<10} "
        for line in _lines(head, f"{sign}{step.sentence}{hint}{took}"):
            echo(line, err=True)


def _lines(head: str, said: str) -> list[str]:
    """Wrap a step's text to lines of 100 columns, indented below the first line's text.

    Words are never broken, so paths and identifiers can be copied; a number stays with its unit. Secrets are masked
    before
    wrapping: a secret broken over two lines would not be recognized.
    """
    kept = _BEFORE_UNIT.sub(_NO_BREAK, sanitize(said))
    below = " " * len(head)
    wrapped = textwrap.wrap(
        head + kept, _COLUMNS, subsequent_indent=below, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(_NO_BREAK, " ") for line in wrapped] or [head.rstrip()]


def _print(played: NightResult) -> None:
    night = played.night
    echo(f"{night.night_id}: {night_result(night)}")
    for line in night_lines(night):
        echo(f"  {line}")
    if played.folder is not None:
        echo(f"Report: {played.folder / 'report.html'}")
