"""The options about waves, limits and the end of a run, once for `plan` and `stage`.

Each is None where it is not given, so that `stage --plan` can tell what overrides the plan.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from flashferry.cli.command_line import TUNING, WAVES
from flashferry.core.errors import ConfigInvalid
from flashferry.model.fleet_plan import TuneMode
from flashferry.model.limits import MOST, Limits, parse_until
from flashferry.model.waves import WavePolicy


class WaveBy(StrEnum):
    """What waves follow."""

    SITE = "site"
    GROUP = "group"
    ALL = "all"


_DEFAULT = Limits()

TuneOption = Annotated[
    TuneMode | None,
    typer.Option(
        "--tune",
        help="Devices to tune: auto leaves out those shown not to gain from it (default: auto).",
        rich_help_panel=TUNING,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveOptions:
    """What was given of them; None where it was not."""

    canary: bool | None = None
    wave_by: WaveBy | None = None
    wave_size: int | None = None
    max_failures: str | None = None
    approve: bool | None = None
    max_logins: int | None = None
    max_copies: int | None = None
    site_copies: int | None = None
    max_hashes: int | None = None
    until: str | None = None

    def limits(self, base: Limits | None = None) -> Limits:
        """Return the limits of a run: those given, the others as in `base` or by default."""
        given = {
            "logins": self.max_logins,
            "copies": self.max_copies,
            "site_copies": self.site_copies,
            "hashes": self.max_hashes,
        }
        return replace(base or Limits(), **{name: value for name, value in given.items() if value is not None})

    def policy(self, base: WavePolicy | None = None) -> WavePolicy:
        """Return how waves are made and when the run stops, likewise.

        Raises:
            ConfigInvalid: An option makes no sense.
        """
        given: dict[str, Any] = {"canary": self.canary, "size": self.wave_size, "approve": self.approve}
        if self.max_failures is not None:
            given["max_failures"] = parse_failures(self.max_failures)
        changed = {name: value for name, value in given.items() if value is not None}
        if self.wave_by is not None:
            changed["by"] = None if self.wave_by is WaveBy.ALL else self.wave_by.value
        return replace(base or WavePolicy(), **changed)

    def deadline(self, now: datetime) -> datetime | None:
        """Return when the run must have ended, or None where nothing was said.

        Raises:
            ConfigInvalid: It is no time, or past.
        """
        return None if self.until is None else parse_until(self.until, now)


def parse_failures(text: str) -> int | float:
    """Return how many failures a run bears: `3` is a count, `10%` a share.

    Raises:
        ConfigInvalid: It is neither.
    """
    if re.fullmatch(r"\d{1,5}", text):
        return int(text)
    found = re.fullmatch(r"(\d{1,3}(?:\.\d+)?)\s*%", text)
    if found is None or float(found[1]) > 100:
        raise ConfigInvalid(f"--max-failures {text!r}: expected a count such as 3 or a share up to 100% such as 10%")
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
    """Give a verb these options; it takes them together as its argument `waves`, a WaveOptions."""
    own = inspect.signature(verb, eval_str=True)
    shared = dict(inspect.signature(_options, eval_str=True).parameters)

    @functools.wraps(verb)
    def with_waves(**given: Any) -> None:
        options = {name: given.pop(name) for name in shared}
        verb(waves=WaveOptions(**options), **given)

    mine = [one for name, one in own.parameters.items() if name != "waves"]
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*mine, *shared.values())]
    # Typer reads the signature, and the annotations by themselves.
    with_waves.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined] # inspect's own hook
    with_waves.__annotations__ = {one.name: one.annotation for one in parameters}
    del with_waves.__wrapped__
    return with_waves
