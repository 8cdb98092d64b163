"""Caps from learned link rates: what a client's network was seen to carry limits its next copies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from ftpserver import EventKind, FtpServer, ServerEvent, SiteRates, network_of
from tcp.link_rate import DEFAULT_CAP_SHARE


class LearnedCaps:
    """Learns from every transfer that ends, and caps a network's copies at a share of what it learned.

    Args:
        server: The server; its settings have `sites_by_network`.
        rates: What is known already.
        wall: Wall-clock time in seconds since 1970.
    """

    def __init__(self, server: FtpServer, rates: SiteRates, wall: Callable[[], float] = time.time) -> None:
        self._server = server
        self._rates = rates
        self._wall = wall
        self._told: dict[str, float] = {}

    def start(self) -> Iterator[str]:
        """Put the caps of all known networks in force; yield what was done, in words."""
        for site in self._rates.sites():
            yield from self._apply(site)

    def take(self, event: ServerEvent) -> Iterator[str]:
        """Learn from the end of a transfer; at a login look again how old a rate is. Yield what changed, in words."""
        if event.peer_address is None:
            return
        site = network_of(event.peer_address)
        record = event.progress.record if event.progress else None
        if event.kind in {EventKind.DONE, EventKind.FAILED} and record is not None:
            self._rates.note(site, record)
        elif event.kind is not EventKind.LOGIN:
            return
        yield from self._apply(site)

    def _apply(self, site: str) -> Iterator[str]:
        now_s = self._wall()
        learned = self._rates.learned(site, now_s)
        if learned is None:
            if self._told.pop(site, None) is not None:
                self._server.set_site_cap(site, None)
                yield f"{site}: the learned link rate is too old, copies run without a cap"
            return
        source = f"{DEFAULT_CAP_SHARE:.0%} of {learned.describe(now_s)}"
        cap_bytes_per_s = learned.cap_bytes_per_s()
        # Set each time, so that the records have the age as it is.
        self._server.set_site_cap(site, cap_bytes_per_s, source)
        if self._told.get(site) != learned.rate_bps:
            self._told[site] = learned.rate_bps
            yield f"{site}: copies share {cap_bytes_per_s / 1e6:.2f} MB/s, {source}"
