"""Store of the link rates that transfers showed, by site, kept between runs; computed by `flashferry.tcp.link_rate`."""

import ipaddress
import threading
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.core.codec import CodecError, decode, encode
from flashferry.core.files import JsonCache
from flashferry.fileserver.ticket_accounts import plain_address
from flashferry.tcp.link_rate import Delivery, LearnedRate, learned_rate, sustained_bytes_per_s

if TYPE_CHECKING:
    from flashferry.fileserver.transfer_records import TransferRecord

_MOST_SITES = 1000
_MOST_DELIVERIES = 32
_LEAST_S = 1.0


def delivery_of(record: "TransferRecord") -> Delivery | None:
    """Return a transfer's delivery, from which a link rate can be learned; None if it was too short."""
    if record.last_ack_s is None or record.duration_s < _LEAST_S or not record.mss_bytes:
        return None
    return Delivery(
        ended_at=record.started_at + record.last_ack_s,
        duration_s=record.duration_s,
        rate_bytes_per_s=record.rate_bytes_per_s,
        sustained_bytes_per_s=sustained_bytes_per_s(record.samples),
        kind=record.verdict.kind,
        mss_bytes=record.mss_bytes,
        peer_address=record.peer_address,
    )


@lru_cache(maxsize=256)
def network_of(address: str) -> str:
    """Return the network that stands for a client's site without a name: its /24, with IPv6 its /48."""
    client = plain_address(address)
    return str(ipaddress.ip_network((client, 24 if client.version == 4 else 48), strict=False))


class SiteRates:
    """Deliveries by site, the latest 32 of each, in memory and, if a path is given, in a JSON file.

    Args:
        path: The file; None keeps them in memory. A failure to read or write it is logged, and not raised.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._file = _file(path) if path is not None else None
        self._lock = threading.Lock()
        self._sites = _load(self._file) if self._file is not None else {}

    def sites(self) -> tuple[str, ...]:
        """Return the sites with deliveries."""
        with self._lock:
            return tuple(self._sites)

    def note(self, site: str, record: "TransferRecord") -> None:
        """Store what a transfer shows about the link of its site."""
        delivery = delivery_of(record)
        if delivery is None:
            return
        with self._lock:
            known = self._sites.pop(site, ())
            # Put back at the end: the site longest unheard of is the first to go.
            self._sites[site] = (*known, delivery)[-_MOST_DELIVERIES:]
            while len(self._sites) > _MOST_SITES:
                del self._sites[next(iter(self._sites))]
            if self._file is not None:
                self._file.store(
                    {name: [encode(one) for one in deliveries] for name, deliveries in self._sites.items()}
                )

    def learned(self, site: str, now_s: float) -> LearnedRate | None:
        """Return the link rate of a site, learned from its recent transfers; None if they showed none."""
        with self._lock:
            deliveries = self._sites.get(site, ())
        return learned_rate(deliveries, now_s)


def _file(path: Path) -> JsonCache:
    return JsonCache(
        path,
        unread="link rates are learned again",
        unwritten="link rates learned now are forgotten with this run",
    )


def _load(file: JsonCache) -> dict[str, tuple[Delivery, ...]]:
    data = file.load()
    try:
        return {str(site): tuple(decode(Delivery, one) for one in deliveries) for site, deliveries in data.items()}
    except (AttributeError, TypeError, ValueError, CodecError) as error:
        if data is not None:
            file.complain(error)
        return {}
