"""What a run is asked to do, how it is done, and both as the journal keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from flashferry.core.codec import decode, to_json
from flashferry.core.errors import ConfigInvalid
from flashferry.fileserver import ImageFile
from flashferry.images.image import PlannedImage
from flashferry.model.policy import ServerPlace, StagePolicy
from flashferry.model.record import DeviceRecord
from flashferry.model.waves import ALL, Wave
from flashferry.store.journal import NewDevice
from flashferry.transports.transport_selection import NotServed


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a run is to be done.

    Attributes:
        verb: `stage`, `probe` or `check`, for the journal.
        policy: How it goes about its devices.
        server: Where our server listens.
        to_null: Whether devices copy to `null:`, which writes no flash: a speed test.
        sample_interval_s: How often our server asks the kernel about each transfer; 0.05 to 60.
        host_keys: Folder of our SSH server's host keys, or None: below the state folder.
        not_served: What the depot does not serve, where one is used; None: our own server serves all that is needed.
    """

    verb: str = "stage"
    policy: StagePolicy = field(default_factory=StagePolicy)
    server: ServerPlace = field(default_factory=ServerPlace)
    to_null: bool = False
    sample_interval_s: float = 1.0
    host_keys: Path | None = None
    not_served: NotServed | None = None


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


SCHEMA = "flashferry.request/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRequest:
    """What a run was asked for.

    Attributes:
        request: The same as a value.
        policy: How the run goes about its devices.
        server: Where its server listened.
        images: Its images as they were.
        more: What the caller had kept besides, such as the inventory.
    """

    request: FleetRequest
    policy: StagePolicy
    server: ServerPlace
    images: tuple[PlannedImage, ...]
    more: Mapping[str, Any]


def to_stored(request: FleetRequest, options: RunOptions, images: Mapping[str, ImageFile]) -> dict[str, object]:
    """Return a request as JSON types.

    Args:
        request: What the run is to do.
        options: How it is done.
        images: The image of each device, hashed.
    """
    paths = {images[host].name: path for host, path in request.images.items()}
    offered = [PlannedImage.of(one, paths[one.name]) for one in dict.fromkeys(images.values())]
    kept: dict[str, object] = to_json(
        {
            "schema": SCHEMA,
            "images": offered,
            "image_of": {host: image.name for host, image in images.items()},
            "waves": request.in_waves,
            "policy": options.policy,
            "server": options.server,
            "untuned": dict(request.untuned),
            "adds": sorted(request.adds),
            "expected_s": dict(request.expected_s),
            "identities": dict(request.identities),
            "transports": dict(request.transports),
        }
    )
    return kept | dict(request.stored)


def from_stored(run_id: str, stored: Mapping[str, Any]) -> KeptRequest:
    """Return what `to_stored` was given.

    Raises:
        ConfigInvalid: The run kept no request, or it cannot be read.
    """
    if stored.get("schema") != SCHEMA:
        raise ConfigInvalid(
            f"run {run_id} did not keep what it takes to go on with it: expected {SCHEMA!r}, found "
            f"{stored.get('schema')!r}",
            hint="Run 'flashferry recover', then stage anew: what is there already is not copied again",
        )
    try:
        return _read(stored)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigInvalid(
            f"run {run_id}: what it was asked for cannot be read ({type(error).__name__}: {error})",
            hint="Run 'flashferry recover', then stage anew",
        ) from None


def _read(stored: Mapping[str, Any]) -> KeptRequest:
    images = decode(tuple[PlannedImage, ...], stored["images"])
    paths = {image.name: Path(image.path) for image in images}
    more = {key: value for key, value in stored.items() if key not in _OWN}
    request = FleetRequest(
        images={host: paths[name] for host, name in stored["image_of"].items()},
        waves=decode(tuple[Wave, ...], stored["waves"]),
        untuned=dict(stored["untuned"]),
        adds=frozenset(stored["adds"]),
        expected_s=dict(stored["expected_s"]),
        identities=dict(stored["identities"]),
        transports=dict(stored["transports"]),
        stored=more,
    )
    policy, server = decode(StagePolicy, stored["policy"]), decode(ServerPlace, stored["server"])
    return KeptRequest(request=request, policy=policy, server=server, images=images, more=more)


_OWN = frozenset(
    {
        "schema",
        "images",
        "image_of",
        "waves",
        "policy",
        "server",
        "untuned",
        "adds",
        "expected_s",
        "identities",
        "transports",
    }
)
