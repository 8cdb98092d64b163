"""Whether an image is for the platform of a device, by what both say of themselves. Pure.

Three answers, for a wrong "yes" costs a boot and a wrong "no" a night: it is, it is not, or it cannot be told. It is
not only where the table of `flashferry.images.families` knows both and they differ. What cannot be told is staged, and
said: nothing is activated by a copy, so what it may cost is its own time and room, while a refusal of every name that
the table lacks would teach everybody to insist, always.

What an image is, is told by the name that it carries inside, and by the name of the file. IOS images and IOS-XE
packages have a block `CW_BEGIN` ... `CW_END` with `CW_IMAGE$C870-ADVIPSERVICESK9-M$`, in packages
`CW_IMAGE=$cat9k_iosxe.16.05.01a.SPA.bin$` (D. Stevens, "Identifying IOS", 2012; Cisco's boot loader prints it of the
package that it loads). What a device is, is told by its model, by the platform in its `show version`, and by the name
of the file that it runs; where those disagree, nothing is concluded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from flashferry.images.families import UPGRADES, Family, family_of_image, family_of_model, platform_word

INSIST = "--any-image"
"""The option that has an image staged all the same."""

_SOFTWARE = re.compile(
    r"(?mi)^(?:cisco )?(?:ios|internetwork operating system)\b.*\(([\w-]+)\), +(?:experimental )?version "
)


class Fits(StrEnum):
    """Whether an image is for the platform of a device."""

    YES = "of this platform"
    NO = "of another platform"
    UNKNOWN = "cannot be told"


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """What a device says of its platform.

    Attributes:
        models: Its model, in all the forms in which it is printed.
        software: The platform in brackets in `show version`, or None.
        running: Name of the file that it runs, without folders, or None.
    """

    models: tuple[str, ...] = ()
    software: str | None = None
    running: str | None = None

    @property
    def model(self) -> str:
        """Return the model for people."""
        return next((one for one in self.models if one), "device of unknown model")

    @property
    def family(self) -> Family | None:
        """Return its family; None where nothing tells it, or two things tell two."""
        told = [family_of_model(model) for model in self.models]
        told += [family_of_image(name) for name in (self.software, self.running) if name]
        known = {one.name: one for one in told if one is not None}
        return next(iter(known.values())) if len(known) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFit:
    """What is known of an image and a device together.

    Attributes:
        fits: The answer.
        reason: Why, in a sentence without a full stop.
        image_family: Family of the image, or None where it is not known.
        device_family: That of the device, likewise.
    """

    fits: Fits
    reason: str
    image_family: str | None = None
    device_family: str | None = None


def platform_of(version: str, models: Iterable[str], running: str | None) -> Platform:
    """Return what a device says of its platform.

    Args:
        version: Output of `show version`.
        models: Its model, in all the forms in which it is printed.
        running: Path of the file that it runs, or None.
    """
    software = _SOFTWARE.search(version)
    name = running.rpartition("/")[2] if running else ""
    return Platform(
        models=tuple(dict.fromkeys(model for model in models if model)),
        software=software[1] if software else None,
        running=name or None,
    )


def image_fit(name: str, inside: str | None, platform: Platform) -> ImageFit:
    """Tell whether an image is for a device.

    Args:
        name: Name of the file.
        inside: The name that it carries itself, or None where it carries none.
        platform: What the device says.
    """
    mine, source = _family(name, inside)
    theirs = platform.family
    names = {"image_family": mine.name if mine else None, "device_family": theirs.name if theirs else None}
    if mine is not None and theirs is not None:
        fits, reason = _compared(name, inside, mine, source, theirs, platform)
        return ImageFit(fits=fits, reason=reason, **names)
    word = platform_word(inside or name)
    if word is not None and word in {platform_word(one) for one in (platform.software, platform.running) if one}:
        return ImageFit(fits=Fits.YES, reason=f"{name} is named like what the {platform.model} runs", **names)
    lacks = f"neither its name nor the file tells a platform known here: {name}"
    if mine is not None:
        lacks = f"{name} is {_of(mine, source)}, and the platform of the {platform.model} is not known here"
    return ImageFit(fits=Fits.UNKNOWN, reason=lacks, **names)


def _family(name: str, inside: str | None) -> tuple[Family | None, str]:
    """Return the family of an image and who tells it; what the file carries goes before what somebody called it."""
    found = family_of_image(inside) if inside else None
    if found is not None:
        return found, f"by the name inside the file, {inside}"
    return family_of_image(name), "by its name"


def _compared(
    name: str, inside: str | None, mine: Family, source: str, theirs: Family, platform: Platform
) -> tuple[Fits, str]:
    if mine is not theirs and (theirs.name, mine.name) not in UPGRADES:
        runs = f", which runs {platform.running}" if platform.running else ""
        return Fits.NO, f"{name} is {_of(mine, source)}, this is a {platform.model} ({theirs.name}){runs}"
    if mine is theirs and not mine.is_one_image:
        word = platform_word(inside or name)
        if word not in {platform_word(one) for one in (platform.software, platform.running) if one}:
            return Fits.UNKNOWN, (
                f"{name} is {_of(mine, source)}, as the {platform.model} is, but images of that family differ by model"
            )
    return Fits.YES, f"{name} is {_of(mine, source)}, as it takes them"


def _of(family: Family, source: str) -> str:
    return f"for the family {family.name} ({source})"
