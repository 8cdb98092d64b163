"""Link profiles: what a WAN link does in each direction, read from data files."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from lab.datafile import Table, read_table
from lab.errors import LabError
from lab.link_model import DirectionProfile

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEYS = ("delay_ms", "loss_percent", "rate_kbit_s", "queue_packets", "queue_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProfile:
    """A link between the core and a site.

    Attributes:
        name: Name of the data file it came from.
        source: Where its figures come from.
        to_site: Towards the devices: the data direction of a download.
        to_core: Towards the server: the direction of its acknowledgements.
    """

    name: str
    source: str
    to_site: DirectionProfile
    to_core: DirectionProfile

    @property
    def rtt_s(self) -> float:
        """Round-trip time of an empty packet on an idle link, in seconds."""
        return self.to_site.delay_s + self.to_core.delay_s

    def with_changes(self, changes: Mapping[str, Any]) -> LinkProfile:
        """Return a copy with fields of both directions replaced, for example ``{"loss_ratio": 0.001}``.

        The keys ``to_site`` and ``to_core`` hold changes of one direction only.

        Raises:
            LabError: A key is unknown.
        """
        changes = dict(changes)
        one_way = {key: changes.pop(key, {}) for key in ("to_site", "to_core")}
        try:
            return replace(
                self,
                to_site=replace(self.to_site, **(changes | one_way["to_site"])),
                to_core=replace(self.to_core, **(changes | one_way["to_core"])),
            )
        except TypeError as error:
            allowed = ", ".join(DirectionProfile.__dataclass_fields__)
            raise LabError(
                f"link {self.name}: {error}; allowed are {allowed}, or these within to_site or to_core."
            ) from error

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


def profile_from_json(values: Mapping[str, Any]) -> LinkProfile:
    """Undo `LinkProfile.as_json`."""
    return LinkProfile(
        name=values["name"],
        source=values["source"],
        to_site=DirectionProfile(**values["to_site"]),
        to_core=DirectionProfile(**values["to_core"]),
    )


def load_profile(name: str) -> LinkProfile:
    """Read the profile ``name`` from the data files of the lab.

    Raises:
        LabError: There is no such profile, or a value is not allowed; file and key are named.
    """
    table = read_table("lab.profiles", name)
    table.only("source", "to_site", "to_core", *_KEYS)
    return LinkProfile(
        name=name,
        source=table.text("source"),
        to_site=_direction(table, "to_site"),
        to_core=_direction(table, "to_core"),
    )


def _direction(table: Table, key: str) -> DirectionProfile:
    own = table.table(key)
    own.only(*_KEYS)
    both = {k: v for k, v in table.values.items() if k in _KEYS}
    merged = Table(where=own.where, values=both | own.values)
    return DirectionProfile(
        rate_bps=merged.number("rate_kbit_s", low=1, high=1e8) * 1000,
        delay_s=merged.number("delay_ms", low=0, high=10000) / 1000,
        loss_ratio=merged.number("loss_percent", 0.0, low=0, high=100) / 100,
        queue_packets=merged.integer("queue_packets", 0, high=10**6) or None,
        queue_bytes=merged.integer("queue_bytes", 0, high=10**9) or None,
    )
