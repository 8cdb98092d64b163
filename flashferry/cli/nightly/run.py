"""`flashferry nightly run`: one whole night, a line per step, and an exit code that says whose fault it was."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry import api
from flashferry.cli.options.shared import JsonOption, StateOption
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import echo, finish, say
from flashferry.core.units import duration

if TYPE_CHECKING:
    from flashferry.nightly.night import NightStep, StepName
    from flashferry.nightly.playing import Played

DEFAULT = Path("nightly.yaml")
_SIGNS = {"passed": "", "failed": "FAILED ", "skipped": "skipped: "}


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The description of the night.")] = DEFAULT,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Take a lab up, run the tool on it, judge the night, and remove the lab, whatever happens."""
    from flashferry.nightly.playing import play_night

    with stop_on_signals(tell=_tell_stop) as stop:
        played = play_night(file, state=api.state_folder(state_dir), watcher=StepLines(), is_stopped=stop.is_set)
    content: dict[str, object] = {"night": played.night, "folder": played.folder}
    finish("nightly-run", played.night.exit_code, content, as_json=json, human=lambda: _print(played))


def _tell_stop(first: bool) -> None:
    say(
        "interrupted: ending what is under way, then the lab is removed"
        if first
        else "still removing the lab; if this process is killed, run 'flashferry nightly reap'"
    )


class StepLines:
    """Prints a line on standard error for each step that ended, with its time."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def began(self, name: StepName) -> None:
        """Say nothing: a step's line comes with its end."""

    def ended(self, step: NightStep) -> None:
        """Print a step's line; one that was not begun has none."""
        if step.outcome.value == "skipped" and not step.duration_s:
            return
        took = f" ({duration(step.duration_s)})" if step.duration_s >= 1 else ""
        hint = f". {step.hint}" if step.hint else ""
        at_s = time.monotonic() - self._began_s
        sign = _SIGNS[step.outcome.value]
        echo(f"{at_s:7.1f} s  {step.name.value:<10} {sign}{step.sentence}{hint}{took}".rstrip(), err=True)


def _print(played: Played) -> None:
    from flashferry.nightly.artefacts.words import night_lines, night_result

    night = played.night
    echo(f"{night.night_id}: {night_result(night)}")
    for line in night_lines(night):
        echo(f"  {line}")
    if played.folder is not None:
        echo(f"Report: {played.folder / 'report.html'}")
