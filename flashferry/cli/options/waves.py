"""The options about waves, limits and the end of a run, once for `plan` and `stage`.

Each is None where it is not given, so that `stage --plan` can tell what overrides the plan.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

import typer

from flashferry.api.options import Overrides, WaveBy
from flashferry.cli.command_line import TUNING, WAVES
from flashferry.cli.options.shared import carried
from flashferry.core.errors import ConfigInvalid
from flashferry.model.fleet_plan import TuneMode
from flashferry.model.limits import MOST, Limits, parse_until

_DEFAULT = Limits()

TuneOption = Annotated[
    TuneMode | None,
    typer.Option(
        "--tune",
        help="Devices to tune: auto leaves out those shown not to gain from it (default: auto).",
        rich_help_panel=TUNING,
    ),
]


def _overrides(given: dict[str, Any]) -> Overrides:
    """Return what was given as values.

    Raises:
        ConfigInvalid: A share or a time makes no sense, or the time is past.
    """
    failures, until = given.pop("max_failures"), given.pop("until")
    named = {name.removeprefix("max_"): value for name, value in given.items()}
    return Overrides(
        max_failures=None if failures is None else parse_failures(failures),
        until=None if until is None else parse_until(until, datetime.now().astimezone()),
        **named,
    )


def parse_failures(text: str) -> int | float:
    """Return how many failures a run bears: `3` is a count, `10%` a share.

    Raises:
        ConfigInvalid: It is neither.
    """
    if re.fullmatch(r"\d{1,5}", text):
        return int(text)
    found = re.fullmatch(r"(\d{1,3}(?:\.\d+)?)\s*%", text)
    if found is None or float(found[1]) > 100:
        raise ConfigInvalid(
            f"--max-failures {text!r}: expected a count such as 3 or a share up to 100% such as 10%",
            hint="A count stops the run at so many failed devices, a share at such a part of those begun",
        )
    # A share of nothing is a count of none.
    return float(found[1]) / 100 or 0


_option = functools.partial(typer.Option, rich_help_panel=WAVES)


def _options(
    canary: Annotated[
        bool | None,
        _option(
            "--canary/--no-canary",
            help="One device of each model first, the others once it is done (default); of each image where no model "
            "is known yet.",
        ),
    ] = None,
    wave_by: Annotated[
        WaveBy | None, _option("--wave-by", help="What the waves behind the canaries follow (default: site).")
    ] = None,
    wave_size: Annotated[
        int | None, _option("--wave-size", metavar="N", min=1, help="Split waves of more devices than this.")
    ] = None,
    max_failures: Annotated[
        str | None,
        _option(
            "--max-failures",
            metavar="N|N%",
            help="Begin nothing new once more devices failed than this count, or share of those begun (default: 100%); "
            "a failed canary always stops the run.",
        ),
    ] = None,
    approve: Annotated[
        bool | None, _option("--approve/--no-approve", help="Ask for a yes between waves (default: no).")
    ] = None,
    max_logins: Annotated[
        int | None,
        _option("--max-logins", metavar="N", min=1, max=MOST, help=f"Logins at once (default: {_DEFAULT.logins})."),
    ] = None,
    max_copies: Annotated[
        int | None,
        _option(
            "--max-copies", metavar="N", min=1, max=MOST, help=f"Copies at once in all (default: {_DEFAULT.copies})."
        ),
    ] = None,
    site_copies: Annotated[
        int | None,
        _option(
            "--site-copies",
            metavar="N",
            min=1,
            max=MOST,
            help=f"Copies at once at a site; its max_copies may be lower (default: {_DEFAULT.site_copies}).",
        ),
    ] = None,
    max_hashes: Annotated[
        int | None,
        _option(
            "--max-hashes",
            metavar="N",
            min=1,
            max=MOST,
            help=f"Devices that hash at once (default: {_DEFAULT.hashes}).",
        ),
    ] = None,
    until: Annotated[
        str | None,
        _option(
            "--until", metavar="TIME", help="When the run must have ended: HH:MM (the next one) or a date and time."
        ),
    ] = None,
) -> None:
    """Carry the options."""


def wave_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb these options; it takes them together as its argument `waves`, an Overrides."""
    shared = inspect.signature(_options, eval_str=True).parameters
    return carried(verb, "waves", shared, lambda given, _own: _overrides(given))
