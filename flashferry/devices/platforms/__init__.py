"""What differs from platform to platform: commands, configuration lines, what is printed, and what to expect at worst.

A platform is a file of this folder and a place in `PLATFORMS`. Packages above ask the platform of a device
(`DeviceSession.platform`) and spell no command and no configuration line themselves.
"""

from __future__ import annotations

from flashferry.devices.platforms.ios import IOS, IOS_XE
from flashferry.devices.platforms.platform import Platform

PLATFORMS: tuple[Platform, ...] = (IOS_XE, IOS)
"""All that we know; the first one that knows itself in a device's `show version` counts."""


NAMES = tuple(sorted(one.name for one in PLATFORMS))
"""Their names, as image rules may have them."""


def platform_named(name: str) -> Platform:
    """Return a platform by its name.

    Raises:
        KeyError: There is none of that name.
    """
    return {one.name: one for one in PLATFORMS}[name]


def recognize(version: str) -> Platform:
    """Return the platform of a `show version`; IOS where none fits, for all others came of it."""
    return next((one for one in PLATFORMS if one.is_shown_by(version)), IOS)
