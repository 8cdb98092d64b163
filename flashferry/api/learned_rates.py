"""What links carry where nobody stated a rate: learned of every transfer that ends, told, and held against verdicts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from flashferry.fileserver import EventKind, ServerEvent, SiteRates, network_of
from flashferry.model.link_rates import payload_cap_bytes_per_s

_TEACHING = frozenset({EventKind.LOGIN, EventKind.DONE, EventKind.FAILED})


class LearnedRates:
    """Learns from every transfer that ends what the link of its client's network carries.

    Args:
        rates: What is known already.
        wall: Wall-clock time in seconds since 1970.
        set_link: Takes a network, and what its link carries as payload bytes per second; None for not known any more;
            None where nobody wants it.
    """

    def __init__(
        self,
        rates: SiteRates,
        wall: Callable[[], float] = time.time,
        set_link: Callable[[str, int | None], None] | None = None,
    ) -> None:
        self._rates = rates
        self._wall = wall
        self._set_link = set_link if set_link is not None else _nobody
        self._told: dict[str, float] = {}

    def start(self) -> Iterator[str]:
        """Yield what is known of all networks, in words."""
        for site in self._rates.sites():
            yield from self._tell(site)

    def take(self, event: ServerEvent) -> Iterator[str]:
        """Learn from the end of a transfer; at a login look again how old a rate is. Yield what changed, in words."""
        if event.peer_address is None or event.kind not in _TEACHING:
            return
        site = network_of(event.peer_address)
        record = event.progress.record if event.progress else None
        if event.kind is not EventKind.LOGIN:
            if record is None:
                return
            self._rates.note(site, record)
        yield from self._tell(site)

    def _tell(self, site: str) -> Iterator[str]:
        now_s = self._wall()
        learned = self._rates.learned(site, now_s)
        if learned is None:
            if self._told.pop(site, None) is not None:
                self._set_link(site, None)
                yield f"{site}: the learned link rate is too old and is forgotten"
        elif self._told.get(site) != learned.rate_bps:
            self._told[site] = learned.rate_bps
            self._set_link(site, payload_cap_bytes_per_s(learned.rate_bps))
            yield f"{site}: the link carries {learned.describe(now_s)}"


def _nobody(network: str, link_bytes_per_s: int | None) -> None:
    """Take what nobody wants."""
