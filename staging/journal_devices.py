"""The devices of a run as they are entered into the journal."""

from __future__ import annotations

from dataclasses import dataclass

INSERT_DEVICE = (
    "INSERT INTO devices (run_id, host, address, port, platform, site, wave, image, state, updated_at) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

UPDATE_DEVICE = (
    "UPDATE devices SET address = ?, port = ?, platform = ?, site = ?, updated_at = ? "
    "WHERE run_id = ? AND host = ? AND touched = 0"
)
"""One in a run's hands stays what it was when it was taken: recovery finds it there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDevice:
    """A device of a run, before anything is done with it.

    Attributes:
        host: Inventory name.
        address: Its address or DNS name.
        port: Its SSH port.
        platform: `ios`.
        site: Its site, or None.
        wave: Number of its wave.
        image: Name of the image that it is to get, or None.
    """

    host: str
    address: str
    port: int
    platform: str
    site: str | None = None
    wave: int = 0
    image: str | None = None
