"""Which devices a run is to see to, known before its first event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A device that a run is to see to.

    Attributes:
        host: Inventory name.
        site: Its site; empty for none.
        size_bytes: What is to be copied to it; None where that is not known beforehand, as with a speed test.
    """

    host: str
    site: str = ""
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """The devices of a run and what their sites' links may carry.

    Attributes:
        devices: In the order of the inventory.
        caps_bytes_per_s: By site: what all its copies may take together; a site without a cap is missing.
    """

    devices: tuple[Expected, ...] = ()
    caps_bytes_per_s: Mapping[str, float] = field(default_factory=dict)
