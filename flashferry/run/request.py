"""The request and the options of a run, and both as the journal stores them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from flashferry.core.codec import decode, to_json
from flashferry.core.errors import ConfigInvalid
from flashferry.fileserver import ImageFile
from flashferry.images.image import PlannedImage
from flashferry.model.policy import ServerPlace, StagePolicy
from flashferry.model.record import DeviceRecord
from flashferry.model.waves import ALL, Wave
from flashferry.store.journal import NewDevice
from flashferry.transports.transport_selection import NotServed


class RunOptions(Struct, frozen=True, kw_only=True):
    """How a run is to be done.

    Attributes:
        verb: `stage`, `probe` or `check`, for the journal.
        policy: How the devices are treated.
        server: Where our server listens.
        to_null: Whether devices copy to `null:`, which writes no flash (speed test).
        sample_interval_s: Interval at which our server samples each transfer in the kernel; 0.05 to 60.
        host_keys: Folder of our SSH server's host keys; None: below the state folder.
        not_served: Transports that the depot does not serve; None: our own server serves all that is needed.
    """

    verb: str = "stage"
    policy: StagePolicy = field(default_factory=StagePolicy)
    server: ServerPlace = field(default_factory=ServerPlace)
    to_null: bool = False
    sample_interval_s: float = 1.0
    host_keys: Path | None = None
    not_served: NotServed | None = None


class FleetRequest(Struct, frozen=True, kw_only=True):
    """Which devices get which image, in which order.

    Attributes:
        images: Image file by inventory name. Devices that are missing take no part.
        waves: The waves; every device of `images` is in one. Empty: all in one wave.
        untuned: Devices that are not tuned, with the reason.
        adds: Devices that add their image by its rule, even if the options do not ask for it.
        expected_s: Expected duration in seconds by device, if known; used to keep deadlines.
        identities: Serial number and host name of planned devices; another router in place of one is refused.
        since: Start of the plan's window, with a time zone; None: no plan, or the window was open before.
        transports: First transport by device if `auto` is asked for, as planned, measured or used before.
        more_images: Further files that the server offers.
        stored: What is needed to resume the run, as JSON types, without secrets.
        resumed: The run to resume, or None.
        excluded: Devices that the run does not touch, with their records; none of them is in `images`.
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
        """Return the waves, reduced to the devices that take part."""
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
        """Return the image files, each once, in the order of their first use."""
        return tuple(dict.fromkeys(self.images.values()))


class Resumed(Struct, frozen=True, kw_only=True):
    """A run that is resumed.

    Attributes:
        before: Records of devices that take no part: proven done before, or not restored yet.
        attempts: Number of the next attempt by device; 1 if missing.
        leftovers: Path and size of the partial file that the run left, by device.
        done: Stored records of devices proven done before. They may serve others of their site.
        excluded: Records of devices that the run's plan does not stage.
    """

    run_id: str
    before: Mapping[str, DeviceRecord]
    attempts: Mapping[str, int] = field(default_factory=dict)
    leftovers: Mapping[str, str] = field(default_factory=dict)
    done: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    excluded: Mapping[str, DeviceRecord] = field(default_factory=dict)


SCHEMA = "flashferry.request/1"


class KeptRequest(Struct, frozen=True, kw_only=True):
    """A run's request as read from the journal.

    Attributes:
        images: Its images as they were.
        more: Further values that the caller stored, such as the inventory.
    """

    request: FleetRequest
    policy: StagePolicy
    server: ServerPlace
    images: tuple[PlannedImage, ...]
    more: Mapping[str, Any]


def to_stored(request: FleetRequest, options: RunOptions, images: Mapping[str, ImageFile]) -> dict[str, object]:
    """Return a request as JSON types. `images` has the hashed image of each device."""
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
    """Return the request that `to_stored` stored.

    Raises:
        ConfigInvalid: The run stored no request, or it cannot be read.
    """
    if stored.get("schema") != SCHEMA:
        raise ConfigInvalid(
            f"run {run_id} cannot be resumed: expected a stored request of schema {SCHEMA!r}, found "
            f"{stored.get('schema')!r}",
            hint="Run 'flashferry recover', then stage again: what is there already is not copied again",
        )
    try:
        return _read(stored)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigInvalid(
            f"run {run_id}: its request cannot be read ({type(error).__name__}: {error})",
            hint="Run 'flashferry recover', then stage again",
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
