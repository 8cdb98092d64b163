"""Report which sites of a run are silent, and what their depots fetch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from flashferry.core.redaction import masked
from flashferry.core.units import size
from flashferry.sites.centre.collecting import now
from flashferry.sites.centre.overview import fetching_for
from flashferry.sites.centre.sharing import ago
from flashferry.store.database import moment_of
from flashferry.store.sites.agents import AgentState
from flashferry.store.sites.runs import Part

REMIND_S = 300.0
"""Interval between reports that a site is silent."""
_MANY_NOTES = 3
_STEP_PERCENT = 25
"""Progress of a depot's fetch is reported in steps of this size."""


class SiteSignals:
    """What a run's sites signal between their reports.

    Args:
        silent_after_s: An agent without a word for this time counts as silent.
        clock: Returns monotonic seconds.

    Attributes:
        fetching: The fetch in progress of each site's depot, in words.
    """

    def __init__(self, silent_after_s: float, clock: Callable[[], float]) -> None:
        self._silent_after_s, self._clock = silent_after_s, clock
        self._silent: dict[str, float] = {}
        self._last_at: dict[str, datetime | None] = {}
        self.fetching: dict[str, str] = {}
        self._fetched_to: dict[str, tuple[str, str, int]] = {}

    def silence(self) -> dict[str, str]:
        """Return the time of the last message of each silent site with work; reads nothing."""
        at = now()
        return {site: _last_message(last, at) for site, last in self._last_at.items()}

    def check(self, parts: Sequence[Part], known: Mapping[str, AgentState], say: Callable[[str], None]) -> None:
        """Report what changed since the last call."""
        self._show_silence(parts, known, say)
        self._show_fetching(parts, known, say)

    def _show_silence(self, parts: Sequence[Part], known: Mapping[str, AgentState], say: Callable[[str], None]) -> None:
        """Report silent sites, repeated every few minutes, and sites that answer again."""
        at, fresh = now(), []
        last_at: dict[str, datetime | None] = {}
        for part in parts:
            last = moment_of(known[part.site].last_message_at) if part.site in known else None
            is_silent = last is None or (at - last).total_seconds() > self._silent_after_s
            if is_silent and not part.is_over:
                last_at[part.site] = last
                if self._clock() - self._silent.get(part.site, float("-inf")) >= REMIND_S:
                    self._silent[part.site] = self._clock()
                    fresh.append(f"{part.site} ({_last_message(last, at)})")
            elif not is_silent and self._silent.pop(part.site, None) is not None:
                say(f"site {part.site} answers again")
        # At once, for another thread may be drawing.
        self._last_at = last_at
        if fresh:
            more = f" and {len(fresh) - _MANY_NOTES} more" if len(fresh) > _MANY_NOTES else ""
            say(f"silent: {', '.join(fresh[:_MANY_NOTES])}{more}; what it has in hand goes on there")

    def _show_fetching(
        self, parts: Sequence[Part], known: Mapping[str, AgentState], say: Callable[[str], None]
    ) -> None:
        """Report the fetches into depots, at the start and after each quarter."""
        fetched: dict[str, str] = {}
        for part in parts:
            found = fetching_for(part, known)
            if found is None or part.site in self._last_at or part.site in fetched:
                continue
            fetched[part.site] = masked(found.in_words)
            far = (found.image, found.phase, found.percent // _STEP_PERCENT)
            if self._fetched_to.get(part.site) != far:
                self._fetched_to[part.site] = far
                say(f"site {part.site} fetches {fetched[part.site]} of {size(found.size_bytes)}")
        # At once, for another thread may be drawing.
        self.fetching = fetched


def _last_message(last: datetime | None, at: datetime) -> str:
    return "no message yet" if last is None else f"last message {ago(last, at)}"
