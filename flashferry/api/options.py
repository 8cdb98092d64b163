"""What several jobs are given: what overrides a plan or an earlier run, and where state is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashferry.model.limits import Limits
from flashferry.model.waves import WavePolicy
from inventory.access import state_directory

if TYPE_CHECKING:
    from flashferry.store.journal import Journal
    from flashferry.store.wishes import Origin


class WaveBy(StrEnum):
    """What the waves behind the canaries follow."""

    SITE = "site"
    GROUP = "group"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What is said about waves, limits and the end of a run; what is None stays as it would be otherwise.

    Without them a run has the defaults of `Limits` and `WavePolicy`, a plan's run those of the plan, and a run that is
    resumed its own.

    Attributes:
        canary: Whether one device of each model goes first.
        wave_by: What the other waves follow.
        wave_size: Devices of a wave at most, from 1.
        max_failures: Failures after which nothing new begins: a count (int, from 0) or a share of the devices begun
            (float, 0 to 1).
        approve: Whether each wave behind the first waits for a yes.
        logins: Logins at once, from 1.
        copies: Copies at once in all, from 1.
        site_copies: Copies at once at a site, from 1; the site's own `max_copies` may be lower.
        hashes: Devices that hash at once, from 1.
        until: When the run must have ended, with a time zone.
    """

    canary: bool | None = None
    wave_by: WaveBy | None = None
    wave_size: int | None = None
    max_failures: float | None = None
    approve: bool | None = None
    logins: int | None = None
    copies: int | None = None
    site_copies: int | None = None
    hashes: int | None = None
    until: datetime | None = None

    @property
    def makes_waves(self) -> bool:
        """Return whether waves that were made already are to be made anew."""
        return any(one is not None for one in (self.canary, self.wave_by, self.wave_size))

    def limits(self, base: Limits | None = None) -> Limits:
        """Return the limits of a run: those said here, the others as in `base` or by default."""
        said = {name: getattr(self, name) for name in ("logins", "copies", "site_copies", "hashes")}
        return replace(base or Limits(), **{name: value for name, value in said.items() if value is not None})

    def policy(self, base: WavePolicy | None = None) -> WavePolicy:
        """Return how waves are made and when the run stops, likewise.

        Raises:
            ConfigInvalid: A value makes no sense.
        """
        said: dict[str, Any] = {
            "canary": self.canary,
            "size": self.wave_size,
            "approve": self.approve,
            "max_failures": self.max_failures,
        }
        changed = {name: value for name, value in said.items() if value is not None}
        if self.wave_by is not None:
            changed["by"] = None if self.wave_by is WaveBy.ALL else self.wave_by.value
        return replace(base or WavePolicy(), **changed)


def state_folder(state: Path | str | None) -> Path:
    """Return the folder of journal and history: the one given, else where the command line has it."""
    return state_directory(None if state is None else Path(state))


@contextmanager
def journal_in(state: Journal | Path | str | None, origin: Origin | None = None) -> Iterator[Journal]:
    """Yield a journal: one that is open stays so, another is opened for as long as the block runs.

    Args:
        state: The journal, or its folder; None: where the command line has it.
        origin: From where the runs come that are begun with it, where it is opened here; None: nobody says.

    Raises:
        JournalUnusable: It cannot be opened, or is of a later release.
    """
    from flashferry.store.journal import Journal

    if isinstance(state, Journal):
        yield state
        return
    with Journal(state_folder(state), origin) as journal:
        yield journal
