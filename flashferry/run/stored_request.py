"""A run's request as the journal keeps it, and back: what it takes to go on with the run. No secret is in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashferry.core.codec import decode, to_json
from flashferry.core.errors import ConfigInvalid
from flashferry.fileserver import ImageFile
from flashferry.images.image import PlannedImage
from flashferry.model.policy import ServerPlace, StagePolicy
from flashferry.model.waves import Wave
from flashferry.run.options import RunOptions
from flashferry.run.request import FleetRequest

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
