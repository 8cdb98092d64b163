"""Platforms: their commands, configuration lines, output and worst-case defaults.

Each platform has a module here and an entry in `PLATFORMS`. Other packages get all commands and configuration lines
from a device's platform (`DeviceSession.platform`).
"""

from __future__ import annotations

from flashferry.devices.platforms.ios import IOS, IOS_XE
from flashferry.devices.platforms.platform import Platform

PLATFORMS: tuple[Platform, ...] = (IOS_XE, IOS)
"""All platforms; the first one that matches a device's `show version` is used."""


NAMES = tuple(sorted(one.name for one in PLATFORMS))
"""Names of the platforms, as in image rules."""


def platform_named(name: str) -> Platform:
    """Return a platform by its name.

    Raises:
        KeyError: There is none of that name.
    """
    return {one.name: one for one in PLATFORMS}[name]


def recognize(version: str) -> Platform:
    """Return the platform that a `show version` shows; IOS if none matches."""
    return next((one for one in PLATFORMS if one.is_shown_by(version)), IOS)
