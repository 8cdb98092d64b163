"""What a run over a fleet is asked to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from flashferry.model.record import DeviceRecord
from flashferry.model.waves import ALL, Wave
from flashferry.store.journal_rows import NewDevice


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRequest:
    """Which devices get which image, and in which order.

    Attributes:
        images: The image file of each device, by its name in the inventory. Devices that are missing take no part.
        waves: Who goes with whom; every device of `images` is in one of them. Empty: all in one wave.
        untuned: Devices that are not tuned, each with the reason.
        adds: Devices that are to add their image by its rule, also where the run's options do not say so.
        expected_s: How long a device takes, in seconds, where that is known; asked where there is an end to keep.
        identities: What planned devices call themselves; another router in the place of one is refused.
        since: When its plan's window opens, with a time zone; None: no plan, or it was open before.
        transports: By device: the transport to begin with where `auto` is asked for, planned, measured or used before.
        more_images: What else the server offers.
        stored: What is needed to resume the run, as JSON types, without any secret.
        resumed: The run that is gone on with, or None.
        excluded: Devices that the run does not touch, and what its report says of each; none of them is in `images`.
    """

    images: Mapping[str, Path]
    waves: tuple[Wave, ...] = ()
    untuned: Mapping[str, str] = field(default_factory=dict)
    adds: frozenset[str] = frozenset()
    expected_s: Mapping[str, float] = field(default_factory=dict)
    identities: Mapping[str, str] = field(default_factory=dict)
    transports: Mapping[str, str] = field(default_factory=dict)
    since: datetime | None = None
    more_images: tuple[Path, ...] = ()
    stored: Mapping[str, object] = field(default_factory=dict)
    resumed: Resumed | None = None
    excluded: tuple[tuple[NewDevice, DeviceRecord], ...] = ()

    @property
    def in_waves(self) -> tuple[Wave, ...]:
        """Return the waves, with those devices only that take part."""
        if not self.waves:
            return (Wave(number=0, name=ALL, hosts=tuple(self.images)),)
        found = []
        for wave in self.waves:
            hosts = tuple(host for host in wave.hosts if host in self.images)
            if hosts:
                found.append(Wave(number=wave.number, name=wave.name, hosts=hosts, is_canary=wave.is_canary))
        return tuple(found)

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the image files, each once, in the order in which they first appear."""
        return tuple(dict.fromkeys(self.images.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """A run that is gone on with.

    Attributes:
        run_id: The run.
        before: Devices that take no part, by their name: proven done before, or not to be restored yet.
        attempts: Number of the attempt that a device begins with now; one that is missing begins with its first.
        leftovers: By device: path and size of what the broken copy of that run left there.
        done: Of devices proven done before: their records as the journal has them. They may serve others of their site.
        excluded: Devices that the run's plan does not stage, and what its report says of each.
    """

    run_id: str
    before: Mapping[str, DeviceRecord]
    attempts: Mapping[str, int] = field(default_factory=dict)
    leftovers: Mapping[str, str] = field(default_factory=dict)
    done: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    excluded: Mapping[str, DeviceRecord] = field(default_factory=dict)
